"""`make fuzz-objects`: hostile objects in bulk through the whole operator.

Objects come in batches, each of which replaces the one before. Each batch fills twenty namespaces with hostile objects, beside the queues
of an ordinary tenant. A run is broken if a process ends, a round fails, the operator cannot decode an object, the ordinary tenant loses a
promise or is not served within the seconds of a batch, or a batch costs very much processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import FrameType

import fairburst.kube.process  # noqa: F401 (the modules whose clocks are replaced must be there)
from tests.simulation.api_server import ApiServer
from tests.simulation.hostile import Hostile
from tests.simulation.ordinary import Ordinary
from tests.simulation.replica import STAND_INS, Replica
from tests.simulation.resources import NAMESPACES, NODES, Object
from tests.simulation.results import Results, shown
from tests.simulation.run import close, failed_rounds
from tests.simulation.scenario import OWN_NAMESPACE, Scenario, namespace, node
from tests.simulation.virtual_time import VirtualLoop, stand_ins

_figures = re.compile(r"[0-9][0-9.e+]*")  # so that an error with many values counts as one
BATCH, BATCH_SECONDS, NAMESPACES_COUNT = 500, 2.0, 20
ROUND_OF_SEEDS = 20_000  # objects of one seed
EDIT_EVERY = 6  # batches: a queue's edits take effect once in ten seconds
MOST_SECONDS = 20.0  # of processor time for a batch; most batches take a quarter of a second


@dataclass
class Fuzzed:
    """Figures of one seed. `problems`: distinct errors with their counts."""

    seed: int
    objects: int = 0
    rounds: int = 0
    failed_rounds: int = 0
    exits: list[str] = field(default_factory=list)
    undecodable: int = 0
    unserved: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def broken(self) -> bool:
        """True if the run is broken."""
        return bool(self.exits or self.failed_rounds or self.undecodable or self.unserved or self.slow or not self.rounds)


class TooSlow(Exception):  # noqa: N818
    """One batch has taken `MOST_SECONDS` of processor time."""


@contextlib.contextmanager
def _alarm(rings: list[str]) -> Iterator[Callable[[], None]]:
    """Give a function that begins a batch; the first has begun.

    In a batch that has not ended in time, TooSlow is raised wherever the code is, and `rings` says where. The operator contains it.
    """

    def ring(_: int, frame: FrameType | None) -> None:
        where = traceback.extract_stack(frame)[-1]
        rings.append(f"more than {MOST_SECONDS:.0f} s of processor time in one batch, at {where.filename}:{where.lineno}")
        raise TooSlow(rings[-1])

    def begin() -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS, MOST_SECONDS)

    before = signal.signal(signal.SIGVTALRM, ring)
    begin()
    try:
        yield begin
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Errors(logging.Handler):
    """Counts the errors that the operator logs, by their origin."""

    def __init__(self, problems: Counter[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{frame.filename.rpartition('fairburst/')[2]}:{frame.lineno}"
            figures = _figures.sub("#", str(error)[:200])
            text += f" {getattr(record, 'step', '')}: {type(error).__name__} {figures} ({where})"
        elif hasattr(record, "error"):
            text += f": {str(record.error)[:200]}"
        self._problems[text] += 1


def fuzz(seed: int, objects: int) -> Fuzzed:
    """Pass one seed's objects through a fresh operator."""
    loop, result = VirtualLoop(), Fuzzed(seed)
    handler, operators = _Errors(result.problems), logging.getLogger("fairburst")
    level, propagate = operators.level, operators.propagate
    operators.addHandler(handler)
    operators.setLevel(logging.ERROR)
    operators.propagate = False
    try:
        with stand_ins(loop, f"fuzz {seed}", **STAND_INS), _alarm(result.slow) as begin_batch:
            loop.run_until_complete(_run(loop, result, objects, begin_batch))
    finally:
        operators.removeHandler(handler)
        operators.setLevel(level)
        operators.propagate = propagate
        close(loop)
    return result


async def _run(loop: VirtualLoop, result: Fuzzed, objects: int, begin_batch: Callable[[], None]) -> None:
    scenario = Scenario(random.Random(f"hostile {result.seed}"))
    server = ApiServer(loop, scenario.config, random.Random(0))
    hostile = Hostile(random.Random(f"objects {result.seed}"))
    replica = Replica("operator", scenario.config, server, random.Random(1))
    counted = failed_rounds([replica])
    for name in (OWN_NAMESPACE, *(f"tenant-{number}" for number in range(NAMESPACES_COUNT))):
        server.create(NAMESPACES, namespace(name))
    for number in range(2):
        server.create(NODES, node(f"node-{number}", 16))
    ordinary = Ordinary(server, declared=scenario.declared)
    replica.start()
    await asyncio.sleep(2.0)
    before: list[tuple[str, Object]] = []
    batches = itertools.count(1)
    while result.objects < objects and replica.running and not result.slow:
        begin_batch()
        batch = [hostile.make(f"tenant-{hostile.namespace(NAMESPACES_COUNT)}") for _ in range(BATCH)]
        for collection, obj in before:
            server.remove(collection, obj)
        before = [(collection, server.put(collection, obj)) for collection, obj in batch]
        result.objects += len(batch)
        if (number := next(batches)) % EDIT_EVERY == 0:
            ordinary.edit(weight=number)
        await asyncio.sleep(BATCH_SECONDS)
        result.unserved += ordinary.problems()
    operator = replica.operator
    assert operator is not None
    result.exits, result.failed_rounds = replica.exits, counted()
    result.rounds = int(operator.metrics.rounds._value.get())
    result.undecodable = sum(informer.undecodable for informer in operator.caches.informers())


def _one(work: tuple[int, int]) -> Fuzzed:
    return fuzz(*work)


def main() -> int:
    """Run the command."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation.fuzz", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fuzz")
    parser.add_argument("objects", type=int)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep results there, and go on where an earlier run was stopped")
    options = parser.parse_args()
    started = time.monotonic()
    seeds = range(options.seed, options.seed + -(-options.objects // ROUND_OF_SEEDS))
    kept, size = Results(options.results), min(ROUND_OF_SEEDS, options.objects)
    work = [(seed, size) for seed in seeds if f"{seed} of {size}" not in kept.finished]
    problems: Counter[str] = Counter()
    results = [Fuzzed(**kept.finished[f"{seed} of {size}"]) for seed in seeds if f"{seed} of {size}" in kept.finished]
    for result in results:
        problems += Counter(result.problems)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for result in shown(pool.imap(_one, work), len(work), f"times {size} objects", is_bad=lambda one: bool(one.broken)):
            kept.add(f"{result.seed} of {size}", {one.name: getattr(result, one.name) for one in fields(result)})
            results.append(result)
            problems += result.problems
            if result.broken:
                print(f"seed {result.seed} broke: {result.exits} {result.failed_rounds} failed rounds, {result.undecodable} undecodable")
                print(*result.slow, *result.unserved[:10], sep="\n", flush=True)
                print(f"  again: make fuzz-objects OBJECTS={result.objects} SEED={result.seed}", flush=True)
    for text, count in problems.most_common(30):
        print(f"{count} times: {text}")
    seconds, total = time.monotonic() - started, sum(result.objects for result in results)
    print(
        f"{total} objects, {sum(result.rounds for result in results)} rounds, {sum(len(result.exits) for result in results)} exits, "
        f"{sum(result.failed_rounds for result in results)} failed rounds, {sum(problems.values())} errors contained; "
        f"{total / seconds:.0f} objects a second"
    )
    return 1 if any(result.broken for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
