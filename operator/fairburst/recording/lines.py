"""Encoding and decoding of recorded rounds, one JSON line each: the inputs of `decide` and its outcome.

The first line of a file is a header. Every other line is one call of `policy.decide` and holds only what differs from the line before it,
so that an idle queue costs nothing. `LineEncoder` and `LineDecoder` both remember the previous line. docs/recordings.md has the format.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

import numpy as np

from fairburst.bounds import EARLIEST, EARLIEST_EPOCH, LATEST, LATEST_EPOCH
from fairburst.policy import memory as saved
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueSpec, RoundResult
from fairburst.recording import values

VERSION = 1
_HEADER = "fairburst-recording"
_SEEN = ("demand", "usage", "unit")
_DECIDED = ("allocation", "guaranteed", "level", "charge_rate")
_SNAPSHOT = frozenset({"resources", "live_capacity", "committed_capacity", "queues", *_SEEN})
_RESULT = frozenset({"now", "queues", "classes", "events", "next_boundary", "decisions", "windows", *_DECIDED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The recorded and compared part of a round's result: the fields of RoundResult except `decisions`, which are views.

    events: (queue, kind, message) each. further: fields that only some operators have (DRESS, PAF), by name and as JSON text.
    """

    classes: tuple[GuaranteeClass | None, ...]
    allocation: FloatArray
    guaranteed: FloatArray
    level: FloatArray
    charge_rate: FloatArray
    events: tuple[tuple[str, str, str], ...]
    next_boundary: float
    further: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, result: RoundResult) -> Outcome:
        """Return the outcome of a result of `decide`."""
        events = tuple((event.queue, event.kind.value, event.message) for event in result.events)
        further = {name: json.dumps(values.encode(item)) for name, item in _further(result, _RESULT).items()}
        return cls(
            result.classes, result.allocation, result.guaranteed, result.level, result.charge_rate, events, result.next_boundary, further
        )


def _further(value: ClusterSnapshot | RoundResult, usual: frozenset[str]) -> dict[str, Any]:
    """Return the non-empty fields beyond `usual`, which only some operators have."""
    names = [field.name for field in dataclasses.fields(value) if field.name not in usual]
    items = {name: getattr(value, name) for name in names}
    empty = {name for name, item in items.items() if item is None or (isinstance(item, tuple | frozenset | Mapping) and not item)}
    return {name: item for name, item in items.items() if name not in empty}


Refusal: TypeAlias = str  # the error that `decide` raised, such as "InvalidSnapshotError: demand of a/b: ..."


def refusal(error: Exception) -> Refusal:
    """Return the error as text for a recording."""
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """One call of `decide` and its outcome. `memory` is None if the call received the memory that the previous call returned."""

    now: float
    snapshot: ClusterSnapshot
    memory: Memory | None
    outcome: Outcome | Refusal


@dataclass(slots=True)
class _Last:
    """State of the previous line, the base of the next line's differences. `begin` resets it when queues or resources change."""

    queues: tuple[QueueSpec, ...] | None = None
    resources: tuple[str, ...] = ()
    classes: tuple[GuaranteeClass | None, ...] = ()
    arrays: dict[str, FloatArray] = dataclasses.field(default_factory=dict)

    def begin(self, queues: tuple[QueueSpec, ...], resources: tuple[str, ...]) -> None:
        self.queues, self.resources, self.classes = queues, resources, (None,) * len(queues)
        shape = (len(queues), len(resources))
        self.arrays = {name: np.zeros(shape) for name in (*_SEEN, *_DECIDED)} | {"charge_rate": np.zeros(len(queues))}
        self.arrays |= {"live": np.zeros(len(resources)), "committed": np.zeros(len(resources))}


def encode_header(config: PolicyConfig) -> str:
    """Return the first line of a file."""
    settings = {field.name: values.encode(getattr(config, field.name)) for field in dataclasses.fields(config)}
    return json.dumps({_HEADER: VERSION, "by": f"fairburst {version('fairburst')}", "config": settings})


