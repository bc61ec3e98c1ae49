"""Pods that are being deleted: their grace periods, and until when reclaim counts on their room. Pure.

A pod that reclaim evicts gets a bounded grace period. A pod that its owner deletes may name any grace period and use all of it, so
reclaim counts on its room only if it ends in time for the pods that wait (docs/decisions/0131).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import datetime

from fairburst.bounds import bounded_duration
from fairburst.kube.api.objects import Pod
from fairburst.kube.times import to_epoch
from fairburst.kube.usage.gated_pods import PodKey
from fairburst.kube.usage.pod_index import PodIndex

STUCK_SECONDS = 60.0  # beyond its grace period: a pod that takes longer may never end
DEFAULT_GRACE_SECONDS = 30.0  # default of core/v1


def asked_key(key: PodKey, uid: str) -> str:
    """Return the pod's key in `ReclaimMemory.asked`. Namespaces and names contain no slash."""
    return "/".join((*key, uid))


def own_grace(pod: Pod) -> float:
    """Return the pod's own grace period in seconds."""
    metadata, named = pod.metadata, pod.spec.termination_grace_period_seconds
    if metadata.deletion_timestamp is not None and metadata.deletion_grace_period_seconds is not None:
        return bounded_duration(metadata.deletion_grace_period_seconds)
    return DEFAULT_GRACE_SECONDS if named is None else bounded_duration(named)


def grace_to_give(pod: Pod, longest: float) -> int | None:
    """Return the grace period of an eviction in whole seconds, one at least; None if the pod's own is no longer than `longest`."""
    return None if own_grace(pod) <= longest else max(1, int(longest))


def comes_free(pod: Pod, asked_until: float | None, horizon: float, wall: float) -> bool:
    """Return whether a pod that is being deleted leaves its room in time.

    asked_until: time until which reclaim, which evicted the pod, counts on its end; None for a pod that others delete. horizon: time at
    which the room is needed. wall: now. All in seconds since the epoch.
    """
    if pod.metadata.deletion_timestamp is None:
        return False
    if asked_until is not None:
        return wall <= asked_until
    ends = to_epoch(datetime.fromisoformat(pod.metadata.deletion_timestamp))
    return ends <= horizon and wall <= ends + STUCK_SECONDS


def still_there(asked: Mapping[str, float], pods: Mapping[PodKey, Pod]) -> dict[str, float]:
    """Return the entries of `asked` whose pods still exist."""
    return {name: until for name, until in asked.items() if _pod(name, pods) is not None}


def freed(
    asked: Mapping[str, float], pods: Mapping[PodKey, Pod], index: PodIndex, nodes: Container[str], wall: float
) -> dict[str, dict[str, float]]:
    """Return the requests of the pods on `nodes` that reclaim has evicted, by space and resource. `wall`: seconds since the epoch.

    A pod counts for its queue again a minute after the end of the grace period that reclaim gave. Pods that their owner deletes or
    evicts are not included.
    """
    sums: dict[str, dict[str, float]] = {}
    for pod in _ending(asked, pods, wall):
        if pod.bound and pod.spec.node_name in nodes:
            total = sums.setdefault(index.space_of(pod), dict.fromkeys(index.resources, 0.0))
            for resource, amount in zip(index.resources, index.requests_of(pod), strict=True):
                total[resource] += amount / 1000
    return sums


def _ending(asked: Mapping[str, float], pods: Mapping[PodKey, Pod], wall: float) -> Iterable[Pod]:
    for name, until in asked.items():
        pod = _pod(name, pods)
        if pod is not None and pod.metadata.deletion_timestamp is not None and wall <= until:
            yield pod


def _pod(name: str, pods: Mapping[PodKey, Pod]) -> Pod | None:
    namespace, pod_name, uid = name.split("/", 2)
    pod = pods.get((namespace, pod_name))
    return pod if pod is not None and pod.metadata.uid == uid else None
