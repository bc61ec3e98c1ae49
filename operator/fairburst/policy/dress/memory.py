"""The state that DRESS keeps between rounds: a frozen, bounded value, and its JSON with its own version.

A damaged text or one of a newer version is refused as a whole. A fresh start costs a few minutes of learning and breaks no promise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairburst.policy.dress.learned import FamilyDurations, nothing_learned
from fairburst.policy.dress.values import EstimatorScore
from fairburst.policy.errors import MemoryFormatError
from fairburst.policy.lead_time_record import LeadTimeRecord
from fairburst.policy.versioned import parse, versioned

VERSION = 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """The release by `due` that both estimators predicted at `made_at`: (R,) resource units each."""

    made_at: float
    due: float
    phases: tuple[float, ...]
    learned: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DressMemory:
    """State of DRESS.

    reserve_ratio: δ.
    adjusted_at: when Algorithm 3 last ran (minus infinity: never).
    learned_until: `families` contains the ends of tasks up to here.
    prediction: the prediction that waits to be compared with the actual release.
    phases_score, learned_score: see EstimatorScore.
    lead_times: cost and gain of the room held for bursts, by queue.
    """

    reserve_ratio: float
    adjusted_at: float = -math.inf
    learned_until: float = -math.inf
    families: FamilyDurations = field(default_factory=nothing_learned)
    prediction: Prediction | None = None
    phases_score: EstimatorScore = field(default_factory=EstimatorScore)
    learned_score: EstimatorScore = field(default_factory=EstimatorScore)
    lead_times: Mapping[str, LeadTimeRecord] = field(default_factory=dict)


def dump_dress(memory: DressMemory) -> str:
    """Return the memory as JSON text. Equal memories give equal bytes."""
    return json.dumps(encode_dress(memory), allow_nan=False)


def load_dress(text: str) -> DressMemory:
    """Read the output of `dump_dress`. Raises NewerMemoryError or MemoryFormatError."""
    return decode_dress(parse(text, "memory of DRESS"))


def encode_dress(memory: DressMemory) -> dict[str, Any]:
    """Return the memory as JSON values."""
    families = memory.families
    prediction = memory.prediction
    return {
        "version": VERSION,
        "reserve_ratio": memory.reserve_ratio,
        "adjusted_at": _finite(memory.adjusted_at),
        "learned_until": _finite(memory.learned_until),
        "families": {name: [families.seen[name], *families.oldest_first[name]] for name in families.row_of},
        "prediction": None
        if prediction is None
        else [prediction.made_at, prediction.due, list(prediction.phases), list(prediction.learned)],
        "phases_score": _encode_score(memory.phases_score),
        "learned_score": _encode_score(memory.learned_score),
        "lead_times": {name: _encode_record(memory.lead_times[name]) for name in sorted(memory.lead_times)},
    }


def decode_dress(value: object) -> DressMemory:
    """Invert `encode_dress`. Raises NewerMemoryError or MemoryFormatError."""
    whole = versioned(value, VERSION, "memory of DRESS")
    try:
        return _decode(whole)
    except (KeyError, AttributeError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise MemoryFormatError(f"memory of DRESS, version {whole['version']}: {type(error).__name__}: {error}") from error


def _decode(value: Mapping[str, Any]) -> DressMemory:
    ratio = _number(value["reserve_ratio"])
    if not 0 <= ratio <= 1:
        raise MemoryFormatError(f"memory of DRESS: reserve_ratio: expected a fraction between 0 and 1, found {ratio}")
    families = {str(name): [_number(item) for item in row] for name, row in value["families"].items()}
    prediction = value["prediction"]
    return DressMemory(
        reserve_ratio=ratio,
        adjusted_at=_infinite(value["adjusted_at"]),
        learned_until=_infinite(value["learned_until"]),
        families=FamilyDurations.of({name: row[1:] for name, row in families.items()}, {name: row[0] for name, row in families.items()}),
        prediction=None
        if prediction is None
        else Prediction(
            _number(prediction[0]),
            _number(prediction[1]),
            tuple(_number(item) for item in prediction[2]),
            tuple(_number(item) for item in prediction[3]),
        ),
        phases_score=_decode_score(value["phases_score"]),
        learned_score=_decode_score(value["learned_score"]),
        lead_times={str(name): _decode_record(item) for name, item in value.get("lead_times", {}).items()},
    )


def _encode_score(score: EstimatorScore) -> list[float]:
    return [score.absolute_error, score.bias, score.count]


def _decode_score(value: list[Any]) -> EstimatorScore:
    error, bias, count = value
    return EstimatorScore(_number(error), _number(bias), int(count))


def _encode_record(record: LeadTimeRecord) -> list[Any]:
    return [record.window, record.cost, record.gain, [list(one) for one in record.past], record.resting]


def _decode_record(value: list[Any]) -> LeadTimeRecord:
    """Decode a lead-time record. The time between writing and reading is not charged."""
    window, cost, gain, past, resting = value
    entries = tuple((_number(one), _number(other)) for one, other in past)
    return LeadTimeRecord(int(window), _number(cost), _number(gain), past=entries, resting=int(resting))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _infinite(value: object) -> float:
    return -math.inf if value is None else _number(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MemoryFormatError(f"memory of DRESS: expected a finite number, found {value!r}")
    return float(value)
