"""The policies that the paper compares with (BoPF §2.3, §5.1), in cases that a person can work out."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given

from fairburst.policy.baselines import POLICIES
from fairburst.policy.dress.values import DressConfig
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
)
from fairburst.policy.tolerance import TIME_STEP_SECONDS
from tests.support.dress import jobs_part
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()
HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
WITHOUT_WINDOWS = ("drf", "sp", "capacity", "static", "m-bvt", "edf")


def divided(name: str, queues: tuple[QueueSpec, ...], capacity: list[float], demand: object, unit: object = None) -> list[list[float]]:
    result, _ = POLICIES[name](snapshot(queues, capacity, demand, unit=unit), Memory(), CONFIG, START)
    return [[pytest.approx(amount) for amount in row] for row in result.allocation.tolist()]


@pytest.mark.parametrize("name", WITHOUT_WINDOWS)
class TestEveryBaseline:
    def test_a_suspended_queue_has_nothing_and_takes_nothing_from_others(self, name: str) -> None:
        queues = (throughput("a/q", suspended=True), throughput("b/q", 1.0), latency("c/q", 2.0, [9.0], 1, Sporadic(9), suspended=True))
        result, _ = POLICIES[name](snapshot(queues, [9.0], [[9.0]] * 3), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[0.0], [9.0], [0.0]]
        assert result.classes == (None, ELASTIC, None)

    def test_a_limit_scales_down_a_queue_as_a_whole(self, name: str) -> None:
        queues = (throughput("a/q", cpu=1.0), throughput("b/q", 1.0))
        assert divided(name, queues, [10.0, 100.0], [[4.0, 8.0], [0.0, 0.0]]) == [[1.0, 2.0], [0.0, 0.0]]

    def test_a_queue_below_its_limit_has_what_it_wants(self, name: str) -> None:
        queues = (throughput("a/q", cpu=3.0), throughput("b/q", 1.0))
        assert divided(name, queues, [10.0, 100.0], [[3.0, 8.0], [2.0, 2.0]]) == [[3.0, 8.0], [2.0, 2.0]]

    def test_a_limit_of_nothing_is_a_limit(self, name: str) -> None:
        queues = (throughput("a/q", cpu=0.0), throughput("b/q", 1.0, cpu=0.0))
        assert divided(name, queues, [10.0, 100.0], [[0.0, 5.0], [4.0, 8.0]]) == [[0.0, 5.0], [0.0, 0.0]]

    def test_nobody_is_a_round_too(self, name: str) -> None:
        result, _ = POLICIES[name](snapshot((), [10.0], []), Memory(), CONFIG, START)
        assert (result.allocation.shape, result.next_boundary) == ((0, 1), math.inf)

    def test_the_result_says_what_was_decided_and_promises_nothing(self, name: str) -> None:
        queues = (throughput("a/q"), latency("b/q", 1.0, [1.0], 1, Sporadic(9)))
        given = snapshot(queues, [10.0], [[4.0], [2.0]])
        result, _ = POLICIES[name](given, Memory(), CONFIG, START)
        assert (result.now, result.queues, result.classes, result.events) == (START, queues, (ELASTIC, ELASTIC), ())
        assert result.allocation.tolist() == result.guaranteed.tolist() == result.level.tolist() == [[4.0], [2.0]]
        assert result.charge_rate.tolist() == [0.0, 0.0]
        assert result.next_boundary >= START + TIME_STEP_SECONDS
        for decision, spec, want in zip(result.decisions, queues, (4.0, 2.0), strict=True):
            assert (decision.queue, decision.guarantee_class, decision.window) == (spec.name, ELASTIC, None)
            assert (decision.allocation.tolist(), decision.spare.tolist(), decision.share) == ([want], [0.0], 0.5)
            assert (decision.ledger, decision.charge_rate, decision.budget, decision.fair_share_of_period) == (
                pytest.approx(0.0),
                0.0,
                0.0,
                0.0,
            )
            assert decision.admission.guarantee_class is ELASTIC


class TestDivision:
    @pytest.mark.parametrize("name", ["drf", "sp", "m-bvt"])
    def test_whole_pods_are_handed_out_as_bopf_does(self, name: str) -> None:
        """Three queues of 2-core pods on 10 cores: 3.33 each; by name, two get a second pod."""
        queues = tuple(throughput(f"{letter}/q", float(n)) for n, letter in enumerate("cba"))
        assert divided(name, queues, [10.0], [[20.0]] * 3, [[2.0]] * 3) == [[2.0], [4.0], [4.0]]

    def test_a_static_part_is_by_weight_and_not_rounded_into_somebody_elses(self) -> None:
        queues = (throughput("a/q", weight=3.0), throughput("b/q", 1.0), throughput("c/q", 2.0, suspended=True))
        assert divided("static", queues, [10.0], [[20.0], [20.0], [20.0]], [[4.0]] * 3) == [[7.5], [2.5], [0.0]]

    def test_drf_divides_by_dominant_share(self) -> None:
        """The DRF paper's example: <1,4> and <3,1> on <9,18> end at a dominant share of 2/3 each."""
        queues = (throughput("a/q"), throughput("b/q", 1.0))
        assert divided("drf", queues, [9.0, 18.0], [[9.0, 36.0], [27.0, 9.0]]) == [[3.0, 12.0], [6.0, 2.0]]

    def test_strict_priority_leaves_batch_what_bursts_do_not_want(self) -> None:
        """BoPF §5.1: latency queues first, resource by resource; batch shares the rest."""
        queues = (throughput("a/q"), latency("b/q", 1.0, [4.0, 10.0], 1, Sporadic(9)))
        assert divided("sp", queues, [10.0, 100.0], [[10.0, 100.0], [4.0, 10.0]]) == [[6.0, 60.0], [4.0, 10.0]]

    def test_first_come_first_served_in_creation_order(self) -> None:
        queues = (throughput("b/q"), throughput("a/q", 1.0), throughput("c/q", 2.0))
        assert divided("capacity", queues, [10.0], [[6.0], [8.0], [1.0]]) == [[6.0], [4.0], [0.0]]


