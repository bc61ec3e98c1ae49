"""Promises that change, that shrinking capacity breaks, and that come back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    EventKind,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    RoundEvent,
    RoundResult,
    Schedule,
    ScheduledBurst,
    Sporadic,
)
from tests.support.policy import Pool, latency, snapshot, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
SMALLER = "The smaller promise is in force at once."


class QuietPool:
    """A cluster without work; each call of `round` decides again, a second later."""

    def __init__(self, *capacity: float, config: PolicyConfig | None = None) -> None:
        self.capacity, self.config = list(capacity), config or PolicyConfig()
        self.memory, self.now = Memory(), START

    def round(self, *queues: QueueSpec) -> RoundResult:
        value = snapshot(queues, self.capacity, np.zeros((len(queues), len(self.capacity))))
        result, self.memory = decide(value, self.memory, self.config, self.now)
        self.now += 1.0
        return result

    def promise(self, name: str) -> QueueSpec:
        return self.memory.queues[name].promise


def told(result: RoundResult, kind: EventKind) -> list[RoundEvent]:
    return [event for event in result.events if event.kind is kind]


def bursting(name: str, order: float, cores: float, seconds: float = 10.0, weight: float = 1.0) -> QueueSpec:
    """Bursts of so many cores for so many seconds, once in 100 s."""
    return latency(name, order, [cores], seconds, Sporadic(100), weight=weight)


class TestChangedPromise:
    queue = latency("l/q", 1.0, [5.0], 10, Sporadic(100))

    @pytest.mark.parametrize("cores", [pytest.param(4.0, id="smaller"), pytest.param(9.0, id="larger: decided without the old one")])
    def test_one_that_fits_is_in_force_at_once(self, cores: float) -> None:
        pool, batch = QuietPool(10.0), throughput("t/q")
        pool.round(batch, self.queue)
        result = pool.round(batch, dataclasses.replace(self.queue, burst=Burst({"cpu": cores}, 10, 10)))
        assert result.classes[1] is HARD
        assert pool.promise("l/q").burst == Burst({"cpu": cores}, 10, 10)
        assert [event.kind for event in result.events] == [EventKind.PROMISE_CHANGED]

    def test_a_refused_one_leaves_the_old_in_force_and_is_told_once(self) -> None:
        pool, other = QuietPool(10.0), latency("o/q", 0.5, [10.0], 50, Sporadic(101))
        pool.round(other, self.queue)
        wanted = (other, dataclasses.replace(self.queue, weight=3.0))
        result = pool.round(*wanted)
        assert result.classes == (HARD, SOFT)
        assert pool.promise("l/q") == self.queue
        assert result.decisions[1].admission.reason == "PromiseChangeRejected"
        assert [event.kind for event in result.events] == [EventKind.PROMISE_CHANGE_REJECTED]
        assert pool.round(*wanted).events == ()


class TestConditionsOfAChange:
    def test_are_tested_without_the_old_promise(self) -> None:
        """The burst takes the whole fair share of a weight of 1, and half that of 2. Beside the old promise it would not be fair."""
        pool, spec = QuietPool(10.0), bursting("l/q", 0.0, 10.0, 100.0)
        assert pool.round(spec).classes == (HARD,)
        assert pool.round(dataclasses.replace(spec, weight=2.0)).classes == (HARD,)
        assert pool.promise("l/q").weight == 2.0

    def test_are_tested_against_the_windows_of_others_only(self) -> None:
        """Rates of 8 and 8 on 10 cores in windows that never meet; a rate of 9 meets its own old window and no other."""
        first, second = (latency(f"{name}/q", at, [8.0], 10, Periodic(40, START + 20 * at)) for at, name in enumerate("ab"))
        pool = QuietPool(10.0)
        assert pool.round(first, second).classes == (HARD, HARD)
        assert pool.round(first, dataclasses.replace(second, burst=Burst({"cpu": 9.0}, 10, 10))).classes == (HARD, HARD)

    def test_to_an_elastic_promise_free_a_second_change_of_the_same_round(self) -> None:
        """A burst of 0.4 leaves room for a weight of 2.5; one of 0.6 is not fair, and protects nothing."""
        spec, other = bursting("a/q", 0.0, 10.0, 40.0), throughput("b/q", 1.0)
        pool = QuietPool(10.0)
        assert pool.round(spec, other).classes == (HARD, ELASTIC)
        changed = dataclasses.replace(spec, burst=Burst({"cpu": 10.0}, 60, 60))
        assert pool.round(changed, dataclasses.replace(other, weight=2.0)).classes == (ELASTIC, ELASTIC)
        assert pool.promise("b/q").weight == 2.0

    def test_that_are_refused_cost_nothing(self) -> None:
        """The change would break another promise and be unfair itself; asking for it changes no class."""
        first, spec = bursting("a/q", 0.0, 4.0, 100.0), bursting("l/q", 1.0, 1.0)
        pool = QuietPool(10.0)
        assert pool.round(first, spec).classes == (HARD, HARD)
        result = pool.round(first, dataclasses.replace(spec, weight=3.0, burst=Burst({"cpu": 20.0}, 90, 90)))
        assert result.classes == (HARD, HARD)
        assert [event.kind for event in result.events] == [EventKind.PROMISE_CHANGE_REJECTED]

    def test_that_are_all_refused_leave_every_promise_in_force(self) -> None:
        pool, spec = QuietPool(10.0), bursting("l/q", 0.0, 5.0)
        pool.round(spec)
        pool.round(dataclasses.replace(spec, burst=Burst({"tpu": 1.0}, 10, 10)))
        assert pool.promise("l/q") == spec

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param({"cpu": 5.0}, {"cpu": 4.0}, id="less"),
            pytest.param({"cpu": 5.0, "memory": 2.0}, {"cpu": 5.0, "memory": 1.0}, id="the same of one, less of another"),
            pytest.param({"cpu": 5.0}, {"cpu": 4.0, "memory": 0.0}, id="none of another"),
        ],
    )
    def test_to_a_smaller_burst_are_in_force_at_once(self, before: dict[str, float], after: dict[str, float]) -> None:
        pool, spec = QuietPool(10.0, 10.0), dataclasses.replace(bursting("l/q", 0.0, 5.0), burst=Burst(before, 10, 10))
        pool.round(spec)
        changed = told(pool.round(dataclasses.replace(spec, burst=Burst(after, 10, 10))), EventKind.PROMISE_CHANGED)
        assert [(event.queue, event.message) for event in changed] == [("l/q", SMALLER)]

    def test_to_the_limits_of_a_throughput_queue_are_in_force_at_once(self) -> None:
        pool = QuietPool(10.0)
        pool.round(throughput("t/q", cpu=5.0))
        assert [event.message for event in pool.round(throughput("t/q", cpu=9.0)).events] == [SMALLER]

    def test_that_are_larger_or_move_are_decided_and_told_as_such(self) -> None:
        def scheduled(at: float, cores: float) -> QueueSpec:
            bursts = (ScheduledBurst(START + at, Burst({"cpu": cores}, 10, 10)),)
            return QueueSpec("s/q", QueueKind.LATENCY, (0.0, "s/q"), 1.0, None, Schedule(bursts))

        pool = QuietPool(10.0)
        pool.round(scheduled(20, 5.0))
        for spec in (scheduled(50, 5.0), scheduled(50, 6.0)):
            assert [event.message for event in pool.round(spec).events] == ["The changed promise is in force."]


class TestShrinkingCapacity:
    queues = (latency("a/q", 0.0, [4.0], 10, Sporadic(100)), latency("b/q", 1.0, [4.0], 10, Sporadic(100)))

    def test_the_newest_hard_queue_becomes_soft_first_and_comes_back(self) -> None:
        pool = QuietPool(8.0)
        assert pool.round(*self.queues).classes == (HARD, HARD)
        pool.capacity = [7.0]
        result = pool.round(*self.queues)
        assert result.classes == (HARD, SOFT)
        assert [(event.kind, event.warning) for event in result.events] == [(EventKind.CLASS_CHANGED, True)]
        pool.capacity = [8.0]
        result = pool.round(*self.queues)
        assert result.classes == (HARD, HARD)
        assert [(event.kind, event.warning) for event in result.events] == [(EventKind.CLASS_CHANGED, False)]

    def test_a_queue_whose_own_bursts_are_no_longer_fair_becomes_elastic_but_is_not_ejected(self) -> None:
        pool, queues = QuietPool(10.0), (throughput("t/q"), latency("a/q", 1.0, [10.0], 50, Sporadic(100)))
        assert pool.round(*queues).classes == (ELASTIC, HARD)
        pool.capacity = [9.0]
        assert pool.round(*queues).classes == (ELASTIC, ELASTIC)


class TestKeepingAndComingBack:
    def test_an_earlier_soft_queue_does_not_push_out_a_later_hard_one(self) -> None:
        """Rates of 6, 9 and 4. With 15 cores the second would fit beside the first, but the third was promised its 4 before."""
        queues = (bursting("a/q", 0.0, 6.0), bursting("b/q", 1.0, 9.0), bursting("c/q", 2.0, 4.0))
        pool = QuietPool(10.0)
        assert pool.round(*queues).classes == (HARD, SOFT, HARD)
        pool.capacity = [15.0]
        assert pool.round(*queues).classes == (HARD, SOFT, HARD)

    def test_a_queue_that_is_fair_again_is_soft_if_its_rate_does_not_fit(self) -> None:
        pool, queues = QuietPool(10.0), (bursting("a/q", 0.0, 6.0, 40.0), bursting("b/q", 1.0, 6.0, 50.0))
        assert pool.round(*queues).classes == (HARD, SOFT)
        pool.capacity = [5.5]
        assert pool.round(*queues).classes == (SOFT, ELASTIC)
        pool.capacity = [10.0]
        assert pool.round(*queues).classes == (HARD, SOFT)

    def test_without_a_soft_class_there_is_none_on_the_way_down_or_up(self) -> None:
        """N-BoPF: hard or elastic."""
        pool = QuietPool(10.0, config=PolicyConfig(soft_class=False))
        queues = (bursting("a/q", 0.0, 6.0, 40.0), bursting("b/q", 1.0, 6.0, 50.0))
        assert pool.round(*queues).classes == (HARD, ELASTIC)
        pool.capacity = [5.9]  # still fair for the first, but its rate does not fit
        assert pool.round(*queues).classes == (ELASTIC, ELASTIC)
        pool.capacity = [10.0]
        assert pool.round(*queues).classes == (HARD, ELASTIC)

    def back(self, *newcomers: QueueSpec, **changes: object) -> RoundResult:
        """The round in which capacity returns; the second queue's burst of 0.3 leaves room for a weight of 3.3."""
        pool, queues = QuietPool(10.0), (bursting("a/q", 0.0, 6.0, 20.0), bursting("b/q", 1.0, 6.0, 50.0))
        pool.round(*queues)
        pool.capacity = [5.5]
        assert pool.round(*queues).classes == (SOFT, ELASTIC)
        pool.capacity = [10.0]
        return pool.round(dataclasses.replace(queues[0], **changes), queues[1], *newcomers)  # type: ignore[arg-type]

    def test_a_promise_that_comes_back_counts_against_newcomers_of_the_same_round(self) -> None:
        assert self.back(throughput("n/q", 2.0, 2.0)).classes == (HARD, SOFT, None)

    def test_and_against_changes_of_the_same_round(self) -> None:
        result = self.back(weight=3.0)
        assert result.classes == (HARD, SOFT)
        assert [(event.queue, event.warning) for event in told(result, EventKind.PROMISE_CHANGE_REJECTED)] == [("a/q", True)]

    def test_a_change_of_class_is_told_with_its_direction(self) -> None:
        pool, queues = QuietPool(8.0), (bursting("a/q", 0.0, 4.0), bursting("b/q", 1.0, 4.0))
        pool.round(*queues)
        messages = []
        for capacity in (7.0, 8.0):
            pool.capacity = [capacity]
            messages += [event.message for event in told(pool.round(*queues), EventKind.CLASS_CHANGED)]
        assert messages[0].startswith("Class Hard became Soft: capacity or membership no longer allows the former. ")
        assert messages[1].startswith("Class Soft became Hard: capacity or membership now allows it. ")


class TestPromisesThatComeBackOrMove:
    def test_a_promise_that_comes_back_is_protected_again(self) -> None:
        """It is demoted for lack of capacity and promoted when capacity returns; a newcomer that would break it is rejected."""
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
        """The event names the outcome: in force, kept or another class, but never "smaller"."""
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
