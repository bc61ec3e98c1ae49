"""`python -m benchmarks.scale`: the same Jobs with and without fairburst, one after the other, each on a fresh control plane."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys

from benchmarks.measure import Measurement, figure
from benchmarks.results import RESULTS, Circumstances, save
from benchmarks.scale.run import PLAIN_QUOTA, STOPPED, Outcome, busy, run
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
    parser.add_argument("--churn", action="store_true", help="of the scenario burst: the other queues run Jobs")
    floor = "also with a ResourceQuota in each namespace instead of fairburst, and with the operator stopped: what no operator could save"
    parser.add_argument("--floor", action="store_true", help=floor)
    parser.add_argument("--busy", type=int, default=0, help="processes beside it that use a core each")
    parser.add_argument("--save", action="store_true", help="keep the ratios for docs/benchmarks.md (python -m benchmarks.page)")
    arguments = parser.parse_args()
    when, figures = Circumstances.now(), []
    with busy(arguments.busy):
        bare = run(f"scale-{os.getpid()}-bare", workload(arguments), None, arguments.seconds)
        print(line("bare", bare, bare), flush=True)
        for mode in [*(arguments.mode or ["Quota"]), *([PLAIN_QUOTA, STOPPED] if arguments.floor else [])]:
            found = run(f"scale-{os.getpid()}-{mode.lower()}", workload(arguments), mode, arguments.seconds)
            print(line(mode, found, bare), flush=True)
            figures += measurements(title(arguments, mode), found, bare)
    if arguments.save:
        save(RESULTS, benchmark_name(arguments), figures, when)
    return 0


def benchmark_name(arguments: argparse.Namespace) -> str:
    """Return the name under which the ratios are saved."""
    parts = ["scale", arguments.scenario, str(arguments.queues)]
    parts += [f"{arguments.task_seconds:g}s"] if arguments.scenario == "work" else []
    parts += [str(arguments.jobs)] if arguments.scenario == "jobs" else []
    parts += ["churn"] if arguments.churn else []
    parts += [f"busy{arguments.busy}"] if arguments.busy else []
    return "-".join(parts)


def title(arguments: argparse.Namespace, mode: str) -> str:
    """Return what a run is about."""
    about = {
        "work": f"tasks of {arguments.task_seconds:g} s",
        "queues": "one Job in nine of ten queues",
        "burst": f"a burst of 400 pods{' while others run' if arguments.churn else ''}",
        "jobs": f"{arguments.jobs} Jobs of one pod and one second",
    }[arguments.scenario]
    beside = f", beside {arguments.busy} busy processes" if arguments.busy else ""
    return f"{arguments.queues} queues, {about}{beside}, {mode}"


def measurements(about: str, found: Outcome, bare: Outcome) -> list[Measurement]:
    """Return a run's ratios to the bare one, and the operator's processor time."""
    if found.complete_seconds is not None and bare.complete_seconds is not None:
        figures = [
            figure(f"{about}: bare, until all Jobs are complete", bare.complete_seconds, "s"),
            figure(f"{about}: until all Jobs are complete, relative to bare", found.complete_seconds / bare.complete_seconds, "ratio", 1.1),
        ]
    elif found.bound_seconds is None or bare.bound_seconds is None:
        figures = [
            figure(f"{about}: cluster in use, relative to bare", found.used / bare.used, "ratio", 0.98, at_least=True),
            figure(f"{about}: cluster in use in the second half, relative to bare", found.used_later / bare.used_later, "ratio"),
            figure(f"{about}: tasks finished, relative to bare", found.tasks / max(1, bare.tasks), "ratio"),
        ]
    else:
        figures = [
            figure(f"{about}: bare, until all are bound", bare.bound_seconds, "s"),
            figure(f"{about}: until all are bound, relative to bare", found.bound_seconds / bare.bound_seconds, "ratio", 1.15),
        ]
    figures.append(figure(f"{about}: operator's processor time", found.operator_seconds, "s"))
    if bare.server_seconds > 0:
        ratio = found.server_seconds / bare.server_seconds
        figures.append(figure(f"{about}: API server's processor time, relative to bare", ratio, "ratio"))
    return figures


def workload(arguments: argparse.Namespace) -> Workload:
    """Return a new workload for each run, because its Jobs are an iterator."""
    if arguments.scenario == "work":
        return work(arguments.queues, arguments.task_seconds, places=arguments.places)
    if arguments.scenario == "jobs":
        return small_jobs(arguments.queues, arguments.jobs)
    if arguments.scenario == "burst":
        return burst(arguments.queues, churn=arguments.churn)
    return many_queues(arguments.queues)


def line(mode: str, found: Outcome, bare: Outcome) -> str:
    """Return one run as a JSON object with its ratio to the bare one."""
    figures: dict[str, object] = {"mode": mode}
    if found.bound_seconds is None or bare.bound_seconds is None:
        ratios = {"used_ratio": round(found.used / bare.used, 3), "tasks_ratio": round(found.tasks / max(1, bare.tasks), 3)}
        figures |= {"used": round(found.used, 3), "tasks": found.tasks, **ratios}
        figures["used_later_ratio"] = round(found.used_later / bare.used_later, 3)
    else:
        figures |= {"bound_seconds": round(found.bound_seconds, 1), "ratio": round(found.bound_seconds / bare.bound_seconds, 2)}
        if found.complete_seconds is not None and bare.complete_seconds is not None:
            ratio = round(found.complete_seconds / bare.complete_seconds, 2)
            figures |= {"complete_seconds": round(found.complete_seconds, 1), "complete_ratio": ratio}
    figures |= {
        "pods": len(found.created),
        "creation_median_seconds": round(statistics.median(found.created), 3) if found.created else None,
        "writes_a_pod": round(sum(found.writes.values()) / max(1, len(found.created)), 1),
        "conflicts": found.conflicts,
        "refused": found.refused,
        "operator_cpu_seconds": round(found.operator_seconds, 2),
        "server_cpu_seconds": round(found.server_seconds, 2),
        "writes": dict(found.writes.most_common(8)),
        "operator_writes": dict(found.ours.most_common()),
        "idle": {cause: round(part, 3) for cause, part in found.idle.items()},
    }
    return json.dumps(figures)


if __name__ == "__main__":
    sys.exit(main())
