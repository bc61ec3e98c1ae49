"""Arrivals of a calendar: time zones, steps of daylight saving, exceptions, and a bounded list that extends itself."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.queues import calendar as calendars
from fairburst.kube.queues.calendar import MOST_ARRIVALS, Calendar, has_arrivals, part_at, shortest_gap
from fairburst.kube.shadow import ObservingEngine
from tests.support.objects import World

BERLIN = "Europe/Berlin"
HOUR, DAY = 3600.0, 86_400.0


def local(calendar: Calendar, first: str, last: str, deadline: float = 60.0) -> list[str]:
    """The arrivals from one local time to another, as local times with their offset from UTC."""
    zone = ZoneInfo(calendar.time_zone)
    begin, end = (datetime.fromisoformat(one).replace(tzinfo=zone).timestamp() for one in (first, last))
    arrivals = part_at(calendar, deadline, begin).arrivals
    return [datetime.fromtimestamp(at, UTC).astimezone(zone).strftime("%m-%d %H:%M%z") for at in arrivals if begin <= at < end]


@pytest.mark.parametrize(
    ("cron", "first", "last", "want"),
    [
        pytest.param(
            ("0 9 * * 1-5",), "2026-03-26", "2026-03-31", ["03-26 09:00+0100", "03-27 09:00+0100", "03-30 09:00+0200"],
            id="nine o'clock stays nine o'clock when summer time begins",
        ),
        pytest.param(
            ("30 2 * * *",), "2026-03-28", "2026-03-31", ["03-28 02:30+0100", "03-29 03:00+0200", "03-30 02:30+0200"],
            id="a skipped time comes right after the step forward",
        ),
        pytest.param(
            ("30 2 * * *",), "2026-10-24", "2026-10-27", ["10-24 02:30+0200", "10-25 02:30+0200", "10-26 02:30+0100"],
            id="a repeated time comes once at the step back",
        ),
        pytest.param(
            ("0 * * * *",), "2026-10-25T01:00", "2026-10-25T04:00",
            ["10-25 01:00+0200", "10-25 02:00+0200", "10-25 02:00+0100", "10-25 03:00+0100"],
            id="every hour means every hour at the step back",
        ),
        pytest.param(
            ("30 2 * * *", "0 3 * * *"), "2026-03-28", "2026-03-30", ["03-28 02:30+0100", "03-28 03:00+0100", "03-29 03:00+0200"],
            id="two arrivals that the step makes one",
        ),
        pytest.param(
            ("0 8 1 * *", "0 8 * * 1"), "2026-06-01", "2026-06-09", ["06-01 08:00+0200", "06-08 08:00+0200"],
            id="a time that two expressions name counts once",
        ),
    ],
)  # fmt: skip
def test_arrivals_follow_the_wall_clock_of_the_zone(cron: tuple[str, ...], first: str, last: str, want: list[str]) -> None:
    assert local(Calendar(cron, BERLIN), first, last) == want


def test_an_arrival_that_the_step_moves_into_the_window_before_it_is_left_out() -> None:
    calendar = Calendar(("30 2 * * *", "10 3 * * *"), BERLIN)
    assert shortest_gap(calendar) == 2400
    assert local(calendar, "2026-03-28", "2026-03-30", deadline=1800.0) == ["03-28 02:30+0100", "03-28 03:10+0100", "03-29 03:00+0200"]


def test_no_burst_arrives_on_an_exception_which_is_a_date_of_the_zone() -> None:
    calendar = Calendar(("30 0 * * *",), BERLIN, frozenset({date(2026, 12, 25)}))  # 23:30 of the day before in UTC
    assert local(calendar, "2026-12-24", "2026-12-27") == ["12-24 00:30+0100", "12-26 00:30+0100"]


def test_a_calendar_rarer_than_the_longest_block_has_its_next_arrival() -> None:
    calendar = Calendar(("0 0 29 2 *",), "UTC")
    now = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
    assert part_at(calendar, 60.0, now).arrivals == (datetime(2028, 2, 29, tzinfo=UTC).timestamp(),)


@pytest.mark.parametrize(
    ("cron", "least_ahead"),
    [("0 9 * * 1-5", 360 * DAY), ("*/15 8-18 * * 1-5", 4 * DAY), ("*/5 * * * *", DAY / 5), ("* * * * *", HOUR)],
)
def test_a_list_is_bounded_and_reaches_well_ahead(cron: str, least_ahead: float) -> None:
    for now in (datetime(2026, 3, day, hour, 17, tzinfo=UTC).timestamp() for day in (1, 8, 28, 30) for hour in (0, 5, 23)):
        part = part_at(Calendar((cron,), BERLIN), 60.0, now)
        assert len(part.arrivals) <= MOST_ARRIVALS
        assert part.arrivals[-1] >= now + least_ahead


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/7", "*/20", "5,10"]),
    st.sampled_from(["*", "0-6", "2", "2,3", "*/5"]),
    st.sampled_from(["*", "1", "28-31"]),
    st.sampled_from(["*", "2", "3,10"]),
    st.sampled_from(["*", "1-5", "SUN"]),
).map(" ".join)
CALENDARS = st.builds(
    Calendar,
    st.lists(FIELDS, min_size=1, max_size=3).map(tuple),
    st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),  # Lord Howe's clocks step by half an hour
    st.sets(st.dates(date(2026, 1, 1), date(2027, 12, 31)), max_size=4).map(frozenset),
)
TIMES = st.integers(1_767_225_600, 1_830_297_600).map(float)  # 2026 and 2027


@given(calendar=CALENDARS, deadline=st.sampled_from([1.0, 60.0, 600.0]), now=TIMES)
def test_the_list_depends_on_its_block_alone_and_the_next_one_goes_on_with_it(calendar: Calendar, deadline: float, now: float) -> None:
    part = part_at(calendar, deadline, now)
    assert part.since <= now < part.until
    assert 1 <= len(part.arrivals) <= MOST_ARRIVALS
    assert all(after - one >= deadline for one, after in zip(part.arrivals, part.arrivals[1:], strict=False))
    assert part_at(calendar, deadline, part.since) == part
    following = part_at(calendar, deadline, part.until)
    both = [at for at in part.arrivals if at >= part.until]
    if both and following.since == part.until:
        last = min(both[-1], following.arrivals[-1])  # a list of a shorter block does not reach as far
        assert [at for at in following.arrivals if part.until <= at <= last] == [at for at in both if at <= last]


@given(calendar=CALENDARS, now=TIMES)
def test_no_arrival_lies_on_an_exception(calendar: Calendar, now: float) -> None:
    zone = ZoneInfo(calendar.time_zone)
    days = {datetime.fromtimestamp(at, UTC).astimezone(zone).date() for at in part_at(calendar, 1.0, now).arrivals}
    assert not days & calendar.exceptions


@given(calendar=CALENDARS, now=TIMES)
def test_passing_over_exceptions_finds_what_looking_at_every_time_finds(calendar: Calendar, now: float) -> None:
    zone = ZoneInfo(calendar.time_zone)
    runs = {day + timedelta(days=more) for day in calendar.exceptions for more in range(60)}
    calendar = replace(calendar, exceptions=frozenset(sorted(runs)[:366]))
    part = part_at(calendar, 1.0, now)
    start = datetime.fromtimestamp(part.since - 60, UTC).astimezone(zone)
    every = (
        time for one in calendar.cron for time in itertools.takewhile(lambda at: at.timestamp() < part.arrivals[-1], CronSim(one, start))
    )
    plain = {time.timestamp() for time in every if time.date() not in calendar.exceptions}
    assert {at for at in part.arrivals[:-1] if at >= part.since} == {at for at in plain if at >= part.since}


DENSE = tuple(f"*/{step} * * * *" for step in range(1, 17))
WEEKLY = tuple(f"{minute} 0 * * 0#5" for minute in range(16))
YEARS = [date(year, 1, 1) for year in (2024, 2026)]


@pytest.mark.parametrize("first", YEARS)
@pytest.mark.parametrize("every", [1, 2], ids=["a year", "every other day of two years"])
@pytest.mark.parametrize("cron", [("* * * * *",), DENSE, WEEKLY, ("0 0 29 2 0#5",) * 16, ("* * * 12 *",)])
def test_no_calendar_takes_long(cron: tuple[str, ...], every: int, first: date, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by fuzzed objects: `* * * * *` and 366 excepted dates kept the operator from all rounds for a minute."""
    steps = itertools.count()

    class Counted(CronSim):
        def advance_day(self) -> bool:
            next(steps)
            return super().advance_day()

    monkeypatch.setattr(calendars, "CronSim", Counted)
    for cached in (part_at, has_arrivals, shortest_gap):
        cached.cache_clear()
    calendar = Calendar(cron, BERLIN, frozenset(first + timedelta(days=every * number) for number in range(366)))
    now = datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()
    for deadline in (1.0, 31_536_000.0):
        part_at(calendar, deadline, now)
    assert has_arrivals(calendar)
    shortest_gap(calendar)
    assert next(steps) < 60_000


