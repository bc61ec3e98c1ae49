"""Properties of one round and of settled rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    ClusterSnapshot,
    GuaranteeClass,
    Memory,
    PolicyConfig,
    QueueSpec,
    RoundResult,
    Schedule,
    ScheduledBurst,
    WindowState,
)
from fairburst.policy.pod_demand import same_declaration
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()


def rounds(value: ClusterSnapshot, times: list[float]) -> list[tuple[RoundResult, Memory]]:
    """Rounds at the given times, each with the usage that the last allocation led to."""
    memory, results = Memory(), []
    for now in times:
        result, memory = decide(value, memory, CONFIG, now)
        results.append((result, memory))
        value = dataclasses.replace(value, usage=result.allocation.copy())
    return results


TIMES = [START, START + 1, START + 4, START + 9, START + 15, START + 31, START + 62]


class TestCapacityIsNeverExceeded:
    """BoPF §3.1: the sum of allocations is at most C, in every round."""

    @given(snapshots())
    def test_sum_of_allocations_stays_within_capacity(self, value: ClusterSnapshot) -> None:
        for result, _ in rounds(value, TIMES):
            assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-7)).all()
            assert (result.allocation >= 0).all()
            assert (result.guaranteed >= -1e-12).all()
            assert (result.guaranteed <= result.allocation + 1e-9).all()


class TestNobodyGetsMoreThanItWants:
    """BoPF §3.3: allocations are bounded by demand; limits bound throughput queues."""

    @given(snapshots())
    def test_allocation_is_at_most_demand_and_limit(self, value: ClusterSnapshot) -> None:
        for result, _ in rounds(value, TIMES):
            assert (result.allocation <= value.demand * (1 + 1e-9) + 1e-9).all()
            for row, spec in enumerate(value.queues):
                for name, limit in spec.limits.items():
                    assert result.allocation[row, value.resources.index(name)] <= limit + 1e-9


class TestParetoEfficiency:
    """BoPF Table 1, PE: no queue can be given more without taking from another (divisible work)."""

    @given(snapshots(units=False))
    def test_unmet_demand_means_an_exhausted_resource(self, value: ClusterSnapshot) -> None:
        for result, _ in rounds(value, TIMES):
            left = value.live_capacity - result.allocation.sum(axis=0)
            for row, spec in enumerate(value.queues):
                if result.classes[row] is None or spec.limits:
                    continue
                unmet = value.demand[row] - result.allocation[row]
                if (unmet > 1e-6).any():
                    assert (left[value.demand[row] > 0] <= 1e-6).any(), spec.name

    @given(snapshots())
    def test_no_whole_unit_that_somebody_wants_is_left(self, value: ClusterSnapshot) -> None:
        for result, _ in rounds(value, TIMES):
            left = value.live_capacity - result.allocation.sum(axis=0)
            for row, spec in enumerate(value.queues):
                unit = value.unit[row]
                if result.classes[row] is None or spec.limits or not unit.any():
                    continue
                step = np.minimum(unit, value.demand[row] - result.allocation[row])
                assert not ((step > 1e-6).any() and (step <= left - 1e-6).all()), spec.name


class TestBurstGuaranteeInARound:
    """BoPF §3.3: a hard queue in its window, budget left, gets min(d/t, demand), up to a unit of rounding."""

    @given(snapshots())
    def test_hard_queue_in_window_gets_its_rate(self, value: ClusterSnapshot) -> None:
        for result, _ in rounds(value, TIMES):
            for row, decision in enumerate(result.decisions):
                window = decision.window
                if decision.guarantee_class is not GuaranteeClass.HARD or window is None or window.state is not WindowState.OPEN:
                    continue
                if decision.consumed >= decision.budget * (1 - 1e-6) or decision.budget <= 0:
                    continue
                burst = value.queues[row].burst
                if burst is None:
                    continue
                rate = np.array([burst.resources.get(name, 0.0) for name in value.resources]) * burst.duration_seconds
                owed = np.minimum(rate / burst.deadline_seconds, value.demand[row])
                assert (result.allocation[row] >= owed - value.unit[row] - 1e-6).all()


class TestDeterminism:
    """Same inputs, same bytes; memory survives being written out as plain values."""

    @given(snapshots())
    def test_the_same_round_twice_is_equal_to_the_byte(self, value: ClusterSnapshot) -> None:
        for (first, memory), (second, other) in zip(rounds(value, TIMES), rounds(value, TIMES), strict=True):
            assert first.allocation.tobytes() == second.allocation.tobytes()
            assert first.level.tobytes() == second.level.tobytes()
            assert first.events == second.events
            assert memory == other

    @given(snapshots())
    def test_a_restart_from_plain_values_changes_nothing(self, value: ClusterSnapshot) -> None:
        memory = rounds(value, TIMES[:3])[-1][1]
        plain = Memory(queues=dict(reversed(list(dict(memory.queues).items()))), next_admission_order=memory.next_admission_order)
        kept, kept_memory = decide(value, memory, CONFIG, TIMES[3])
        restarted, restarted_memory = decide(value, plain, CONFIG, TIMES[3])
        assert kept.allocation.tobytes() == restarted.allocation.tobytes()
        assert kept.classes == restarted.classes
        assert kept.next_boundary == restarted.next_boundary
        assert kept_memory == restarted_memory

    @given(snapshots())
    def test_the_order_of_names_in_a_specs_mappings_changes_nothing(self, value: ClusterSnapshot) -> None:
        turned = dataclasses.replace(value, queues=tuple(_turned(spec) for spec in value.queues))
        for (first, memory), (second, other) in zip(rounds(value, TIMES), rounds(turned, TIMES), strict=True):
            assert first.allocation.tobytes() == second.allocation.tobytes()
            assert first.level.tobytes() == second.level.tobytes()
            assert (first.classes, first.events) == (second.classes, second.events)
            assert memory == other

    @given(snapshots())
    def test_a_settled_cluster_changes_nothing_in_memory(self, value: ClusterSnapshot) -> None:
        _, memory = rounds(value, TIMES[:2])[-1]
        result, memory = decide(value, memory, CONFIG, TIMES[1])
        again, memory_again = decide(value, memory, CONFIG, TIMES[1])
        assert again.allocation.tobytes() == result.allocation.tobytes()
        assert again.level.tobytes() == result.level.tobytes()
        assert memory_again == memory
        assert again.events == ()


def _turned(spec: QueueSpec) -> QueueSpec:
    """The same declaration with every mapping in reverse order."""

    def reverse(burst: Burst) -> Burst:
        return dataclasses.replace(burst, resources=dict(reversed(burst.resources.items())))

    arrival = spec.arrival
    if isinstance(arrival, Schedule):
        arrival = Schedule(tuple(ScheduledBurst(item.arrival, reverse(item.burst)) for item in arrival.bursts))
    limits = dict(reversed(spec.limits.items()))
    return dataclasses.replace(spec, burst=None if spec.burst is None else reverse(spec.burst), arrival=arrival, limits=limits)


class TestQueuesWithoutStanding:
    """Rejected and suspended queues change nothing for others."""

    @given(snapshots(), st.data())
    def test_a_suspended_queue_is_as_if_it_were_not_there(self, value: ClusterSnapshot, data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(value.queues) - 1))
        held = list(value.queues)
        held[row] = dataclasses.replace(held[row], suspended=True)
        rest = [other for other in range(len(held)) if other != row]
        without = dataclasses.replace(
            value, queues=tuple(held[other] for other in rest), demand=value.demand[rest], usage=value.usage[rest], unit=value.unit[rest]
        )
        with_held = dataclasses.replace(value, queues=tuple(held))
        for (one, _), (other, _) in zip(rounds(with_held, TIMES), rounds(without, TIMES), strict=True):
            assert one.allocation[rest].tobytes() == other.allocation.tobytes()
            assert not one.allocation[row].any()
            assert not one.level[row].any()

    @given(snapshots())
    def test_a_rejected_queue_is_as_if_it_were_not_there(self, value: ClusterSnapshot) -> None:
        results = rounds(value, TIMES)
        rest = [row for row, granted in enumerate(results[0][0].classes) if granted is not None]
        without = dataclasses.replace(
            value,
            queues=tuple(value.queues[row] for row in rest),
            demand=value.demand[rest],
            usage=value.usage[rest],
            unit=value.unit[rest],
        )
        for (one, _), (other, _) in zip(results, rounds(without, TIMES), strict=True):
            assert one.allocation[rest].tobytes() == other.allocation.tobytes()


class TestEveryDecisionExplainsItself:
    """Each decision has a CamelCase reason, a sentence, and finite numbers."""

    @given(snapshots())
    def test_views_are_complete_and_finite(self, value: ClusterSnapshot) -> None:
        result, memory = rounds(value, TIMES)[-1]
        for row, decision in enumerate(result.decisions):
            assert decision.queue == value.queues[row].name
            assert decision.reason.isidentifier()
            assert decision.message.endswith(".")
            assert decision.admission.reason.isidentifier()
            assert decision.admission.message.endswith(".")
            numbers = [decision.ledger, decision.charge_rate, decision.debt, decision.budget, decision.consumed, decision.share]
            assert np.isfinite(numbers).all()
            assert same_declaration(value.queues[row], memory.queues[decision.queue].promise)
        assert result.next_boundary > result.now
