"""ReclaimMemory as versioned JSON. Damaged or newer text is refused as a whole. Equal memories give equal bytes."""

from __future__ import annotations

import json
import math
from typing import Any

from fairburst.policy.errors import MemoryFormatError
from fairburst.policy.reclaim.values import ReclaimMemory
from fairburst.policy.versioned import parse, versioned

VERSION = 1
_WHAT = "memory of reclaim"


def dump_reclaim(memory: ReclaimMemory) -> str:
    """Return the memory as JSON text, with sorted names."""
    times = {"short_since": memory.short_since, "made_room": memory.made_room, "asked": memory.asked}
    whole = {name: {key: value[key] for key in sorted(value)} for name, value in times.items()}
    spent = {"allowance": memory.allowance, "allowance_as_of": memory.allowance_as_of}
    return json.dumps({"version": VERSION, **whole, **spent}, allow_nan=False)


def load_reclaim(text: str) -> ReclaimMemory:
    """Read text of `dump_reclaim`. Raises NewerMemoryError or MemoryFormatError."""
    whole = versioned(parse(text, _WHAT), VERSION, _WHAT)
    try:
        return ReclaimMemory(
            {str(name): _number(at) for name, at in whole["short_since"].items()},
            {str(uid): _number(at) for uid, at in whole["made_room"].items()},
            _number(whole["allowance"]),
            _number(whole["allowance_as_of"]),
            {str(key): _number(until) for key, until in whole.get("asked", {}).items()},  # missing in older texts
        )
    except (KeyError, AttributeError, TypeError, OverflowError) as error:
        raise MemoryFormatError(f"{_WHAT}, version {whole['version']}: {type(error).__name__}: {error}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MemoryFormatError(f"{_WHAT}: expected a finite number, found {value!r}")
    return float(value)
