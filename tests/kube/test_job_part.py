"""The jobs of a namespace for DRESS: the memory of bare pods between rounds equals a first look at them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.objects import Job, Pod
from fairburst.kube.jobs.job_index import JobIndex
from fairburst.kube.jobs.job_part import JobPartBuilder, NamespaceJobs
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.demand import NamespaceDemand, namespace_demand
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.kind import Controllers
from tests.support.objects import WALL, job, pod, requesting

RESOURCES = ("cpu", "memory")
POD_STAGES = ("gone", "waits", "bound", "runs", "ends")
STAGES = st.sampled_from(POD_STAGES)


def bare_pod(number: int, stage: str, priority_class: str, *, grouped: bool) -> Pod:
    labels: dict[str, Any] = {"labels": {"fairburst.dev/job": "team"}} if grouped else {}
    phase = {"runs": "Running", "ends": "Succeeded"}.get(stage, "Pending")
    made = pod("batch", f"p{number}", requesting(f"{number + 1}"), node="" if stage == "waits" else "node-0", phase=phase, **labels)
    made.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    made.spec.priority_class_name = priority_class
    made.status.start_time = "2026-01-01T00:00:00Z" if phase != "Pending" else None
    return made


def summary(index: JobIndex, builder: JobPartBuilder, demand: NamespaceDemand, queue: str) -> list[list[tuple[Any, ...]]]:
    """Jobs that wait, that run and that are bare pods which run, in order of name."""
    found = builder.jobs_of("batch", queue, demand, index, {})
    return [
        sorted((j.name, j.queue, j.category.name, j.submitted, j.request.tolist(), j.wanted.tolist(), j.used.tolist()) for j in jobs)
        for jobs in (found.pending, found.running, found.bare_running)
    ]


def settled(jobs: NamespaceJobs) -> list[tuple[str, int, float]]:
    """Category, how many bare pods run, and their cpu, one for each size."""
    return sorted((job.category.name, job.count, float(job.used[0])) for job in jobs.bare_running if job.category is not None)


@given(st.lists(st.tuples(st.integers(0, 5), STAGES, st.sampled_from(["", "fairburst-small", "fairburst-large"]), st.booleans())))
def test_bare_pods_are_the_jobs_that_a_first_look_would_find(changes: list[tuple[int, str, str, bool]]) -> None:
    """Pods come, are bound, run, end and go in any order; before each change the builder has looked at the pods."""
    pods, index, builder = PodIndex(RESOURCES), JobIndex(RESOURCES, keep_seconds=20.0), JobPartBuilder()
    index.follow(frozenset({"batch"}), (), WALL, 0.0)
    stored: dict[int, Pod] = {}
    for now, (number, stage, priority_class, grouped) in enumerate(changes):
        old = stored.pop(number, None)
        new = None if stage == "gone" else bare_pod(number, stage, priority_class, grouped=grouped)
        pods.update(old, new)
        if (changed := new or old) is not None:
            index.update(old, new, pods.requests_of(changed), WALL + now, float(now))
        if new is not None and not new.ended:
            stored[number] = new
        demand = namespace_demand(Controllers(), pods.namespace("batch"), pods.owners_in("batch"), RESOURCES)
        queue = f"batch/queue-{now // 3}"
        first_look = copy.deepcopy(index)
        for one in first_look.jobs("batch"):
            one.seen = None
        assert summary(index, builder, demand, queue) == summary(first_look, JobPartBuilder(), demand, queue)


@given(st.lists(st.tuples(st.integers(0, 5), STAGES), max_size=40))
def test_bare_pods_that_run_are_as_many_jobs_as_there_are_and_hold_what_they_hold(changes: list[tuple[int, str]]) -> None:
    """Each is a job by itself, the even ones small; those that have started and not ended are reported as one for each size."""
    pods, index = PodIndex(RESOURCES), JobIndex(RESOURCES, keep_seconds=3.0)
    index.follow(frozenset({"batch"}), (), WALL, 0.0)
    stored, started = dict[int, Pod](), set[int]()
    for now, (number, stage) in enumerate(changes):
        old = stored.pop(number, None)
        new = None if stage == "gone" else bare_pod(number, stage, "fairburst-large" if number % 2 else "fairburst-small", grouped=False)
        pods.update(old, new)
        if (changed := new or old) is not None:
            index.update(old, new, pods.requests_of(changed), WALL + now, float(now))
        index.expire(float(now))
        if new is None or new.ended:
            started.discard(number)
        else:
            stored[number] = new
            started |= {number} if stage == "runs" else set()
        found = JobPartBuilder().jobs_of("batch", "batch/queue", NamespaceDemand(), index, {})
        of_size = {name: [one for one in started if one % 2 == odd] for odd, name in enumerate(("SMALL", "LARGE"))}
        assert settled(found) == sorted((name, len(of), sum(one + 1.0 for one in of)) for name, of in of_size.items() if of)
        assert (found.small_count + found.large_count, len(found.pending)) == (len(stored), len(stored) - len(started))


CHANGES = st.tuples(
    st.integers(0, 3), st.sampled_from(["job", "job", "job gone", "small job", "grouped job", *POD_STAGES]), st.integers(0, 3)
)


def announced_job(number: int, what: str, parallelism: int) -> Job | None:
    if what == "job gone":
        return None
    stored = job("batch", f"j{number}", parallelism, requesting("0" if parallelism == 3 else f"{parallelism + 1}"))
    stored.metadata.creation_timestamp = f"2026-01-01T00:00:0{number}Z"
    stored.spec.template.metadata.labels = {
        "small job": {"fairburst.dev/size": "small"}, "grouped job": {"fairburst.dev/job": "team"}, "job": None,
    }[what]  # fmt: skip
    return stored


@given(st.lists(CHANGES, max_size=40))
def test_what_is_remembered_of_jobs_is_what_a_first_look_would_find(changes: list[tuple[int, str, int]]) -> None:
    """Jobs and their pods come, change and go in any order; each look remembers the one before."""
    pods, index, builder, controllers = PodIndex(RESOURCES), JobIndex(RESOURCES, keep_seconds=20.0), JobPartBuilder(), ControllerIndex()
    index.follow(frozenset({"batch"}), (), WALL, 0.0)
    stored, jobs, former = dict[int, Pod](), dict[int, Job](), NamespaceDemand()
    for now, (number, what, amount) in enumerate(changes):
        if "job" in what:
            old_job, new_job = jobs.pop(number, None), announced_job(number, what, amount)
            if (old_job or new_job) is not None:
                controllers.update("Job", old_job, new_job)
            if new_job is not None:
                jobs[number] = new_job
        else:
            old, new = stored.pop(number, None), None
            if what != "gone":
                new = pod(
                    "batch",
                    f"p{number}",
                    requesting(f"{amount + 1}"),
                    owner=("Job", f"j{number}"),
                    node="" if what == "waits" else "node-0",
                    phase={"runs": "Running", "ends": "Succeeded"}.get(what, "Pending"),
                )
            pods.update(old, new)
            if (changed := new or old) is not None:
                index.update(old, new, pods.requests_of(changed), WALL + now, float(now))
            if new is not None and not new.ended:
                stored[number] = new

        def look(earlier: NamespaceDemand) -> NamespaceDemand:
            workloads, usage = controllers.workloads("batch"), pods.namespace("batch")
            return namespace_demand(workloads, usage, pods.owners_in("batch"), RESOURCES, former=earlier.desired_pods)

        first_look = copy.deepcopy(index)
        former = look(former)
        assert former == look(NamespaceDemand())
        assert summary(index, builder, former, "batch/queue") == summary(first_look, JobPartBuilder(), former, "batch/queue")