class TestBorrowedVirtualTime:
    """M-BVT (BoPF §2.3): E = A - W, the least runs; A advances by dominant share x dt / weight."""

    def test_the_warp_is_the_burst_over_capacity_and_weight_and_who_catches_up_ends_the_round(self) -> None:
        """W = 8 and 4 s; the first runs at half the cluster, the second at the other half, and batch is met 4 / 0.5 s later."""
        queues = (
            throughput("t/q"),
            latency("a/q", 1.0, [8.0], 10, Sporadic(100)),
            latency("b/q", 2.0, [8.0], 10, Sporadic(100), weight=2.0),
        )
        result, memory = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0], [5.0], [10.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[0.0], [5.0], [5.0]]
        assert [memory.queues[name].ledger_rate for name in ("t/q", "a/q", "b/q")] == [0.0, 0.5, 0.25]
        assert result.next_boundary == pytest.approx(START + 4.0 / (0.5 - 0.25))

    def test_of_two_that_will_be_met_the_earlier_ends_the_round(self) -> None:
        """E = -8, -2, 0: the first has the cluster and comes up with the second after 6 s."""
        queues = (throughput("t/q"), latency("a/q", 1.0, [8.0], 10, Sporadic(100)), latency("b/q", 2.0, [2.0], 10, Sporadic(100)))
        result, _ = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0]] * 3), Memory(), CONFIG, START)
        assert (result.allocation.tolist(), result.next_boundary) == ([[0.0], [10.0], [0.0]], pytest.approx(START + 6.0))

    def test_of_queues_side_by_side_the_fastest_is_the_first_to_be_met(self) -> None:
        """E = -8 for two, which have 8 and 2 of 10 cores: the faster comes up with batch after 8 / 0.8 s, whichever is listed first."""
        for wants in ([8.0, 2.0], [2.0, 8.0]):
            bursts = tuple(latency(f"{name}/q", 1.0, [8.0], 10, Sporadic(100)) for name in "ab")
            given = snapshot((*bursts, throughput("t/q", 2.0)), [10.0], [[amount] for amount in (*wants, 10.0)])
            assert POLICIES["m-bvt"](given, Memory(), CONFIG, START)[0].next_boundary == pytest.approx(START + 10.0)

    def test_who_is_met_in_no_time_is_met_a_time_step_later(self) -> None:
        """A burst of a hundred-thousandth of a second."""
        queues = (throughput("t/q"), latency("a/q", 1.0, [1e-5], 10, Sporadic(100)))
        result, _ = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0]] * 2), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[0.0], [10.0]]
        assert result.next_boundary == START + TIME_STEP_SECONDS

    def test_queues_of_equal_time_run_on_together_by_weight(self) -> None:
        queues = (throughput("a/q"), throughput("b/q", 1.0, weight=3.0))
        result, memory = POLICIES["m-bvt"](snapshot(queues, [8.0], [[8.0]] * 2), Memory(), CONFIG, START)
        assert (result.allocation.tolist(), result.next_boundary) == ([[2.0], [6.0]], math.inf)
        later, _ = POLICIES["m-bvt"](snapshot(queues, [8.0], [[8.0]] * 2), memory, CONFIG, START + 5)
        assert later.allocation.tolist() == [[2.0], [6.0]]

    def test_what_the_least_leave_goes_to_those_behind_them_resource_by_resource(self) -> None:
        queues = (throughput("t/q"), latency("a/q", 1.0, [8.0, 1.0], 10, Sporadic(100)))
        assert divided("m-bvt", queues, [10.0, 100.0], [[10.0, 100.0], [4.0, 10.0]]) == [[6.0, 60.0], [4.0, 10.0]]

    def test_the_warp_of_a_schedule_is_that_of_its_heaviest_burst(self) -> None:
        """10 s of 2, then of 8 of 10 cores: W = 8, and batch is met after 8 s; of memory they need a hundredth at most."""
        bursts = tuple(
            ScheduledBurst(START + at, Burst({"cpu": amount, "memory": 10.0}, 10, 10)) for at, amount in ((0, 2.0), (50, 8.0), (90, 1.0))
        )
        queues = (throughput("t/q"), QueueSpec("s/q", QueueKind.LATENCY, (1.0, "s/q"), arrival=Schedule(bursts)))
        result, _ = POLICIES["m-bvt"](snapshot(queues, [10.0, 1000.0], [[10.0, 0.0]] * 2), Memory(), CONFIG, START)
        assert (result.allocation[:, 0].tolist(), result.next_boundary) == ([0.0, 10.0], pytest.approx(START + 8.0))

    def test_who_wakes_has_saved_up_nothing(self) -> None:
        """A is raised to the least virtual time of those already backlogged: 6 and 7 s here, so the sleeper begins at 6."""
        queues = (throughput("a/q"), throughput("b/q", 1.0), throughput("c/q", 2.0))
        demand = snapshot(queues, [10.0], [[5.0], [5.0], [10.0]])
        times = (6.0, 7.0, 2.0)
        asleep = (START, START, math.inf)
        known = POLICIES["m-bvt"](demand, Memory(), CONFIG, START)[1].queues
        memory = Memory(
            {
                spec.name: dataclasses.replace(known[spec.name], ledger_value=value, ledger_rate=0.0, period_started=since)
                for spec, value, since in zip(queues, times, asleep, strict=True)
            },
            5,
        )
        result, after = POLICIES["m-bvt"](demand, memory, CONFIG, START + 10)
        assert [after.queues[spec.name].ledger_value for spec in queues] == [6.0, 7.0, 6.0]
        assert result.allocation.tolist() == [[5.0], [0.0], [5.0]]
        assert after.next_admission_order == 5

    def test_who_wakes_ahead_of_all_others_stays_there(self) -> None:
        queues = (throughput("a/q"), throughput("b/q", 1.0))
        known = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0], [0.0]]), Memory(), CONFIG, START)[1].queues
        assert [known[name].period_started for name in ("a/q", "b/q")] == [START, math.inf]
        ahead = Memory({**known, "b/q": dataclasses.replace(known["b/q"], ledger_value=9.0)})
        result, after = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0], [10.0]]), ahead, CONFIG, START + 4)
        assert [after.queues[spec.name].ledger_value for spec in queues] == [4.0, 9.0]
        assert (result.allocation.tolist(), result.next_boundary) == ([[10.0], [0.0]], pytest.approx(START + 9.0))

    def test_a_sleeping_queue_holds_nobody_back(self) -> None:
        """Its time stands still at 0 while the others' runs on: it is not among the backlogged."""
        queues = (throughput("a/q"), throughput("b/q", 1.0), throughput("c/q", 2.0))
        memory, wants = Memory(), [[10.0], [0.5], [0.0]]
        for seconds in (0.0, 4.0):
            _, memory = POLICIES["m-bvt"](snapshot(queues, [10.0], wants), memory, CONFIG, START + seconds)
            assert memory.queues["c/q"].ledger_value == 0.0
        result, after = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0], [0.0], [10.0]]), memory, CONFIG, START + 8)
        assert after.queues["b/q"].ledger_value == pytest.approx(0.05 * 8)
        assert after.queues["c/q"].ledger_value == after.queues["a/q"].ledger_value
        assert result.allocation.tolist() == [[5.0], [0.0], [5.0]]

    def test_what_is_remembered_is_the_queue_as_it_is(self) -> None:
        queues = (throughput("a/q"), throughput("b/q", 1.0))
        _, memory = POLICIES["m-bvt"](snapshot(queues, [10.0], [[10.0], [10.0]]), Memory(next_admission_order=3), CONFIG, START)
        entry = memory.queues["b/q"]
        assert (entry.promise, entry.guarantee_class, entry.admission_order) == (queues[1], ELASTIC, 1)
        assert (entry.ledger_value, entry.ledger_rate, entry.ledger_as_of) == (0.0, 0.5, START)
        assert memory.next_admission_order == 3


