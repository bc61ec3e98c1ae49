"""A queue's use of this week and the last one in its status, written only when the figures have moved. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fairburst.kube.queues.accounts import WeekAccount
from fairburst.kube.queues.statuses import WeekStatus
from fairburst.kube.times import to_text
from fairburst.kube.usage.weekly_use import FAIR, USED, WANTED, Week, WeekSums, sums_of, sums_to_account

FIRST_SECONDS = 60.0  # a shorter time says nothing about a week
MOST_OFTEN_SECONDS = 300.0  # limits status writes
POINT = 1.0  # percent by which a figure in the status may be wrong


def week_parts(sums: WeekSums, current: Mapping[str, Any]) -> dict[str, Any]:
    """Return `week` and `lastWeek` of the status, and `account` for status.internal.week; each only if there is one.

    current: the stored status, with its values in their present places. It is kept while its figures are right to a percentage point, and
    for a few minutes in any case. sums: as of now.
    """
    kept = {name: current[name] for name in ("week", "lastWeek") if name in current}
    account = (current.get("internal") or {}).get("week")
    if account:
        kept["account"] = account
        if _is_good(sums, account, current.get("week")):
            return kept
    week = sums.week
    if week is None or sums.as_of - sums.since < FIRST_SECONDS or (not account and _says_nothing(sums)):
        return kept
    last = {} if sums.last is None else {"lastWeek": _figures(sums.last)}
    return {"week": _figures(week), **last, "account": sums_to_account(sums)}


def _says_nothing(sums: WeekSums) -> bool:
    """Return whether a queue has wanted nothing, or used next to nothing because it has only just begun to want something."""
    used, fair, wanted = (sums.values[which] for which in (USED, FAIR, WANTED))
    if not wanted:
        return not used
    return used < POINT / 100 * fair and wanted * (sums.as_of - sums.since) < FIRST_SECONDS * fair


def _is_good(sums: WeekSums, account: Mapping[str, Any], shown: Any) -> bool:
    """Return whether the stored figures may stay."""
    try:
        stored = sums_of(WeekAccount.model_validate(account, by_alias=True, by_name=False))
        shown_week = WeekStatus.model_validate(shown, by_alias=True, by_name=False)
    except ValidationError:
        return False
    if to_text(stored.since) != to_text(sums.since):  # a status holds microseconds, a clock has finer steps
        return False
    if 0.0 <= sums.as_of - stored.as_of < MOST_OFTEN_SECONDS:
        return True
    return _near(sums.week, Week(sums.since, shown_week.used_percent, shown_week.served_percent))


def _near(one: Week | None, other: Week | None) -> bool:
    if one is None or other is None:
        return one is other
    if (one.served is None) != (other.served is None) or abs(one.used - other.used) >= POINT:
        return False
    return one.served is None or other.served is None or abs(one.served - other.served) < POINT


def _figures(week: Week) -> dict[str, Any]:
    served = {} if week.served is None else {"servedPercent": round(week.served)}
    return {"since": to_text(week.since), "usedPercent": round(week.used), **served}
