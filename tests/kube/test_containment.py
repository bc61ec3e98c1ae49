"""A step that fails for one queue by any error: that queue says so and keeps its last quota, and the others are served."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairburst.kube.culprits import culprits
from fairburst.kube.queues import queue_set
from fairburst.kube.rounds import statuses
from fairburst.kube.rounds.managed import ManagedNamespaces
from fairburst.kube.rounds.quotas import QuotaRounds
from fairburst.kube.views import status_plan
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, QueueKind, QueueSpec
from tests.support.objects import World, job

TQ = "ThroughputQueue"


class BugError(Exception):
    """An error that no code expects."""


def work(world: World, namespace: str, pods: int = 4) -> None:
    world.queue(TQ, namespace)
    world.controller("Job", None, job(namespace, f"{namespace}-job", pods))


def fails_for(namespace: str, function: Callable[..., Any], of: Callable[..., str]) -> Callable[..., Any]:
    def failing(*arguments: Any, **more: Any) -> Any:
        if of(*arguments) == namespace:
            raise BugError("a bug")
        return function(*arguments, **more)

    return failing


def deciding(namespace: str) -> Callable[..., Any]:
    def failing(snapshot: Any, *rest: Any) -> Any:
        if any(spec.name.startswith(f"{namespace}/") for spec in snapshot.queues):
            raise BugError("a bug")
        return decide(snapshot, *rest)

    return failing


def enforcing(patch: pytest.MonkeyPatch, namespace: str) -> None:
    patch.setattr(ManagedNamespaces, "_item", fails_for(namespace, ManagedNamespaces._item, lambda _, __, ___, where, *____: where))


def showing(patch: pytest.MonkeyPatch, namespace: str) -> None:
    patch.setattr(status_plan, "status_of", fails_for(namespace, status_plan.status_of, lambda item, *_: item.entry.namespace))


def describing(patch: pytest.MonkeyPatch, namespace: str) -> None:
    patch.setattr(statuses, "conditions_of", fails_for(namespace, statuses.conditions_of, lambda entry, *_, **__: entry.namespace))


def targeting(patch: pytest.MonkeyPatch, namespace: str) -> None:
    patch.setattr(QuotaRounds, "_targets", fails_for(namespace, QuotaRounds._targets, lambda _, __, item, *___: item.namespace))


def reading(patch: pytest.MonkeyPatch, namespace: str) -> None:
    patch.setattr(queue_set, "to_queue_spec", fails_for(namespace, queue_set.to_queue_spec, lambda queue: queue.metadata.namespace))


@pytest.fixture
def world() -> World:
    made = World()
    for namespace in ("broken", "other"):
        work(made, namespace)
    made.round()
    made.after(60.0)
    return made


@pytest.mark.parametrize("step", [enforcing, showing, describing, targeting])
def test_an_error_in_a_step_concerns_one_queue_which_says_so_and_keeps_its_quota(
    world: World, monkeypatch: pytest.MonkeyPatch, step: Callable[[pytest.MonkeyPatch, str], None]
) -> None:
    before = world.hard("broken")
    step(monkeypatch, "broken")
    world.controller("Job", None, job("broken", "more", 20))
    world.controller("Job", None, job("other", "more", 20))
    plan = world.round()
    assert [write.namespace for write in plan.quota_writes if write.namespace == "broken"] == [] or step in {showing, describing}
    if step not in {showing, describing}:
        assert world.hard("broken") == before
    status, reason, message = world.condition(TQ, "broken", "Ready")
    assert (status, reason) == ("False", "InternalError")
    assert "BugError: a bug" in message
    assert world.status("broken")["promise"], "what is remembered stays"
    assert world.condition(TQ, "other", "Ready")[0] == "True"
    assert world.status("other")["demand"]["cpu"] == "24"
    assert sum(world.engine.contained.failures.values()) >= 1


def test_a_queue_that_cannot_be_read_is_left_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.hard("broken")
    reading(monkeypatch, "broken")
    world.queue(TQ, "broken", spec={"weight": 5}, generation=2, status=world.status("broken"))
    plan = world.round()
    assert world.hard("broken") == before
    assert (plan.quota_deletions, plan.releases) == ([], [])
    assert world.condition(TQ, "broken", "Ready")[1] == "InternalError"
    assert world.condition(TQ, "other", "Ready")[0] == "True"


def test_a_queue_on_which_the_core_cannot_decide_is_left_as_it_is_until_it_changes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before, promise = world.hard("broken"), world.status("broken")["promise"]
    world.engine._decide = deciding("broken")
    monkeypatch.setattr("fairburst.kube.culprits.decide", deciding("broken"))
    world.controller("Job", None, job("other", "more", 20))
    for _ in range(3):
        plan = world.round()
        world.after(10.0)
        assert [spec.name for spec in plan.snapshot.queues] == ["other/queue"]
    assert world.hard("broken") == before
    assert world.condition(TQ, "broken", "Ready")[1] == "InternalError"
    assert world.condition(TQ, "other", "Ready")[0] == "True"

    world.engine._decide = decide
    world.queue(TQ, "broken", generation=2, status=world.status("broken") | {"promise": promise, "class": "Elastic"})
    world.round()
    world.after(1.0)
    world.round()
    assert world.condition(TQ, "broken", "Ready")[0] == "True"


def test_queues_that_follow_a_broken_one_in_its_namespace_may_be_broken_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next queue of the namespace governs once the first is left out. Fuzzed objects found that the round failed."""
    for number in range(3):
        world.queue(TQ, "broken", name=f"later-{number}", created=f"2026-02-0{number + 1}T00:00:00Z")
    world.engine._decide = deciding("broken")
    monkeypatch.setattr("fairburst.kube.culprits.decide", deciding("broken"))
    plan = world.round()
    assert [spec.name for spec in plan.snapshot.queues] == ["other/queue"]


def test_work_of_other_queues_that_starts_whole_makes_no_queue_a_culprit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a snapshot has by row was taken as it is for a queue alone, which has the only row: then no queue could be decided on."""
    queues = tuple(QueueSpec(f"{name}/queue", QueueKind.THROUGHPUT, (0.0, name)) for name in ("broken", "other", "whole"))
    amounts, capacity, rows = np.ones((3, 1)), np.array([9.0]), {2: np.ones(1)}
    snapshot = ClusterSnapshot(("cpu",), capacity, capacity, queues, amounts, amounts, amounts)
    snapshot = dataclasses.replace(snapshot, next_start=rows, starting=frozenset({2}), left_behind=rows, oldest_work={2: 1.0})
    monkeypatch.setattr("fairburst.kube.culprits.decide", deciding("broken"))
    assert culprits(snapshot, Memory(), PolicyConfig(), 2.0).keys() == {"broken/queue"}


def test_an_error_that_no_queue_causes_fails_the_round(world: World) -> None:
    def always(*_: Any) -> Any:
        raise BugError("everything is wrong")

    world.engine._decide = always
    with pytest.raises(BugError, match="everything is wrong"):
        world.plan()


def test_a_cause_is_logged_once_however_many_objects_and_rounds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for number in range(5):
        work(world, f"broken-{number}")
    world.round()

    def always(*_: Any, **__: Any) -> Any:
        raise BugError("a bug")

    monkeypatch.setattr(ManagedNamespaces, "_item", always)
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            world.after(10.0)
            world.round()
    assert len([record for record in caplog.records if "contained" in record.message]) == 1
    assert world.engine.contained.failures["enforce"] == 20
