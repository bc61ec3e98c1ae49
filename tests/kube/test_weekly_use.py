"""A queue's use this week against its fair share: summed over looks, remembered in its status, and written only when it has moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairburst.kube.usage.weekly_use import WEEK_SECONDS, WeeklyUse, WeekSums, sums_to_account, week_of
from fairburst.kube.views.week_view import MOST_OFTEN_SECONDS, week_parts
from fairburst.policy.model import ClusterSnapshot
from tests.support.objects import stored_queue

MONDAY = 1_767_571_200.0  # 2026-01-05T00:00:00Z
HOUR = 3600.0
OBJECTS = {"a": stored_queue("ThroughputQueue", "a", "queue"), "b": stored_queue("ThroughputQueue", "b", "queue")}
HALVES = np.array([0.5, 0.5])


def snapshot(*used_and_wanted: tuple[float, float]) -> ClusterSnapshot:
    """Ten cpu; one queue for each pair of cpu."""
    used, wanted = np.array(used_and_wanted).T.reshape(2, -1, 1)
    ten = np.array([10.0])
    return ClusterSnapshot(("cpu",), ten, ten, (), wanted, used, np.zeros_like(used))


class Clock:
    """Looks at a cluster at times in hours since Monday."""

    def __init__(self, objects: dict[str, Any] = OBJECTS) -> None:
        self.use, self.step = WeeklyUse(), 0.0
        self.use.lay_out(objects, MONDAY, 0.0)

    def look(self, hour: float, *queues: tuple[float, float]) -> None:
        self.use.look(snapshot(*queues), HALVES[: len(queues)], MONDAY + hour * HOUR + self.step, hour * HOUR)

    def told(self, uid: str) -> tuple[float, float | None]:
        sums = self.use.of(uid)
        assert sums is not None
        week = sums.week
        assert week is not None
        return round(week.used, 6), None if week.served is None else round(week.served, 6)


def test_weeks_begin_on_monday_at_midnight() -> None:
    assert week_of(MONDAY) == week_of(MONDAY + WEEK_SECONDS - 1) == MONDAY
    assert week_of(MONDAY - 1) == MONDAY - WEEK_SECONDS


def test_use_is_compared_with_the_fair_share_and_waiting_with_what_was_wanted_up_to_it() -> None:
    clock = Clock()
    clock.look(0, (10, 10), (0, 10))  # one hour: a has all, b waits
    clock.look(1, (5, 10), (5, 10))  # one hour: each has its half
    clock.look(2, (0, 0), (2, 2))
    assert clock.told("a") == (150.0, 100.0)
    assert clock.told("b") == (50.0, 50.0)


def test_a_queue_that_wanted_nothing_was_not_kept_waiting() -> None:
    clock = Clock()
    clock.look(0, (0, 0), (0, 0))
    clock.look(5, (0, 0), (0, 0))
    assert clock.told("a") == (0.0, None)


def test_a_week_ends_at_midnight_between_two_looks() -> None:
    clock = Clock()
    week = WEEK_SECONDS / HOUR
    clock.look(week - 2, (5, 5), (0, 0))
    clock.look(week + 1, (0, 0), (0, 0))
    sums = clock.use.of("a")
    assert sums is not None
    assert sums.since == MONDAY + WEEK_SECONDS
    assert sums.last is not None
    assert (sums.last.since, sums.last.used) == (MONDAY, 100.0)
    assert clock.told("a") == (100.0, 100.0)
    clock.look(week + 2, (0, 0), (0, 0))
    assert clock.told("a") == (50.0, 100.0)


def test_a_wall_clock_that_steps_adds_no_use() -> None:
    clock = Clock()
    clock.look(0, (5, 5), (0, 0))
    clock.step = 6 * HOUR
    clock.look(1, (0, 0), (0, 0))
    sums = clock.use.of("a")
    assert sums is not None
    assert sums.values[0] == pytest.approx(0.5 * HOUR)


def test_rows_that_move_take_their_sums_along() -> None:
    clock = Clock()
    clock.look(0, (5, 5), (0, 5))
    clock.use.lay_out({"c": OBJECTS["a"], "a": OBJECTS["a"]}, MONDAY + HOUR, HOUR)
    clock.look(1, (0, 0), (0, 0))
    clock.look(2, (0, 0), (0, 0))
    assert clock.told("a") == (50.0, 100.0)
    assert clock.use.of("b") is None
    assert clock.told("c") == (0.0, None)


class TestStatus:
    """Figures are read back as written, and are not written again while they foretell the present ones."""

    @staticmethod
    def sums(hours: float, used: float) -> WeekSums:
        """A queue that has used so much of the pool, and wanted no more; its fair share is a half."""
        values = tuple(share * hours * HOUR for share in (used, 0.5, min(used, 0.5), min(used, 0.5)))
        return WeekSums(MONDAY, MONDAY + hours * HOUR, values)

    @staticmethod
    def status(parts: dict[str, Any]) -> dict[str, Any]:
        parts = dict(parts)
        return {"internal": {"week": parts.pop("account")}} | parts

    def test_a_restart_goes_on_with_the_sums(self) -> None:
        clock = Clock()
        clock.look(0, (5, 5), (1, 8))
        clock.look(3, (2, 2), (1, 8))
        parts = week_parts(clock.use.of("b"), {})  # type: ignore[arg-type]
        assert parts["week"] == {"since": "2026-01-05T00:00:00Z", "usedPercent": 20, "servedPercent": 20}
        again = WeeklyUse()
        again.lay_out({"b": stored_queue("ThroughputQueue", "b", "queue", status=self.status(parts))}, MONDAY + 4 * HOUR, 77.0)
        clock.look(4, (2, 2), (1, 8))
        assert again.of("b").values == pytest.approx(clock.use.of("b").values)  # type: ignore[union-attr]

    def test_a_restart_in_the_next_week_tells_the_last_one_and_begins_with_nothing(self) -> None:
        stored = self.status(week_parts(self.sums(100, used=0.25), {}))
        again, now = WeeklyUse(), MONDAY + WEEK_SECONDS + HOUR
        again.lay_out({"a": stored_queue("ThroughputQueue", "a", "queue", status=stored)}, now, 77.0)
        sums = again.of("a")
        assert sums is not None
        assert sums.last is not None
        assert (sums.last.since, round(sums.last.used), sums.since, sums.values) == (MONDAY, 50, now, (0.0,) * 4)

    def test_figures_that_stay_are_never_written_again(self) -> None:
        stored = self.status(week_parts(self.sums(10, used=0.25), {}))
        assert self.status(week_parts(self.sums(150, used=0.25), stored)) == stored

    @pytest.mark.parametrize("part_of_a_microsecond", [0.0, 2.4e-7, 4.8e-7, 7.2e-7])
    def test_a_week_that_began_between_two_microseconds_is_not_written_at_each_look(self, part_of_a_microsecond: float) -> None:
        """A double holds times of today to a quarter of a microsecond, a status to a whole one."""
        since = MONDAY + 0.361405 + part_of_a_microsecond
        sums = WeekSums(since, since + 80, (10.0, 40.0, 10.0, 10.0))
        stored = self.status(week_parts(sums, {}))
        assert self.status(week_parts(sums.at(since + 85), stored)) == stored

    def test_a_change_of_less_than_a_point_is_not_written(self) -> None:
        stored = self.status(week_parts(self.sums(100, used=0.25), {}))
        assert self.status(week_parts(self.sums(101, used=0.2545), stored)) == stored
        assert self.status(week_parts(self.sums(101, used=0.2555), stored)) != stored

    def test_a_change_is_written_after_some_minutes_and_not_before(self) -> None:
        stored = self.status(week_parts(self.sums(1, used=0.25), {}))
        soon, later = 1 + (MOST_OFTEN_SECONDS - 1) / HOUR, 1 + MOST_OFTEN_SECONDS / HOUR
        assert self.status(week_parts(self.sums(soon, used=0.5), stored)) == stored
        assert week_parts(self.sums(later, used=0.5), stored)["week"]["usedPercent"] == 100

    def test_a_new_week_is_told_at_once(self) -> None:
        stored = self.status(week_parts(self.sums(167.9, used=0.25), {}))
        began = MONDAY + WEEK_SECONDS
        last = self.sums(168, used=0.25).week
        fresh = WeekSums(began, began + 90, (0.0, 45.0, 0.0, 0.0), last)
        parts = week_parts(fresh, stored)
        assert parts["week"] == {"since": "2026-01-12T00:00:00Z", "usedPercent": 0}
        assert parts["lastWeek"] == {"since": "2026-01-05T00:00:00Z", "usedPercent": 50, "servedPercent": 100}

    def test_nothing_is_told_of_a_week_of_seconds(self) -> None:
        assert week_parts(self.sums(30 / HOUR, used=0.25), {}) == {}

    def test_nothing_is_written_for_a_queue_that_has_wanted_nothing(self) -> None:
        assert week_parts(WeekSums(MONDAY, MONDAY + HOUR, (0.0, 1800.0, 0.0, 0.0)), {}) == {}

    def test_a_queue_that_has_just_begun_to_want_something_is_not_said_to_have_used_nothing(self) -> None:
        """Without that its figures would stay for minutes. A queue that got nothing of its fair share for a minute sees so."""
        just, long = (WeekSums(MONDAY, MONDAY + HOUR, (0.0, 1800.0, wanted, 0.0)) for wanted in (5.0, 31.0))
        assert week_parts(just, {}) == {}
        assert week_parts(long, {})["week"] == {"since": "2026-01-05T00:00:00Z", "usedPercent": 0, "servedPercent": 0}

    @pytest.mark.parametrize("broken", [5, {}, {"since": "soon"}, {"since": "2026-01-05T00:00:00Z"}])
    def test_sums_that_cannot_be_read_are_written_again(self, broken: Any) -> None:
        stored = self.status(week_parts(self.sums(1, used=0.25), {}))
        whole = self.sums(2, used=0.25)
        assert week_parts(whole, stored | {"internal": {"week": broken}})["account"] == sums_to_account(whole)


@pytest.mark.parametrize("seed", range(20))
def test_writing_now_and_then_loses_less_than_a_point(seed: int) -> None:
    """A queue whose use jumps all the time, looked at every minute for two days: what is stored foretells its figures at any time."""
    rng = np.random.default_rng(seed)
    clock = Clock({"a": OBJECTS["a"]})
    stored: dict[str, Any] = {}
    writes = 0
    for minute in range(2 * 24 * 60):
        used = float(rng.choice([0, 2, 5, 10]))
        clock.look(minute / 60, (used, used + float(rng.choice([0, 3]))))
        sums = clock.use.of("a")
        assert sums is not None
        parts = week_parts(sums, stored)
        fresh = TestStatus.status(parts) if parts else {}
        writes += fresh != stored
        stored = fresh
        if minute > 60 and minute % 10 == 0:
            again = WeeklyUse()
            again.lay_out({"a": stored_queue("ThroughputQueue", "a", "queue", status=stored)}, MONDAY + minute * 60, 0.0)
            told, true = again.of("a").week, sums.week  # type: ignore[union-attr]
            assert told is not None
            assert true is not None
            assert abs(told.used - true.used) <= 1.5 + 200 * MOST_OFTEN_SECONDS / (minute * 60)  # in five minutes, twice its share
    assert writes < 576 / 5, "a fifth of what five minutes allow"
