"""`python -m benchmarks [NAME...]`: run the measurements, print one line each, exit with 1 if a target is missed."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

from benchmarks.measure import REGISTRY, Measurement
from benchmarks.results import RESULTS, Circumstances, save

MODULES = (
    "benchmarks.policy",
    "benchmarks.rounds",
    "benchmarks.dress",
    "benchmarks.sim",
    "benchmarks.informer",
    "benchmarks.paf",
    "benchmarks.gate",
    "benchmarks.quota",
    "benchmarks.pod_priority",
    "benchmarks.extender",
    "benchmarks.reclaim",
    "benchmarks.sizing",
    "benchmarks.soak",
    "benchmarks.hard_queues",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help="measurements to run (prefixes; all by default)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--save", action="store_true", help="keep the figures for docs/benchmarks.md (python -m benchmarks.page)")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    arguments = parser.parse_args()
    for module in MODULES:
        importlib.import_module(module)
    chosen = {name: run for name, run in REGISTRY.items() if not arguments.name or any(name.startswith(part) for part in arguments.name)}
    if not chosen:
        print(f"no measurement is called {arguments.name}; there are: {', '.join(REGISTRY)}", file=sys.stderr)
        return 2
    failed = False
    for name, run in chosen.items():
        if arguments.list:
            print(name, "-", (run.__doc__ or "").strip().splitlines()[0])
            continue
        when, results = Circumstances.now(), []
        for result in run():
            results.append(result)
            failed |= not result.ok
            print(json.dumps(result.as_json()) if arguments.json else line(result), flush=True)
        if arguments.save:
            save(RESULTS, name, results, when)
    return 1 if failed else 0


def line(result: Measurement) -> str:
    target = "" if result.target is None else f"  target {result.target:g} {result.unit}  {'ok' if result.ok else 'MISSED'}"
    return (
        f"{result.name:<52} {result.value:>12.4g} {result.unit:<6} (min {result.min:.4g}, max {result.max:.4g}, n {result.repeats}){target}"
    )


if __name__ == "__main__":
    sys.exit(main())
