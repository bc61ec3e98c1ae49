"""Decisions at the edges of the core's rules, one small case each; most of them were found by mutation testing (docs/mutation.md)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from fairburst.policy.decide import decide
from fairburst.policy.drf import divide_tasks, fill
from fairburst.policy.errors import InvalidSnapshotError
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    EventKind,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
    WindowState,
)
from tests.support.policy import Pool, latency, snapshot, throughput
from tests.support.strategies import START, snapshots

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
CONFIG = PolicyConfig()


def scaled(value: ClusterSnapshot, factor: float) -> ClusterSnapshot:
    """The same cluster with every amount written in a unit `1 / factor` times as large."""

    def burst(one: Burst | None) -> Burst | None:
        return one and dataclasses.replace(one, resources={name: amount * factor for name, amount in one.resources.items()})

    def arrival(spec: QueueSpec) -> object:
        if not isinstance(spec.arrival, Schedule):
            return spec.arrival
        return Schedule(tuple(ScheduledBurst(item.arrival, burst(item.burst) or item.burst) for item in spec.arrival.bursts))

    queues = tuple(
        dataclasses.replace(
            spec, burst=burst(spec.burst), arrival=arrival(spec), limits={name: amount * factor for name, amount in spec.limits.items()}
        )
        for spec in value.queues
    )
    arrays = {name: getattr(value, name) * factor for name in ("live_capacity", "committed_capacity", "demand", "usage", "unit")}
    return dataclasses.replace(value, queues=queues, **arrays)


class TestUnitsOfMeasureDoNotMatter:
    """Cores or millicores, bytes or gigabytes: decisions are the same. The factors are powers of two, so that nothing is rounded."""

    @given(snapshots())
    def test_a_pool_of_small_numbers_is_divided_like_one_of_large_numbers(self, value: ClusterSnapshot) -> None:
        for factor in (2.0**-12, 2.0**30):
            other, plain, memory, other_memory = scaled(value, factor), value, Memory(), Memory()
            for seconds in (0, 1, 4, 9, 31):
                result, memory = decide(plain, memory, CONFIG, START + seconds)
                same, other_memory = decide(other, other_memory, CONFIG, START + seconds)
                assert same.classes == result.classes
                assert same.allocation / factor == pytest.approx(result.allocation, rel=1e-6, abs=1e-6)
                assert same.charge_rate == pytest.approx(result.charge_rate, rel=1e-6, abs=1e-9)
                plain = dataclasses.replace(plain, usage=result.allocation.copy())
                other = dataclasses.replace(other, usage=result.allocation * factor)


@pytest.mark.parametrize("field", ["live_capacity", "committed_capacity", "demand", "usage", "unit"])
def test_a_quiet_round_too_refuses_a_shape_that_disagrees(field: str) -> None:
    """Where nothing happens nearly nothing is looked at; one axis more has the same bytes."""
    value = snapshot((throughput("t/q"),), [4.0], [[0.0]])
    _, memory = decide(value, Memory(), CONFIG, START)
    assert memory.columns is not None
    assert memory.columns.quiet is not None
    with pytest.raises(InvalidSnapshotError, match=f"{field}: expected shape"):
        decide(dataclasses.replace(value, **{field: getattr(value, field)[None]}), memory, CONFIG, START + 1)


@pytest.mark.parametrize("oldest", [{1: START}, {-1: START}, {0: float("nan")}, {0: float("inf")}], ids=str)
def test_the_age_of_work_of_no_queue_and_an_age_that_is_no_time_are_refused(oldest: dict[int, float]) -> None:
    value = dataclasses.replace(snapshot((throughput("t/q"),), [4.0], [[1.0]]), oldest_work=oldest)
    with pytest.raises(InvalidSnapshotError, match="oldest_work: expected rows of 1 queues"):
        decide(value, Memory(), CONFIG, START)


class TestAccountingPeriods:
    def test_a_queue_that_never_bursts_has_periods_too(self) -> None:
        """A trickle below the opening threshold: what it uses counts in its own period only, and F begins anew with each."""
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        pool.at(0, [100.0, 1.0], [9.0, 1.0])
        before = pool.at(99, [100.0, 1.0], [9.0, 1.0]).decisions[1]
        after = pool.at(130, [100.0, 1.0], [9.0, 1.0]).decisions[1]
        assert (before.ledger, after.ledger) == (pytest.approx(9.9), pytest.approx(3.0))
        assert after.fair_share_of_period == pytest.approx(50.0)
        assert pool.memory.queues["l/q"].period_started == START + 100

    def test_the_end_of_a_period_is_a_boundary(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        assert pool.at(0, [100.0, 0.0]).next_boundary == START + 100

    def test_several_periods_that_nobody_looked_at_leave_nothing_behind(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        pool.at(0, [100.0, 1.0], [9.0, 1.0])
        pool.at(450, [100.0, 1.0], [9.0, 1.0])
        memory = pool.memory.queues["l/q"]
        assert (memory.period_started, memory.debt) == (START + 400, 0.0)


class TestWindowsInTurn:
    def test_periodic_windows_are_numbered_and_placed_one_after_the_other(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Periodic(100, START + 50, 5)))
        pool.at(0)
        for number in range(4):
            opens = 55.0 + 100 * number
            window = pool.at(opens).decisions[1].window
            assert window is not None
            assert (window.state, window.index, window.opened) == (WindowState.OPEN, number, START + opens)
            closed = pool.at(opens + 10).decisions[1].window
            assert closed is not None
            assert (closed.state, closed.arms_at, closed.opens_by) == (WindowState.CLOSED, START + opens + 90, START + opens + 100)

    def test_two_schedules_in_one_pool_have_windows_of_their_own(self) -> None:
        def scheduled(name: str, order: float, *times: float) -> QueueSpec:
            bursts = tuple(ScheduledBurst(START + at, Burst({"cpu": 2.0}, 10, 10)) for at in times)
            return QueueSpec(name, QueueKind.LATENCY, (order, name), 1.0, None, Schedule(bursts))

        pool = Pool(scheduled("a/q", 0.0, 10, 40, 70), scheduled("b/q", 1.0, 25, 55))
        opened: dict[str, list[float]] = {"a/q": [], "b/q": []}
        for seconds in range(90):
            for event in pool.at(seconds).events:
                if event.kind is EventKind.BURST_OPENED:
                    opened[event.queue].append(seconds)
        assert opened == {"a/q": [10, 40, 70], "b/q": [25, 55]}

    def test_a_burst_that_is_nearly_delivered_is_not_yet_met(self) -> None:
        """d = 80; 7.9 for 9.5 s and 8 for 0.3 s make 77.45."""
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100), 15))
        pool.at(0, [0.0, 8.0], [0.0, 7.9])
        pool.at(9.5, [0.0, 8.0], [0.0, 8.0])
        events = pool.at(9.8, [0.0, 8.0], [0.0, 8.0]).events
        assert EventKind.BURST_MET not in [event.kind for event in events]
        events = pool.at(10.2, [0.0, 8.0], [0.0, 8.0]).events
        assert EventKind.BURST_MET in [event.kind for event in events]

    def test_a_burst_met_before_its_deadline_is_counted_once(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100), 15))
        for seconds in (0, 5, 10, 11, 12, 14, 15, 16):
            pool.at(seconds, [0.0, 8.0], [0.0, 8.0])
        memory = pool.memory.queues["l/q"]
        assert (memory.bursts, memory.met, memory.missed) == (1, 1, 0)

    def test_what_comes_at_the_deadline_comes_too_late_to_count(self) -> None:
        """Windows are half-open."""
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Periodic(100, START)))
        pool.at(0, [100.0, 0.0])
        pool.at(10, [100.0, 8.0])
        assert pool.memory.queues["l/q"].bursts == 0

    def test_a_window_that_may_still_run_because_of_its_jitter_is_not_skipped(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Periodic(100, START, 5)))
        window = pool.at(12, [100.0, 8.0]).decisions[1].window
        assert window is not None
        assert (window.state, window.index, window.deadline) == (WindowState.OPEN, 0, START + 15)

    @pytest.mark.parametrize(("first_wants", "want_warning"), [pytest.param(1.0, True, id="hard"), pytest.param(6.0, False, id="soft")])
    def test_a_missed_burst_is_told_with_what_was_delivered(self, first_wants: float, want_warning: bool) -> None:
        """A warning where the promise was hard: only there it is ours to keep."""
        first = latency("f/q", 0.0, [first_wants], 10, Sporadic(200))
        pool = Pool(first, latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        assert pool.at(0, [0.0, 8.0], [0.0, 4.0]).classes[1] is (HARD if want_warning else SOFT)
        told = [event for event in pool.at(10, [0.0, 8.0], [0.0, 4.0]).events if event.kind is EventKind.BURST_MISSED]
        assert [event.warning for event in told] == [want_warning]
        assert "50 %" in told[0].message


class TestPromisesThatComeBackOrMove:
    def test_a_promise_that_comes_back_is_protected_again(self) -> None:
        """Demoted for lack of capacity and promoted when it returns; a newcomer that would break it is rejected as before."""
        queues = (throughput("t/q"), latency("a/q", 1.0, [10.0], 50, Sporadic(100)))
        pool = Pool(*queues)
        assert pool.at(0).classes == (ELASTIC, HARD)
        pool.capacity = 9.0
        assert pool.at(1).classes == (ELASTIC, ELASTIC)
        pool.capacity = 10.0
        assert pool.at(2).classes == (ELASTIC, HARD)
        pool.queues = (*queues, throughput("n/q", 2.0))
        result = pool.at(3)
        assert result.classes == (ELASTIC, HARD, None)
        assert [(event.queue, event.warning) for event in result.events if event.kind is EventKind.REJECTED] == [("n/q", True)]

    def test_a_changed_arrival_buys_no_extra_burst(self) -> None:
        """The next window is no sooner than the former interarrival time after the last opening."""
        spec = latency("l/q", 1.0, [4.0], 10, Sporadic(100))
        pool = Pool(throughput("t/q"), spec)
        pool.at(0, [0.0, 4.0], [0.0, 4.0])
        pool.at(10, [0.0, 0.0])
        pool.queues = (pool.queues[0], dataclasses.replace(spec, arrival=Sporadic(50)))
        window = pool.at(20).decisions[1].window
        assert window is not None
        assert (window.state, window.arms_at) == (WindowState.CLOSED, START + 100)
        later = pool.at(100).decisions[1].window
        assert later is not None
        assert later.state is WindowState.ARMED

    def test_a_rejected_candidate_does_not_stand_in_the_way_of_the_next(self) -> None:
        """A promise of 0.4 of the cluster leaves room for weights up to 2.5 in all: not for 3 more, but for 1 more."""
        spec = latency("a/q", 0.0, [4.0], 100, Sporadic(100))
        result = Pool(spec, throughput("b/q", 1.0, 3.0), throughput("c/q", 2.0, 1.0)).at(0)
        assert result.classes == (HARD, None, ELASTIC)

    def test_a_change_and_a_newcomer_are_decided_in_one_round(self) -> None:
        spec = latency("a/q", 0.0, [4.0], 10, Sporadic(100))
        pool = Pool(spec)
        pool.at(0)
        larger = dataclasses.replace(spec, burst=Burst({"cpu": 5.0}, 10, 10))
        pool.queues = (larger, latency("b/q", 1.0, [5.0], 10, Sporadic(100)), throughput("c/q", 2.0))
        result = pool.at(1)
        assert result.classes == (HARD, HARD, ELASTIC)
        assert [(event.queue, event.kind) for event in result.events] == [
            ("a/q", EventKind.PROMISE_CHANGED), ("b/q", EventKind.ADMITTED), ("c/q", EventKind.ADMITTED),
        ]  # fmt: skip
        assert [decision.share for decision in result.decisions] == pytest.approx([1 / 3] * 3)

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"weight": 0.5}, id="another weight"),
            pytest.param({"arrival": Sporadic(101)}, id="another arrival"),
            pytest.param({"burst": Burst({"cpu": 1.0, "memory": 0.5}, 10, 10)}, id="another resource"),
            pytest.param({"burst": Burst({"cpu": 6.0}, 5, 5)}, id="less demand at a higher rate"),
            pytest.param({"burst": Burst({"cpu": 4.0}, 11, 11)}, id="a longer deadline"),
        ],
    )
    def test_what_is_not_smaller_is_decided_as_a_new_candidate(self, changes: dict[str, object]) -> None:
        """And the answer to it is told: in force, kept or another class, never "smaller"."""
        spec = latency("l/q", 0.0, [5.0], 10, Sporadic(100))
        pool = Pool(spec)
        assert pool.at(0).classes == (HARD,)
        full = latency("x/q", 1.0, [5.0], 10, Sporadic(100))
        pool.queues = (spec, full)
        assert pool.at(1).classes == (HARD, HARD)
        changed = dataclasses.replace(spec, **changes)  # type: ignore[arg-type]
        pool.queues = (changed, full)
        kinds = [(event.kind, event.message) for event in pool.at(2).events if event.queue == "l/q"]
        assert (EventKind.PROMISE_CHANGED, "The smaller promise is in force at once.") not in kinds
        assert kinds

    def test_a_moved_schedule_is_no_smaller_promise(self) -> None:
        def scheduled(at: float) -> QueueSpec:
            bursts = (ScheduledBurst(START + at, Burst({"cpu": 5.0}, 10, 10)),)
            return QueueSpec("s/q", QueueKind.LATENCY, (1.0, "s/q"), 1.0, None, Schedule(bursts))

        beside = latency("p/q", 0.0, [8.0], 10, Periodic(1000, START + 55))
        pool = Pool(beside, scheduled(20))
        assert pool.at(0).classes == (HARD, HARD)
        pool.queues = (beside, scheduled(50))
        assert pool.at(1).classes == (HARD, SOFT)


class TestWholeUnitsOfHardRates:
    def test_rates_are_rounded_up_only_as_far_as_capacity_goes(self) -> None:
        """Three rates of 2.5 in pods of 1 on 8.2: the first is rounded up to 3, and the 0.2 left are no 0.5 for the next."""
        queues = tuple(latency(f"l{row}/q", float(row), [2.5], 10, Sporadic(100)) for row in range(3))
        value = snapshot(queues, [8.2], [3.0, 3.0, 3.0], unit=[1.0, 1.0, 1.0])
        _, memory = decide(value, Memory(), CONFIG, START)
        result, _ = decide(value, memory, CONFIG, START + 1)
        assert result.guaranteed[:, 0].tolist() == pytest.approx([3.0, 2.5, 2.5])
        assert result.allocation.sum() <= 8.2 * (1 + 1e-9)


def divided(capacity: float, unit: list[float], wants: list[float], weight: list[float] | None = None) -> list[float]:
    """What throughput queues of these pods get in the first round."""
    queues = tuple(throughput(f"t{row}/q", float(row), one) for row, one in enumerate(weight or [1.0] * len(unit)))
    result, _ = decide(snapshot(queues, [capacity], wants, unit=unit), Memory(), CONFIG, START)
    return result.allocation[:, 0].tolist()


class TestWholeUnitsThatRoundingFrees:
    def test_the_largest_part_lost_is_made_up_for_first(self) -> None:
        """Shares of 3.9 and 6.1: the first lost 0.9 of a pod, the second 0.1."""
        assert divided(10.0, [1.0, 1.0], [99.0, 99.0], [3.9, 6.1]) == [4.0, 6.0]

    @pytest.mark.parametrize(
        ("capacity", "small", "want"),
        [
            pytest.param(60.0, [100.0], [60.0], id="all of it"),
            pytest.param(60.0, [30.0], [30.0], id="no more than wanted"),
            pytest.param(60.0, [19.0], [19.0], id="one more than every pass gives"),
            pytest.param(70.0, [40.0, 40.0], [40.0, 30.0], id="one queue after the other"),
        ],
    )
    def test_what_pods_too_large_leave_is_used_by_small_ones(self, capacity: float, small: list[float], want: list[float]) -> None:
        """Five queues whose pods of 100 don't fit at all have a share each; it is not left idle."""
        got = divided(capacity, [1.0] * len(small) + [100.0] * 5, small + [500.0] * 5)
        assert got == [*want, 0.0, 0.0, 0.0, 0.0, 0.0]

    def test_a_queue_at_zero_comes_before_a_larger_loss_even_beside_a_soft_burst(self) -> None:
        """Soft queue in its window, then who would have nothing, then who lost most."""
        hard = latency("h/q", 0.0, [10.0], 1.0, Sporadic(100))
        soft = latency("s/q", 1.0, [2.0], 10.0, Sporadic(100))
        queues = (hard, soft, throughput("a/q", 2.0, 4.0), throughput("b/q", 3.0, 1.0))
        value = snapshot(queues, [9.0], [0.0, 2.0, 99.0, 99.0], unit=[1.0, 1.0, 3.0, 2.0], committed=[10.0])
        memory = Memory()
        for seconds in (0, 1):
            result, memory = decide(value, memory, CONFIG, START + seconds)
        assert result.classes == (HARD, SOFT, ELASTIC, ELASTIC)
        assert result.allocation[:, 0].tolist() == [0.0, 2.0, 3.0, 4.0]

    def test_turns_are_taken_by_pods_of_half_a_core_as_by_large_ones(self) -> None:
        queues = tuple(throughput(f"t{row}/q", float(row)) for row in range(4))
        value = snapshot(queues, [1.0], [2.0] * 4, unit=[0.5] * 4)
        memory, served = Memory(), np.zeros(4)
        for step in range(60):
            result, memory = decide(value, memory, CONFIG, START + 10 * step)
            assert sorted(result.allocation[:, 0]) == [0.0, 0.0, 0.5, 0.5]
            served += result.allocation[:, 0]
        assert served.min() >= 0.8 * served.max()


