"""The sentence in a queue's status about its waiting work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.views.explanation import cause, explanation, waiting_of
from fairburst.policy.model import GuaranteeClass, QueueDecision
from tests.support.objects import World, latency_spec

RESOURCES = ("cpu", "memory")
GI = 2.0**30


def decided(reason: str, cpu: float, granted: GuaranteeClass | None = GuaranteeClass.HARD) -> QueueDecision:
    """A decision that gives this much cpu and plenty of memory."""
    world = World()
    world.queue("LatencyQueue", "n", spec=latency_spec())
    decision = world.plan().result.decisions[0]
    return replace(decision, reason=reason, guarantee_class=granted, allocation=np.array([cpu, 64 * GI]))


def said(decision: QueueDecision, demand: float = 12.0, usage: float = 4.0) -> str:
    return explanation(decision, np.array([demand, demand * GI]), np.array([usage, usage * GI]), RESOURCES)


@pytest.mark.parametrize(
    ("reason", "cpu", "granted", "want", "wants_cause"),
    [
        pytest.param(
            "BelowDemand",
            4.0,
            GuaranteeClass.ELASTIC,
            "the queue has 4 of 12 cpu, its fair share",
            ("WaitsForFairShare", "cpu"),
            id="fair share",
        ),
        pytest.param(
            "InWindow",
            4.0,
            GuaranteeClass.HARD,
            "the queue has 4 of 12 cpu, its promised rate",
            ("WaitsForItsRate", "cpu"),
            id="hard, in its window",
        ),
        pytest.param(
            "InWindow",
            4.0,
            GuaranteeClass.SOFT,
            "what the promises to hard queues leave",
            ("WaitsForHardQueues", "cpu"),
            id="soft, in its window",
        ),
        pytest.param(
            "DemandMet", 12.0, GuaranteeClass.ELASTIC, "the allocation covers them", ("WaitsForRoom", ""), id="allocated, not yet running"
        ),
        pytest.param(
            "BudgetSpent", 4.0, GuaranteeClass.HARD, "has used all that it declares", ("BudgetSpent", ""), id="larger than declared"
        ),
        pytest.param("Overdue", 4.0, GuaranteeClass.HARD, "past its deadline", ("Overdue", ""), id="too late"),
        pytest.param("NotAdmitted", 4.0, None, "the condition Admitted says why", ("NotAdmitted", ""), id="rejected"),
        pytest.param("Suspended", 0.0, None, "the queue is suspended", ("Suspended", ""), id="suspended"),
    ],
)
def test_what_waits_and_why(reason: str, cpu: float, granted: GuaranteeClass | None, want: str, wants_cause: tuple[str, str]) -> None:
    decision = decided(reason, cpu, granted)
    told = said(decision)
    assert cause(decision, np.array([12.0, 12.0 * GI]), np.array([4.0, 4.0 * GI]), RESOURCES) == wants_cause
    assert told.startswith("8 cpu, 8Gi memory wait: ")
    assert want in told


def test_a_queue_of_which_nothing_waits_says_so() -> None:
    assert said(decided("DemandMet", 12.0), usage=12.0) == "Nothing waits: all that the queue wants runs."
    assert said(decided("Idle", 0.0), demand=0.0, usage=0.0) == "Nothing is wanted."


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=2, max_size=2))
def test_nothing_waits_where_as_much_is_used_as_is_wanted(amounts: list[tuple[float, float]]) -> None:
    demand, usage = np.array([one[0] for one in amounts]), np.array([one[1] for one in amounts])
    found = waiting_of(demand, usage, RESOURCES)
    for at, name in enumerate(RESOURCES):
        assert (name in found) == (demand[at] - usage[at] > 1e-9 * max(usage[at], 1.0)) or abs(demand[at] - usage[at]) < 1e-5
        assert 0 <= found.get(name, 0.0) <= demand[at]


def test_the_status_of_a_queue_has_the_sentence_and_what_waits() -> None:
    world = World()
    world.queue("LatencyQueue", "n", spec=latency_spec())
    world.round()
    assert world.status("n", kind="LatencyQueue")["explanation"] == "Nothing is wanted."
    assert world.status("n", kind="LatencyQueue")["waiting"] == {}
