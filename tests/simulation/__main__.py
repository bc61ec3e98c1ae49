"""`python -m tests.simulation 1-200 [--jobs N] [--results FILE] [--verbose]`: run seeds, print what broke, exit 1 where something did."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.simulation.results import Results, shown
from tests.simulation.run import Result, simulate


def main() -> int:
    """Run the command, with a fixed hash seed so that a seed gives the same run everywhere."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", help="one seed, or first-last, or several of these with commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep results there, and go on where an earlier run was stopped")
    parser.add_argument("--without-faults", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="the operator's log, and a line for each seed")
    options = parser.parse_args()
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.CRITICAL)
    logging.disable(logging.NOTSET if options.verbose else logging.CRITICAL)
    seeds = _seeds(options.seeds)
    started = time.monotonic()
    kept = Results(options.results)
    earlier = [Result(**kept.finished[key]) for seed in seeds if (key := _key(seed, options)) in kept.finished]
    work = [(seed, not options.without_faults) for seed in seeds if _key(seed, options) not in kept.finished]

    def keep(results: Iterable[Result]) -> Iterator[Result]:
        for result in results:
            kept.add(_key(result.seed, options), dataclasses.asdict(result))
            yield result

    with multiprocessing.get_context("fork").Pool(options.jobs) if options.jobs > 1 else contextlib.nullcontext() as pool:
        running = map(_one, work) if pool is None else pool.imap(_one, work)
        results = _show(earlier, verbose=options.verbose)
        results += _show(shown(keep(running), len(work), "seeds", is_bad=lambda one: bool(one.broken)), verbose=options.verbose)
    _summary(results, time.monotonic() - started)
    return 1 if any(result.broken for result in results) else 0


def _key(seed: int, options: argparse.Namespace) -> str:
    return f"{seed}{' without faults' if options.without_faults else ''}"


def _one(work: tuple[int, bool]) -> Result:
    return simulate(work[0], with_faults=work[1])


def _show(results, *, verbose: bool) -> list[Result]:  # type: ignore[no-untyped-def]
    seen = []
    for result in results:
        seen.append(result)
        if verbose:
            print(f"seed {result.seed}: {result}")
        for sentence in result.broken:
            print(f"seed {result.seed}: {sentence}", flush=True)
        if result.broken:
            print(f"seed {result.seed}: faults: {'; '.join(result.faults)}\n  again: make simulate-faults SEEDS={result.seed}", flush=True)
    return seen


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _summary(results: list[Result], seconds: float) -> None:
    broken = [result.seed for result in results if result.broken]
    print(
        f"{len(results)} seeds, {sum(one.seconds for one in results):.0f} s of virtual time, {sum(one.rounds for one in results)} rounds, "
        f"{sum(one.requests for one in results)} requests, {sum(one.writes for one in results)} writes of the operator; "
        f"{sum(one.bursts for one in results)} bursts of hard queues, {sum(one.missed for one in results)} missed; "
        f"{len(broken)} seeds broke an invariant; {len(results) / seconds:.2f} seeds a second"
    )
    if len(results) == 1:
        print(f"requests: {results[0].digest}")
    if broken:
        print(f"broken: SEEDS={','.join(map(str, broken))}")


if __name__ == "__main__":
    sys.exit(main())
