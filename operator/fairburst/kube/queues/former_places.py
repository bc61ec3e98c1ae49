"""Where earlier versions of the operator kept parts of the status, most of which are now in `status.internal`.

Their statuses are read as if every value stood in its present place, and the first write moves the values. The CRDs keep the former places,
so that the API server does not drop what an earlier version, which may still hold the Lease during an upgrade, writes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Place = tuple[str, ...]

FORMER_PLACES: Mapping[Place, Place] = {
    **{
        (name,): ("internal", name)
        for name in ("ledger", "debtMilliseconds", "periodStarted", "fairShare", "residualLevelMicro", "rounding", "balance")
    },
    ("window", "consumed"): ("internal", "window", "consumedMilliseconds"),
    ("window", "budget"): ("internal", "window", "budgetMilliseconds"),
    ("window", "demanded"): ("internal", "window", "demanded"),
    ("window", "judged"): ("internal", "window", "judged"),
    ("uncertainty", "of"): ("internal", "burstsSeen", "of"),
    ("uncertainty", "partsMilli"): ("internal", "burstsSeen", "partsMilli"),
    ("stamp",): ("podPriority",),
    ("smallStamp",): ("smallPodPriority",),
}


def in_present_places(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a status with every value in its present place, which wins over a former one. The status itself if nothing has to move."""
    found = {place: value for place in FORMER_PLACES if (value := _at(status, place)) is not None}
    if not found:
        return status
    moved = dict(status)
    for former, value in found.items():
        moved = _without(moved, former)
        if _at(status, FORMER_PLACES[former]) is None:
            moved = _with(moved, FORMER_PLACES[former], value)
    return moved


def _at(part: Any, place: Place) -> Any:
    for key in place:
        if not isinstance(part, Mapping):
            return None
        part = part.get(key)
    return part


def _without(part: Mapping[str, Any], place: Place) -> dict[str, Any]:
    key, rest = place[0], place[1:]
    if rest:
        return {**part, key: _without(part[key], rest)}
    return {name: value for name, value in part.items() if name != key}


def _with(part: Any, place: Place, value: Any) -> dict[str, Any]:
    inside = part if isinstance(part, Mapping) else {}
    key, rest = place[0], place[1:]
    return {**inside, key: _with(inside.get(key), rest, value) if rest else value}