def decode_header(text: str) -> PolicyConfig:
    """Read a line of `encode_header`. Raises ValueError with the expected and the found text."""
    head = _object(text)
    if head.get(_HEADER) != VERSION:
        raise ValueError(f'expected the header {{"{_HEADER}": {VERSION}, ...}}, found {text[:60]!r}')
    settings = {name: values.decode(item) for name, item in _field(head, "config", dict).items()}
    known = {field.name: field.default for field in dataclasses.fields(PolicyConfig)}
    for name, item in settings.items():
        if name not in known or not (item is None or known[name] is None or isinstance(item, type(known[name]))):
            raise ValueError(f"expected a config of {', '.join(known)}, each as by default, found {name}: {item!r}")
    return PolicyConfig(**settings)  # a setting that is newer than the recording keeps its default


class LineEncoder:
    """Encodes the rounds of one file."""

    def __init__(self) -> None:
        self._last = _Last()

    def encode(self, recorded: RecordedRound) -> str:
        """Return the round as one line, without the line end."""
        given, last, line = recorded.snapshot, self._last, dict[str, Any](now=recorded.now)
        if given.queues is not last.queues or given.resources != last.resources:
            last.begin(given.queues, given.resources)
            line |= {"resources": list(given.resources), "queues": [saved.encode_spec(spec) for spec in given.queues]}
        if recorded.memory is not None:
            line["memory"] = saved.encode(recorded.memory)
        arrays = {"live": given.live_capacity, "committed": given.committed_capacity} | {name: getattr(given, name) for name in _SEEN}
        line |= self._differences(arrays)
        if further := _further(given, _SNAPSHOT):
            line["further"] = {name: values.encode(item) for name, item in further.items()}
        outcome = recorded.outcome
        if isinstance(outcome, str):
            return json.dumps(line | {"error": outcome})
        decided = self._differences({name: getattr(outcome, name) for name in _DECIDED})
        if outcome.classes != last.classes:
            last.classes = outcome.classes
            decided["classes"] = [one.value if one is not None else None for one in outcome.classes]
        if outcome.events:
            decided["events"] = [list(event) for event in outcome.events]
        if outcome.further:
            decided["further"] = dict(outcome.further)
        decided["next_boundary"] = outcome.next_boundary if math.isfinite(outcome.next_boundary) else None
        return json.dumps(line | {"result": decided})

    def _differences(self, arrays: Mapping[str, FloatArray]) -> dict[str, Any]:
        """Return the rows that differ from the previous line, by array name and row."""
        found: dict[str, Any] = {}
        for name, array in arrays.items():
            differs = array != self._last.arrays[name]
            rows = np.flatnonzero(differs.any(axis=1) if array.ndim == 2 else differs)
            if rows.size:
                found[name] = dict(zip(map(str, rows.tolist()), array[rows].tolist(), strict=True))
                self._last.arrays[name] = array
        return found


