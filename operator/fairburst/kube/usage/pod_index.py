"""Sums over all pods, kept up to date event by event: per space (a namespace, if it has one queue), per owner, per node.

The cost of an event does not depend on the number of pods. Amounts are kept as whole thousandths, so a sum kept for a week equals one
computed from scratch. Readers get natural units. Pods of the system (priority class system-*, DaemonSets) belong to no queue and are
counted separately.
"""

from __future__ import annotations

import functools
import heapq
import math
import weakref
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import replace

from fairburst.bounds import MOST_AMOUNT
from fairburst.kube.api.objects import JOB_TRACKING, Pod, controller_of
from fairburst.kube.names import GATE, LANE_OF_CLASS, SIZE_CLASSES
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces, namespace_of
from fairburst.kube.usage.effective_requests import containers_without_requests, counted_until, milli_requests, uncounted_resources
from fairburst.kube.usage.host_ports import PortUse, host_ports
from fairburst.kube.usage.lane_pods import LanePods
from fairburst.kube.usage.owner_sums import Owners, OwnerSums
from fairburst.kube.usage.pod_sums import NamespaceSums, PodFacts, count_key, mark, mark_unannounced
from fairburst.kube.usage.pod_usage import NO_PODS, Amounts, ClassUsage, NamespaceUsage, NodeUsage, NodeWatcher, OwnerUsage, RequestVector
from fairburst.kube.usage.vector_sums import VectorBag, VectorSum, add_thousandths
from fairburst.kube.workloads.registry import ANNOUNCED_KINDS


