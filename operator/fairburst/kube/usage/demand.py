"""What a namespace's workloads want: pods that exist and pods that their controllers will still create. Pure.

A controller's wish is its pod count times what its newest stored pod was charged (sidecars injected at admission count), or
what its template asks for while it has no pod. Work that no object announces (bare pods, Spark executors) is granted a step
above what exists, so that its level grows as it fills up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fairburst.bounds import MOST_AMOUNT, bounded_amount, bounded_count
from fairburst.kube.api.objects import Deployment, Job, JobSet, JobSpec, PodTemplate, ReplicaSet, StatefulSet, UncountedPods, controller_of
from fairburst.kube.names import HELD_ANNOTATION
from fairburst.kube.usage.effective_requests import template_lacks_requests, template_requests
from fairburst.kube.usage.job_sets import parts_to_come
from fairburst.kube.usage.pod_index import NamespaceUsage, OwnerUsage
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import WaitingPods

GROWTH_FRACTION = 0.10  # step of unannounced work above what exists; at least one pod


@dataclass(frozen=True, slots=True)
class Owner:
    """A controller that creates pods and is retried by its own back-off when a quota refuses one.

    `wanted` pods in all, `existing` not ended; `requests` of one pod in resource units.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    wanted: int
    existing: int
    requests: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DesiredPods:
    """What one controller wants, and the object that says so."""

    owner: Owner
    controller: Job | Deployment | ReplicaSet | StatefulSet


@dataclass(frozen=True, slots=True)
class Workloads:
    """The controllers of one namespace, by kind."""

    jobs: Iterable[Job] = ()
    deployments: Iterable[Deployment] = ()
    replica_sets: Iterable[ReplicaSet] = ()
    stateful_sets: Iterable[StatefulSet] = ()
    job_sets: Iterable[JobSet] = ()


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A Job or JobSet that is suspended until we start it, and what all of its pods at once need, by resource, in resource units."""

    job: Job | JobSet
    need: Mapping[str, float]


@dataclass(slots=True)
class NamespaceDemand:
    """One namespace: what it wants in all, its largest pod, and the controllers that lack pods. Resource units.

    placeable: the demand without what no node could hold beside the rest of its controller's pods: a level for it would serve nobody.
    desired_pods: every controller that wants or has pods. held: Jobs that wait for us to start them; what they need is in `demand`.
    waiting: pods without a node, those to come included, by what one is charged; a held Job counts as one, because it starts whole. Nothing
    is listed where pods wait that no object announces.
    """

    demand: dict[str, float] = field(default_factory=dict)
    placeable: dict[str, float] = field(default_factory=dict)
    unit: dict[str, float] = field(default_factory=dict)
    lacking: list[Owner] = field(default_factory=list)
    unrequested: list[str] = field(default_factory=list)
    desired_pods: list[DesiredPods] = field(default_factory=list)
    held: list[HeldJob] = field(default_factory=list)
    waiting: list[tuple[Mapping[str, float], float]] = field(default_factory=list)


def namespace_demand(
    workloads: Workloads,
    usage: NamespaceUsage,
    owner_usage: Callable[[str], OwnerUsage],
    resources: tuple[str, ...],
    elastic: Mapping[str, int] | None = None,
    fitting: Callable[[Mapping[str, float]], float] = lambda _: math.inf,
    *,
    gated: bool = False,
) -> NamespaceDemand:
    """Add up the desired_pods of one namespace.

    `owner_usage` answers by the uid of a pod's controller. `elastic`: by uid, pods that a Job would have if it had not been made smaller:
    what it was given must not become what it is thought to want. `fitting`: how many pods of a requests the nodes hold while they are
    empty. `unrequested` names controllers whose template requests less than a quota on cpu and memory demands. `gated`: pods wait behind
    gates and not outside of a quota, so those there are say it all.
    """
    result = NamespaceDemand(unit=dict(usage.largest))
    announced: dict[str, float] = {}
    for owner, controller in _owners(workloads, owner_usage):
        template = controller.spec.template
        requests = owner.requests or _counted(template_requests(template.spec), resources)
        priced = Owner(owner.kind, owner.namespace, owner.name, owner.uid, owner.wanted, owner.existing, requests)
        pods = max(owner.wanted, owner.existing, (elastic or {}).get(owner.uid, 0))
        if pods:
            result.desired_pods.append(DesiredPods(priced, controller))
        placeable = max(owner.existing, min(pods, fitting(requests)))
        for resource, amount in requests.items():
            result.demand[resource] = result.demand.get(resource, 0.0) + pods * amount
            result.placeable[resource] = result.placeable.get(resource, 0.0) + placeable * amount
            announced[resource] = announced.get(resource, 0.0) + owner.existing * amount
            if pods:
                result.unit[resource] = max(result.unit.get(resource, 0.0), amount)
        if isinstance(controller, Job) and is_held(controller):
            result.held.append(HeldJob(controller, {resource: bounded_amount(pods * amount) for resource, amount in requests.items()}))
            result.waiting.append((result.held[-1].need, 1.0))
            continue
        result.waiting.append((requests, placeable - owner_usage(owner.uid).bound))
        if owner.wanted > owner.existing:
            result.lacking.append(priced)
            result.unrequested += [f"{owner.kind} {owner.name}"] if _lacks_requests(owner, template, resources) else []
    _add_job_sets(result, workloads, resources, fitting)
    _add_unannounced(result, usage, announced, grows=not gated)
    if usage.unannounced:
        result.waiting.clear()
    for amounts in (result.demand, result.placeable, result.unit):
        amounts.update({resource: MOST_AMOUNT for resource, amount in amounts.items() if amount > MOST_AMOUNT})
    return result


def _owners(
    workloads: Workloads, owner_usage: Callable[[str], OwnerUsage]
) -> Iterable[tuple[Owner, Job | Deployment | ReplicaSet | StatefulSet]]:
    """Every controller with pods of its own, and what it wants. A Deployment is read through its newest ReplicaSet's uid."""
    for job in workloads.jobs:
        if _makes_pods(job):
            pods = owner_usage(job.metadata.uid)
            yield _owner("Job", job, _job_pods(job, pods), pods), job
    for stateful_set in workloads.stateful_sets:
        yield _owner("StatefulSet", stateful_set, _replicas(stateful_set), owner_usage(stateful_set.metadata.uid)), stateful_set
    unborn = {deployment.metadata.uid: deployment for deployment in workloads.deployments}
    for replica_set in workloads.replica_sets:
        yield _owner("ReplicaSet", replica_set, _replicas(replica_set), owner_usage(replica_set.metadata.uid)), replica_set
        reference = controller_of(replica_set.metadata)
        unborn.pop(reference.uid if reference is not None else "", None)
    for deployment in unborn.values():  # its ReplicaSet is not seen yet
        yield _owner("Deployment", deployment, _replicas(deployment), owner_usage(deployment.metadata.uid)), deployment


