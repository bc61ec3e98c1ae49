"""`python -m tests.simulation 1-200 [--jobs N] [--quiet] [--verbose]`: run seeds, print what broke, exit 1 where something did."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time

from tests.simulation.run import Result, simulate


def main() -> int:
    """The command; strings are hashed alike in every run, for a seed shall show the same wherever it runs."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", help="one seed, or first-last, or several of these with commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--without-faults", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="the operator's log, and a line for each seed")
    options = parser.parse_args()
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.CRITICAL)
    logging.disable(logging.NOTSET if options.verbose else logging.CRITICAL)
    seeds = _seeds(options.seeds)
    started = time.monotonic()
    work = [(seed, not options.without_faults) for seed in seeds]
    if options.jobs > 1:
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            results = _show(pool.imap(_one, work), verbose=options.verbose)
    else:
        results = _show(map(_one, work), verbose=options.verbose)
    _summary(results, time.monotonic() - started)
    return 1 if any(result.broken for result in results) else 0


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
