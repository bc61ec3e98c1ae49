"""Rounds in which nothing is wanted or used are skipped: a run that skips them gives what a run that decides every round gives."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass, Memory, PolicyConfig, RoundResult, Sporadic
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