def _owner(kind: str, controller: Job | Deployment | ReplicaSet | StatefulSet, wanted: int, pods: OwnerUsage) -> Owner:
    metadata = controller.metadata
    existing = pods.active - pods.terminating
    return Owner(kind, metadata.namespace, metadata.name, metadata.uid, wanted, existing, pods.newest_requests)


def _add_job_sets(
    result: NamespaceDemand, workloads: Workloads, resources: tuple[str, ...], fitting: Callable[[Mapping[str, float]], float]
) -> None:
    """What held JobSets want, and those that we have started for the Jobs of which nothing has started yet."""
    for job_set in workloads.job_sets:
        held, need = is_held(job_set), dict[str, float]()
        for spec, jobs in parts_to_come(job_set, workloads.jobs, held=held):
            requests, pods = _counted(template_requests(spec.template.spec), resources), jobs * pods_at_once(spec)
            for resource, amount in requests.items():
                need[resource] = bounded_amount(need.get(resource, 0.0) + pods * amount)
                result.placeable[resource] = result.placeable.get(resource, 0.0) + min(pods, fitting(requests)) * amount
                result.unit[resource] = max(result.unit.get(resource, 0.0), amount)
            if not held:
                result.waiting.append((requests, min(pods, fitting(requests))))
        for resource, amount in need.items():
            result.demand[resource] = result.demand.get(resource, 0.0) + amount
        if held and not job_set.finished and job_set.metadata.deletion_timestamp is None:
            result.held.append(HeldJob(job_set, need))
            result.waiting.append((need, 1.0))


