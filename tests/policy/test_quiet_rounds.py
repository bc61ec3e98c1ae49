"""Rounds in which nothing is wanted or used are skipped: a run that skips them gives what a run that decides every round gives."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.dress.values import DressConfig
from fairburst.policy.model import GuaranteeClass, Memory, PolicyConfig, RoundResult, Sporadic
from tests.support.dress import jobs_part
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

QUEUES = (latency("l/q", 1, [50.0], 20, Sporadic(300)), *(throughput(f"t/{i}", 2.0 + i) for i in range(9)))
HONEST_BURST = ((0, 0, 0, 0), (1, 0, 0, 0), (100, 50, 0, 0), (100.1, 50, 50, 0), (120.1, 0, 0, 0), (310, 0, 0, 0), (420, 50, 0, 100))
"""Seconds after START; demand and usage of the latency queue; demand of each batch queue."""


def run(rounds: tuple[tuple[float, float, float, float], ...], *, skip: bool = True) -> list[RoundResult]:
    memory, results = Memory(), []
    for seconds, demand, usage, batch in rounds:
        value = snapshot(QUEUES, [100], [demand] + [batch] * 9, [usage] + [0.0] * 9)
        if not skip and memory.columns is not None:
            memory = Memory(memory.queues, memory.next_admission_order, dataclasses.replace(memory.columns, quiet=None), memory.dress)
        result, memory = decide(value, memory, PolicyConfig(), START + seconds)
        results.append(result)
    return results


def test_the_ledger_stops_when_an_honest_burst_ends_in_an_idle_cluster() -> None:
    burst = run(HONEST_BURST)[-1].decisions[0]
    assert burst.guarantee_class is GuaranteeClass.HARD
    assert burst.guaranteed[0] == pytest.approx(50.0)
    assert burst.budget == pytest.approx(10.0)  # half of the cluster for 20 s
    assert burst.debt == 0.0


STEPS = st.tuples(st.sampled_from([0.1, 1.0, 20.0, 150.0, 310.0]), st.sampled_from([0.0, 0.0, 50.0]), st.sampled_from([0.0, 0.0, 50.0]),
                  st.sampled_from([0.0, 0.0, 100.0]))  # fmt: skip


@given(st.lists(STEPS, min_size=2, max_size=12))
def test_a_run_with_quiet_rounds_equals_one_without(steps: list[tuple[float, float, float, float]]) -> None:
    at, rounds = 0.0, []
    for after, demand, usage, batch in steps:
        at += after
        rounds.append((at, demand, usage, batch))
    for skipped, decided in zip(run(tuple(rounds)), run(tuple(rounds), skip=False), strict=True):
        assert (skipped.allocation == decided.allocation).all()
        assert (skipped.level == decided.level).all()
        assert skipped.classes == decided.classes
        for one, other in zip(skipped.decisions, decided.decisions, strict=True):
            for number in ("budget", "ledger", "debt", "consumed", "fair_share_of_period"):
                assert getattr(one, number) == pytest.approx(getattr(other, number), abs=1e-9)


@pytest.mark.parametrize(("unit", "want"), [(0.0, 2.5), (2.0, 4.0), (1.0, 3.0)], ids=["none", "another", "the same"])
def test_a_quiet_round_notices_that_pods_are_of_another_size(unit: float, want: float) -> None:
    """An armed burst of 2.5 cores in pods of 1 has a level of 3."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [2.5], 10, Sporadic(100)))
    value = snapshot(queues, [10.0], [[0.0], [0.0]], unit=[[1.0], [1.0]])
    result, memory = decide(value, Memory(), PolicyConfig(), START)
    assert result.level.tolist() == [[0.0], [3.0]]
    result, _ = decide(dataclasses.replace(value, unit=np.full((2, 1), unit)), memory, PolicyConfig(), START + 1)
    assert result.level.tolist() == [[0.0], [want]]
    assert result.charge_rate.tolist() == [0.0, 0.0]


def test_jobs_that_come_into_a_quiet_cluster_are_looked_at() -> None:
    queues, config = (throughput("t/q"),), PolicyConfig(dress=DressConfig())
    value, memory = snapshot(queues, [10.0], [[0.0]]), Memory()
    for seconds in (0, 1):
        _, memory = decide(value, memory, config, START + seconds)
    result, _ = decide(dataclasses.replace(value, jobs=jobs_part([], [], [], 1)), memory, config, START + 2)
    assert result.dress is not None


def test_a_quiet_round_says_of_every_queue_what_the_round_before_it_said() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
    value, memory, told = snapshot(queues, [10.0], np.zeros((2, 1))), Memory(), []
    for seconds in (0, 1, 2):
        result, memory = decide(value, memory, PolicyConfig(), START + seconds)
        told.append([(one.level.tolist(), one.budget, one.fair_share_of_period, one.window, one.reason) for one in result.decisions])
    assert told[0][1][:3] == ([8.0], pytest.approx(8.0), pytest.approx(50.0))
    assert told[1:] == told[:2]
