"""Versioned JSON of remembered values. A damaged value, or one newer than this program, is refused as a whole."""

from __future__ import annotations

import json
from typing import Any

from fairburst.policy.errors import MemoryFormatError, NewerMemoryError


def parse(text: str, what: str) -> object:
    """Return the JSON value of `text`. Raises MemoryFormatError, which names `what` should have been read."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MemoryFormatError(f"{what}: expected JSON, found {text[:40]!r}: {error}") from error
    return value


def versioned(value: object, newest: int, what: str) -> dict[str, Any]:
    """Return `value` if it is an object of version `newest` or older. Raises MemoryFormatError, or NewerMemoryError if it is newer."""
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        raise MemoryFormatError(f"{what}: expected an object with a whole number `version`, found {str(value)[:40]!r}")
    if value["version"] > newest:
        raise NewerMemoryError(
            f"{what}: expected version {newest} or older, found {value['version']}; run the newer operator, or delete it"
        )
    return value
