"""The demand of a namespace: pods that exist, and pods that their controllers will still create. Pure.

A controller demands its number of pods times the effective requests of its newest stored pod (sidecars that admission injects count), or
its template's requests while it has no pod. Work that no object announces (bare pods, Spark executors) is granted a step above what
exists, so that its level grows as it fills up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from fairburst.bounds import MOST_AMOUNT, bounded_amount
from fairburst.kube.api.objects import PodTemplate
from fairburst.kube.times import to_epoch
from fairburst.kube.usage.effective_requests import template_lacks_requests, uncounted_resources
from fairburst.kube.usage.equal_pods import EqualPods, counted
from fairburst.kube.usage.host_ports import HostPorts, host_ports
from fairburst.kube.usage.pod_defaults import NO_DEFAULTS, PodDefaults
from fairburst.kube.usage.pod_usage import NO_PODS, NamespaceUsage, OwnerUsage
from fairburst.kube.usage.port_demand import ANYWHERE, NO_NODES, NodesFor, PortDemand, PortNodes, first_looks
from fairburst.kube.usage.start_order import HeldJob, OrderedJobs
from fairburst.kube.usage.stuck_pods import StuckPods
from fairburst.kube.workloads.job import is_held
from fairburst.kube.workloads.kind import Controllers, Suspendable, WorkloadKind
from fairburst.kube.workloads.registry import KINDS
from fairburst.policy.attainability import PortLimit
from fairburst.policy.tolerance import TOLERANCE

GROWTH_FRACTION = 0.10  # step of unannounced work above what exists, in whole pods; at least one pod


@dataclass(frozen=True, slots=True)
class Owner:
    """A controller that creates pods and is retried by its own back-off when a quota refuses one.

    `wanted` pods in all, `existing` not ended; `requests` of one pod in resource units. `reached`: whether it has been processed yet. If
    not, no quota has refused its pods: it is in the queue of its kind's workers. `successors`: how many of the missing pods replace
    pods that have ended. `stalled`: whether it is resynced although it created no pods the last times. `due`: whether it is in that queue
    because pods of it have ended.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    wanted: int
    existing: int
    requests: Mapping[str, float]
    reached: bool = True
    successors: int = 0
    stalled: bool = False
    due: bool = False


@dataclass(frozen=True, slots=True)
class DesiredPods:
    """The pods that one controller wants, its object and its pods' usage, whether a quota would refuse its next pod because it names no
    requests, the extended resources that the pods ask for and the pool does not count, and their host ports. The same object as long as
    nothing of it changes."""

    owner: Owner
    controller: Any
    usage: OwnerUsage = NO_PODS
    lacks_requests: bool = False
    uncounted: tuple[str, ...] = ()
    ports: HostPorts = ()