def is_held(job: Job | JobSet) -> bool:
    """Whether the Job is suspended until we start it, and not by its user."""
    return bool(job.spec.suspend) and HELD_ANNOTATION in (job.metadata.annotations or {})


def _makes_pods(job: Job) -> bool:
    """Return whether the Job controller may still make pods: the Job is its own, has not ended, is not suspended by its user and is not
    being deleted.
    """
    return (
        not job.managed_elsewhere
        and job.metadata.deletion_timestamp is None
        and (not job.spec.suspend or is_held(job))
        and not job.finished
    )


def _job_pods(job: Job, pods: OwnerUsage) -> int:
    """Return the number of pods that a Job wants to have at once."""
    return bounded_count(int(min(pods_at_once(job.spec), completions_left(job, pods))))


def completions_left(job: Job, pods: OwnerUsage) -> float:
    """Return how many pods of the Job have still to succeed; infinity if it declares no number.

    The Job controller counts ended pods up to a second late. Until then they are taken as succeeded: if one has failed, its successor is
    wanted a second later.
    """
    if job.spec.completions is None:
        return math.inf
    counting = job.status.uncounted_terminated_pods or UncountedPods()
    succeeded = job.status.succeeded + len(counting.succeeded or ())
    counted = succeeded + job.status.failed + len(counting.failed or ())
    uncounted = max(0, min(pods.lately, pods.ended - counted))
    return max(0, job.spec.completions - succeeded - uncounted)


def pods_at_once(spec: JobSpec) -> int:
    """Pods that a Job wants to run side by side, whether or not it is suspended now."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _counted(requests: Mapping[str, float], resources: tuple[str, ...]) -> dict[str, float]:
    return {resource: amount for resource, amount in requests.items() if resource in resources}


def _replicas(controller: Deployment | ReplicaSet | StatefulSet) -> int:
    return 0 if controller.metadata.deletion_timestamp is not None else bounded_count(controller.wanted)


def _lacks_requests(owner: Owner, template: PodTemplate, resources: tuple[str, ...]) -> bool:
    """Whether a quota would refuse the owner's next pod. A stored pod tells better than the template: admission may add requests."""
    if owner.requests:
        return any(owner.requests.get(resource, 0.0) <= 0 for resource in ("cpu", "memory") if resource in resources)
    return template_lacks_requests(template.spec, resources)


def _add_unannounced(result: NamespaceDemand, usage: NamespaceUsage, announced: Mapping[str, float], *, grows: bool) -> None:
    """Pods that no known controller announces want what they have, and a step more where further ones may have been refused."""
    for resource, stored in usage.stored.items():
        unannounced = stored - announced.get(resource, 0.0)
        if unannounced > 1e-9 * stored:
            step = max(result.unit.get(resource, 0.0), GROWTH_FRACTION * unannounced) if usage.unannounced and grows else 0.0
            for amounts in (result.demand, result.placeable):
                amounts[resource] = amounts.get(resource, 0.0) + unannounced + step


def waiting_lines(demand: NamespaceDemand, resources: tuple[str, ...]) -> tuple[FloatArray, FloatArray] | None:
    """(L, K) requests and (L,) counts of a namespace's waiting pods; None where none are listed."""
    lines = [
        ([min(requests.get(resource, 0.0), MOST_AMOUNT) for resource in resources], min(count, MOST_AMOUNT))
        for requests, count in demand.waiting
        if count > 0 and any(requests.get(resource, 0.0) > 0 for resource in resources)
    ]
    if not lines:
        return None
    return np.array([request for request, _ in lines], dtype=np.float64), np.array([count for _, count in lines], dtype=np.float64)


def waiting_pods(lines: Mapping[int, tuple[FloatArray, FloatArray]]) -> WaitingPods | None:
    """The `waiting_lines` of the queues' namespaces, by row, as the core takes them; None without any.

    A queue's pods are in no order: the scheduler passes over a pod that does not fit.
    """
    if not lines:
        return None
    rows = sorted(lines)
    counts = [lines[row][1] for row in rows]
    return WaitingPods(
        np.repeat(np.array(rows, dtype=np.int64), [len(each) for each in counts]),
        np.concatenate([lines[row][0] for row in rows]),
        np.concatenate(counts),
    )