class TestEarliestDeadlineFirst:
    """Liu and Layland (JACM 1973): the burst with the earliest deadline has all that it wants; throughput queues share the rest."""

    def decided(self, queues: tuple[QueueSpec, ...], *rounds: tuple[float, list[list[float]]]) -> list[list[float]]:
        """Rounds of (seconds after the start, demand) on 10 cores; the allocation of the last."""
        memory, allocation = Memory(), list[list[float]]()
        for seconds, demand in rounds:
            result, memory = POLICIES["edf"](snapshot(queues, [10.0], demand), memory, CONFIG, START + seconds)
            allocation = [[pytest.approx(amount) for amount in row] for row in result.allocation.tolist()]
        return allocation

    def bursts(self) -> tuple[QueueSpec, ...]:
        """Deadlines of 40 s and of 10 s, and two batch queues of weights 1 and 3."""
        return (
            latency("slow/q", 0.0, [6.0], 10, Sporadic(100), 40),
            latency("quick/q", 1.0, [6.0], 10, Sporadic(100)),
            throughput("one/q", 2.0),
            throughput("three/q", 3.0, weight=3.0),
        )

    def test_of_two_bursts_at_once_the_earlier_deadline_has_all_that_it_wants(self) -> None:
        """10 cores: 6 for the deadline of 10 s, the remaining 4 for that of 40 s, none for batch."""
        assert self.decided(self.bursts(), (0, [[6.0], [6.0], [10.0], [10.0]])) == [[4.0], [6.0], [0.0], [0.0]]

    def test_what_bursts_leave_is_shared_by_weight(self) -> None:
        """10 - 6 = 4 cores by weights 1 and 3; without a burst 10."""
        assert self.decided(self.bursts(), (0, [[0.0], [6.0], [10.0], [10.0]])) == [[0.0], [6.0], [1.0], [3.0]]
        assert self.decided(self.bursts(), (0, [[0.0], [0.0], [10.0], [10.0]])) == [[0.0], [0.0], [2.5], [7.5]]

    def test_deadlines_count_from_the_beginning_of_each_burst(self) -> None:
        """The slow burst begins at 0 and is due at 40. A quick one that begins at 29 is due at 39, one that begins at 31 at 41."""
        slow, both = [[6.0], [0.0], [10.0], [10.0]], [[6.0], [6.0], [10.0], [10.0]]
        assert self.decided(self.bursts(), (0, slow), (29, both)) == [[4.0], [6.0], [0.0], [0.0]]
        assert self.decided(self.bursts(), (0, slow), (31, both)) == [[6.0], [4.0], [0.0], [0.0]]

    def test_a_burst_that_ended_leaves_no_deadline_behind(self) -> None:
        """The slow queue's burst of second 0 ends; its next begins at 60 and is due at 100, after the quick one of 85, due at 95."""
        slow, none, both = ([[amount], [other], [10.0], [10.0]] for amount, other in ((6.0, 0.0), (0.0, 0.0), (6.0, 6.0)))
        assert self.decided(self.bursts(), (0, slow), (30, none), (60, slow), (85, both)) == [[4.0], [6.0], [0.0], [0.0]]
        assert self.decided(self.bursts(), (0, slow), (60, slow), (85, both)) == [[6.0], [4.0], [0.0], [0.0]]

    def test_a_scheduled_burst_has_its_own_deadline(self) -> None:
        """Bursts at 0, due 5 s later, and at 50, due 90 s later; the sporadic one is due 40 s after its beginning."""
        schedule = tuple(ScheduledBurst(START + at, Burst({"cpu": 6.0}, 5, deadline)) for at, deadline in ((0, 5), (50, 90)))
        queues = (
            latency("slow/q", 0.0, [6.0], 10, Sporadic(100), 40),
            QueueSpec("s/q", QueueKind.LATENCY, (1.0, "s/q"), arrival=Schedule(schedule)),
        )
        both, none = [[6.0], [6.0]], [[0.0], [0.0]]
        assert self.decided(queues, (0, both)) == [[4.0], [6.0]]
        assert self.decided(queues, (0, both), (20, none), (50, both)) == [[6.0], [4.0]]

    def test_of_equal_deadlines_the_older_queue_is_first(self) -> None:
        queues = tuple(latency(f"{name}/q", order, [8.0], 10, Sporadic(100)) for order, name in enumerate("ba"))
        assert self.decided(queues, (0, [[8.0], [8.0]])) == [[8.0], [2.0]]


