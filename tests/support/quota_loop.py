"""A queue below a quota as a loop with delays: pods end, charges are released late, a controller creates late and backs off, nodes are full
or not. In steps of 50 ms. Several queues share one cluster. A model to show that the slack settles; tests/t1 has the real API server.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from fairburst.kube.enforce.slack import SlackControl, Use

STEP = 0.05
WRITE_SECONDS = 1.0  # a quota is written at most so often


@dataclass
class Queue:
    """`level` pods of `seconds`. `delay`: from a pod's end until its charge is released and a successor is tried; so long again until
    what was created is seen. `waves`: its pods begin together and take equally long."""

    level: int
    seconds: float
    delay: float
    waves: bool = False
    ends: list[float] = field(default_factory=list)
    waiting: int = 0
    released: deque[float] = field(default_factory=deque)
    try_at: float = 0.0
    back_off: float = 1.0
    number: int = 0
    hard: int = 0
    written: float = -10.0
    used: float = 0.0


def run(
    queues: list[Queue], places: int, seconds: float, *, measured_from: float, head_room: int = 0, fixed: int | None = None,
    burst: tuple[float, float] | None = None,
) -> tuple[float, list[float]]:  # fmt: skip
    """Mean use as a part of the levels' sum, and the slack of one of the queues over time. `fixed`: that many pods instead of feedback.
    `burst`: every so many seconds others have half of every level, for so many seconds, which do not count."""
    chance, control, slack = random.Random(1), SlackControl(), list[float]()
    whole_levels, whole_places, wanted = [queue.level for queue in queues], places, 0.0
    for number, queue in enumerate(queues):
        queue.number, queue.hard = number, queue.level + 1
    for step in range(round(seconds / STEP)):
        now = step * STEP
        part = 2 if burst is not None and now % burst[0] >= burst[0] - burst[1] else 1
        places = whole_places // part
        counts = now >= measured_from and part == 1
        wanted += STEP * places if counts else 0.0
        for queue in queues:
            queue.level = whole_levels[queue.number] // part
            for _ in range(_end(queue, now)):
                control.ended(queue.number, now)
            _create(queue, now, chance)
            free = max(0, places + head_room - sum(len(other.ends) for other in queues))
            bound = min(queue.waiting, free)
            queue.waiting -= bound
            spread = 0.0 if queue.waves else 0.4
            queue.ends += [now + queue.seconds * chance.uniform(1 - spread, 1 + spread) for _ in range(bound)]
            running, room = len(queue.ends), free - bound - head_room
            full = running + queue.waiting + len(queue.released) >= queue.hard
            use = Use(queue.level - running, queue.level - running - queue.waiting, room, full, queue.level)
            pods = control.observe(queue.number, use, now) if fixed is None else float(fixed)
            if queue.level + pods != queue.hard and now >= queue.written + WRITE_SECONDS:
                queue.hard, queue.written = queue.level + int(pods), now
            if queue.number == 0:
                slack.append(pods)
            if counts:
                queue.used += running * STEP
        queues.append(queues.pop(0))  # the scheduler favours none of them
    return sum(queue.used for queue in queues) / wanted, slack


def _end(queue: Queue, now: float) -> int:
    """How many pods have ended."""
    ended = sum(end <= now for end in queue.ends)
    if ended:
        queue.ends = [end for end in queue.ends if end > now]
        queue.released += [now + queue.delay / 2] * ended
        queue.try_at = min(queue.try_at, max(now + queue.delay / 2, now + STEP))
    while queue.released and queue.released[0] <= now:
        queue.released.popleft()
    return ended


def _create(queue: Queue, now: float, chance: random.Random) -> None:
    """The controller's turn: as many pods as the quota admits, then a refusal and a pause, which an end of a pod cuts short."""
    if now < queue.try_at:
        return
    charged = len(queue.ends) + queue.waiting + len(queue.released)
    made = max(0, queue.hard - charged)
    queue.waiting += made
    queue.back_off = 1.0 if made else min(2 * queue.back_off, 60.0)
    queue.try_at = now + max(queue.delay / 2, queue.back_off * chance.uniform(0.8, 1.2))