def hourly(**more: Any) -> dict[str, object]:
    """A spec whose list of arrivals is renewed every 28 days."""
    burst = {"resources": {"cpu": "4"}, "durationSeconds": 60, "deadlineSeconds": 300}
    return {"burst": burst, "arrival": {"calendar": {"cron": ["0 8-20 * * *"], "timeZone": BERLIN, **more}}}


def test_the_engine_keeps_class_and_windows_where_the_list_is_renewed() -> None:
    world = World()
    world.queue("ThroughputQueue", "batch")
    world.queue("LatencyQueue", "report", spec=hourly(cron=["*/10 8-20 * * *"]))  # a list for a day, and renewed every day
    world.round()
    first = world.status("report", kind="LatencyQueue")["promise"]["calendarFrom"]
    opened, events = set[str](), list[str]()
    days = 3
    for _ in range(24 * 5 * days):  # in steps of twelve minutes
        plan = world.round()
        events += [event.kind.value for entry, event in plan.events if entry.namespace == "report"]
        status = world.status("report", kind="LatencyQueue")
        assert status["class"] == "Hard"
        if "opened" in status["window"]:
            opened.add(status["window"]["opened"])
        world.after(720.0)
    assert world.status("report", kind="LatencyQueue")["promise"]["calendarFrom"] != first
    assert set(events) == {"BurstOpened"}
    zone = ZoneInfo(BERLIN)
    hours = {datetime.fromisoformat(one).astimezone(zone).hour for one in opened}
    assert hours <= set(range(8, 21))
    assert len(opened) == events.count("BurstOpened") >= 30 * days  # five steps of twelve minutes see three windows of five minutes


def test_a_restart_reads_the_calendar_back_from_the_status_without_a_change() -> None:
    world = World()
    world.queue("LatencyQueue", "report", spec=hourly())
    world.round()
    kept = world.status("report", kind="LatencyQueue")
    world.after(40 * DAY)  # two lists later
    world.engine = ObservingEngine(world.config, world.config.namespace)
    plan = world.round()
    status = world.status("report", kind="LatencyQueue")
    assert [event.kind.value for _, event in plan.events if event.kind.value != "BurstOpened"] == []
    assert status["class"] == kept["class"] == "Hard"
    assert status["promise"]["admissionOrder"] == kept["promise"]["admissionOrder"]
    assert datetime.fromisoformat(status["window"]["armsAt"]).timestamp() >= world.wall - 300