class TestVariantsOfBopf:
    def test_naive_bopf_knows_no_soft_class(self) -> None:
        """BoPF §5.1; otherwise it is BoPF: classes granted are remembered, windows move with the clock."""
        queues = (latency("a/q", 0.0, [6.0], 10, Periodic(100, START)), latency("b/q", 1.0, [6.0], 10, Periodic(100, START)))
        config = dataclasses.replace(CONFIG, expected_queues=2.5)
        given = snapshot(queues, [10.0], [[6.0], [6.0]])
        first, memory = POLICIES["n-bopf"](given, Memory(), config, START)
        assert (first.now, first.classes) == (START, (HARD, ELASTIC))
        assert POLICIES["bopf"](given, Memory(), config, START)[0].classes == (HARD, SOFT)
        assert first.allocation.tolist() == [[6.0], [4.0]]
        again, _ = POLICIES["n-bopf"](given, memory, config, START + 1)
        assert again.decisions[0].window is not None
        assert again.decisions[0].window.opened == START

    def test_dress_is_bopf_with_a_reserve_by_its_defaults_or_by_the_settings(self) -> None:
        """Its memory goes from round to round: δ is adjusted once a second."""
        given = dataclasses.replace(snapshot((throughput("a/q"),), [10.0], [[10.0]]), jobs=jobs_part((), (), (), 1))
        result, memory = POLICIES["dress"](given, Memory(), CONFIG, START)
        assert result.dress is not None
        assert result.dress.size_limit.tolist() == [10.0 * DressConfig().size_threshold]
        settings = dataclasses.replace(CONFIG, dress=DressConfig(size_threshold=0.4))
        later, memory = POLICIES["dress"](given, memory, settings, START + 0.5)
        assert (later.now, later.dress.size_limit.tolist() if later.dress else None) == (START + 0.5, [4.0])
        assert memory.dress is not None
        assert memory.dress.adjusted_at == START


