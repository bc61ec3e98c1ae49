"""docs/conditions.md lists every reason of a condition, and no other: the code that gives a reason produces each of them here."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairburst.kube.enforce.enforceability import obstacles
from fairburst.kube.enforce.fifo_admission import Oversize
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.rounds.work_events import LARGER_THAN_LEVEL, NEVER_STARTS
from fairburst.kube.usage.host_ports import HostPort
from fairburst.kube.views.conditions import ConditionValue, conditions_of
from fairburst.kube.views.explanation import CAUSES
from fairburst.kube.views.forecast_view import START_FORECAST
from fairburst.policy.attainability import Attainability, ClusterPace, PortLimit, attainability
from fairburst.policy.decide import decide
from fairburst.policy.model import Burst, Memory, PolicyConfig, QueueDecision, QueueKind, QueueSpec, Sporadic
from tests.support.objects import GI, World, latency_spec, limit_range, quota
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

PAGE = (Path(__file__).parents[2] / "docs" / "conditions.md").read_text(encoding="utf-8")
CAUSES_LISTED = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
LISTED = [tuple(row) for row in re.findall(r"^\| (\w+) \| (True|False|Unknown) \| `(\w+)` \|", PAGE, re.MULTILINE)]
REPEATED = {"Admitted", "Enforced", "JobsFit", "Attainable"}  # Ready repeats their reasons

HARD = latency("a/q", 0.0, [4.0], 10, Sporadic(100))
CLOSE = latency("a/q", 0.0, [50.0], 40, Sporadic(100))
UNKNOWN = QueueSpec("l/q", QueueKind.LATENCY, (0.0, "l/q"), 1.0, Burst({"tpu": 1.0}, 1, 1), Sporadic(9))


def rounds(*histories: tuple[tuple[QueueSpec, ...], float]) -> tuple[QueueDecision, ...]:
    """The decisions of the last of several rounds, each with its queues and capacity."""
    memory, decisions = Memory(), tuple[QueueDecision, ...]()
    for queues, capacity in histories:
        result, memory = decide(snapshot(queues, [capacity], np.zeros((len(queues), 1))), memory, PolicyConfig(), START)
        decisions = tuple(result.decisions)
    return decisions


def admissions() -> Iterator[QueueDecision]:
    """Decisions with every answer of admission."""
    beside = latency("o/q", 0.5, [10.0], 50, Sporadic(101))
    yield from rounds(((CLOSE, throughput("b/q", 1.0), throughput("c/q", 2.0)), 50.0))
    yield from rounds(((HARD, dataclasses.replace(HARD, name="b/q", order=(1.0, "b/q"))), 7.0))
    yield from rounds(*[((throughput("t/q"), latency("a/q", 1.0, [10.0], 50, Sporadic(100))), size) for size in (10.0, 9.0)])
    yield from rounds(((UNKNOWN,), 8.0))
    yield from rounds(((dataclasses.replace(HARD, suspended=True),), 8.0))
    yield from rounds(((beside, HARD), 10.0), ((beside, dataclasses.replace(HARD, weight=3.0)), 10.0))


def delays() -> Iterator[Attainability | None]:
    yield None
    known = ClusterPace(release_seconds=30.0)
    for fraction, fitting, free, pace in (
        (0.5, math.inf, True, known), (1.0, math.inf, False, known), (None, 1.0, True, known), (None, math.inf, False, ClusterPace(5.0)),
    ):  # fmt: skip
        yield attainability(
            deadline_seconds=20.0, demand_fraction=fraction, pods=4.0, fitting_pods=fitting, room_is_free=free, pace=pace
        )  # fmt: skip
    limit = PortLimit(4.0, 2.0, "80/TCP", 2.0, 2.0)
    yield attainability(deadline_seconds=20.0, demand_fraction=0.5, pods=4.0, room_is_free=True, pace=known, port_limit=limit)


def produced() -> Iterator[ConditionValue]:
    """Every condition with every reason, by the ways that lead to it."""
    world = World("", nodes=4)
    world.queue("LatencyQueue", "n", spec=latency_spec())
    world.queue("LatencyQueue", "n", name="second", spec=latency_spec(), created="2026-02-01T00:00:00Z")
    world.queue("LatencyQueue", "kube-system", spec=latency_spec())
    for number in range(9):
        world.queue("ThroughputQueue", "n", name=f"beside-{number}", created=f"2026-03-01T00:00:0{number}Z")
    world.queue("ThroughputQueue", "wrong", spec={"weight": -1})
    world.queue("ThroughputQueue", "going")["metadata"]["deletionTimestamp"] = "2026-04-01T00:00:00Z"
    plan = world.plan()
    governing = next(one for one in plan.queue_set.entries if one.governs)
    for entry in plan.queue_set.entries:
        if not entry.governs:
            yield from conditions_of(entry, None, None, (), observed_only=False)
    yield from conditions_of(dataclasses.replace(governing, problem=None, governs=False), None, None, (), observed_only=False)
    decisions = list(admissions())
    for decision in decisions:
        for attainable in delays():
            yield from conditions_of(governing, decision, attainable, (), observed_only=False)
    yield from conditions_of(governing, decisions[0], None, (), observed_only=True)
    yield from conditions_of(governing, decisions[0], None, (), observed_only=False, contained="an internal error")
    yield from of_enforcement(governing, decisions[0])


def of_enforcement(entry: QueueEntry, decision: QueueDecision) -> Iterator[ConditionValue]:
    promise, unit = {"cpu": 10.0, "memory": 20 * GI}, {"cpu": 2.0, "memory": 4 * GI}
    for unrequested, quotas, ranges in (
        (["web"], [], []),
        ([], [quota("n", {"requests.cpu": "4"}, name="theirs")], []),
        ([], [], [limit_range("n", "l", type="Pod", max={"cpu": "1", "memory": "1Gi"})]),
    ):
        found = obstacles(unrequested=unrequested, foreign_quotas=quotas, limit_ranges=ranges, promise=promise, unit=unit, has_quota=False)
        yield from conditions_of(entry, decision, None, found, observed_only=False)
    classes: Any = {"classes": {"a": 1}, "priorities": {"b": 1}}
    found = obstacles(unrequested=[], foreign_quotas=[], limit_ranges=[], promise=promise, unit=unit, has_quota=True, **classes)
    yield from conditions_of(entry, decision, None, found, observed_only=False)
    for mode in ("Gate", "Suspend"):
        world = World()
        world.queue("LatencyQueue", "n", spec=latency_spec() | {"enforcement": mode})
        yield from conditions_of(world.plan().queue_set.entries[0], decision, None, (), observed_only=False)
    yield from conditions_of(entry, decision, None, (), observed_only=False, too_large=())
    yield from conditions_of(entry, decision, None, (), observed_only=False, too_large=("Job n/a asks for 9 cpu.",))
    yield from conditions_of(entry, decision, None, (), observed_only=False, never_start=(Oversize("Job n/b", "cpu", 9.0, 8.0),))
    yield from conditions_of(entry, decision, None, (), observed_only=False, no_node={"u": ("Job b", {"cpu": 9.0})})
    yield from conditions_of(entry, decision, None, (), observed_only=False, not_offered={"u": ("Job b", "nvidia.com/gpu")})
    taken = {"u": ("Job b", (HostPort(80, "TCP", ""),))}
    yield from conditions_of(entry, decision, None, (), observed_only=False, ports_taken=taken)


def test_the_page_lists_every_reason_that_is_given_and_no_other() -> None:
    found = list(produced())
    repeated = {(one.reason) for one in found if one.type in REPEATED and one.status == "False"}
    given = {
        (one.type, one.status, one.reason)
        for one in found
        if one.type != "Ready" or one.reason not in repeated or one.reason == "NotGoverning"
    }  # fmt: skip
    assert given == set(LISTED)
    assert len(LISTED) == len(set(LISTED))


def test_no_reason_of_a_condition_that_holds_says_failed() -> None:
    assert not [row for row in LISTED if row[1] == "True" and "Fail" in row[2]]


@pytest.mark.parametrize("one", [*admissions()], ids=lambda one: f"{one.queue} {one.admission.reason}")
def test_the_answer_of_admission_names_no_other_queue(one: QueueDecision) -> None:
    assert not re.findall(r"\b[a-z]/q\b", one.admission.message.replace(one.queue, ""))


def test_the_page_lists_every_reason_of_an_event_on_waiting_work_and_no_other() -> None:
    assert {*CAUSES, LARGER_THAN_LEVEL, *NEVER_STARTS, START_FORECAST} == CAUSES_LISTED
