"""Kubernetes quantities ("500m", "1.5Gi", "2e3") to natural units (cores, bytes, devices) and back, exactly.

Grammar and canonical form: apimachinery's pkg/api/resource/quantity.go. Two of its rules apply here: a value finer than a nano unit is
rounded up to one (away from zero), and a value beyond 2^63 - 1 counts as that.
"""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction

from fairburst.bounds import MOST_AMOUNT

_BINARY_SUFFIXES = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES = ("k", "M", "G", "T", "P", "E")
_MULTIPLIERS: dict[str, Fraction] = (
    {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
    | {suffix: Fraction(1000**power) for power, suffix in enumerate(_DECIMAL_SUFFIXES, 1)}
    | {suffix: Fraction(1024**power) for power, suffix in enumerate(_BINARY_SUFFIXES, 1)}
)
_PATTERN = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_MAX_TEXT = 64  # characters; bounds the parsing of many digits, while real quantities have fewer than 20
_MAX_EXPONENT = 40  # larger exponents are beyond the largest quantity or below the smallest
_LARGEST = Fraction(2**63 - 1)
_NANO = 10**9

# Resources counted in bytes, which are written with a binary suffix if one divides them.
BYTE_RESOURCES = frozenset({"memory", "ephemeral-storage"})


class QuantityError(ValueError):
    """A text is not a quantity, or a number cannot be written as one."""


def parse_exact(value: str | int) -> Fraction:
    """Return the quantity as an exact number of natural units. Raises QuantityError, which names the text and what was expected."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _clamp(Fraction(value))
    exact = _parse_text(value) if isinstance(value, str) and len(value) <= _MAX_TEXT else None
    if exact is None:
        found = f"{value[:_MAX_TEXT]}... ({len(value)} characters)" if isinstance(value, str) and len(value) > _MAX_TEXT else value
        raise QuantityError(f"expected a Kubernetes quantity such as 4, 500m or 1.5Gi, found {found!r}")
    return exact


@functools.lru_cache(maxsize=8192)
def _parse_text(text: str) -> Fraction | None:
    """Return the quantity, or None if the text is none. Cached, because a status has the same quantities whenever it is read."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    sign, number, exponent, suffix = match.groups()
    if exponent is not None:
        power = max(-_MAX_EXPONENT - _MAX_TEXT, min(_MAX_EXPONENT + _MAX_TEXT, int(exponent)))
        scale = Fraction(10) ** power
    else:
        scale = _MULTIPLIERS[suffix or ""]
    magnitude = _clamp(Fraction(math.ceil(Fraction(number.rstrip(".")) * scale * _NANO), _NANO))
    return -magnitude if sign == "-" else magnitude


def _clamp(value: Fraction) -> Fraction:
    return max(-_LARGEST, min(_LARGEST, value))


@functools.lru_cache(maxsize=65536)
def parse_quantity(value: str | int) -> float:
    """Return the quantity in natural units, as the nearest float, cut at `MOST_AMOUNT`. Cached: a cluster uses few different texts.

    Raises
    ------
    QuantityError : names the text and what was expected.
    """
    return min(max(float(parse_exact(value)), -MOST_AMOUNT), MOST_AMOUNT)


def charged_quantity(resource: str, value: str | int) -> float:
    """Return the quantity as quotas count it: cpu rounded up to a millicore, everything else to a whole unit; cut at `MOST_AMOUNT`.

    `format_quantity` writes exactly these values, so parse and format are inverses on them.
    """
    exact = parse_exact(value)
    if resource == "cpu":
        exact = Fraction(math.ceil(exact * 1000), 1000)
    return min(max(float(exact if resource == "cpu" else math.ceil(exact)), -MOST_AMOUNT), MOST_AMOUNT)


@functools.lru_cache(maxsize=65536)
def format_quantity(resource: str, value: float) -> str:
    """Write natural units as a canonical quantity: cpu to the nearest millicore, everything else to the nearest whole unit.

    The canonical form is that of the API server, so that equal quantities have equal texts: the largest suffix that leaves a whole number,
    binary for bytes if one divides them ("1500m", "2k", "800Gi").

    Raises
    ------
    QuantityError : the value is not finite, or beyond 2^63 - 1.

    Notes
    -----
    Cached, because rounds write and compare the same levels repeatedly.
    """
    if not math.isfinite(value) or abs(value) > _LARGEST:
        raise QuantityError(f"expected a finite number of {resource} no larger than 2^63 - 1, found {value!r}")
    if resource == "cpu":
        milli = round(Fraction(value) * 1000)
        return f"{milli}m" if milli % 1000 else _with_suffix(milli // 1000, 1000, _DECIMAL_SUFFIXES)
    whole = round(value)
    if resource in BYTE_RESOURCES and whole and whole % 1024 == 0:
        return _with_suffix(whole, 1024, _BINARY_SUFFIXES)
    return _with_suffix(whole, 1000, _DECIMAL_SUFFIXES)


def _with_suffix(whole: int, base: int, suffixes: tuple[str, ...]) -> str:
    suffix = ""
    for candidate in suffixes:
        if whole == 0 or whole % base:
            break
        whole, suffix = whole // base, candidate
    return f"{whole}{suffix}"
