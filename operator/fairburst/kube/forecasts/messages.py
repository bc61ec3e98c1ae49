"""Messages between the operator and its forecaster, one JSON object a line: questions on its standard input, answers on its output.

Times are seconds since the epoch, amounts resource units. The forecaster remembers earlier questions, the operator remembers nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

LEVELS = (50, 90)  # percent of outcomes that an interval is to cover


class Work(msgspec.Struct, array_like=True, gc=False):
    """Pods of one controller, or one pod without a controller, in the queue of this index.

    uid: that of the controller or pod, after its queue's space. tasks: pods of the whole work. running: (count, time at which they
    started). demand: of one pod, in the order of the question's resources. waves: number of pods that use a place one after the other.
    whole: whether its waiting pods start together or not at all. endless: whether it is a service, whose pods end only when its owner ends
    them.
    """

    uid: str
    queue: int
    created: float
    tasks: int
    waiting: int
    running: list[tuple[int, float]]
    demand: list[float]
    waves: int = 1
    whole: bool = False
    endless: bool = False


class Asked(msgspec.Struct, array_like=True, gc=False):
    """Asks when the `place`-th waiting pod of `work` starts. `uid`: the object that waits for it, a gated pod or the work itself."""

    uid: str
    work: str
    place: int


class EndedPod(msgspec.Struct, array_like=True, gc=False):
    """A pod that has ended since the last question."""

    queue: str
    work: str
    tasks: int
    started: float
    ended: float


class Question(msgspec.Struct, gc=False):
    """The cluster at one time. queues, memory: as policy/memory.py encodes them. units: the largest pod of each queue.

    processor_seconds: processor time after which a dozen forward runs are enough. pace: limit of processor time, in seconds per second.
    config: as recording/lines.py encodes it.
    """

    now: float
    resources: list[str]
    capacity: list[float]
    config: str
    queues: list[dict[str, Any]]
    memory: dict[str, Any]
    units: list[list[float]]
    work: list[Work]
    asked: list[Asked]
    ended: list[EndedPod]
    processor_seconds: float
    pace: float


class Start(msgspec.Struct, array_like=True, gc=False):
    """Seconds from the question to the start: the median, and the ends of the intervals by level. None: later than the runs reached."""

    uid: str
    median: float | None
    intervals: dict[int, tuple[float | None, float | None]]


class Deadline(msgspec.Struct, array_like=True, gc=False):
    """Probability that a burst meets its deadline. is_open: whether the burst is under way; otherwise it is the next one.

    opens: when the next burst is expected; None for one that may come at any time, for which the forecast assumes that it comes now.
    """

    queue: str
    probability: float
    is_open: bool
    opens: float | None = None


class Answer(msgspec.Struct, gc=False):
    """The answer to the question of the time `asked_at`.

    outcomes: by level, how many earlier forecasts came out inside and outside of their interval since the last answer. runs: forward runs;
    0 if the limit on processor time left none, so that nothing is forecast.
    """

    asked_at: float
    runs: int
    starts: list[Start]
    deadlines: list[Deadline]
    outcomes: dict[int, tuple[int, int]]
    learned: int
    processor_seconds: float
