"""Effective requests of a pod, as ResourceQuota counts them, and the pods that it refuses because they name no requests.

The rules are those of the API server's evaluator: `PodUsageFunc` in k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go and
`PodRequests` in k8s.io/component-helpers resource/helpers.go (1.37), without DRA claims, which fairburst does not support.
Inside, amounts are whole thousandths of a unit (millicores, millibytes), so that sums over any number of pods stay exact;
outside they are natural units.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from fairburst.bounds import MOST_AMOUNT, bounded_amount, bounded_duration
from fairburst.kube.api.class_objects import RuntimeClass
from fairburst.kube.api.objects import Container, ContainerStatus, Pod, PodSpec, PodStatus, Quantity, ResourceList, Resources
from fairburst.kube.times import to_epoch
from fairburst.quantity import parse_exact

MilliRequests = dict[str, int]

NO_STATUS = PodStatus()
_MOST_MILLI = int(MOST_AMOUNT) * 1000
# The only resources that a quota makes every container name (validationSet of the evaluator).
MUST_BE_NAMED = ("cpu", "memory")


@functools.lru_cache(maxsize=65536)
def milli(quantity: Quantity) -> int:
    """Return thousandths of a unit, rounded up, within the bounds. Cached: a cluster uses few different texts."""
    exact = math.ceil(parse_exact(str(quantity) if isinstance(quantity, float) else quantity) * 1000)
    return min(max(exact, 0), _MOST_MILLI)


def extended_resources(requests: Mapping[str, float]) -> tuple[str, ...]:
    """Return the extended resources that a pod with these requests asks for, such as nvidia.com/gpu, in order of their names.

    The names under kubernetes.io are the system's own; `deviceclass.resource.kubernetes.io/` asks for a device of a DRA driver.
    """
    return tuple(sorted([name for name, amount in requests.items() if amount > 0 and "/" in name and "kubernetes.io/" not in name]))


def uncounted_resources(requests: Mapping[str, float], counted: Collection[str]) -> tuple[str, ...]:
    """Return the extended resources that a pod with these requests asks for and that are not counted, in order of their names."""
    return tuple([resource for resource in extended_resources(requests) if resource not in counted])


def effective_requests(pod: Pod) -> dict[str, float]:
    """Return a stored pod's effective requests: resource name to cores, bytes or devices; empty for a pod that quota does not count.

    One that is stuck in termination counts here after `counted_until`, too.
    """
    if pod.ended:
        return {}
    return in_units(milli_requests(pod))


ContainerDefaults = tuple[tuple[str, Quantity], ...]  # requests by resource, for containers that name none


def template_requests(spec: PodSpec, defaults: ContainerDefaults = ()) -> Mapping[str, float]:
    """Return the effective requests of a pod made from a template, before any admission plug-in but these defaults changes it.

    A stored pod's requests have been defaulted from its limits by the API server; a template's have not. Equal templates of one container
    share the answer: a namespace may have thousands.
    """
    container = _only_container(spec)
    if container is None:
        return in_units(_spec_requests(_defaulted(spec, dict(defaults))))
    resources = container.resources or Resources()
    return _requests_of_one(defaults, tuple((resources.limits or {}).items()), tuple((resources.requests or {}).items()))


@functools.lru_cache(maxsize=4096)
def _requests_of_one(
    defaults: ContainerDefaults, limits: tuple[tuple[str, Quantity], ...], requests: tuple[tuple[str, Quantity], ...]
) -> Mapping[str, float]:
    named = {**dict(defaults), **dict(limits), **dict(requests)}
    return in_units({resource: milli(quantity) for resource, quantity in named.items()})


def _only_container(spec: PodSpec) -> Container | None:
    """Return the container of a spec that consists of nothing else; None for another one."""
    plain = len(spec.containers) == 1 and not (spec.init_containers or spec.resources or spec.overhead)
    return spec.containers[0] if plain else None


Overheads = Mapping[str, Mapping[str, float]]  # by name of a RuntimeClass, in natural units


def overheads_of(classes: Mapping[tuple[str, str], RuntimeClass]) -> Overheads:
    """Return the overheads of those classes that have one."""
    return {
        name: in_units({resource: milli(quantity) for resource, quantity in one.overhead.pod_fixed.items()})
        for (_, name), one in classes.items()
        if one.overhead is not None and one.overhead.pod_fixed
    }


def with_overhead(requests: Mapping[str, float], spec: PodSpec, overheads: Overheads) -> Mapping[str, float]:
    """Return a template's requests as those of its pods, to which the API server adds the overhead of their RuntimeClass."""
    overhead = overheads.get(spec.runtime_class_name)
    if overhead is None or spec.overhead:  # the API server refuses pods with another overhead than their class's
        return requests
    return {resource: bounded_amount(requests.get(resource, 0.0) + overhead.get(resource, 0.0)) for resource in {**requests, **overhead}}


