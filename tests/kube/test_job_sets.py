"""JobSets in Suspend mode: held whole, started whole, and their room is kept until their Jobs ask for it themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from fairburst.kube.admission.mutation import held_patch
from fairburst.kube.api.objects import Job
from fairburst.kube.names import HELD_ANNOTATION, RELEASED_ANNOTATION
from fairburst.kube.workloads.job_set import JobSet
from tests.support.held_work import SUSPENDS, TQ, held, settle, waiting, world_with_batch
from tests.support.objects import World, job, pod_spec, requesting


def job_set(name: str, created: int = 0, suspend: bool = True, status: dict[str, Any] | None = None, **replicas: int) -> JobSet:
    """A JobSet as the admission policy leaves it; each part has Jobs of two pods of a cpu each."""
    part = {"parallelism": 2, "completions": 2, "template": {"spec": pod_spec(requesting("1", "1Gi"))}}
    parts = [{"name": each, "replicas": count, "template": {"spec": part}} for each, count in replicas.items()]
    metadata = {"namespace": "batch", "name": name, "uid": name, "resourceVersion": "1", "annotations": {HELD_ANNOTATION: "true"}}
    metadata["creationTimestamp"] = f"2026-01-01T00:{created:02}:00Z"
    return msgspec.convert({"metadata": metadata, "spec": {"suspend": suspend, "replicatedJobs": parts}, "status": status or {}}, JobSet)


def put(world: World, new: JobSet) -> JobSet:
    old = next((one for one in job_sets(world).values() if one.metadata.name == new.metadata.name), None)
    world.controller("JobSet", old, new)
    return new


def job_sets(world: World) -> dict[str, JobSet]:
    return {one.metadata.name: one for one in world.view.controllers.workloads("batch").of("JobSet")}


def held_sets(world: World) -> list[str]:
    return sorted(name for name, one in job_sets(world).items() if one.spec.suspend)


def part_of(owner: str, part: str, number: int, *, suspend: bool, **status: Any) -> Job:
    """A Job that the JobSet's controller has made."""
    made = job("batch", f"{owner}-{part}-{number}", 2, requesting("1", "1Gi"), suspend=suspend, completions=2, status=status)
    made.metadata.labels = {"jobset.sigs.k8s.io/replicatedjob-name": part}
    made.metadata.owner_references = msgspec.convert([{"kind": "JobSet", "name": owner, "uid": owner, "controller": True}], list[Any])
    return msgspec.convert(msgspec.to_builtins(made), Job)


def wanted(world: World) -> str:
    settle(world)
    return str(world.status("batch")["demand"]["cpu"])


def test_a_held_job_set_is_demand_and_starts_whole_in_line_with_jobs() -> None:
    world = world_with_batch()  # 64 cpu
    held(world, "first", 40)
    put(world, job_set("second", 1, driver=1, workers=14))
    held(world, "third", 8, created=2)
    assert wanted(world) == "78"
    assert (waiting(world), held_sets(world)) == (["third"], ["second"]), "24 places are too few for 30, and the third does not pass it"
    (first,) = [one for one in world.view.controllers.workloads("batch").of("Job") if one.metadata.name == "first"]
    world.controller("Job", first, None)
    settle(world)
    assert (waiting(world), held_sets(world)) == ([], [])
    annotations = job_sets(world)["second"].metadata.annotations or {}
    assert RELEASED_ANNOTATION in annotations
    assert HELD_ANNOTATION not in annotations


def test_a_started_job_sets_room_is_its_own_until_its_jobs_ask_for_it() -> None:
    """The controller takes a moment to start them. Work behind them must not start in their place."""
    world = world_with_batch()
    put(world, job_set("set", workers=20))
    settle(world)
    assert held_sets(world) == []
    held(world, "behind", 30, created=1)
    assert wanted(world) == "70"
    assert waiting(world) == ["behind"]
    for number in range(20):  # made, then started one after the other
        world.controller("Job", None, part_of("set", "workers", number, suspend=number >= 5))
    assert wanted(world) == "70"
    ended = job_set("set", suspend=False, workers=20, status={"replicatedJobsStatus": [{"name": "workers", "succeeded": 20}]})
    ended.metadata.annotations = {RELEASED_ANNOTATION: "2026-01-01T00:00:00Z"}
    for number in range(20):
        world.controller("Job", part_of("set", "workers", number, suspend=False), None)
    put(world, ended)
    assert wanted(world) == "30", "ended well, and their Jobs gone"
    assert waiting(world) == []


def test_one_that_its_user_suspends_or_that_has_ended_wants_nothing_and_others_count_by_their_jobs() -> None:
    world = world_with_batch()
    suspended, ended, theirs = (
        job_set("a", workers=4),
        job_set("b", workers=4, status={"terminalState": "Completed"}),
        job_set("c", workers=4),
    )
    suspended.metadata.annotations = {RELEASED_ANNOTATION: "2026-01-01T00:00:00Z"}
    theirs.metadata.annotations, theirs.spec.suspend = {}, False
    for one in (suspended, ended, theirs):
        put(world, one)
    world.controller("Job", None, part_of("c", "workers", 0, suspend=False))
    assert wanted(world) == "2"
    assert held_sets(world) == ["a", "b"], "an ended one is left alone"


def test_one_that_is_larger_than_the_level_is_named() -> None:
    world = world_with_batch()
    put(world, job_set("wide", workers=33))
    settle(world)
    status, reason, message = world.condition(TQ, "batch", "JobsFit")
    assert (status, reason) == ("False", "LargerThanLevel")
    assert "JobSet batch/wide starts whole and needs 66 cpu, the queue's level is 64." in message


def test_when_its_queue_leaves_suspend_mode_it_starts_whatever_the_level() -> None:
    world = world_with_batch()
    put(world, job_set("wide", workers=33))
    settle(world)
    assert held_sets(world) == ["wide"]
    world.queue(TQ, "batch", spec=SUSPENDS | {"enforcement": "Quota"}, status=world.status("batch"), generation=2)
    settle(world)
    assert held_sets(world) == []


def test_the_webhook_suspends_a_new_job_set_and_notes_it() -> None:
    body = {"metadata": {"name": "set"}, "spec": {"replicatedJobs": []}}
    assert held_patch(body, ("ThroughputQueue", {"holds": "Jobs"})) == [
        {"op": "add", "path": "/spec/suspend", "value": True},
        {"op": "add", "path": "/metadata/annotations", "value": {HELD_ANNOTATION: "true"}},
    ]
    assert held_patch(body, ("ThroughputQueue", {})) == []
