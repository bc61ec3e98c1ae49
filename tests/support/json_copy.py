"""A copy of a JSON value, several times as fast as `copy.deepcopy`, which looks up each value's type and remembers each object."""

from __future__ import annotations

import copy
from typing import Any

_NEVER_CHANGE = frozenset({str, int, float, bool, type(None)})


def json_copy(value: Any) -> Any:
    """Return a copy that shares no mapping or list with `value`. Anything that JSON does not have is copied by `copy.deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {key: one if type(one) in _NEVER_CHANGE else json_copy(one) for key, one in value.items()}
    if kind is list:
        return [one if type(one) in _NEVER_CHANGE else json_copy(one) for one in value]
    return value if kind in _NEVER_CHANGE else copy.deepcopy(value)
