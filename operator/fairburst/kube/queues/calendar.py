"""Arrivals of a calendar: cron expressions in a time zone, less the excepted dates, as a bounded list of times.

The list that holds at a time covers the block of that time and the block after it. A block is the longest of `_BLOCKS` for which both hold
at most `MOST_ARRIVALS`; blocks begin at multiples of their length since the epoch. So the list is a function of the calendar and the time
alone, it reaches at least one block ahead, and it changes only where a block ends.

Steps of daylight saving follow Debian's cron (cronsim): an arrival in a skipped hour comes right after the step, and one at a fixed hour
comes once in a repeated hour. An arrival that such a step moves before the deadline of the arrival before it is left out.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MOST_ARRIVALS = 750  # in one list: one a day for two years
_DAY = 86_400
_BLOCKS = (364 * _DAY, 28 * _DAY, 7 * _DAY, _DAY, _DAY // 4, 3_600)  # seconds; each holds a whole number of the next
_MOST_TRIED = 2_000  # arrivals that are searched for the shortest gap: five a day for more than a year
_REFERENCE = datetime(2024, 1, 1, tzinfo=UTC)  # the first day of a leap year


@dataclass(frozen=True, slots=True)
class Calendar:
    """Validated cron expressions of five fields, the time zone in which they are read, and the dates in it without an arrival."""

    cron: tuple[str, ...]
    time_zone: str
    exceptions: frozenset[date] = frozenset()


@dataclass(frozen=True, slots=True)
class Part:
    """The arrivals of a calendar that hold from `since` until `until`. Times in seconds since the epoch."""

    since: float
    until: float
    arrivals: tuple[float, ...]


def cron_problem(expression: str) -> str:
    """Return the problem with a cron expression; empty if there is none."""
    try:
        CronSim(expression, _REFERENCE)
    except CronSimError as error:
        return str(error)
    return ""


def time_zone_exists(name: str) -> bool:
    """Return whether the IANA time zone is known on this machine."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def part_at(calendar: Calendar, deadline: float, now: float) -> Part:
    """Return the arrivals that hold at `now`: those of its block and the next, and an earlier one whose window may still be open."""
    for block in _BLOCKS:
        since = now // block * block
        found = _spaced(_times(calendar, since - deadline), deadline)
        arrivals = _up_to(since + 2 * block, found)
        if not arrivals:  # rarer than the longest block: the next one alone
            arrivals = tuple(itertools.islice(_times(calendar, since), 1))
        if len(arrivals) <= MOST_ARRIVALS:
            break
    return Part(since, since + block, arrivals[:MOST_ARRIVALS])


def shortest_gap(calendar: Calendar) -> float:
    """Return the seconds between the two closest of the first `_MOST_TRIED` arrivals, without daylight saving; infinite for one."""
    plain = Calendar(calendar.cron, "UTC", calendar.exceptions)
    arrivals = list(itertools.islice(_times(plain, _REFERENCE.timestamp()), _MOST_TRIED))
    return min((after - one for one, after in itertools.pairwise(arrivals)), default=float("inf"))


def has_arrivals(calendar: Calendar) -> bool:
    """Return whether the calendar has any arrival."""
    return next(_times(calendar, _REFERENCE.timestamp()), None) is not None


def _times(calendar: Calendar, begin: float) -> Iterator[float]:
    """Yield the arrivals from `begin` on in ascending order, each once."""
    zone = ZoneInfo(calendar.time_zone)
    start = datetime.fromtimestamp(begin, UTC).astimezone(zone) - timedelta(minutes=1)
    last = float("-inf")
    for time in heapq.merge(*(_occurrences(one, start) for one in calendar.cron), key=datetime.timestamp):
        at = time.timestamp()
        if at >= begin and at > last and time.date() not in calendar.exceptions:
            last = at
            yield at


def _occurrences(expression: str, start: datetime) -> Iterator[datetime]:
    try:
        yield from CronSim(expression, start)
    except OverflowError:  # the year 10000
        return


def _up_to(end: float, arrivals: Iterator[float]) -> tuple[float, ...]:
    """Return the arrivals before `end`, at most one more than a list may have."""
    before = itertools.takewhile(lambda at: at < end, arrivals)
    return tuple(itertools.islice(before, MOST_ARRIVALS + 1))


def _spaced(arrivals: Iterator[float], deadline: float) -> Iterator[float]:
    """Yield the arrivals that come at or after the deadline of the one before."""
    free = float("-inf")
    for at in arrivals:
        if at >= free:
            free = at + deadline
            yield at


def parse_exceptions(dates: Sequence[str]) -> frozenset[date]:
    """Return the dates. Raises ValueError for a text that is not an ISO date."""
    return frozenset(date.fromisoformat(one) for one in dates)
