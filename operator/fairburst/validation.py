"""pydantic's errors as sentences for users: the place, what was expected, what was found, and for a wrong key the nearest valid one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

_LONGEST_FOUND = 80  # characters of a found value that a message repeats


def problems_of(error: ValidationError, known_keys: Sequence[str], prefix: str = "") -> list[str]:
    """Return one sentence a problem. `known_keys`: the valid keys as dotted paths; `prefix` precedes every path."""
    return [_sentence(details, known_keys, prefix) for details in error.errors(include_url=False)]


def found(value: Any) -> str:
    """Return the found value, cut to a length that fits into a condition or a log line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}... ({len(text)} characters)"


def path_of(parts: Sequence[str | int]) -> str:
    """Return a dotted path with list indices in brackets, as the API server writes it."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text if len(text) <= _LONGEST_FOUND * 2 else f"{text[: _LONGEST_FOUND * 2]}..."


def _sentence(details: Any, known_keys: Sequence[str], prefix: str) -> str:
    parts = [part for part in details["loc"] if part != "[key]"]
    path = prefix + path_of(parts)
    kind = details["type"]
    if kind == "extra_forbidden":
        nearest = _nearest(path_of(parts), known_keys)
        hint = f"did you mean {prefix}{nearest}?" if nearest else "remove it"
        return f"{path}: no such key; {hint}"
    if kind == "missing":
        return f"{path}: expected a value, found none"
    return f"{path}: {_expected(kind, details)}, found {found(details['input'])}"


def _expected(kind: str, details: Any) -> str:
    if kind == "value_error":  # raised by our validators: a whole clause, which may already contain the found value
        return str(details["ctx"]["error"]).split(", found ")[0]
    if kind in {"model_type", "dict_type"}:
        return "expected keys and values"
    message: str = details["msg"]
    for start in ("Input should be ", "String should ", "Value should "):
        if message.startswith(start):
            return f"expected {message.removeprefix(start)}"
    return f"expected otherwise ({message[0].lower()}{message[1:]})"


def _nearest(path: str, known_keys: Sequence[str]) -> str | None:
    """Return the known path closest to a wrong one, by its last key if the whole path is not similar (a key in the wrong group)."""
    close = difflib.get_close_matches(path, known_keys, n=1, cutoff=0.75)
    if close:
        return close[0]
    last = {key.rsplit(".", 1)[-1]: key for key in reversed(known_keys)}
    close = difflib.get_close_matches(path.rsplit(".", 1)[-1], list(last), n=1, cutoff=0.6)
    return last[close[0]] if close else None
