"""Conversion of the core's values to self-describing JSON and back, for the fields of snapshots and results that only some operators have.

A dataclass or an enum carries its name below `fairburst.policy`, an array its dtype and shape, so that decoding needs no list of types.
Decoding creates only types of the core.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_ROOT = "fairburst.policy."
# Files name a type by its first module, wherever it is defined now, so that files of earlier versions stay readable.
_PARTS_OF_MODEL = frozenset({"queue_memory", "round_memory", "spec"})
_FIRST_NAMES = {"lead_time_record.LeadTimeDecision": "lead_time.LeadTimeDecision"}
_KIND = "is"  # a Python keyword, so that no field can have this name


def encode(value: object) -> Any:
    """Return the value as JSON values. Raises TypeError for a value that does not belong to the core."""
    match value:
        case enum.Enum():
            encoded: Any = {_KIND: _name_of(type(value)), "value": value.value}
        case None | bool() | int() | float() | str():
            encoded = value
        case np.generic():
            encoded = value.item()
        case np.ndarray():
            encoded = {_KIND: "array", "dtype": str(value.dtype), "shape": list(value.shape), "values": value.ravel().tolist()}
        case Sequence():  # JobColumns too: the jobs say everything that its columns repeat
            encoded = [encode(item) for item in value]
        case frozenset():
            encoded = {_KIND: "set", "items": sorted(encode(item) for item in value)}
        case Mapping():
            encoded = {_KIND: "mapping", "items": [[encode(key), encode(item)] for key, item in value.items()]}
        case _:
            fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()  # _name_of raises TypeError for other types
            encoded = {_KIND: _name_of(type(value))} | {field.name: encode(getattr(value, field.name)) for field in fields}
    return encoded


def decode(value: Any) -> Any:
    """Read a value of `encode`; lists become tuples. Raises ValueError with the expected and the found text."""
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    try:
        match value.get(_KIND):
            case "array":
                return np.array(value["values"], dtype=np.dtype(value["dtype"])).reshape(value["shape"])
            case "set" | "mapping" as form:
                items = decode(value["items"])
                return frozenset(items) if form == "set" else dict(items)
            case "dress.job_columns.JobColumns":  # in files of an earlier version
                return decode(value["jobs"])
            case name:
                return _instance(_type_named(name), value)
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected the fields of {value.get(_KIND)}, found {', '.join(value)}: {error}") from error


def _instance(kind: type, value: dict[str, Any]) -> Any:
    if issubclass(kind, enum.Enum):
        return kind(value["value"])
    return kind(**{name: decode(item) for name, item in value.items() if name != _KIND})


def _name_of(kind: type) -> str:
    if not kind.__module__.startswith(_ROOT):
        raise TypeError(f"expected a value of the core, found {kind.__module__}.{kind.__name__}")
    module = kind.__module__.removeprefix(_ROOT)
    name = f"{module}.{kind.__name__}"
    return _FIRST_NAMES.get(name, f"model.{kind.__name__}" if module in _PARTS_OF_MODEL else name)


def _type_named(name: object) -> type:
    """Return the type with this name from `_name_of`. Raises ValueError unless it is a dataclass or an enum of the core."""
    module, _, short = str(name).rpartition(".")
    try:
        kind = getattr(importlib.import_module(_ROOT + module), short)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"expected a value of the core, found {name!r}") from error
    if not (isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, enum.Enum)) and _name_of(kind) == name):
        raise ValueError(f"expected a dataclass or an enum of the core, found {name!r}")
    return kind