def template_lacks_requests(spec: PodSpec, resources: Collection[str]) -> bool:
    """Return whether a quota on `resources` would refuse a pod made from a template, before any admission plug-in changes it."""
    return bool(containers_without_requests(_defaulted(spec), resources))


def in_units(amounts: MilliRequests) -> dict[str, float]:
    """Convert thousandths to natural units, within the bounds: `amounts` may be sums over many pods."""
    return {resource: bounded_amount(amount / 1000) for resource, amount in amounts.items()}


def counted_until(pod: Pod) -> float:
    """Return until when quota counts a pod that has not ended (seconds since the epoch); infinite unless it is terminating.

    The deletion timestamp already includes the grace period, so this is twice the grace after the request (k/k#84459).
    """
    metadata = pod.metadata
    if metadata.deletion_timestamp is None or metadata.deletion_grace_period_seconds is None:
        return math.inf
    return to_epoch(datetime.fromisoformat(metadata.deletion_timestamp)) + bounded_duration(metadata.deletion_grace_period_seconds)


def milli_requests(pod: Pod) -> MilliRequests:
    """Return a pod's requests in thousandths, whether it has ended or not; during an in-place resize the larger side counts."""
    return {resource: min(amount, _MOST_MILLI) for resource, amount in _unbounded_requests(pod).items()}


