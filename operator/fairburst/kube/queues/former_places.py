"""Places where earlier versions of the operator kept parts of the status, most of which are now in `status.internal`.

Statuses are read as if every value stood in its present place. Accounts are written in both places for one version, so that after a
downgrade an earlier operator continues where this one stopped (docs/decisions/0251). All other values are moved by the first write. The
CRDs have the former places, so that the API server does not drop what is written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Place = tuple[str, ...]

# Accounts that this version writes in their former places too.
COPIES: Mapping[Place, Place] = {
    **{
        (name,): ("internal", name)
        for name in ("ledger", "debtMilliseconds", "periodStarted", "fairShare", "residualLevelMicro", "rounding", "balance")
    },
    ("window", "demanded"): ("internal", "window", "demanded"),
    ("window", "judged"): ("internal", "window", "judged"),
    ("uncertainty", "of"): ("internal", "burstsSeen", "of"),
    ("uncertainty", "partsMilli"): ("internal", "burstsSeen", "partsMilli"),
}
FORMER_PLACES: Mapping[Place, Place] = {
    **COPIES,
    ("window", "consumed"): ("internal", "window", "consumedMilliseconds"),
    ("window", "budget"): ("internal", "window", "budgetMilliseconds"),
    ("stamp",): ("podPriority",),
    ("smallStamp",): ("smallPodPriority",),
}
_LEDGER = ("ledger",)  # every version writes one, with its time


def in_present_places(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a status with every value in its present place only. The status itself if nothing has to move.

    The present place wins over the former one, except for accounts that an earlier version has written since.
    """
    found = {place: value for place in FORMER_PLACES if (value := _at(status, place)) is not None}
    if not found:
        return status
    went_on = _went_on(status)
    moved = dict(status)
    for former, value in found.items():
        moved = _without(moved, former)
        if (went_on and former in COPIES) or _at(status, FORMER_PLACES[former]) is None:
            moved = _with(moved, FORMER_PLACES[former], value)
    if went_on:  # an account that the earlier version has dropped stays dropped
        for former, present in COPIES.items():
            if former not in found and former[0] != "uncertainty" and _at(moved, present) is not None:
                moved = _without(moved, present)
    return moved


def with_copies(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status that has its accounts in their former places too, as far as the parts around these exist."""
    copied = dict(status)
    for former, present in COPIES.items():
        value = _at(status, present)
        if value is not None and (len(former) == 1 or former[0] in status):
            copied = _with(copied, former, value)
    return copied


def _went_on(status: Mapping[str, Any]) -> bool:
    """Return whether an earlier version has written its accounts since this version wrote both.

    Every write of this version makes both equal, so one that differs was written by another version. The ledger's time says which is newer.
    """
    written, kept = _at(status, _LEDGER), _at(status, COPIES[_LEDGER])
    if written is None or kept is None:
        return False
    if all(_at(status, former) == _at(status, present) for former, present in COPIES.items() if former[0] != "uncertainty"):
        return False
    try:
        return datetime.fromisoformat(written["asOf"]) >= datetime.fromisoformat(kept["asOf"])
    except (KeyError, TypeError, ValueError):  # unreadable: the status of another writer
        return False


def _at(part: Any, place: Place) -> Any:
    for key in place:
        if not isinstance(part, (dict, Mapping)):  # dict first: to ask whether it is a Mapping takes longer than all the rest
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
