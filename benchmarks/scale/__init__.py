"""The same Jobs with and without fairburst on control planes of their own, in one run: ratios, not seconds.

`python -m benchmarks.scale --scenario work --queues 5 --task-seconds 10 --mode Quota`. See `docs/benchmarks.md`.
"""
