"""Replay of recorded rounds, with a summary of the recording: classes over time and average shares.

`decide` returns the same bytes for the same inputs. A difference therefore means that the code has changed since, or that a decision
depended on something outside its inputs. Numbers are compared without tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.baselines import Policy
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig
from fairburst.recording.lines import Outcome, RecordedRound, Refusal, refusal
from fairburst.recording.reader import RecordingReader

SHOWN_DIFFERENCES = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a replayed round and the recorded one. line: in the file. now: seconds since the epoch."""

    line: int
    now: float
    what: str


@dataclass(slots=True)
class QueueHistory:
    """One queue over a recording. classes: (since, class) at every change. allocated, used: dominant-share-seconds."""

    classes: list[tuple[float, GuaranteeClass | None]] = field(default_factory=list)
    allocated: float = 0.0
    used: float = 0.0


@dataclass(slots=True)
class Replay:
    """Result of the replay of a whole recording. `differing_rounds` counts all differing rounds; `differences` holds the first few."""

    started: float = math.nan
    ended: float = math.nan
    rounds: int = 0
    differing_rounds: int = 0
    differences: list[Difference] = field(default_factory=list)
    queues: dict[str, QueueHistory] = field(default_factory=dict)
    cut_off: bool = False

    @property
    def seconds(self) -> float:
        """Seconds from the first round to the last."""
        return self.ended - self.started if self.rounds else 0.0


def replay(reader: RecordingReader, policy: Policy = decide) -> Replay:
    """Run `policy` over every recorded round. Raises RecordingError at a line that cannot be read.

    Each call receives the memory that the previous call returned, as in the operator, unless the line records another memory.
    """
    found = Replay()
    memory = Memory()
    before: tuple[float, RecordedRound] | None = None
    for line, recorded in reader.rounds():
        memory = memory if recorded.memory is None else recorded.memory
        outcome, memory = _decided(policy, recorded.snapshot, memory, reader.config, recorded.now)
        differences = list(_differences(recorded, outcome))
        found.differing_rounds += bool(differences)
        room = SHOWN_DIFFERENCES - len(found.differences)
        found.differences += [Difference(line, recorded.now, what) for what in differences[: max(room, 0)]]
        if before is None:
            found.started = recorded.now
        else:
            _add_shares(found, before[1], max(0.0, recorded.now - before[0]))
        _note_classes(found, recorded)
        found.rounds, found.ended = found.rounds + 1, recorded.now
        before = recorded.now, recorded
    found.cut_off = reader.cut_off
    return found


def _decided(
    policy: Policy, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float
) -> tuple[Outcome | Refusal, Memory]:
    try:
        result, following = policy(snapshot, memory, config, now)
    except Exception as error:  # compared with the recorded error
        return refusal(error), memory
    return Outcome.of(result), following


def _differences(recorded: RecordedRound, replayed: Outcome | Refusal) -> Iterator[str]:
    """Yield a description of each difference, with the recorded value first."""
    want = recorded.outcome
    if isinstance(want, str) or isinstance(replayed, str):
        if want != replayed:
            yield f"outcome: recorded {_in_short(want)}, replayed {_in_short(replayed)}"
        return
    names = [spec.name for spec in recorded.snapshot.queues]
    for name, one, other in zip(names, want.classes, replayed.classes, strict=True):
        if one is not other:
            yield f"class of {name}: recorded {_word(one)}, replayed {_word(other)}"
    for part in ("allocation", "guaranteed", "level", "charge_rate"):
        one, other = getattr(want, part), getattr(replayed, part)
        for row in _unequal_rows(one, other):
            yield f"{part} of {names[row]}: recorded {one[row].tolist()}, replayed {other[row].tolist()}"
    if want.events != replayed.events:
        yield f"events: recorded {list(want.events)}, replayed {list(replayed.events)}"
    for name in sorted({*want.further, *replayed.further}):
        if want.further.get(name) != replayed.further.get(name):
            yield f"{name}: recorded {want.further.get(name)}, replayed {replayed.further.get(name)}"
    if want.next_boundary != replayed.next_boundary:
        yield f"next boundary: recorded {want.next_boundary!r}, replayed {replayed.next_boundary!r}"


def _unequal_rows(one: FloatArray, other: FloatArray) -> list[int]:
    unequal = one != other
    return np.flatnonzero(unequal.any(axis=1) if unequal.ndim == 2 else unequal).tolist()


def _in_short(outcome: Outcome | Refusal) -> str:
    return outcome if isinstance(outcome, str) else "a result"


def _word(granted: GuaranteeClass | None) -> str:
    return granted.value if granted is not None else "not admitted"


def _note_classes(found: Replay, recorded: RecordedRound) -> None:
    if isinstance(recorded.outcome, str):
        return
    for spec, granted in zip(recorded.snapshot.queues, recorded.outcome.classes, strict=True):
        history = found.queues.setdefault(spec.name, QueueHistory())
        if not history.classes or history.classes[-1][1] is not granted:
            history.classes.append((recorded.now, granted))


def _add_shares(found: Replay, recorded: RecordedRound, seconds: float) -> None:
    """Add the round's allocation and usage, which hold for `seconds` until the next round."""
    if isinstance(recorded.outcome, str):
        return
    live = recorded.snapshot.live_capacity
    counted = live > 0
    for row, spec in enumerate(recorded.snapshot.queues):
        history = found.queues[spec.name]
        for part, amounts in (("allocated", recorded.outcome.allocation), ("used", recorded.snapshot.usage)):
            share = float((amounts[row][counted] / live[counted]).max(initial=0.0))
            setattr(history, part, getattr(history, part) + share * seconds)
