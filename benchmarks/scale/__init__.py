"""The same Jobs with and without fairburst on separate control planes, in one run: ratios, not seconds.

`python -m benchmarks.scale --scenario work --queues 5 --task-seconds 10 --mode Quota`. See `docs/benchmarks.md`.
"""
