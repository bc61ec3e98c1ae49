"""`python -m benchmarks.peers`: the same work under each contender, in turn, each time on a fresh control plane."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers import results
from benchmarks.peers.binaries import TOOLS, build
from benchmarks.peers.contenders import contenders
from benchmarks.peers.machine import machine
from benchmarks.peers.run import run
from benchmarks.peers.scenarios import ALIASES, SCENARIOS, Scenario
from e2e.cluster.versions import DEFAULT_KUBERNETES
from e2e.harness import end_in_good_order
from fairburst.sim.errors import TraceError

SHOWN = ("bound", "done", "hits", "fairness_error", "use", "lost_seconds", "bound_per_second", "makespan", "small_job", "requests_per_pod")

# The main contenders and scenarios leave out those that differ little from the others: all of them would take days.
MAIN = ["bare", "priority", "kueue", "kueue-reserved", "yunikorn", "yunikorn-reserved", "fairburst-quota", "fairburst-suspend"]
MAIN += ["priority-preempts", "kueue-preempts", "kueue-reserved-preempts", "yunikorn-reserved-preempts", "fairburst-quota-reclaim"]
WHOLE = [name for name in SCENARIOS if name not in {"s10-4", "s12-4"}]


def main() -> int:
    known = contenders()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--build", action="append", choices=sorted(TOOLS), help="build a peer's binary and end")
    parser.add_argument("--list", action="store_true", help="print the contenders and scenarios and end")
    parser.add_argument("--contender", action="append", choices=sorted(known), metavar="NAME", help="again for several; see --list")
    parser.add_argument("--scenario", action="append", choices=sorted({*SCENARIOS, *ALIASES}), metavar="NAME", help="again for several")
    parser.add_argument("--all", action="store_true", help="every scenario, and the main contenders unless some are named")
    parser.add_argument("--size", type=float, default=1.0, help="pods and places, as a part of the stated scenario")
    parser.add_argument("--repeats", type=int, default=3, help="each with the contenders in another order")
    parser.add_argument("--out", type=Path, help="a CSV file that receives a line a run")
    parser.add_argument("--keep", type=Path, help="a folder that receives the audit logs")
    arguments = parser.parse_args()
    if arguments.build:
        for name in arguments.build:
            print(*build(name).values(), sep="\n")
        return 0
    if arguments.list:
        for name, make in known.items():
            print(f"{name:26}{make().about}")
        for name, scenario in SCENARIOS.items():
            print(f"{name:26}{_title(scenario)}")
        return 0
    end_in_good_order()
    return compare(arguments)


def _title(scenario: Callable[[float], Scenario]) -> str:
    try:
        return scenario(1.0).title
    except TraceError as error:
        return f"not here: {error}"


def compare(arguments: argparse.Namespace) -> int:
    """Run every scenario `repeats` times under every contender. Return 1 if a run failed; the others are still done."""
    names, failed = arguments.contender or (MAIN if arguments.all else ["bare", "kueue", "fairburst-quota"]), 0
    for scenario_name in arguments.scenario or (WHOLE if arguments.all else ["s9"]):
        try:
            scenario = SCENARIOS[ALIASES.get(scenario_name, scenario_name)](arguments.size)
        except TraceError as error:
            failed += _failed(scenario_name, "every contender", error)
            continue
        for repeat in range(arguments.repeats):
            start = repeat % len(names)
            for name in names[start:] + names[:start]:
                try:
                    _one(name, scenario, repeat, arguments)
                except Exception as error:  # one contender that fails must not cost the others their runs
                    failed += _failed(scenario.name, name, error)
    return 1 if failed else 0


def _failed(scenario: str, name: str, error: Exception) -> int:
    print(f"{scenario}\t{name}\tFAILED: {error!r}", file=sys.stderr, flush=True)
    return 1


def _one(name: str, scenario: Scenario, repeat: int, arguments: argparse.Namespace) -> None:
    """Do one run if the contender takes part in the scenario, write its line and print it."""
    contender = contenders()[name]()
    if not contender.plays(scenario):
        return
    keep = arguments.keep / f"{scenario.name}-{name}-{repeat}.log" if arguments.keep else None
    done = run(contender, scenario, f"peers-{os.getpid()}", keep)
    about = {
        "scenario": scenario.name,
        "title": scenario.title,
        "nodes": str(scenario.nodes),
        "places": str(scenario.places),
        "size": f"{arguments.size:g}",
        "contender": name,
        "version": contender.version,
        "repeat": str(repeat + 1),
        "kubernetes": DEFAULT_KUBERNETES,
        "machine": machine(),
        "load": f"{done.load:.1f}",
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    made = results.line(about, done)
    if arguments.out:
        results.append(arguments.out, [made])
    shown = {figure: f"{made.figures[figure]:.3g}" for figure in SHOWN if figure in made.figures}
    print(scenario.name, name, *(f"{figure}={value}" for figure, value in shown.items()), sep="\t", flush=True)


if __name__ == "__main__":
    sys.exit(main())
