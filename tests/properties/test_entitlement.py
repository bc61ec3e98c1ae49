"""Standing entitlements: the room that an idle queue may use at once, and the room that it must leave."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy import entitlement
from fairburst.policy.decide import decide
from fairburst.policy.entitlement import OVERSUBSCRIBED, entitlements
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueKind, QueueSpec, RoundResult
from tests.support import policy
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()
TIMES = [START, START + 1, START + 9, START + 31]


def decided(value: ClusterSnapshot) -> list[tuple[ClusterSnapshot, RoundResult, Memory]]:
    memory, found = Memory(), []
    for now in TIMES:
        result, memory = decide(value, memory, CONFIG, now)
        found.append((value, result, memory))
        value = dataclasses.replace(value, usage=result.allocation.copy())
    return found


def elastic(value: ClusterSnapshot, result: RoundResult) -> np.ndarray[Any, Any]:
    rows = zip(value.queues, result.classes, strict=True)
    return np.array([one is GuaranteeClass.ELASTIC and spec.kind is QueueKind.THROUGHPUT for spec, one in rows], dtype=bool)


class TestAnEntitlementNeverTakesWhatIsPromised:
    """Design §9: sum of allocations, an armed burst's room, held room."""

    @given(snapshots())
    def test_all_at_once_may_start_only_what_armed_bursts_leave(self, value: ClusterSnapshot) -> None:
        for seen, result, memory in decided(value):
            entitled, bound = entitlements(result, seen, memory)
            free = np.maximum(seen.live_capacity - np.maximum(result.allocation, seen.usage).sum(axis=0), 0.0)
            armed = np.maximum(result.level - result.allocation, 0.0)[~elastic(seen, result)]
            fits = any((one > 1e-9).any() and (unit <= free).all() and unit.any() for one, unit in zip(
                armed, seen.unit[~elastic(seen, result)], strict=True))  # fmt: skip
            excess = (entitled - result.level).sum(axis=0)
            most = np.maximum(free - armed.sum(axis=0), 0.0) if bound else free + OVERSUBSCRIBED * seen.live_capacity
            assert bound or not fits or not excess.any()
            assert (excess <= most * (1 + 1e-9) + 1e-6).all()

    @given(snapshots())
    def test_only_idle_and_under_using_throughput_queues_have_more_than_their_level(self, value: ClusterSnapshot) -> None:
        for seen, result, memory in decided(value):
            entitled, _ = entitlements(result, seen, memory)
            assert (entitled >= result.level).all()
            more = (entitled > result.level).any(axis=1)
            assert not (more & ~elastic(seen, result)).any()
            for row in np.flatnonzero(more):
                limits = seen.queues[row].limits
                for column, resource in enumerate(seen.resources):
                    most = limits.get(resource, np.inf)
                    assert result.allocation[row, column] >= min(seen.demand[row, column], most) * (1 - 1e-6) - 1e-6, "its demand is met"
                    assert entitled[row, column] <= max(most, result.level[row, column])

    @given(snapshots())
    def test_who_room_is_kept_from_has_none(self, value: ClusterSnapshot) -> None:
        for seen, result, memory in decided(value):
            held = dataclasses.replace(result, held_back=np.ones(len(seen.queues), dtype=bool))
            assert (entitlements(held, seen, memory)[0] == result.level).all()


def throughput(demand: list[list[float]], weights: list[float], capacity: list[float]) -> ClusterSnapshot:
    queues = tuple(QueueSpec(f"ns/{row}", QueueKind.THROUGHPUT, (float(row), ""), weight=one) for row, one in enumerate(weights))
    amounts, zero = np.array(demand, dtype=float), np.zeros((len(weights), len(capacity)))
    room = np.array(capacity, dtype=float)
    return ClusterSnapshot(("cpu", "memory")[: len(capacity)], room, room, queues, amounts, zero, zero)


amount = st.integers(0, 40).map(float)


@st.composite
def divisible(draw: st.DrawFn) -> ClusterSnapshot:
    count, width = draw(st.integers(2, 6)), draw(st.integers(1, 2))
    demand = draw(st.lists(st.lists(amount, min_size=width, max_size=width), min_size=count, max_size=count))
    weights = draw(st.lists(st.integers(1, 4).map(float), min_size=count, max_size=count))
    return throughput(demand, weights, [draw(st.integers(1, 100).map(float)) for _ in range(width)])


def entitled_at_first(value: ClusterSnapshot) -> np.ndarray[Any, Any]:
    """Return (N,) what the queues are entitled to of the first resource in the first round."""
    result, memory = decide(value, Memory(), CONFIG, START)
    return entitlements(result, value, memory)[0][:, 0]


class TestItIsWhatTheQueueWouldBeGiven:
    """Against `decide` itself, with the queue backlogged in every resource."""

    @given(divisible())
    def test_as_if_backlogged(self, value: ClusterSnapshot) -> None:
        result, memory = decide(value, Memory(), CONFIG, START)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entitlement, "OVERSUBSCRIBED", 1e6)
            entitled, _ = entitlements(result, value, memory)
        for row in np.flatnonzero((entitled > result.level + 1e-9).any(axis=1)):
            demand = value.demand.copy()
            demand[row] = 10 * value.live_capacity
            given_then = decide(dataclasses.replace(value, demand=demand), memory, CONFIG, START)[0].allocation[row]
            assert (entitled[row] <= np.maximum(given_then, result.level[row]) * (1 + 1e-6) + 1e-6).all()
            if len(value.resources) == 1:
                assert entitled[row] == pytest.approx(np.maximum(given_then, result.level[row]), rel=1e-6)

    def test_an_idle_queue_among_two_busy_ones_has_a_third(self) -> None:
        value = throughput([[100], [100], [0]], [1, 1, 1], [90])
        assert entitled_at_first(value) == pytest.approx([45, 45, 30])

    def test_its_weight_and_what_is_free_count(self) -> None:
        value = throughput([[10], [0]], [1, 3], [90])
        assert entitled_at_first(value) == pytest.approx([90, 80])

    def test_many_idle_queues_share_the_room_and_a_capacity_that_may_wait(self) -> None:
        value = throughput([[0]] * 10, [1] * 10, [90])
        assert entitled_at_first(value) == pytest.approx([18] * 10)


def test_a_pool_without_capacity_entitles_to_nothing_and_computes_with_no_infinity() -> None:
    """All nodes may be gone for a while."""
    queues = (policy.throughput("a/q"), policy.throughput("b/q", 2.0))
    seen = policy.snapshot(queues, [0.0, 0.0], np.zeros((2, 2)))
    result, memory = decide(seen, Memory(), CONFIG, START)
    with np.errstate(all="raise"):
        entitled, bound = entitlements(result, seen, memory)
    assert not entitled.any()
    assert not bound