class TestBaselines:
    capacity = (90.0,)
    queues = (throughput("a/t"), latency("b/l", 1.0, [90.0], 10, Sporadic(100)), latency("c/l", 2.0, [90.0], 10, Sporadic(100)))

    @pytest.mark.parametrize(
        ("name", "want"),
        [
            pytest.param("drf", [30.0, 30.0, 30.0], id="drf divides evenly"),
            pytest.param("sp", [0.0, 45.0, 45.0], id="strict priority starves batch"),
            pytest.param("capacity", [90.0, 0.0, 0.0], id="first come first served"),
            pytest.param("static", [30.0, 30.0, 30.0], id="static parts"),
            pytest.param("m-bvt", [0.0, 45.0, 45.0], id="equal warps share in DRF fashion"),
        ],
    )
    def test_division_of_a_full_cluster(self, name: str, want: list[float]) -> None:
        result, _ = POLICIES[name](snapshot(self.queues, self.capacity, [[90.0]] * 3), Memory(), CONFIG, START)
        assert result.allocation[:, 0].tolist() == pytest.approx(want)
        assert result.decisions[0].queue == "a/t"

    def test_static_parts_stay_idle_when_not_wanted(self) -> None:
        result, _ = POLICIES["static"](snapshot(self.queues, self.capacity, [[90.0], [0.0], [0.0]]), Memory(), CONFIG, START)
        assert result.allocation[:, 0].tolist() == pytest.approx([30.0, 0.0, 0.0])

    def test_m_bvt_of_one_resource_is_borrowed_virtual_time(self) -> None:
        """Duda and Cheriton §3: A advances by use over weight, the least E = A - W runs; here in quanta, one thread a time."""
        queues = (throughput("a/t"), throughput("b/t", 1.0), latency("c/l", 2.0, [8.0], 10, Sporadic(100)))
        demand = np.full((3, 1), 10.0)
        memory, now, fluid = Memory(), START, np.zeros(3)
        while now < START + 60:
            result, memory = POLICIES["m-bvt"](snapshot(queues, [10.0], demand), memory, CONFIG, now)
            step = min(result.next_boundary, START + 60) - now
            fluid += result.allocation[:, 0] / 10.0 * step
            now += step
        virtual, warp, ran, quantum = np.zeros(3), np.array([0.0, 0.0, 8.0]), np.zeros(3), 0.01
        for _ in range(6000):
            thread = int(np.argmin(virtual - warp))
            virtual[thread] += quantum
            ran[thread] += quantum
        assert fluid == pytest.approx(ran, abs=0.1)

    @given(snapshots())
    def test_every_baseline_stays_within_capacity_and_demand(self, value: ClusterSnapshot) -> None:
        for policy in POLICIES.values():
            result, _ = policy(value, Memory(), CONFIG, START)
            assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-7)).all()
            assert (result.allocation <= value.demand + 1e-9).all()
