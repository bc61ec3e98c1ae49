"""What a soak counts, and the workloads of long runs; these need a control plane: `python -m benchmarks soak hard_queues`."""

from __future__ import annotations

import itertools

from benchmarks.scale.scenarios import CHURN_SECONDS, burst, many_bursts, steady
from benchmarks.soak import _quarters, warned


def test_the_log_is_counted_by_event_and_a_line_that_is_none_is_one() -> None:
    log = '{"level": "INFO", "event": "started"}\n{"level": "WARNING", "event": "slow"}\n{"level": "WARNING", "event": "slow"}\nTraceback'
    assert warned(log) == {"slow": 2, "Traceback": 1}


def test_the_last_quarter_is_compared_with_the_second() -> None:
    assert _quarters([9.0, 1.0, 3.0, 2.0, 5.0, 5.0, 7.0, 6.0]) == (3.0, 7.0)
    assert _quarters([1.0, 2.0]) == (2.0, 2.0)


def test_each_burst_of_a_soak_comes_when_the_one_before_has_ended_its_window() -> None:
    work = steady(100, 600.0)
    assert len(work.latency) == 10
    assert len(work.queues) == 100
    for plan in work.latency:
        times = [one.at for one in plan.bursts]
        assert all(later - earlier > work.apart_seconds for earlier, later in itertools.pairwise(times))
        assert times[-1] <= 600.0


def test_bursts_of_very_many_hard_queues_come_one_after_the_other_and_have_room_at_once() -> None:
    work = many_bursts(2000, 600.0)
    times = [one.at for plan in work.latency for one in plan.bursts]
    assert times == sorted(times)
    assert (len(times), times[-1] < 600.0) == (2000, True)
    assert 2000 * work.hard <= work.places


def test_a_burst_beside_churn_has_room() -> None:
    """The others run as many tasks at a time, whatever their number."""
    for queues in (30, 300):
        work = burst(queues, churn=True)
        running = sum(next(iter(plan.jobs)).tasks for plan in work.throughput if plan.backlog_tasks == 1)
        assert running == 80
        assert running + (work.pods or 0) < work.places
        assert {one.at for plan in work.latency for one in plan.bursts} == {CHURN_SECONDS}
    assert not any(list(itertools.islice(plan.jobs, 1)) for plan in burst(30).throughput)