class PodIndex:
    """See the module. `update` it with every change of the pod informer's store, then read.

    Parameters
    ----------
    resources : the counted resources, the order of every vector. A change of them requires a new index.
    by_class : whether to sum the pods of small and of large jobs separately.
    spaces : the divided namespaces.
    """

    def __init__(self, resources: Sequence[str], *, by_class: bool = False, spaces: Spaces = UNDIVIDED) -> None:
        self.resources = tuple(resources)
        self._counted = frozenset(resources)
        self.by_class = by_class
        self.spaces = spaces
        self.knows_earlier_ends = False  # whether `note_earlier_ends` was called for all Jobs
        self._lanes = LanePods()
        self.ports = PortUse()
        self._facts: dict[tuple[str, str], PodFacts] = {}
        self._namespaces: dict[str, NamespaceSums] = {}
        self._owners = Owners()
        self._nodes: dict[str, dict[str | None, VectorSum]] = {}  # by node and space; None: unmanaged pods of any namespace
        self._expiring: list[tuple[float, tuple[str, str], str]] = []
        self._vectors: dict[RequestVector, RequestVector] = {}
        self._node_watchers = weakref.WeakSet[NodeWatcher]()

    @classmethod
    def rebuilt(cls, resources: Sequence[str], pods: Iterable[Pod], *, by_class: bool = False, spaces: Spaces = UNDIVIDED) -> PodIndex:
        """Return a new index of these pods."""
        index = cls(resources, by_class=by_class, spaces=spaces)
        for pod in pods:
            index.update(None, pod)
        return index

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Apply one change: created (None, pod), changed (pod, pod) or deleted (pod, None)."""
        subject = new if new is not None else old
        if subject is None:
            return
        key = (subject.metadata.namespace, subject.metadata.name)
        before, after = self._facts.get(key), None if new is None else self._read(new)
        if before is not None:
            if before == after and not before.terminating:  # most changes of a pod's status do not matter here
                return
            del self._facts[key]
            self._account(before, -1)
            if before.tracked and not before.ended and (after is None or after.ended):  # the watch of live pods shows an end as a deletion
                self._owners.count_end((before.namespace, before.owner))
        if new is not None and after is not None:
            self._facts[key] = after
            self._account(after, +1)
            until = counted_until(new) if after.counted and after.terminating else math.inf
            if until < math.inf:
                heapq.heappush(self._expiring, (until, key, after.uid))

    def expire(self, now: float) -> set[str]:
        """Stop counting pods stuck in termination, as quota does; return their namespaces.

        `now` : seconds since the epoch. Call it before each reading, and from time to time where nothing is read: the ends of pods are kept
        until it has seen them.
        """
        changed = set[str]()
        self._owners.settle(now)
        while self._expiring and self._expiring[0][0] < now:
            _, key, uid = heapq.heappop(self._expiring)
            facts = self._facts.get(key)
            if facts is None or facts.uid != uid or not facts.counted:
                continue
            self._account(facts, -1)
            self._facts[key] = expired = replace(facts, counted=False)
            self._account(expired, +1)
            changed.add(facts.namespace)
        return changed

    @property
    def kept(self) -> int:
        """How many ends and deletions of pods are kept until `expire` drops them."""
        return len(self._expiring) + self._owners.unsettled

    def divide(self, spaces: Spaces) -> None:
        """Change the division of namespaces into spaces."""
        self.spaces = spaces
        for facts in self._lanes.all():
            space = spaces.of_class(facts.namespace, facts.lane_class)
            if space != facts.space:
                self._account(facts, -1)
                self._facts[facts.namespace, facts.name] = moved = replace(facts, space=space)
                self._account(moved, +1)

    def note_earlier_ends(self, namespace: str, uid: str, counted: int, uncounted: int) -> None:
        """Note ends of an owner's pods that this index has not seen: those that its Job's status counts, and those that it will count."""
        self._owners.count_earlier_ends((namespace, uid), counted, uncounted)

    def forget_owner(self, namespace: str, uid: str) -> None:
        """Forget an owner that has been deleted."""
        self._owners.forget((namespace, uid))

    # Reading ---------------------------------------------------------------------------------------------------------

    def namespace(self, namespace: str) -> NamespaceUsage:
        """Return the usage of one space; zeros without pods. Do not change it: it is shared until a pod there changes."""
        entry = self._namespaces.get(namespace)
        if entry is None:
            return self._usage_of(NamespaceSums(len(self.resources)))
        if entry.usage is None:
            entry.usage = self._usage_of(entry)
        return entry.usage

    def _usage_of(self, entry: NamespaceSums) -> NamespaceUsage:
        return NamespaceUsage(
            bound=self._amounts(entry.bound.sum.amounts),
            stored=self._amounts(entry.stored.sum.amounts),
            largest=self._amounts(entry.stored.largest),
            vectors=dict(entry.stored.vectors),
            bound_vectors=dict(entry.bound.vectors),
            uncounted=dict(entry.uncounted),
            ported=dict(entry.ported),
            pods_without_requests=frozenset(entry.without_requests),
            unannounced=frozenset(entry.unannounced),
            pods=entry.stored.sum.count,
            unmanaged_stored=self._amounts(entry.unmanaged_stored.amounts),
            gated=self._amounts(entry.gated.amounts) if entry.gated.count else {},
            by_class={
                name: ClassUsage(self._amounts(each.sum.amounts), self._amounts(each.largest), each.sum.count)
                for name, each in entry.by_class.items()
            },
        )

    def requests_of(self, pod: Pod) -> RequestVector:
        """Return a pod's requests in thousandths, in the order of `resources`; zeros for a pod that is not in the index."""
        return self.requests((pod.metadata.namespace, pod.metadata.name))

    def requests(self, key: tuple[str, str]) -> RequestVector:
        """Return the same for a pod given by namespace and name."""
        facts = self._facts.get(key)
        return (0,) * len(self.resources) if facts is None else facts.requests

    def uncounted(self, key: tuple[str, str]) -> tuple[str, ...]:
        """Return the extended resources that a pod asks for and the pool does not count. The pod is given by namespace and name."""
        facts = self._facts.get(key)
        return () if facts is None else facts.uncounted

    def lacks_requests(self, key: tuple[str, str]) -> bool:
        """Return whether a quota would refuse the pod, given by namespace and name, because a container names no requests."""
        facts = self._facts.get(key)
        return facts is not None and facts.lacks_requests

    def released(self, namespace: str) -> list[int]:
        """Return the sum of the namespace's counted pods without our gate, in thousandths, in the order of `resources`."""
        entry = self._namespaces.get(namespace)
        if entry is None:
            return [0] * len(self.resources)
        return [stored - gated for stored, gated in zip(entry.stored.sum.amounts, entry.gated.amounts, strict=True)]

    def count_released(self, namespace: str) -> int:
        """Return the number of the namespace's counted pods without our gate."""
        entry = self._namespaces.get(namespace)
        return 0 if entry is None else entry.stored.sum.count - entry.gated.count

    def smallest(self, namespace: str) -> RequestVector:
        """Return the smallest request of the namespace's counted pods, by resource in thousandths; empty without pods."""
        entry = self._namespaces.get(namespace)
        return entry.stored.smallest if entry is not None else ()

    def namespaces(self) -> Collection[str]:
        """Return the spaces that have pods."""
        return self._namespaces.keys()

    def owner(self, namespace: str, uid: str) -> OwnerUsage:
        """Return the usage of one controller (or bare pod); zeros and no requests if it never had a pod. The same object until it changes.

        Pods of other namespaces do not count, though they may name the same UID as their controller's.
        """
        entry = self._owners.get((namespace, uid))
        if entry is None:
            return NO_PODS
        if entry.usage is None:
            newest = self._amounts(entry.newest_requests, empty=True)
            lately = entry.ended - entry.settled
            entry.usage = OwnerUsage(
                entry.active, entry.bound, entry.terminating, entry.ended, lately, newest, entry.newest_uncounted, entry.newest_ports
            )
        return entry.usage

    def owners_in(self, space: str) -> Callable[[str], OwnerUsage]:
        """Return `owner` for the namespace of a space."""
        return functools.partial(self.owner, namespace_of(space))

    def elsewhere(self, space: str) -> Callable[[str], int]:
        """Return a function of a controller's uid: how many of its live pods are in other spaces of its namespace."""
        namespace = namespace_of(space)
        if namespace not in self.spaces.lanes:
            return lambda _: 0

        def count(uid: str) -> int:
            if space == namespace:
                return sum(self._lanes.live(one, uid) for one in self.spaces.within(namespace)[1:])
            known = self._owners.get((namespace, uid)) or OwnerSums()
            return known.active - known.terminating - self._lanes.live(space, uid)

        return count

    def space_of(self, pod: Pod) -> str:
        """Return the space of a pod."""
        return self.spaces.of_class(pod.metadata.namespace, pod.spec.priority_class_name)

    def lane_pods(self) -> list[tuple[str, str]]:
        """Return namespace and name of all pods that have a lane's class."""
        return [(facts.namespace, facts.name) for facts in self._lanes.all()]

    def busy_lanes(self, namespace: str) -> set[int]:
        """Return the lanes whose class a pod of the namespace has."""
        return self._lanes.busy(namespace)

    def on_node(self, node: str) -> NodeUsage:
        """Return the usage of one node; empty without pods."""
        sums = self._nodes.get(node, {})
        unmanaged = sums.get(None)
        return NodeUsage(
            unmanaged=self._amounts(unmanaged.amounts if unmanaged is not None else ()),
            by_namespace={name: self._amounts(each.amounts) for name, each in sums.items() if name is not None},
        )

    def claims_outside(self, node: str, inside: Collection[str]) -> tuple[list[int], int]:
        """Return what unmanaged pods and pods of spaces not in `inside` request on a node, in thousandths, and their number."""
        claimed, count = [0] * len(self.resources), 0
        for name, each in self._nodes.get(node, {}).items():
            if name is None or name not in inside:
                claimed = [one + other for one, other in zip(claimed, each.amounts, strict=True)]
                count += each.count
        return claimed, count

    def watch_nodes(self, watcher: NodeWatcher) -> None:
        """Add every node whose pods change from now on to the watcher's nodes, as long as there is another reference to it."""
        self._node_watchers.add(watcher)

    def bound_nowhere(self, nodes: Container[str]) -> dict[str, Amounts]:
        """Return the requests by namespace of pods bound to nodes outside `nodes`: such pods do not run."""
        found: dict[str, Amounts] = {}
        for node in [name for name in self._nodes if name not in nodes]:
            for name, each in self._nodes[node].items():
                if name is not None:
                    add_thousandths(found.setdefault(name, {}), self.resources, each.amounts)
        return found

    def staying_on(self, nodes: Container[str]) -> list[PodFacts]:
        """Return the pods of spaces that are bound to these nodes and have not begun to end. Reads all pods."""
        return [one for one in self._facts.values() if one.node in nodes and one.bound and not (one.terminating or one.unmanaged)]

    # Accounting ------------------------------------------------------------------------------------------------------

    def _read(self, pod: Pod) -> PodFacts:
        metadata = pod.metadata
        owner = controller_of(metadata)
        amounts = milli_requests(pod)
        requests = tuple([amounts.get(resource, 0) for resource in self.resources])
        ended = pod.ended
        lane_class = pod.spec.priority_class_name if pod.spec.priority_class_name in LANE_OF_CLASS else ""
        return PodFacts(
            namespace=metadata.namespace,
            space=self.spaces.of_class(metadata.namespace, lane_class) if lane_class else metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            node=pod.spec.node_name,
            owner=owner.uid if owner is not None else metadata.uid,
            owner_kind=owner.kind if owner is not None else "Pod",
            created=(metadata.creation_timestamp or "", metadata.name),
            requests=self._vectors.setdefault(requests, requests),
            size_class=pod.spec.priority_class_name if self.by_class and pod.spec.priority_class_name in SIZE_CLASSES else "",
            lane_class=lane_class,
            ended=ended,
            tracked=JOB_TRACKING in (metadata.finalizers or ()),
            bound=pod.bound,
            counted=not ended,
            terminating=metadata.deletion_timestamp is not None,
            unmanaged=pod.unmanaged,
            gated=pod.gate_index(GATE) is not None,
            lacks_requests=not ended and bool(containers_without_requests(pod, self.resources)),
            uncounted=() if amounts.keys() <= self._counted else uncounted_resources(amounts, self._counted),
            ports=host_ports(pod.spec),
        )

    def _account(self, facts: PodFacts, sign: int) -> None:
        """Add a pod's contribution to every sum that it belongs to (+1), or remove it (-1)."""
        self._account_namespace(facts, sign)
        self._owners.account(facts, sign)
        if facts.lane_class:
            self._lanes.account(facts, sign)
        if facts.bound:
            for watcher in self._node_watchers:
                watcher.changed_nodes.add(facts.node)
            sums = self._nodes.setdefault(facts.node, {})
            name = None if facts.unmanaged else facts.space
            if facts.ports:
                self.ports.account(facts.ports, facts.node, name, sign)
            each = sums.setdefault(name, VectorSum(len(self.resources)))
            each.add(facts.requests, sign)
            if not each.count:
                del sums[name]
            if not sums:
                del self._nodes[facts.node]

    def _account_namespace(self, facts: PodFacts, sign: int) -> None:
        entry = self._namespaces.get(facts.space)
        if entry is None:
            entry = self._namespaces[facts.space] = NamespaceSums(len(self.resources))
        entry.total += sign
        entry.usage = None
        if facts.unmanaged:
            if facts.counted:
                entry.unmanaged_stored.add(facts.requests, sign)
        else:
            if facts.bound:
                entry.bound.add(facts.requests, sign)
            if facts.counted:
                entry.stored.add(facts.requests, sign)
                if facts.gated:
                    entry.gated.add(facts.requests, sign)
                if facts.uncounted and not facts.bound:
                    count_key(entry.uncounted, (facts.requests, facts.uncounted), sign)
                if facts.size_class:
                    self._account_class(entry, facts, sign)
                if facts.lacks_requests:
                    mark(entry.without_requests, facts.name, sign)
            if facts.owner_kind not in ANNOUNCED_KINDS and not facts.ended:
                mark_unannounced(entry, facts, sign)
        if not entry.total:
            del self._namespaces[facts.space]

    def _account_class(self, entry: NamespaceSums, facts: PodFacts, sign: int) -> None:
        each = entry.by_class.get(facts.size_class)
        if each is None:
            each = entry.by_class[facts.size_class] = VectorBag(len(self.resources))
        each.add(facts.requests, sign)
        if not each.sum.count:
            del entry.by_class[facts.size_class]

    def _amounts(self, milli_amounts: Sequence[float], *, empty: bool = False) -> Amounts:
        """Return a vector in thousandths as a mapping in natural units; an empty one as zeros, or as no entries if `empty`.

        Each pod is bounded where it is read. Their sums are bounded here.
        """
        if not milli_amounts:
            return {} if empty else dict.fromkeys(self.resources, 0.0)
        return dict(zip(self.resources, [min(amount / 1000, MOST_AMOUNT) for amount in milli_amounts], strict=True))