@dataclass(slots=True)
class NamespaceDemand:
    """The demand of one namespace, its largest pod, and the controllers that lack pods. Resource units.

    placeable: the demand without pods that no node could hold next to the rest of their controller's: a level for them would be idle.
    without_node: requests of existing pods that wait although no node could hold one of them alone, or beside the others with their host
    port; `placeable` leaves them out.
    no_node: by uid of a controller whose pods no node could hold alone, its name and the requests of one; under "" pods without one.
    not_offered: likewise by uid, the name and a resource that a pod asks for and no node offers.
    desired_pods: every controller that wants or has pods. held: Jobs that fairburst has to start; `demand` includes them. waiting: pods
    without a node, future ones included, by the requests of one; a held Job counts as one, because it starts whole. The list is empty where
    pods wait that no object announces. created: when each controller with such work was created, None for work of unknown age.
    ports: those that ask for host ports. resources: those that are counted. stalled: controllers whose missing pods are no demand, because
    they create none although there is room.
    """

    demand: dict[str, float] = field(default_factory=dict)
    placeable: dict[str, float] = field(default_factory=dict)
    unit: dict[str, float] = field(default_factory=dict)
    lacking: list[Owner] = field(default_factory=list)
    unrequested: list[str] = field(default_factory=list)
    desired_pods: list[DesiredPods] = field(default_factory=list)
    held: list[HeldJob] = field(default_factory=list)
    without_node: dict[str, float] = field(default_factory=dict)
    no_node: dict[str, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    not_offered: dict[str, tuple[str, str]] = field(default_factory=dict)
    waiting: list[tuple[Mapping[str, float], float]] = field(default_factory=list)
    created: set[str | None] = field(default_factory=set)
    ports: PortDemand = field(default_factory=PortDemand)
    resources: tuple[str, ...] = ()
    stalled: set[str] = field(default_factory=set)
    _ordered: OrderedJobs | None = field(default=None, init=False, repr=False, compare=False)

    def jobs_in_order(self) -> OrderedJobs:
        """Return the held Jobs in the order in which they start. `held` does not change afterwards."""
        if self._ordered is None:
            self._ordered = OrderedJobs.of(self.held, self.resources)
        return self._ordered

    @property
    def waits_whole(self) -> bool:
        """Whether all of this work waits for fairburst to start it, and no pods of it exist or are created meanwhile."""
        if not self.held or None in self.created or self.stalled:
            return False
        held = dict(zip(self.resources, self.jobs_in_order().total.tolist(), strict=True))
        return all(math.isclose(amount, held.get(name, 0.0), rel_tol=TOLERANCE) for name, amount in self.demand.items())

    def port_limit(self, *, alone: bool = False) -> PortLimit | None:
        """Return how few of the pods can run at a time for their host ports; None if all can. `alone`: if no others had these ports."""
        if not self.ports:
            return None
        return self.ports.limit(sum(max(one.owner.wanted, one.owner.existing) for one in self.desired_pods), alone=alone)

    @property
    def waits_for_ports_alone(self) -> bool:
        """Whether pods wait, and pods outside the space have host ports of all of them on each node."""
        waiting = {one.owner.uid for one in self.desired_pods if max(one.owner.wanted, one.owner.existing) > one.usage.bound}
        return bool(self.ports.taken) and waiting <= self.ports.taken.keys() and (None not in self.created or "" in self.ports.taken)

    def add_ports(self, desired: DesiredPods, nodes: PortNodes | None, without_node: float) -> None:
        """Add a controller whose pods ask for host ports; so many of its existing pods have no node beside the others."""
        owner, pods = desired.owner, max(desired.owner.wanted, desired.owner.existing)
        self.ports.add(owner.uid, f"{owner.kind} {owner.name}", desired.ports, pods, desired.usage.bound, nodes or NO_NODES)
        for resource, amount in owner.requests.items() if without_node > 0 else ():
            self.without_node[resource] = self.without_node.get(resource, 0.0) + without_node * amount

    def add_held(self, job: Suspendable, need: Mapping[str, float], *, has_node: bool) -> None:
        """Add work that fairburst has to start whole."""
        self.held.append(HeldJob(job, need, has_node))
        self.waiting.append((need, 1.0 if has_node else 0.0))

    def bound_amounts(self) -> None:
        """Bound the sums."""
        for amounts in (self.demand, self.placeable, self.unit):
            amounts.update({resource: MOST_AMOUNT for resource, amount in amounts.items() if amount > MOST_AMOUNT})

    def note_no_node(self, uid: str, name: str, requests: Mapping[str, float], missing: str) -> None:
        """Note that no node could hold a pod with these requests. `missing`: the resource that no node offers, empty if all are offered."""
        if missing:
            self.not_offered[uid] = name, missing
        else:
            self.no_node[uid] = name, requests

    @property
    def oldest(self) -> float | None:
        """When the oldest of this work was created, in seconds since the epoch. None if that is not known.

        The controller's age counts: its pods may have been lost and made again.
        """
        if not self.created or None in self.created:
            return None
        return to_epoch(datetime.fromisoformat(min(time for time in self.created if time is not None)))


def namespace_demand(
    controllers: Controllers,
    usage: NamespaceUsage,
    owner_usage: Callable[[str], OwnerUsage],
    resources: tuple[str, ...],
    elastic: Mapping[str, int] | None = None,
    fitting: Callable[[Mapping[str, float]], float] = lambda _: math.inf,
    *,
    gated: bool = False,
    belongs: Callable[[PodTemplate], bool] = lambda _: True,
    elsewhere: Callable[[str], int] = lambda _: 0,
    former: Sequence[DesiredPods] = (),
    lacking: Callable[[tuple[str, ...]], str] = lambda _: "",
    nodes_for: NodesFor = lambda *_: ANYWHERE,
    defaults: PodDefaults = NO_DEFAULTS,
    stalled: Mapping[str, int] = MappingProxyType({}),
) -> NamespaceDemand:
    """Return the demand of one space.

    `owner_usage` answers by the uid of a pod's controller. `elastic`: by uid, the pods of a Job before it was made smaller, so that its
    present size is not taken for its demand. `fitting`: how many pods of some requests the empty nodes hold. `unrequested` names
    controllers whose template requests less than a quota on cpu and memory demands. `gated`: pods wait behind gates and none is refused, so
    the existing pods are the whole demand. `belongs`: whether a template's pods belong to the space; `elsewhere`: how many of a
    controller's pods belong to other spaces of its namespace, because the controller's template or the queues have changed since.
    `former`: as the last call returned them for the same resources. A controller that has not changed since is not read again. `lacking`:
    the first of some uncounted resources that no node offers, empty if there is none. `nodes_for`: the nodes for pods with host ports.
    `defaults`: what the API server adds to pods; `former` has to be empty after a change of them. `stalled`: by uid, controllers that
    create no pods at present, with the pods that they have.
    """
    stuck = StuckPods.of(usage, resources, fitting, lacking)
    result = NamespaceDemand(unit=dict(stuck.unit), without_node=dict(stuck.amounts), resources=resources)
    nodes_for = first_looks(nodes_for)
    equal = EqualPods(resources, fitting, nodes_for, defaults)
    for held, desired in _creating_pods(controllers, owner_usage, belongs, former, equal):
        owner, stored, apart = desired.owner, desired.usage, elsewhere(desired.owner.uid)
        requests, existing = owner.requests, owner.existing
        pods = _demanded(result, desired, elastic, stalled)
        missing = lacking(desired.uncounted) if desired.uncounted else ""
        same = equal.to(requests, missing, desired.ports)
        placeable = same.placeable_of(pods, existing, max(stored.bound, apart), whole=held or gated)
        if desired.ports and pods:
            result.add_ports(desired, same.nodes, existing - placeable if same.fits >= 1 else 0.0)
        if pods and same.fits < 1:
            result.note_no_node(owner.uid, f"{owner.kind} {owner.name}", requests, missing)
            stuck.take(requests, existing - apart - stored.bound)
        same.add(pods - apart, placeable - apart, existing - apart, sets_unit=pods > 0 and same.fits >= 1)
        if held:
            need = {resource: bounded_amount(pods * amount) for resource, amount in requests.items()}
            result.add_held(desired.controller, need, has_node=same.fits >= 1)
            continue
        same.waiting += max(placeable - stored.bound, 0.0)
        if owner.wanted > existing:
            result.lacking.append(owner)
            result.unrequested += [f"{owner.kind} {owner.name}"] if desired.lacks_requests else []
    announced = equal.add_to(result)
    _add_to_come(result, controllers, resources, fitting, belongs, lacking, defaults)
    _add_unannounced(result, usage, announced, stuck, nodes_for, grows=not gated)
    result.bound_amounts()
    return result


def _demanded(result: NamespaceDemand, desired: DesiredPods, elastic: Mapping[str, int] | None, stalled: Mapping[str, int]) -> int:
    """Return how many pods of a controller are demand, and note the controller if there are any."""
    owner = desired.owner
    pods = max(owner.wanted, owner.existing, elastic.get(owner.uid, 0) if elastic else 0)
    if stalled and stalled.get(owner.uid) == owner.existing and pods > owner.existing:
        pods = owner.existing
        result.stalled.add(owner.uid)
    if pods:
        result.desired_pods.append(desired)
        result.created.add(desired.controller.metadata.creation_timestamp)
    return pods


def _desired_pods(kind: WorkloadKind, controller: Any, stored: OwnerUsage, wanted: int, equal: EqualPods) -> DesiredPods:
    """Return the pods that a controller wants, with the requests of its newest pod, or of its template while it has none."""
    metadata, template = controller.metadata, controller.spec.template
    requests: Mapping[str, float] = stored.newest_requests
    uncounted, ports = stored.newest_uncounted, stored.newest_ports
    if not requests:
        (requests, uncounted), ports = equal.requests_of(template), host_ports(template.spec)
    existing = stored.active - stored.terminating
    reached = kind.reached(controller)
    successors = 0 if kind.new is None else max(0, wanted - existing - kind.new(controller, stored))
    due, uid = kind.due(controller, stored), metadata.uid
    owner = Owner(kind.name, metadata.namespace, metadata.name, uid, wanted, existing, requests, reached, successors, due=due)
    lacks = _lacks_requests(stored.newest_requests, template, equal.resources)
    return DesiredPods(owner, controller, stored, lacks, uncounted, ports)


def _creating_pods(
    controllers: Controllers, owner_usage: Callable[[str], OwnerUsage], belongs: Callable[[PodTemplate], bool],
    former: Sequence[DesiredPods], equal: EqualPods,
) -> Iterator[tuple[bool, DesiredPods]]:  # fmt: skip
    """Yield the pods of every controller that wants some of its own in the space: the `former` ones where it and its pods are the same.
    First: whether it is held."""
    known = {desired.owner.uid: desired for desired in former}
    for kind in KINDS.values():
        if kind.name not in controllers.by_kind or kind.wanting is None or kind.wanted is None:
            continue
        for controller in kind.wanting(controllers):
            if belongs(controller.spec.template):
                uid = controller.metadata.uid
                stored, one = owner_usage(uid), known.get(uid)
                if one is None or one.controller is not controller or one.usage is not stored:
                    one = _desired_pods(kind, controller, stored, kind.wanted(controller, stored), equal)
                yield kind.suspends and is_held(controller), one


def _add_to_come(
    result: NamespaceDemand, controllers: Controllers, resources: tuple[str, ...], fitting: Callable[[Mapping[str, float]], float],
    belongs: Callable[[PodTemplate], bool], lacking: Callable[[tuple[str, ...]], str], defaults: PodDefaults,
) -> None:  # fmt: skip
    """Add the pods that controllers will create through other objects, held ones whole."""
    for kind in KINDS.values():
        if kind.to_come is None or kind.name not in controllers.by_kind:
            continue
        for controller in controllers.of(kind.name):
            held, need, has_node = kind.suspends and is_held(controller), dict[str, float](), True
            for coming in kind.to_come(controller, controllers, held):
                if not belongs(controller.first_template if held else coming.template):  # work that starts whole is of one queue
                    continue
                asked = defaults.requests_of(coming.template.spec)
                requests, missing = counted(asked, resources), lacking(uncounted_resources(asked, resources))
                fits = fitting(requests) if not missing else 0.0
                result.created.add(controller.metadata.creation_timestamp)
                for resource, amount in requests.items():
                    need[resource] = bounded_amount(need.get(resource, 0.0) + coming.pods * amount)
                    result.placeable[resource] = result.placeable.get(resource, 0.0) + min(coming.pods, fits) * amount
                    result.unit[resource] = max(result.unit.get(resource, 0.0), amount if fits >= 1 else 0.0)
                if coming.pods and fits < 1:
                    has_node = False
                    result.note_no_node(controller.metadata.uid, f"{kind.name} {controller.metadata.name}", requests, missing)
                if not held:
                    result.waiting.append((requests, min(coming.pods, fits)))
            for resource, amount in need.items():
                result.demand[resource] = result.demand.get(resource, 0.0) + amount
            if held and belongs(controller.first_template) and not controller.finished and controller.metadata.deletion_timestamp is None:
                result.add_held(controller, need, has_node=has_node)


def _lacks_requests(stored: Mapping[str, float], template: PodTemplate, resources: tuple[str, ...]) -> bool:
    """Return whether a quota would refuse the next pod, by the requests of the stored pods if any: admission may add requests."""
    if stored:
        return any(stored.get(resource, 0.0) <= 0 for resource in ("cpu", "memory") if resource in resources)
    return template_lacks_requests(template.spec, resources)


def _add_unannounced(
    result: NamespaceDemand, usage: NamespaceUsage, announced: Mapping[str, float], stuck: StuckPods, nodes_for: NodesFor, *, grows: bool
) -> None:
    """Add pods that no known controller announces, and a step more where further ones may have been refused."""
    for resource, stored in usage.stored.items():
        unannounced = stored - announced.get(resource, 0.0)
        if unannounced > 1e-9 * stored:
            result.created.add(None)
            step = growth_step(unannounced, result.unit.get(resource, 0.0)) if usage.unannounced and grows else 0.0
            without_node = min(max(stuck.amounts.get(resource, 0.0), 0.0), unannounced)
            if without_node > 1e-9 * stored:
                result.note_no_node("", "pods without a known controller", stuck.largest, stuck.missing if not stuck.largest else "")
                step = step if unannounced - without_node > 1e-9 * stored else 0.0
            result.demand[resource] = result.demand.get(resource, 0.0) + unannounced + step
            result.placeable[resource] = result.placeable.get(resource, 0.0) + unannounced - without_node + step
    result.ports.add_unannounced(usage, result.resources, nodes_for)
    if usage.unannounced:
        result.waiting.clear()


def growth_step(unannounced: float, unit: float) -> float:
    """Return the step of unannounced work, in whole pods of the size `unit`: levels are whole pods and would never meet a part of one."""
    return max(1.0, math.floor(GROWTH_FRACTION * unannounced / unit + TOLERANCE)) * unit if unit > 0 else GROWTH_FRACTION * unannounced
