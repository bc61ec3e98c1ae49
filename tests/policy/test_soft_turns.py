"""Soft queues past their deadline: they keep their turn, or it ends as in line 34 of BoPF's Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.policy.model import GuaranteeClass, PolicyConfig, QueueSpec, Sporadic, WindowState
from tests.support.policy import History, Work, backlog, latency, run_fluid, throughput

START = 1_000.0
TO_THE_LETTER = PolicyConfig(soft_ends_at_deadline=True)


def queues() -> tuple[QueueSpec, ...]:
    """A hard and a soft queue with bursts of all 10 cores for 10 s within 10 s; both at once can't be in time."""
    return (
        throughput("t"), latency("hard", 1.0, [10.0], 10, Sporadic(100)), latency("soft", 2.0, [10.0], 10, Sporadic(100)),
    )  # fmt: skip


def both_at_once(config: PolicyConfig) -> tuple[History, Work, Work]:
    first, second = (Work(name, START, np.array([10.0]), 10.0, START + 10.0) for name in ("hard", "soft"))
    history = run_fluid(queues(), [10.0], [backlog("t", [10.0], START), first, second], START, START + 99.0, config, longest_step=1.0)
    assert history.results[0].classes == (GuaranteeClass.ELASTIC, GuaranteeClass.HARD, GuaranteeClass.SOFT)
    return history, first, second


def test_a_soft_queue_keeps_its_turn_behind_those_in_time_until_its_demand_is_served() -> None:
    history, first, second = both_at_once(PolicyConfig())
    assert first.finished - START == pytest.approx(10.0)
    assert second.finished - START == pytest.approx(20.0)
    states = {result.decisions[2].window.state for result in history.results if 10.0 < result.now - START < 20.0}  # type: ignore[union-attr]
    assert states == {WindowState.OVERDUE}


def test_to_the_letter_its_turn_ends_with_the_deadline() -> None:
    """From then on it has its residual share: a third of 100 s, over the 90 s that are left."""
    _, first, second = both_at_once(TO_THE_LETTER)
    assert first.finished - START == pytest.approx(10.0)
    assert second.finished - START == pytest.approx(10.0 + 10.0 / (100 / 3 / 90), rel=0.01)


def test_what_it_gets_late_counts_and_ends_with_its_declared_demand() -> None:
    """Its real burst is three times as long: after 10 s of the whole cluster it has its residual share."""
    longer = Work("soft", START, np.array([10.0]), 30.0, START + 10.0)
    work = [backlog("t", [10.0], START), Work("hard", START, np.array([10.0]), 10.0, START + 10.0), longer]
    history = run_fluid(queues(), [10.0], work, START, START + 99.9, longest_step=1.0)
    late = [result for result in history.results if 20.5 < result.now - START < 90]
    assert max(result.allocation[2, 0] for result in late) == pytest.approx(10 * (100 / 3 - 10) / 80, rel=0.06)
    assert history.guaranteed["soft"] <= 100 / 3 * (1 + 1e-6)


def test_a_hard_queue_in_time_goes_first() -> None:
    """The hard queue's second burst comes while the soft one is late: the soft one waits for it."""
    bursts = [Work("hard", START + at, np.array([10.0]), 10.0, START + at + 10.0) for at in (0.0, 105.0)]
    soft = Work("soft", START + 99.0, np.array([10.0]), 10.0, START + 109.0)
    history = run_fluid(queues(), [10.0], [backlog("t", [10.0], START), *bursts, soft], START, START + 180.0, longest_step=1.0)
    assert [burst.finished - START for burst in bursts] == pytest.approx([10.0, 115.0])
    assert soft.finished - START == pytest.approx(119.0)
    assert history.results[-1].classes[2] is GuaranteeClass.SOFT