class LineDecoder:
    """Decodes the rounds of one file, in file order."""

    def __init__(self) -> None:
        self._last = _Last()

    def decode(self, text: str) -> RecordedRound:
        """Return the round of one line. Raises ValueError (PolicyError is one) with the expected and the found text."""
        line, last = _object(text), self._last
        now = _number(line, "now")
        if not EARLIEST_EPOCH <= now <= LATEST_EPOCH:
            raise ValueError(f"expected `now` between the years {EARLIEST.year} and {LATEST.year}, found {now:g}")
        if "queues" in line:
            resources = tuple(_field(line, "resources", list))
            if not all(isinstance(name, str) for name in resources):
                raise ValueError(f"expected names in `resources`, found {line['resources']}")
            last.begin(tuple(_spec(item) for item in _field(line, "queues", list)), resources)
        if last.queues is None:
            raise ValueError("expected `queues` and `resources` in the first round of a file, found neither")
        memory = saved.decode(line["memory"]) if "memory" in line else None
        seen = {name: self._applied(line, name) for name in ("live", "committed", *_SEEN)}
        further = {name: values.decode(item) for name, item in _field(line, "further", dict).items()} if "further" in line else {}
        unknown = further.keys() - {field.name for field in dataclasses.fields(ClusterSnapshot)}
        if unknown:
            raise ValueError(f"expected parts of a snapshot in `further`, found {', '.join(sorted(unknown))}")
        snapshot = ClusterSnapshot(
            last.resources, seen["live"], seen["committed"], last.queues, seen["demand"], seen["usage"], seen["unit"], **further
        )
        outcome = str(line["error"]) if "error" in line else self._outcome(_field(line, "result", dict))
        return RecordedRound(now, snapshot, memory, outcome)

    def _outcome(self, decided: Mapping[str, Any]) -> Outcome:
        last = self._last
        if "classes" in decided:
            classes = tuple(_class(name) for name in _field(decided, "classes", list))
            if len(classes) != len(last.classes):
                raise ValueError(f"expected {len(last.classes)} classes, found {len(classes)}")
            last.classes = classes
        arrays = [self._applied(decided, name) for name in _DECIDED]
        events = tuple(_event(item) for item in (_field(decided, "events", list) if "events" in decided else ()))
        boundary = math.inf if decided.get("next_boundary") is None else _number(decided, "next_boundary")
        further = {name: str(text) for name, text in (_field(decided, "further", dict) if "further" in decided else {}).items()}
        return Outcome(last.classes, arrays[0], arrays[1], arrays[2], arrays[3], events, boundary, further)

    def _applied(self, line: Mapping[str, Any], name: str) -> FloatArray:
        """Return the array as of this line: the previous array with the rows that the line names."""
        before = self._last.arrays[name]
        if name not in line:
            return before
        array = before.copy()
        for row, value in _field(line, name, dict).items():
            if not (row.isdecimal() and int(row) < len(array)):
                raise ValueError(f"expected rows 0 to {len(array) - 1} in `{name}`, found {row!r}")
            amounts = value if array.ndim == 2 else [value]
            width = array.shape[1] if array.ndim == 2 else 1
            if not isinstance(amounts, list) or len(amounts) != width or not all(_is_number(amount) for amount in amounts):
                raise ValueError(f"expected {width} number{'s' * (width > 1)} in row {row} of `{name}`, found {value!r}")
            array[int(row)] = value
        self._last.arrays[name] = array
        return array


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected one JSON object a line, found {text[:60]!r}: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected one JSON object a line, found {text[:60]!r}")
    return value


def _field(line: Mapping[str, Any], name: str, kind: type) -> Any:
    value = line.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"expected `{name}` as a {'list' if kind is list else 'JSON object'}, found {str(value)[:60]}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(line: Mapping[str, Any], name: str) -> float:
    value = line.get(name)
    if not _is_number(value):
        raise ValueError(f"expected `{name}` as a number, found {str(value)[:60]}")
    return float(value)  # type: ignore[arg-type]


def _spec(value: Any) -> QueueSpec:
    try:
        return saved.decode_spec(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"expected a queue's declaration, found {str(value)[:60]}: {type(error).__name__}: {error}") from error


def _class(name: object) -> GuaranteeClass | None:
    try:
        return None if name is None else GuaranteeClass(name)
    except ValueError:
        known = ", ".join(one.value for one in GuaranteeClass)
        raise ValueError(f"expected a class among {known} or null, found {name!r}") from None


def _event(item: object) -> tuple[str, str, str]:
    match item:
        case [str(queue), str(kind), str(message)]:
            return queue, kind, message
        case _:
            raise ValueError(f"expected an event as [queue, kind, message], found {str(item)[:60]}")
