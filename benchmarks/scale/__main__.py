"""`python -m benchmarks.scale`: the same Jobs with and without fairburst, one after the other, each on a fresh control plane."""

from __future__ import annotations

import argparse
import json
import os
import sys

from benchmarks.scale.run import Outcome, busy, run
from benchmarks.scale.scenarios import Workload, burst, many_queues, small_jobs, work


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--scenario", choices=("work", "queues", "burst", "jobs"), default="work")
    parser.add_argument("--queues", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1000, help="of the scenario jobs")
    parser.add_argument("--task-seconds", type=float, default=10.0, help="of the scenario work")
    parser.add_argument("--places", type=int, help="of the scenario work: one-core tasks that run at a time")
    parser.add_argument("--seconds", type=float, default=80.0, help="of the scenario work")
    parser.add_argument("--mode", action="append", choices=("Quota", "Gate", "Suspend"), help="again for several; Quota by default")
    parser.add_argument("--busy", type=int, default=0, help="processes beside it that use a core each")
    arguments = parser.parse_args()
    with busy(arguments.busy):
        bare = run(f"scale-{os.getpid()}-bare", workload(arguments), None, arguments.seconds)
        print(line("bare", bare, bare), flush=True)
        for mode in arguments.mode or ["Quota"]:
            found = run(f"scale-{os.getpid()}-{mode.lower()}", workload(arguments), mode, arguments.seconds)
            print(line(mode, found, bare), flush=True)
    return 0


def workload(arguments: argparse.Namespace) -> Workload:
    """Return a new workload for each run, because its Jobs are an iterator."""
    if arguments.scenario == "work":
        return work(arguments.queues, arguments.task_seconds, places=arguments.places)
    if arguments.scenario == "jobs":
        return small_jobs(arguments.queues, arguments.jobs)
    return many_queues(arguments.queues) if arguments.scenario == "queues" else burst(arguments.queues)


def line(mode: str, found: Outcome, bare: Outcome) -> str:
    """Return one run as a JSON object with its ratio to the bare one."""
    figures: dict[str, object] = {"mode": mode}
    if found.bound_seconds is None or bare.bound_seconds is None:
        ratios = {"used_ratio": round(found.used / bare.used, 3), "tasks_ratio": round(found.tasks / max(1, bare.tasks), 3)}
        figures |= {"used": round(found.used, 3), "tasks": found.tasks, **ratios}
    else:
        figures |= {"bound_seconds": round(found.bound_seconds, 1), "ratio": round(found.bound_seconds / bare.bound_seconds, 2)}
    figures |= {
        "refused": found.refused,
        "operator_cpu_seconds": round(found.operator_seconds, 2),
        "writes": dict(found.writes.most_common(8)),
    }
    return json.dumps(figures)


if __name__ == "__main__":
    sys.exit(main())