def _unbounded_requests(pod: Pod) -> MilliRequests:
    spec, status = pod.spec, pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return _spec_requests(spec, status)
    statuses = {each.name: each for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    infeasible = _infeasible(status)
    if not infeasible and not _resizing(spec, statuses):
        return _spec_requests(spec, status)
    amounts: MilliRequests = {} if infeasible else _aggregate(spec.containers, spec.init_containers or ())
    for view in (_allocated, _actuated):
        containers, init_containers = (
            [view(container, statuses.get(container.name), infeasible) for container in group]
            for group in (spec.containers, spec.init_containers or ())
        )
        _raise(amounts, _aggregate(containers, init_containers))
    return _with_pod_level(spec, amounts, status)


def _infeasible(status: PodStatus) -> bool:
    """Return whether the kubelet cannot do the last resize, so that the spec does not count."""
    for each in status.conditions or ():
        if each.type == "PodResizePending":
            return each.reason == "Infeasible"
    return False


def containers_without_requests(pod: Pod | PodSpec, resources: Collection[str]) -> list[str]:
    """Return the names of containers for which a quota on `resources` makes the API server refuse the pod ("must specify ...").

    Only cpu and memory are demanded of every container, init containers included; pod-level resources satisfy the demand.
    """
    spec = pod.spec if isinstance(pod, Pod) else pod
    demanded = [resource for resource in MUST_BE_NAMED if resource in resources]
    if not demanded or _has_pod_level(spec.resources):
        return []
    return [
        container.name
        for container in (*spec.containers, *(spec.init_containers or ()))
        if any(resource not in _requests(container) for resource in demanded)
    ]


def _spec_requests(spec: PodSpec, status: PodStatus = NO_STATUS) -> MilliRequests:
    containers = spec.containers
    # Nearly every pod has one container and nothing else.
    if len(containers) == 1 and not spec.init_containers:
        amounts = {resource: milli(quantity) for resource, quantity in _requests(containers[0]).items()}
    else:
        amounts = _aggregate(containers, spec.init_containers or ())
    return _with_pod_level(spec, amounts, status)


def _aggregate(containers: Iterable[Container], init_containers: Iterable[Container]) -> MilliRequests:
    """Return by resource the larger sum: all containers and sidecars, or an init container and the sidecars started before it."""
    together: MilliRequests = {}
    for container in containers:
        _add(together, _requests(container))
    sidecars: MilliRequests = {}
    starting: MilliRequests = {}
    for container in init_containers:
        requests = _requests(container)
        if container.restart_policy == "Always":
            _add(together, requests)
            _add(sidecars, requests)
            _raise(starting, sidecars)
        else:
            beside = dict(sidecars)
            _add(beside, requests)
            _raise(starting, beside)
    _raise(together, starting)
    return together


def _with_pod_level(spec: PodSpec, amounts: MilliRequests, status: PodStatus) -> MilliRequests:
    """Add the overhead to the pod-level requests, or to the containers' sum where there are none.

    During a resize of the pod as a whole the largest of the spec's requests and of those in `status` counts, as for kube-scheduler;
    ResourceQuota reads the spec alone (1.37). The kubelet reports sums that include the overhead, which kube-scheduler then adds again.
    """
    if spec.overhead:
        _add(amounts, spec.overhead)
    if spec.resources is not None and any(_pod_level(resource) for resource in spec.resources.requests or ()):
        whole: MilliRequests = {}
        if status.resources is None or not _infeasible(status):
            _add(whole, spec.resources.requests or {})
            _add(whole, {resource: amount for resource, amount in (spec.overhead or {}).items() if resource in whole})
        if status.resources is not None:
            for reported in (status.resources.requests, status.allocated_resources):
                _raise(whole, {resource: milli(amount) for resource, amount in (reported or {}).items()})
        amounts.update({resource: amount for resource, amount in whole.items() if _pod_level(resource)})
    return amounts


def _requests(container: Container) -> ResourceList:
    resources = container.resources
    return (resources.requests if resources is not None else None) or {}


def _resizing(spec: PodSpec, statuses: Mapping[str, ContainerStatus]) -> bool:
    """Return whether the kubelet reports other requests of a container than the spec."""
    for container in (*spec.containers, *(spec.init_containers or ())):
        status = statuses.get(container.name)
        if status is not None:
            requests = _requests(container)
            applied = status.resources.requests if status.resources is not None else None
            if status.allocated_resources not in (None, requests) or applied not in (None, requests):
                return True
    return False


def _allocated(container: Container, status: ContainerStatus | None, infeasible: bool) -> Container:
    """Return the container with the resources that the kubelet has reserved for it."""
    if status is not None and status.allocated_resources is not None:
        return _with_requests(container, status.allocated_resources)
    return _with_requests(container, {}) if infeasible else container


def _actuated(container: Container, status: ContainerStatus | None, infeasible: bool) -> Container:
    """Return the container with the resources of its cgroup."""
    if status is not None and status.resources is not None and status.resources.requests is not None:
        return _with_requests(container, status.resources.requests)
    return _allocated(container, status, infeasible)


def _with_requests(container: Container, requests: ResourceList) -> Container:
    return Container(container.name, container.restart_policy, Resources(requests=requests))


def _pod_level(resource: str) -> bool:
    """Return whether pod-level resources may name the resource."""
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _has_pod_level(resources: Resources | None) -> bool:
    return resources is not None and any(_pod_level(name) for name in (*(resources.requests or ()), *(resources.limits or ())))


def _defaulted(spec: PodSpec, defaults: ResourceList | None = None) -> PodSpec:
    """Return the spec as SetDefaults_Pod stores it: missing requests are taken from limits. Then containers get `defaults`."""

    def fill(container: Container) -> Container:
        limits = container.resources.limits if container.resources is not None else None
        return _with_requests(container, {**limits, **_requests(container)}) if limits else container

    containers = [fill(container) for container in spec.containers]
    init_containers = [fill(container) for container in spec.init_containers or ()]
    pod_level = spec.resources
    if pod_level is not None and pod_level.limits:
        # At pod level the containers' requests come first, the pod's limit second.
        named = _aggregate(containers, init_containers)
        from_limits: ResourceList = {
            resource: f"{named[resource]}m" if resource in named else limit for resource, limit in pod_level.limits.items()
        }
        pod_level = Resources(requests={**from_limits, **(pod_level.requests or {})})
    if defaults:  # a LimitRange is read after the pod's own defaults
        containers = [_with_requests(one, {**defaults, **_requests(one)}) for one in containers]
        init_containers = [_with_requests(one, {**defaults, **_requests(one)}) for one in init_containers]
    return PodSpec(containers=containers, init_containers=init_containers, resources=pod_level, overhead=spec.overhead)


def _add(amounts: MilliRequests, requests: ResourceList) -> None:
    for resource, quantity in requests.items():
        amounts[resource] = amounts.get(resource, 0) + milli(quantity)


def _raise(amounts: MilliRequests, other: MilliRequests) -> None:
    for resource, amount in other.items():
        if amount > amounts.get(resource, -1):
            amounts[resource] = amount
