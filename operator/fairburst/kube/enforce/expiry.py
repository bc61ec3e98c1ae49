"""The expiry of a quota's temporary part, for the case that no operator renews it. Pure.

Two parts of a quota are temporary: the rate of an open window, and slack beyond one pod. The quota's annotations hold the time of expiry
and the figures that stay; a policy of the API server reads them (`install/expiry_policy.py`, docs/decisions/0122-a-quota-that-expires.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fairburst.kube.names import EXPIRES_ANNOTATION, LASTING_ANNOTATION
from fairburst.kube.times import to_epoch
from fairburst.quantity import parse_quantity

WINDOW_SECONDS = 120.0  # beyond a window's deadline
SLACK_SECONDS = 1800.0
RENEWAL = 0.5  # fraction of SLACK_SECONDS or WINDOW_SECONDS: an annotation is renewed this long before it expires
NOTES = (EXPIRES_ANNOTATION, LASTING_ANNOTATION)


@dataclass(frozen=True, slots=True)
class Temporary:
    """A quota's temporary part.

    `until`: the window's deadline in seconds since the epoch, None for slack. `lasting`: the quantities that stay, by quota key.
    """

    until: float | None
    lasting: Mapping[str, str]


def expiry_annotations(expires: float, lasting: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a quota whose temporary part ends at `expires`, since the epoch; `lasting`: quantities by quota key."""
    at = datetime.fromtimestamp(expires, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {EXPIRES_ANNOTATION: at, LASTING_ANNOTATION: ",".join(f"{key}={amount}" for key, amount in sorted(lasting.items()))}


def notes(temporary: Temporary | None, present: Mapping[str, str], wall: float) -> tuple[dict[str, str | None], bool]:
    """Return the annotations that a quota should have (None: none), and whether they are worth a write of their own.

    `present`: its annotations now. They stay while they say the same and do not expire soon, which limits the writes.
    """
    stored = _stored(present)
    if temporary is None:
        return dict.fromkeys(NOTES), stored is not None and stored < wall + WINDOW_SECONDS
    lasts = SLACK_SECONDS if temporary.until is None else WINDOW_SECONDS
    at = wall + lasts if temporary.until is None else max(temporary.until, wall) + lasts
    wanted = expiry_annotations(math.ceil(at), temporary.lasting)
    same = stored is not None and present.get(LASTING_ANNOTATION) == wanted[LASTING_ANNOTATION]
    late = stored is None or stored < (wall if temporary.until is None else max(temporary.until, wall)) + RENEWAL * lasts
    if same and not late and stored is not None and stored <= at + 1.0:
        return {name: present[name] for name in NOTES}, False
    return dict(wanted), late or (stored is not None and stored > at + 1.0 and temporary.until is not None)


def lasting_amounts(present: Mapping[str, str]) -> dict[str, float]:
    """Return the quantities that stay by the annotations, by quota key; empty if there are none, or if they cannot be read."""
    pairs = [pair.partition("=") for pair in present.get(LASTING_ANNOTATION, "").split(",") if pair]
    try:
        found = {key: parse_quantity(text) for key, _, text in pairs}
    except ValueError:
        return {}
    return found if min(found.values(), default=0.0) >= 0 else {}


def _stored(present: Mapping[str, str]) -> float | None:
    """Return when the quota's temporary part ends by its annotation; None without one, minus infinity if it cannot be read."""
    text = present.get(EXPIRES_ANNOTATION)
    if text is None:
        return None if LASTING_ANNOTATION not in present else -math.inf
    try:
        return to_epoch(datetime.fromisoformat(text))
    except (ValueError, OverflowError, TypeError):
        return -math.inf