def test_resources_that_run_out_one_after_the_other_are_all_accounted_for() -> None:
    """Of 1, 2 and 6: the first queue stops at 1, the second at 2, and both count in what the third has of the last resource."""
    wanted = np.array([[100.0, 0.0, 100.0], [0.0, 100.0, 100.0], [0.0, 0.0, 100.0]])
    multiple = fill(wanted, np.full(3, np.inf), np.ones(3), np.full(3, 10.0), np.array([1.0, 2.0, 6.0]))
    assert multiple == pytest.approx([0.01, 0.02, 0.03])


class TestDrfTaskByTask:
    """Ghodsi et al., NSDI 2011, Algorithm 1, with weights and with ends."""

    @pytest.mark.parametrize(
        ("task", "wanted", "weight", "capacity", "want"),
        [
            pytest.param([[1.0], [1.0]], [9, 9], [1.0, 2.0], [9.0], [3, 6], id="weights divide tasks"),
            pytest.param([[1.0], [1.0]], [2, 9], [1.0, 1.0], [9.0], [2, 7], id="who has no more tasks leaves the rest"),
            pytest.param([[1.0], [1.0]], [0, 9], [1.0, 1.0], [9.0], [0, 9], id="nothing wanted, nothing started"),
            pytest.param([[1.0], [1.0]], [1, 1], [1.0, 1.0], [9.0], [1, 1], id="one task each"),
            pytest.param([[4.0], [1.0]], [9, 9], [1.0, 1.0], [9.0], [1, 5], id="whose next task does not fit is passed over"),
            pytest.param([[2.0], [1.0]], [9, 9], [1.0, 1.0], [8.0], [2, 4], id="small tasks do not outrun large ones"),
            pytest.param([[0.0], [1.0]], [9, 9], [1.0, 1.0], [9.0], [0, 9], id="tasks that need nothing are not counted"),
            pytest.param([[1.0]], [9], [1.0], [3.0], [3], id="exactly all"),
        ],
    )
    def test_tasks_started(
        self, task: list[list[float]], wanted: list[int], weight: list[float], capacity: list[float], want: list[int]
    ) -> None:
        started = divide_tasks(np.array(task), np.array(wanted), np.array(weight), np.array(capacity))
        assert started.tolist() == want
