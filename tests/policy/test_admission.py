"""Admission: the paper's example, a slow reference over every burst of the hyperperiod, and candidates one by one."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.conditions import AdmissionState, loads
from fairburst.policy.decide import decide
from fairburst.policy.declared import compile_queues
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import (
    Burst,
    EventKind,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    RoundResult,
    Schedule,
    ScheduledBurst,
    Sporadic,
)
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
CONFIG = PolicyConfig()


def settle(
    queues: tuple[QueueSpec, ...], capacity: list[float], memory: Memory | None = None, config: PolicyConfig = CONFIG, now: float = START
) -> tuple[RoundResult, Memory]:
    nothing = np.zeros((len(queues), len(capacity)))
    return decide(snapshot(queues, capacity, nothing), memory or Memory(), config, now)


def classes(queues: tuple[QueueSpec, ...], capacity: list[float], config: PolicyConfig = CONFIG) -> list[GuaranteeClass | None]:
    return list(settle(queues, capacity, config=config)[0].classes)


def test_classes_of_the_paper_section_5_2_5() -> None:
    """Periods 150, 110 and 60 s, identical bursts, one throughput queue first: hard, soft, elastic (C = 1280 cores, 40 nodes)."""
    bursts = [latency(f"lq-{n}/q", 1.0 + n, [1200.0], 27, Periodic(p, START + 50 * (n + 1)), 27) for n, p in enumerate([150, 110, 60])]
    assert classes((throughput("tq-0/q"), *bursts), [1280.0]) == [ELASTIC, HARD, SOFT, ELASTIC]


def test_naive_bopf_has_no_soft_class() -> None:
    bursts = [latency(f"lq-{n}/q", 1.0 + n, [1200.0], 27, Periodic(p, START + 50 * (n + 1)), 27) for n, p in enumerate([150, 110, 60])]
    config = PolicyConfig(soft_class=False)
    assert classes((throughput("tq-0/q"), *bursts), [1280.0], config) == [ELASTIC, HARD, ELASTIC, ELASTIC]


def test_a_queue_that_would_break_a_promise_is_rejected_with_the_numbers() -> None:
    first = latency("a/q", 0.0, [50.0], 40, Sporadic(100))
    result, _ = settle((first, throughput("b/q", 1.0), throughput("c/q", 2.0)), [50.0])
    assert result.classes == (HARD, ELASTIC, None)
    decision = result.decisions[2].admission
    assert decision.reason == "BreaksEarlierPromise"
    assert decision.safety is not None
    assert (decision.safety.holds, decision.safety.left, decision.safety.binding_queue) == (False, 2000.0, "a/q")
    assert decision.safety.right == pytest.approx(50 * 100 / 3)
    assert "a/q" not in decision.message, "the owner of one queue learns no names of others"
    assert "2000" not in decision.message, "nor their sizes"
    assert any(event.kind is EventKind.REJECTED and event.queue == "c/q" for event in result.events)


def test_a_rejected_queue_is_admitted_first_come_first_served_when_another_leaves() -> None:
    first = latency("a/q", 0.0, [50.0], 40, Sporadic(100))
    everyone = (first, throughput("b/q", 1.0), throughput("c/q", 2.0), throughput("d/q", 3.0))
    result, memory = settle(everyone, [50.0])
    assert result.classes == (HARD, ELASTIC, None, None)
    result, _ = settle((first, *everyone[2:]), [50.0], memory)
    assert result.classes == (HARD, ELASTIC, None)


@pytest.mark.parametrize(
    ("spec", "want_reason"),
    [
        pytest.param(
            QueueSpec("l/q", QueueKind.LATENCY, (0.0, "l/q"), 1.0, Burst({"tpu": 1.0}, 1, 1), Sporadic(9)), "UnknownResource", id="name"
        ),
        pytest.param(latency("l/q", 0.0, [1.0, 1.0], 1, Sporadic(9)), "UnknownResource", id="no capacity"),
    ],
)
def test_a_burst_of_an_unknown_resource_is_rejected_by_name(spec: QueueSpec, want_reason: str) -> None:
    result, _ = settle((spec,), [10.0, 0.0])
    assert result.classes == (None,)
    assert result.decisions[0].admission.reason == want_reason
    assert "add nodes that" in result.decisions[0].admission.message


def test_a_queue_whose_resource_leaves_the_pool_has_its_guarantee_again_when_it_returns() -> None:
    queue = (latency("l/q", 0.0, [1.0, 1.0], 1, Sporadic(9)),)
    result, memory = settle(queue, [10.0, 10.0])
    assert result.classes == (HARD,)
    result, memory = settle(queue, [10.0], memory)
    assert (result.classes, result.decisions[0].admission.reason) == ((ELASTIC,), "UnknownResource")
    result, memory = settle(queue, [10.0, 10.0], memory)
    assert result.classes == (HARD,)


@pytest.mark.parametrize("names", [("tpu", "fpga"), ("fpga", "tpu")])
@pytest.mark.parametrize("scheduled", [False, True], ids=["periodic", "scheduled"])
def test_of_two_unknown_resources_the_same_is_named_in_any_order(names: tuple[str, str], scheduled: bool) -> None:
    burst = Burst(dict.fromkeys(names, 1.0), 1, 1)
    spec = QueueSpec("l/q", QueueKind.LATENCY, (0.0, "l/q"), 1.0, burst, Sporadic(9))
    if scheduled:
        spec = dataclasses.replace(spec, burst=None, arrival=Schedule((ScheduledBurst(START, burst),)))
    assert "fpga" in settle((spec,), [10.0])[0].decisions[0].admission.message


def test_expected_queues_hold_room_for_queues_to_come() -> None:
    queue = (latency("l/q", 0.0, [10.0], 50, Sporadic(100)),)
    assert classes(queue, [10.0]) == [HARD]
    assert classes(queue, [10.0], PolicyConfig(expected_queues=3)) == [ELASTIC]


def test_a_day_between_bursts_counts_as_one_cycle_only() -> None:
    queue = (throughput("t/q"), latency("l/q", 1.0, [10.0], 2000, Sporadic(86_400)))
    assert classes(queue, [10.0]) == [ELASTIC, ELASTIC]
    assert classes(queue, [10.0], PolicyConfig(max_cycle_seconds=7200)) == [ELASTIC, HARD]


class TestResourceCondition:
    def test_windows_that_never_meet_are_both_hard(self) -> None:
        """Step (b): rates of 8 and 8 on 10 cores, ON windows [0, 10) and [20, 30) of a period of 40."""
        queues = (latency("a/q", 0.0, [8.0], 10, Periodic(40, START)), latency("b/q", 1.0, [8.0], 10, Periodic(40, START + 20)))
        assert classes(queues, [10.0]) == [HARD, HARD]
        jittery = dataclasses.replace(queues[1], arrival=Periodic(40, START + 20, 11.0))
        assert classes((queues[0], jittery), [10.0]) == [HARD, SOFT]

    def test_half_open_windows_may_touch(self) -> None:
        queues = (latency("a/q", 0.0, [8.0], 10, Periodic(40, START)), latency("b/q", 1.0, [8.0], 10, Periodic(40, START + 10)))
        assert classes(queues, [10.0]) == [HARD, HARD]

    def test_sporadic_windows_can_always_meet(self) -> None:
        queues = (latency("a/q", 0.0, [8.0], 10, Periodic(40, START)), latency("b/q", 1.0, [8.0], 10, Sporadic(40)))
        assert classes(queues, [10.0]) == [HARD, SOFT]

    def test_without_events_to_spend_the_pairwise_bound_decides(self) -> None:
        """Step (c): periods 40 and 60 meet unless their phases keep apart modulo 20."""
        apart = (latency("a/q", 0.0, [8.0], 5, Periodic(40, START)), latency("b/q", 1.0, [8.0], 5, Periodic(60, START + 10)))
        meeting = (apart[0], dataclasses.replace(apart[1], arrival=Periodic(60, START + 3)))
        config = PolicyConfig(max_profile_events=0)
        assert classes(apart, [10.0], config) == [HARD, HARD]
        assert classes(meeting, [10.0], config) == [HARD, SOFT]


# Small periods so that the slow reference can enumerate the whole hyperperiod second by second.
@st.composite
def periodic_sets(draw: st.DrawFn) -> tuple[tuple[QueueSpec, ...], list[float]]:
    width = draw(st.integers(1, 2))
    capacity = [float(draw(st.integers(4, 20))) for _ in range(width)]
    queues: list[QueueSpec] = []
    for number in range(draw(st.integers(1, 6))):
        weight = draw(st.sampled_from([1.0, 2.0, 0.5]))
        if draw(st.integers(0, 3)) == 0:
            queues.append(throughput(f"q{number}/q", float(number), weight))
            continue
        period = draw(st.sampled_from([4, 6, 12]))
        duration = float(draw(st.integers(1, 3)))
        resources = [float(draw(st.integers(0, 8))) for _ in range(width)]
        arrival = Periodic(float(period), START + draw(st.integers(0, 11))) if draw(st.booleans()) else Sporadic(float(period))
        queues.append(
            latency(f"q{number}/q", float(number), resources, duration, arrival, draw(st.sampled_from([duration, duration + 1])), weight)
        )
    return tuple(queues), capacity


def slow_admission(queues: tuple[QueueSpec, ...], capacity: list[float]) -> list[GuaranteeClass | None]:
    """BoPF Algorithm 1 to the letter: every burst of a hyperperiod of 12 s, second by second."""
    names = ("cpu", "memory")[: len(capacity)]
    admitted: list[tuple[QueueSpec, GuaranteeClass]] = []
    answers: list[GuaranteeClass | None] = []

    def fair(spec: QueueSpec, divisor: float) -> bool:
        if spec.burst is None or spec.arrival is None or isinstance(spec.arrival, Schedule):
            return True
        gap = spec.arrival.period_seconds if isinstance(spec.arrival, Periodic) else spec.arrival.min_interarrival_seconds
        return all(
            spec.burst.resources.get(name, 0.0) * spec.burst.duration_seconds <= c * gap * spec.weight / divisor * (1 + 1e-9)
            for name, c in zip(names, capacity, strict=True)
        )

    def on(spec: QueueSpec, second: int) -> bool:
        assert spec.burst is not None
        if not isinstance(spec.arrival, Periodic):
            return True
        return (second + START - (spec.arrival.first_arrival or 0)) % spec.arrival.period_seconds < spec.burst.deadline_seconds

    def rate(spec: QueueSpec, name: str) -> float:
        assert spec.burst is not None
        return spec.burst.resources.get(name, 0.0) * spec.burst.duration_seconds / spec.burst.deadline_seconds

    for spec in queues:
        divisor = max(math.fsum(other.weight for other, _ in admitted) + spec.weight, 1.0)
        if not all(fair(other, divisor) for other, granted in admitted if granted in {HARD, SOFT}):
            answers.append(None)
            continue
        granted = ELASTIC
        if spec.kind is QueueKind.LATENCY and fair(spec, divisor):
            hard = [other for other, given in admitted if given is HARD]
            fits = all(
                rate(spec, name) + sum(rate(other, name) for other in hard if on(other, second)) <= c * (1 + 1e-9)
                for second in range(24)
                if on(spec, second)
                for name, c in zip(names, capacity, strict=True)
            )
            granted = HARD if fits else SOFT
        admitted.append((spec, granted))
        answers.append(granted)
    return answers


@given(periodic_sets())
def test_admission_agrees_with_a_slow_reference(case: tuple[tuple[QueueSpec, ...], list[float]]) -> None:
    queues, capacity = case
    assert classes(queues, capacity) == slow_admission(queues, capacity)


@given(periodic_sets())
def test_the_pairwise_bound_never_grants_more_than_the_exact_profile(case: tuple[tuple[QueueSpec, ...], list[float]]) -> None:
    queues, capacity = case
    exact = classes(queues, capacity)
    bound = classes(queues, capacity, PolicyConfig(max_profile_events=0))
    first_difference = next((row for row, (one, other) in enumerate(zip(exact, bound, strict=True)) if one is not other), None)
    assert first_difference is None or (exact[first_difference], bound[first_difference]) == (HARD, SOFT)


@given(periodic_sets())
def test_admitting_one_at_a_time_or_all_at_once_gives_the_same_classes(case: tuple[tuple[QueueSpec, ...], list[float]]) -> None:
    """Safety (BoPF §3.3): a later admission never changes an earlier class."""
    queues, capacity = case
    memory = Memory()
    for count in range(1, len(queues) + 1):
        result, memory = settle(queues[:count], capacity, memory)
    assert list(result.classes) == classes(queues, capacity)


def test_scheduled_bursts_are_tested_each_by_itself() -> None:
    small, large = Burst({"cpu": 2.0}, 10, 10), Burst({"cpu": 9.0}, 10, 10)

    def queue(second: Burst) -> QueueSpec:
        bursts = (ScheduledBurst(START, small), ScheduledBurst(START + 50, second))
        return QueueSpec("s/q", QueueKind.LATENCY, (1.0, "s/q"), 1.0, None, Schedule(bursts))

    beside = latency("p/q", 0.0, [5.0], 10, Periodic(1000, START + 55))
    assert classes((beside, queue(small)), [10.0]) == [HARD, HARD]
    assert classes((beside, queue(large)), [10.0]) == [HARD, SOFT]


@given(periodic_sets())
def test_deciding_many_at_once_agrees_with_one_after_the_other(case: tuple[tuple[QueueSpec, ...], list[float]]) -> None:
    queues, amounts = case
    capacity = np.array(amounts)
    declared = compile_queues(queues, ("cpu", "memory")[: len(amounts)], 3600.0)
    load = loads(declared, capacity)
    at_once = AdmissionState(capacity, CONFIG).decided_at_once(declared, np.arange(len(queues)), load)
    state = AdmissionState(capacity, CONFIG)
    for row, granted in enumerate(at_once):
        member = HardQueue(declared, row)
        want = state.consider(member, float(declared.weight[row]), float(load[row]))
        assert granted == want
        state.grant(member, float(declared.weight[row]), float(load[row]), want)


def test_a_rejection_is_told_with_the_words_of_its_admission() -> None:
    result, _ = settle((latency("a/q", 0.0, [50.0], 40, Sporadic(100)), throughput("b/q", 1.0), throughput("c/q", 2.0)), [50.0])
    told = [event.message for event in result.events if event.kind is EventKind.REJECTED]
    assert told == [result.decisions[2].admission.message]
    assert told[0].endswith("Lower this queue's weight (the least is 1), add nodes, or wait until a queue leaves.")


def bursting(name: str, order: float, cores: float, seconds: float = 10.0) -> QueueSpec:
    """Bursts of so many cores for so many seconds, once in 100 s."""
    return latency(name, order, [cores], seconds, Sporadic(100))


class TestCandidates:
    def test_a_resource_that_is_not_there_and_not_asked_for_decides_nothing(self) -> None:
        queues = (throughput("t/q"), latency("l/q", 1.0, [5.0, 0.0], 10, Sporadic(100)))
        assert classes(queues, [10.0, 0.0]) == [ELASTIC, HARD]

    @pytest.mark.parametrize(
        "last",
        [
            pytest.param(latency("z/q", 3.0, [50.0], 10, Sporadic(1000)), id="rates beyond capacity"),
            pytest.param(latency("z/q", 3.0, [1.0, 1.0], 10, Sporadic(1000)), id="an unknown resource"),
        ],
    )
    def test_a_rejected_queue_stays_so_whatever_comes_after_it(self, last: QueueSpec) -> None:
        """A burst of 0.4 of a cycle leaves room for a weight of 2.5; the third queue is one too many."""
        queues = (bursting("a/q", 0.0, 50.0, 40.0), throughput("b/q", 1.0), throughput("c/q", 2.0), last)
        assert classes(queues, [50.0]) == [HARD, ELASTIC, None, None]

    def test_a_rejected_queue_takes_no_share_from_others(self) -> None:
        result, _ = settle((bursting("a/q", 0.0, 50.0, 40.0), throughput("b/q", 1.0), throughput("c/q", 2.0)), [50.0])
        assert [decision.share for decision in result.decisions] == [0.5, 0.5, 0.0]

    def test_a_rejected_candidate_does_not_stand_in_the_way_of_the_next(self) -> None:
        """A promise of 0.4 of the cluster leaves room for weights up to 2.5 in all: not for 3 more, but for 1 more."""
        queues = (bursting("a/q", 0.0, 4.0, 100.0), throughput("b/q", 1.0, 3.0), throughput("c/q", 2.0, 1.0))
        assert classes(queues, [10.0]) == [HARD, None, ELASTIC]

    def test_a_lone_queue_has_the_whole_share_whatever_its_weight(self) -> None:
        result, _ = settle((throughput("t/q", 0.0, 0.5),), [10.0])
        assert result.decisions[0].share == 1.0

    def test_they_are_numbered_in_the_order_in_which_they_are_admitted(self) -> None:
        queues, memory = (throughput("a/q"), throughput("b/q", 1.0)), Memory()
        for demand in (1.0, 2.0):  # the second round admits none
            _, memory = decide(snapshot(queues, [10.0], [[demand], [demand]]), memory, CONFIG, START)
        _, memory = settle((*queues, throughput("c/q", 2.0), throughput("d/q", 3.0)), [10.0], memory)
        assert [memory.queues[name].admission_order for name in ("a/q", "b/q", "c/q", "d/q")] == [0, 1, 2, 3]
        assert memory.next_admission_order == 4

    def test_a_rejection_is_told_once_and_again_when_the_spec_has_changed(self) -> None:
        others, memory, counts = (bursting("a/q", 0.0, 50.0, 40.0), throughput("b/q", 1.0)), Memory(), []
        one, other = throughput("c/q", 2.0), throughput("c/q", 2.0, 2.0)
        for second, spec in enumerate((one, one, other, other)):
            result, memory = settle((*others, spec), [50.0], memory, now=START + second)
            counts.append([event.kind for event in result.events].count(EventKind.REJECTED))
        assert counts == [1, 0, 1, 0]


class TestUnchangedQueues:
    """The same queue objects are decided again where anything else that matters has changed, and only there."""

    queues = (throughput("t/q"), latency("l/q", 1.0, [10.0, 5.0], 2000, Sporadic(86_400)))

    def test_another_cycle_limit(self) -> None:
        result, memory = settle(self.queues, [10.0, 10.0])
        assert result.classes == (ELASTIC, ELASTIC)
        result, _ = settle(self.queues, [10.0, 10.0], memory, PolicyConfig(max_cycle_seconds=7200), START + 1)
        assert result.classes == (ELASTIC, HARD)

    def test_one_more_resource(self) -> None:
        queues = (self.queues[0], latency("l/q", 1.0, [1.0, 5.0], 1000, Sporadic(3600)))
        result, memory = settle(queues, [10.0])
        assert result.classes == (ELASTIC, None)
        result, _ = settle(queues, [10.0, 10.0], memory, now=START + 1)
        assert result.classes == (ELASTIC, HARD)

    def test_a_settled_share_is_not_written_again(self) -> None:
        _, before = settle((throughput("t/q"), bursting("l/q", 1.0, 5.0)), [10.0])
        _, after = settle((throughput("t/q"), bursting("l/q", 1.0, 5.0)), [10.0], before, now=START + 1)
        assert after.queues["l/q"] == before.queues["l/q"]
