"""Promises of admission, which last (BoPF §3.3, §3.4), and their limits."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass, Memory, Periodic, PolicyConfig, QueueSpec, RoundResult, Sporadic
from fairburst.policy.uncertainty import Correlation, request_normal
from tests.support.policy import latency, snapshot, throughput
from tests.support.profiles import horizons
from tests.support.strategies import START, capacities, queue_sets

CONFIG = PolicyConfig()
STRENGTH = {None: 0, GuaranteeClass.ELASTIC: 1, GuaranteeClass.SOFT: 2, GuaranteeClass.HARD: 3}


def round_of(queues: tuple[QueueSpec, ...], capacity: list[float], memory: Memory, now: float = START) -> tuple[RoundResult, Memory]:
    return decide(snapshot(queues, capacity, np.zeros((len(queues), len(capacity)))), memory, CONFIG, now)


class TestSafety:
    """BoPF §3.3 (1): admitting a queue never breaks an earlier promise."""

    @given(st.data())
    def test_no_class_becomes_weaker_as_queues_come(self, data: st.DataObject) -> None:
        capacity = data.draw(capacities())
        queues, memory = data.draw(queue_sets(len(capacity), 8)), Memory()
        earlier: dict[str, GuaranteeClass | None] = {}
        for count in range(1, len(queues) + 1):
            result, memory = round_of(queues[:count], capacity, memory, START + count)
            for spec, granted in zip(queues, result.classes, strict=False):
                assert STRENGTH[granted] >= STRENGTH[earlier.get(spec.name)]
                earlier[spec.name] = granted

    @given(st.data())
    def test_a_changed_promise_breaks_no_other(self, data: st.DataObject) -> None:
        capacity = data.draw(capacities())
        queues = data.draw(queue_sets(len(capacity), 6))
        before, memory = round_of(queues, capacity, Memory())
        row = data.draw(st.integers(0, len(queues) - 1))
        factor = data.draw(st.sampled_from([0.5, 2.0, 5.0]))
        changed = list(queues)
        changed[row] = dataclasses.replace(queues[row], weight=queues[row].weight * factor)
        after, _ = round_of(tuple(changed), capacity, memory, START + 1)
        for other, spec in enumerate(queues):
            if other != row:
                assert STRENGTH[after.classes[other]] >= STRENGTH[before.classes[other]], spec.name

    @given(st.data())
    def test_every_guaranteed_burst_is_within_its_fair_share(self, data: st.DataObject) -> None:
        """The two sides of (1) and (2) written out for every burst of every hard and soft queue, with everybody admitted counted."""
        capacity = data.draw(capacities())
        queues = data.draw(queue_sets(len(capacity), 8))
        result, _ = round_of(queues, capacity, Memory())
        weight = sum(spec.weight for spec, granted in zip(queues, result.classes, strict=True) if granted is not None)
        for spec, granted in zip(queues, result.classes, strict=True):
            if STRENGTH[granted] >= STRENGTH[GuaranteeClass.SOFT]:
                for demand, gap in _bursts(spec, len(capacity)):
                    fair = np.array(capacity) * min(gap, CONFIG.max_cycle_seconds) * spec.weight / max(weight, CONFIG.expected_queues)
                    assert (demand <= fair * (1 + 1e-6)).all(), spec.name


def _bursts(spec: QueueSpec, width: int) -> list[tuple[np.ndarray, float]]:
    """Demand and time until the next arrival of every burst a spec declares."""
    names = snapshot((), [1.0] * width, []).resources
    match spec.arrival:
        case Periodic(gap, _, _) | Sporadic(gap):
            bursts = [(spec.burst, gap)]
        case None:
            bursts = []
        case schedule:
            times = [item.arrival for item in schedule.bursts]
            gaps = [*np.diff(times), float("inf")]
            bursts = [(item.burst, gap) for item, gap in zip(schedule.bursts, gaps, strict=True)]
    return [
        (np.array([burst.resources.get(name, 0.0) for name in names]) * burst.duration_seconds, gap)
        for burst, gap in bursts
        if burst is not None
    ]


class TestPopulationMonotonicity:
    """BoPF Table 1, with the classes unchanged (tests/policy/test_drf.py: DRF with strictly positive demands)."""

    @given(st.data())
    def test_when_a_throughput_queue_leaves_no_other_gets_less(self, data: st.DataObject) -> None:
        capacity = data.draw(capacities())
        count = data.draw(st.integers(2, 5))
        queues = tuple(throughput(f"t{row}/q", float(row), data.draw(st.sampled_from([1.0, 2.0, 0.5]))) for row in range(count))
        cells = count * len(capacity)
        demand = np.array(data.draw(st.lists(st.integers(1, 30), min_size=cells, max_size=cells)), dtype=np.float64).reshape(count, -1)
        before, _ = decide(snapshot(queues, capacity, demand), Memory(), CONFIG, START)
        gone = data.draw(st.integers(0, count - 1))
        rest = [row for row in range(count) if row != gone]
        after, _ = decide(snapshot(tuple(queues[row] for row in rest), capacity, demand[rest]), Memory(), CONFIG, START)
        assert (after.allocation >= before.allocation[rest] - 1e-6).all()

    def test_it_fails_where_a_class_changes(self) -> None:
        """Counterexample, kept: A leaves, so B, which was soft beside it, becomes hard and takes its rate in its window before C."""
        hard = latency("a/q", 0.0, [3.0], 5.0, Sporadic(60.0))
        stronger = latency("b/q", 1.0, [3.0], 5.0, Sporadic(60.0))
        last = latency("c/q", 2.0, [2.0], 4.0, Sporadic(60.0))
        wanted = [[0.0], [4.0], [4.0]]
        result, memory = decide(snapshot((hard, stronger, last), [4.0], wanted), Memory(), CONFIG, START)
        assert [granted and granted.value for granted in result.classes] == ["Hard", "Soft", "Soft"]
        left, _ = decide(snapshot((stronger, last), [4.0], wanted[1:]), memory, CONFIG, START + 1)
        assert [granted and granted.value for granted in left.classes] == ["Hard", "Soft"]
        assert left.allocation[1, 0] < result.allocation[2, 0]


class TestConfidence:
    """BoPF §3.5: the request rises with the confidence, under every assumption about correlation."""

    @horizons()
    @given(st.lists(st.integers(1, 50), min_size=1, max_size=3), st.integers(51, 98), st.sampled_from([*Correlation]))
    def test_request_rises_with_the_confidence(self, mean: list[int], percent: int, assumption: Correlation) -> None:
        correlation = np.full((len(mean), len(mean)), 0.5) + 0.5 * np.eye(len(mean))
        amounts = np.array(mean, dtype=np.float64)
        lower, higher = (request_normal(amounts, amounts / 5, at / 100, assumption, correlation).demand for at in (percent, percent + 1))
        assert (higher >= lower * (1 - 1e-6)).all()
        assert (lower >= amounts).all()
