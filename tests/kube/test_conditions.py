"""The five conditions of a queue, and the pod priority of its class."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fairburst.config import Config, parse_config
from fairburst.kube.enforce.enforceability import Obstacle
from fairburst.kube.enforce.fifo_admission import Oversize
from fairburst.kube.enforce.pod_priority import pod_priority_of
from fairburst.kube.queues.queue_set import Problem, QueueEntry
from fairburst.kube.views.conditions import conditions_of
from fairburst.policy.attainability import Attainability, Verdict
from fairburst.policy.model import GuaranteeClass, QueueDecision
from tests.support.objects import World, latency_spec

IN_TIME = Attainability(Verdict.IN_TIME, 10.0, 20.0, "expected after 10.0 s of 20 s")
TOO_LATE = Attainability(Verdict.TOO_LATE, 30.0, 20.0, "expected after 30.0 s, deadline 20 s")
NOT_MEASURED = Attainability(Verdict.NOT_MEASURED, 21.0, 20.0, "no burst has been measured yet")
NO_ROOM = Attainability(Verdict.DOES_NOT_FIT, math.inf, 20.0, "of that size the nodes hold none")
HARD = GuaranteeClass.HARD
BLOCKED = Obstacle("PodsWithoutRequests", "no requests.", blocks=True)
FENCED = Obstacle("ForeignQuotaBelowPromise", "their quota.", blocks=False)


def decided(kind: str = "LatencyQueue", granted: GuaranteeClass | None = GuaranteeClass.HARD) -> tuple[QueueEntry, QueueDecision]:
    """A queue and a decision that grants it this class."""
    world = World()
    world.queue(kind, "n", spec=latency_spec() if kind == "LatencyQueue" else None)
    plan = world.plan()
    return plan.queue_set.entries[0], replace(plan.result.decisions[0], guarantee_class=granted)


def verdicts(
    entry: QueueEntry, decision: QueueDecision | None, attainable: Attainability | None = IN_TIME, **more: Any
) -> dict[str, tuple[str, str]]:
    given = {"obstacles": (), "observed_only": False} | more
    found = conditions_of(entry, decision, attainable, **given)
    assert all(one.message for one in found)
    return {one.type: (one.status, one.reason) for one in found}


def test_a_hard_queue_that_can_be_in_time_is_guaranteed_and_ready() -> None:
    assert verdicts(*decided()) == {
        "Admitted": ("True", "Guaranteed"),
        "Guaranteed": ("True", "HardGuarantee"),
        "Attainable": ("True", "InTime"),
        "Enforced": ("True", "Quota"),
        "Ready": ("True", "Ready"),
    }


@pytest.mark.parametrize(
    ("granted", "attainable", "want_guaranteed", "want_attainable"),
    [
        pytest.param(HARD, TOO_LATE, ("False", "NotAttainable"), ("False", "TooLate"), id="hard, and too late in practice"),
        pytest.param(HARD, NO_ROOM, ("False", "NotAttainable"), ("False", "DoesNotFitNodes"), id="hard, and no room on any node"),
        pytest.param(HARD, NOT_MEASURED, ("True", "HardGuarantee"), ("Unknown", "NoBurstMeasured"), id="hard, and nothing known yet"),
        pytest.param(GuaranteeClass.SOFT, IN_TIME, ("False", "SoftGuarantee"), ("True", "InTime"), id="soft"),
        pytest.param(GuaranteeClass.ELASTIC, None, ("False", "FairShareOnly"), ("Unknown", "NoBurstPromised"), id="elastic"),
        pytest.param(None, None, ("False", "Rejected"), ("Unknown", "NoBurstPromised"), id="rejected"),
    ],
)
def test_what_is_not_guaranteed_says_why(
    granted: GuaranteeClass | None, attainable: Attainability | None, want_guaranteed: tuple[str, str], want_attainable: tuple[str, str]
) -> None:
    found = verdicts(*decided(granted=granted), attainable)
    assert found["Guaranteed"] == want_guaranteed
    assert found["Attainable"] == want_attainable
    late = granted is HARD and want_attainable[0] == "False"
    assert found["Ready"] == (("False", found["Admitted"][1]) if granted is None else want_attainable if late else ("True", "Ready"))


def test_a_throughput_queue_has_no_deadline_to_speak_of() -> None:
    assert set(verdicts(*decided("ThroughputQueue", GuaranteeClass.ELASTIC), None)) == {"Admitted", "Enforced", "Ready"}


def test_a_rejected_queue_is_enforced_at_the_floor() -> None:
    assert verdicts(*decided(granted=None), None)["Enforced"] == ("True", "Floor")


def test_the_obstacle_that_blocks_gives_the_reason_and_all_are_told() -> None:
    entry, decision = decided()
    found = {one.type: one for one in conditions_of(entry, decision, IN_TIME, [FENCED, BLOCKED], observed_only=False)}
    assert (found["Enforced"].reason, found["Enforced"].message) == ("PodsWithoutRequests", "their quota. no requests.")
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "PodsWithoutRequests")


def test_a_queue_that_is_only_observed_is_ready_without_being_enforced() -> None:
    found = verdicts(*decided(), observed_only=True)
    assert (found["Enforced"], found["Ready"]) == (("False", "Observe"), ("True", "Observed"))


def test_an_invalid_edit_makes_a_queue_that_is_served_unready() -> None:
    entry, decision = decided()
    found = verdicts(replace(entry, problem=Problem("InvalidSpec", "spec.weight: expected 1 or more.")), decision)
    assert (found["Admitted"][0], found["Ready"]) == ("True", ("False", "InvalidSpec"))


@pytest.mark.parametrize("problem", [Problem("SecondQueue", "another governs."), None])
def test_a_queue_that_governs_nothing_says_so_everywhere(problem: Problem | None) -> None:
    entry, _ = decided()
    found = verdicts(replace(entry, problem=problem, governs=False), None, None)
    reason = problem.reason if problem else "NotGoverning"
    assert found == {"Admitted": ("False", "NotGoverning"), "Enforced": ("False", "NotGoverning"), "Ready": ("False", reason)}


def test_work_that_never_starts_makes_a_queue_unready() -> None:
    """A queue said "Ready: admitted and served" while a Job of it waited forever."""
    found = verdicts(*decided("ThroughputQueue", GuaranteeClass.ELASTIC), None, never_start=[Oversize("Job n/huge", "cpu", 65.0, 64.0)])
    assert found["Ready"] == found["JobsFit"] == ("False", "LargerThanLevel")
    found = verdicts(*decided("ThroughputQueue", GuaranteeClass.ELASTIC), None, too_large=["Job n/huge asks for 65 cpu."])
    assert (found["Ready"], found["JobsFit"]) == (("True", "Ready"), ("False", "NeverFits")), "it runs in parts"


def test_several_jobs_that_never_start_are_told_of_in_the_plural() -> None:
    both = [Oversize(f"Job n/{name}", "cpu", 65.0, 64.0) for name in ("a", "b")]
    nodes = {name: (f"Job {name}", {"cpu": 100.0}) for name in ("c", "d")}
    entry, decision = decided("ThroughputQueue", GuaranteeClass.ELASTIC)
    found = conditions_of(entry, decision, None, [], observed_only=False, never_start=both, no_node=nodes)
    said = next(one.message for one in found if one.type == "JobsFit")
    assert "They wait until the level reaches that: make them smaller, or the queue's weight or the pool larger, or let them start" in said
    assert said.endswith("could hold them, so they wait and get no part of the pool: make them smaller, or add larger nodes.")


@pytest.mark.parametrize(
    ("needs", "want"),
    [
        pytest.param((65.0,), "make it smaller, or the queue's spec.limits larger, or let it start", id="limited"),
        pytest.param((9.0, 65.0), "or the queue's spec.limits or the queue's weight or the pool larger", id="one of two"),
        pytest.param((9.0,), "make it smaller, or the queue's weight or the pool larger, or let it start", id="not limited"),
    ],
)
def test_work_above_the_queues_own_limits_is_told_to_raise_them(needs: tuple[float, ...], want: str) -> None:
    """No weight and no pool helps against spec.limits, and the condition advised both."""
    world = World()
    world.queue("ThroughputQueue", "n", spec={"limits": {"cpu": "64"}})
    plan = world.plan()
    oversizes = [Oversize(f"Job n/{need:g}", "cpu", need, 8.0) for need in needs]
    found = conditions_of(plan.queue_set.entries[0], plan.result.decisions[0], None, [], observed_only=False, never_start=oversizes)
    assert want in next(one.message for one in found if one.type == "JobsFit")


def test_work_larger_than_any_node_does_not_hide_work_larger_than_the_level() -> None:
    """The first needs smaller pods or larger nodes, the second more level: one remedy does not replace the other."""
    found = conditions_of(
        *decided("ThroughputQueue", GuaranteeClass.ELASTIC),
        None,
        [],
        observed_only=False,
        never_start=[Oversize("Job n/wide", "cpu", 65.0, 64.0)],
        no_node={"deep": ("Job deep", {"cpu": 100.0})},
    )
    fits = next(one for one in found if one.type == "JobsFit")
    assert (fits.status, fits.reason) == ("False", "LargerThanLevel")
    assert "Job n/wide starts whole and needs 65 cpu, the queue's level is 64. It waits until the level reaches that" in fits.message
    assert "Job deep: a pod asks for 100 cpu. No node of the pool could hold it" in fits.message


@pytest.mark.parametrize("granted", [HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC, None])
@pytest.mark.parametrize("attainable", [IN_TIME, TOO_LATE, None])
def test_each_fact_is_told_by_one_condition_and_no_condition_that_holds_sounds_like_a_failure(
    granted: GuaranteeClass | None, attainable: Attainability | None
) -> None:
    entry, decision = decided(granted=granted)
    found = conditions_of(entry, decision, attainable, [BLOCKED], observed_only=False, never_start=[Oversize("Job n/j", "cpu", 2.0, 1.0)])
    messages = [one.message for one in found]
    assert len(set(messages)) == len(messages)
    assert not [one for one in found if one.status == "True" and one.reason.endswith("Failed")]


@pytest.mark.parametrize(
    ("granted", "want"),
    [
        (GuaranteeClass.HARD, ("fairburst-hard", 2000)),
        (GuaranteeClass.SOFT, ("fairburst-soft", 1000)),
        (GuaranteeClass.ELASTIC, ("fairburst-large", -2)),
        (None, ("fairburst-large", -2)),
    ],
)
def test_the_pod_priority_is_the_priority_class_of_the_granted_class(granted: GuaranteeClass | None, want: tuple[str, int]) -> None:
    assert pod_priority_of(granted, Config()) == {"className": want[0], "value": want[1], "preemptionPolicy": "Never"}


def test_the_pod_priority_follows_the_configured_ladder() -> None:
    assert pod_priority_of(GuaranteeClass.HARD, parse_config("priorityClasses: {hard: 5000}"))["value"] == 5000
