"""The jobs of a namespace for DRESS: the memory of bare pods between rounds equals a first look at them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.objects import Pod
from fairburst.kube.jobs.job_index import JobIndex
from fairburst.kube.jobs.job_part import JobPartBuilder, NamespaceJobs
from fairburst.kube.usage.demand import NamespaceDemand, namespace_demand
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.kind import Controllers
from tests.support.objects import WALL, pod, requesting

RESOURCES = ("cpu", "memory")
STAGES = st.sampled_from(["gone", "waits", "bound", "runs", "ends"])


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
