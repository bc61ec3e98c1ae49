"""The text form of a progress curve, in a Job's annotation and in a queue's spec, and its reading.

The text is JSON, because CRD fields cannot hold fractions. An error says why a text is unusable; the callers report it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from fairburst.bounds import MOST_PARALLELISM
from fairburst.policy.paf.curves import Curve, ErnestCurve, PointsCurve, problem
from fairburst.validation import found

MOST_POINTS = 256
MOST_CHARACTERS = 16_384  # twice the length of a curve with the most points at full precision
_LONGEST_PROBLEM = 250  # characters; conditions and events carry several problems and have limits of their own


class MalformedCurveError(Exception):
    """The text is no curve, or an unusable one. The message says what was expected and what was found."""


def read_curve(text: str, maximum: int | None) -> tuple[Curve, float | None]:
    """Return the curve in a text, and a job's time alone at full parallelism if the text gives one.

    The curve is checked up to `maximum` slots; None: as far as it reaches.

    Raises
    ------
    MalformedCurveError : the text is no curve, or an unusable one.
    """
    if len(text) > MOST_CHARACTERS:
        raise MalformedCurveError(f"expected at most {MOST_CHARACTERS} characters, found {len(text)}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedCurveError(f"expected JSON, found {found(text)}") from error
    forms = {"coefficients", "points"} & set(content) if isinstance(content, dict) else set()
    if len(forms) != 1:
        raise MalformedCurveError(f'expected an object with "coefficients" or "points", found {found(text)}')
    unknown = set(content) - forms - {"aloneSeconds"} - ({"lowest", "highest"} if "coefficients" in forms else set())
    if unknown:
        raise MalformedCurveError(f"no such key: {found(', '.join(sorted(unknown)))}")
    curve: Curve = _read_points(content["points"]) if "points" in content else _read_coefficients(content)
    trouble = problem(curve, maximum or _natural_end(curve))
    if trouble is not None:
        raise MalformedCurveError(trouble if len(trouble) <= _LONGEST_PROBLEM else f"{trouble[:_LONGEST_PROBLEM]}...")
    alone = content.get("aloneSeconds")
    if alone is not None and (not _is_number(alone) or alone <= 0):
        raise MalformedCurveError(f"expected aloneSeconds greater than zero, found {found(alone)}")
    return curve, None if alone is None else float(alone)


def _read_points(content: Any) -> PointsCurve:
    pairs: list[Any] = content if isinstance(content, list) else []
    if pairs != content or not all(isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs):
        raise MalformedCurveError(f"expected points as [[slots, progress], ...], found {found(content)}")
    if len(pairs) > MOST_POINTS:
        raise MalformedCurveError(f"expected at most {MOST_POINTS} points, found {len(pairs)}")
    return PointsCurve(tuple(float(slots) for slots, _ in pairs), tuple(float(progress) for _, progress in pairs))


def _read_coefficients(content: Mapping[str, Any]) -> ErnestCurve:
    coefficients = content["coefficients"]
    if not (isinstance(coefficients, list) and len(coefficients) == 4 and all(map(_is_number, coefficients))):
        raise MalformedCurveError(f"expected four coefficients a0 to a3, found {found(coefficients)}")
    for bound in ("lowest", "highest"):
        value = content.get(bound)
        if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_PARALLELISM):
            raise MalformedCurveError(f"expected {bound} between 1 and {MOST_PARALLELISM}, found {found(value)}")
    a0, a1, a2, a3 = map(float, coefficients)
    return ErnestCurve(a0, a1, a2, a3, content.get("lowest"), content.get("highest"))


def _natural_end(curve: Curve) -> int:
    """Return the last slot to check if no maximum is declared. The division checks again, up to the Job's own maximum."""
    match curve:
        case PointsCurve(slots, _):
            return int(min(max(slots, default=1.0), MOST_PARALLELISM))
        case ErnestCurve(highest=highest):
            return highest or 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)
