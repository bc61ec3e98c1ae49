"""A forecast's input from a cluster: its state, and durations and arrivals learned from its ended pods and its Jobs.

Reads typed objects and a decided round.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairburst.forecast.learned import Arrivals, Durations
from fairburst.forecast.state import ENDLESS_SECONDS, JobState, StageState, State
from fairburst.forecast.units import in_countable_units
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.objects import Job, Pod, controller_of
from fairburst.kube.forecasts.ended_pods import pods_of, run_of, started_of
from fairburst.kube.look import Look
from fairburst.kube.queues.job_annotations import parallelism_of
from fairburst.kube.queues.lanes import asks_for
from fairburst.kube.queues.steps import step_of
from fairburst.kube.times import epoch
from fairburst.kube.usage.effective_requests import effective_requests
from fairburst.kube.workloads.job import is_held
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import EPOCH
from fairburst.sim.workload import DagJob, Stage

MOST_ENDED_PODS = 5_000


@dataclass(slots=True)
class Known:
    """Durations and arrivals learned from a cluster.

    ended_pods: number of the durations. seconds: mean duration of a Job's ended pods, by namespace and name.
    """

    durations: Durations = field(default_factory=Durations)
    arrivals: Arrivals = field(default_factory=Arrivals)
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    ended_pods: int = 0


def learn(seen: Look, ended: Iterable[Mapping[str, Any]]) -> Known:
    """Read durations from ended pods (as JSON) and arrivals from the Jobs of each queue."""
    known = Known()
    queues = _queues(seen)
    by_job: dict[tuple[str, str], list[float]] = defaultdict(list)
    for pod in ended:
        run = run_of(pod)
        if run is not None and run.job and run.namespace in queues:
            by_job[run.namespace, run.job].append(run.ended - run.started)
    for (namespace, name), runs in by_job.items():
        job = seen.view.controllers.job(namespace, name)
        size = len(runs) if job is None else pods_of(job)
        for seconds in runs:
            known.durations.ended(queues[namespace if job is None else _space(seen, job)], size, seconds)
        known.seconds[namespace, name] = sum(runs) / len(runs)
        known.ended_pods += len(runs)
    for space, queue in queues.items():
        for job in _in_order(_jobs(seen, space)):
            stage = Stage("pods", min(parallelism_of(job), pods_of(job)), 0.0, _demand(seen.requests_of(job), seen))
            known.arrivals.came(queue, _created(job) - EPOCH, DagJob(job.metadata.name, (stage,)))
    return known


async def ended_pods(client: ApiClient) -> Sequence[Mapping[str, Any]]:
    """Return ended pods that the cluster still lists, as JSON. Raises ApiError."""
    ended = await client.get_json("/api/v1/pods", {"fieldSelector": "status.phase=Succeeded", "limit": str(MOST_ENDED_PODS)})
    return ended.get("items") or []


def state_of(seen: Look, known: Known) -> State:
    """Return the present state."""
    snapshot = seen.round.snapshot
    cluster = one_machine(snapshot.resources, snapshot.live_capacity.tolist())
    now = seen.round.now - EPOCH
    return in_countable_units(State(cluster, snapshot.queues, seen.round.config, seen.round.memory, jobs_of(seen, known), now))


def jobs_of(seen: Look, known: Known) -> tuple[JobState, ...]:
    """Return the present work. Jobs are named "namespace/name". Pods of other owners never end."""
    pods: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in seen.view.stored_pods.values():
        owner = controller_of(pod.metadata)
        if owner is not None and owner.kind == "Job":
            pods[pod.metadata.namespace, owner.name].append(pod)
        else:
            pods[seen.view.pods.space_of(pod), ""].append(pod)
    jobs: list[JobState] = []
    ordering = {entry.space for entry in seen.plan.queue_set.governing if entry.mode.holds is not None}
    for space, queue in _queues(seen).items():
        jobs += _services(space, queue, pods[space, ""], seen)
        ordered = _in_order(_jobs(seen, space))
        if space in ordering:
            ordered.sort(key=lambda job: step_of(job.metadata.labels, job.spec.template.metadata.labels))
        for job in ordered:
            if not job.finished:
                jobs.append(_job(job, queue, pods[job.metadata.namespace, job.metadata.name], seen, known))
    return tuple(one for one in jobs if one.stages)


def fits_a_node(seen: Look, job: Job) -> bool:
    """Return whether a node of the pool could hold one of the Job's pods if it were empty; True in an autoscaled pool."""
    demand = np.array(_demand(seen.requests_of(job), seen))
    return seen.config.pool.autoscaled or seen.shapes().fitting(demand) >= 1


def _job(job: Job, queue: str, pods: Sequence[Pod], seen: Look, known: Known) -> JobState:
    running = tuple((1, started_of(pod) - EPOCH) for pod in pods if pod.bound and not pod.ended)
    left = max(pods_of(job) - job.status.succeeded, len(running))
    at_once = max(1, min(parallelism_of(job), left))
    demand = _demand(effective_requests(pods[0]) if pods else seen.requests_of(job), seen)
    stage = StageState(
        tasks=pods_of(job),
        waiting=max(0, at_once - len(running)),
        running=running,
        demand=demand,
        seconds=known.seconds.get((job.metadata.namespace, job.metadata.name)),
        waves=math.ceil(left / at_once),
    )
    name = f"{job.metadata.namespace}/{job.metadata.name}"
    begun = bool(running) or job.status.succeeded > 0
    stages = (stage,) if stage.waiting or running else ()
    return JobState(name, queue, _created(job) - EPOCH, stages, begun, whole=is_held(job))


def _services(namespace: str, queue: str, pods: Sequence[Pod], seen: Look) -> list[JobState]:
    """Return pods without a Job as endless jobs, one for each size."""
    sizes: dict[tuple[float, ...], list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.bound and not pod.ended:
            sizes[_demand(effective_requests(pod), seen)].append(pod)
    now = seen.round.now - EPOCH
    return [
        JobState(
            f"{namespace}//{number}",
            queue,
            now,
            (StageState(len(found), 0, ((len(found), now),), demand, ENDLESS_SECONDS),),
            has_started=True,
        )
        for number, (demand, found) in enumerate(sizes.items())
    ]


def _queues(seen: Look) -> dict[str, str]:
    """Return the queues by the space that they govern."""
    spaces = seen.view.controllers.spaces
    named = [spec.name.partition("/") for spec in seen.round.snapshot.queues]
    return {spaces.of_queue(namespace, queue): f"{namespace}/{queue}" for namespace, _, queue in named}


def _space(seen: Look, job: Job) -> str:
    """Return the space of a Job's next pods."""
    return seen.view.controllers.spaces.of_queue(job.metadata.namespace, asks_for(job.spec.template.metadata.labels))


def _jobs(seen: Look, space: str) -> Iterable[Job]:
    return [job for job in seen.view.controllers.workloads(space).of("Job") if _space(seen, job) == space]


def _in_order(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (_created(job), job.metadata.name))


def _demand(requests: Mapping[str, float], seen: Look) -> tuple[float, ...]:
    return tuple(requests.get(name, 0.0) for name in seen.round.snapshot.resources)


def _created(job: Job) -> float:
    return epoch(job.metadata.creation_timestamp)
