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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MOST_ARRIVALS = 750  # in one list: one a day for two years
_DAY = 86_400
_BLOCKS = (364 * _DAY, 28 * _DAY, 7 * _DAY, _DAY, _DAY // 4, 3_600)  # seconds; each holds a whole number of the next
# An 8 KB calendar can name a time every minute by sixteen expressions and except all dates of a year. The operator reads it between rounds.
_MOST_TRIED = 2_000  # times that are searched for the shortest gap: five a day for more than a year
_SEARCHED = 5 * 366 * _DAY  # seconds that are searched for it; the first year is a leap year
_MOST_STEPS = 2 * MOST_ARRIVALS  # times that are looked at for one list, with those that two expressions name or that come too early
_MOST_PASSED = 20  # times on excepted dates that are passed over one by one
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


@lru_cache(maxsize=64)
def part_at(calendar: Calendar, deadline: float, now: float) -> Part:
    """Return the arrivals that hold at `now`: those of its block and the next, and an earlier one whose window may still be open."""
    for block in _BLOCKS:
        since = now // block * block
        times = _before(since + 2 * block, _times(calendar, since - deadline))
        arrivals = tuple(itertools.islice(_spaced(itertools.islice(times, _MOST_STEPS), deadline), MOST_ARRIVALS + 1))
        if len(arrivals) <= MOST_ARRIVALS and next(times, None) is None:
            break
    if not arrivals:  # rarer than the longest block: the next one alone
        arrivals = tuple(itertools.islice(_times(calendar, since), 1))
    return Part(since, since + block, arrivals[:MOST_ARRIVALS])


@lru_cache(maxsize=256)
def shortest_gap(calendar: Calendar) -> float:
    """Return the seconds between the two closest arrivals of the years that are searched, without daylight saving; infinite for one."""
    plain = Calendar(calendar.cron, "UTC", calendar.exceptions)
    searched = _before(_REFERENCE.timestamp() + _SEARCHED, _times(plain, _REFERENCE.timestamp()))
    arrivals = list(itertools.islice(searched, _MOST_TRIED))
    return min((after - one for one, after in itertools.pairwise(arrivals) if after > one), default=float("inf"))


@lru_cache(maxsize=256)
def has_arrivals(calendar: Calendar) -> bool:
    """Return whether the calendar has any arrival."""
    zone = ZoneInfo(calendar.time_zone)
    firsts = (next(_occurrences(one, _REFERENCE.astimezone(zone), calendar.exceptions), None) for one in calendar.cron)
    return any(first is not None for first in firsts)


def _times(calendar: Calendar, begin: float) -> Iterator[float]:
    """Yield the arrivals from `begin` on in ascending order, as often as expressions name them."""
    zone = ZoneInfo(calendar.time_zone)
    start = datetime.fromtimestamp(begin, UTC).astimezone(zone) - timedelta(minutes=1)
    each = (_occurrences(one, start, calendar.exceptions) for one in dict.fromkeys(calendar.cron))
    times = map(datetime.timestamp, heapq.merge(*each, key=datetime.timestamp))
    yield from itertools.dropwhile(lambda at: at < begin, times)


def _occurrences(expression: str, start: datetime, excepted: frozenset[date]) -> Iterator[datetime]:
    """Yield the times of one expression after `start`, but for those on excepted dates.

    After a number of times on such dates it goes on at the end of the excepted dates.
    """
    passed = 0
    times = CronSim(expression, start)
    try:
        while (time := next(times, None)) is not None:
            if time.date() not in excepted:
                passed = 0
                yield time
            elif (passed := passed + 1) == _MOST_PASSED:
                passed = 0
                day = time.date()
                while day in excepted:
                    day += timedelta(days=1)
                times = CronSim(expression, datetime.combine(day, datetime.min.time(), start.tzinfo) - timedelta(minutes=1))
    except OverflowError:  # the year 10000
        return


def _before(end: float, arrivals: Iterator[float]) -> Iterator[float]:
    return itertools.takewhile(lambda at: at < end, arrivals)


def _spaced(arrivals: Iterable[float], deadline: float) -> Iterator[float]:
    """Yield each arrival that comes at or after the deadline of the one before, once."""
    last = free = float("-inf")
    for at in arrivals:
        if at > last and at >= free:
            last, free = at, at + deadline
            yield at


def parse_exceptions(dates: Sequence[str]) -> frozenset[date]:
    """Return the dates. Raises ValueError for a text that is not an ISO date."""
    return frozenset(date.fromisoformat(one) for one in dates)
