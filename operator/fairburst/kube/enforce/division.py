"""The two quotas of a namespace whose level is divided between small and large jobs; of several queues, its default queue's. Pure.

A pod counts for one of them: the API server charges the quotas of a pod one after the other, and writes to one quota wait for each other
(docs/decisions/0274-a-pod-counts-for-one-quota.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaTarget, pods_permitted
from fairburst.kube.enforce.quota_scope import SCOPES, Scope, leaves_to
from fairburst.kube.names import LARGE_CLASS, SMALL_CLASS, SMALL_QUOTA
from fairburst.kube.usage.pod_usage import ClassUsage, NamespaceUsage

PLACES_MOVED = 1 / 8  # part of a namespace's places; where its pods want more than all, the two parts move no less at once
Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Division:
    """The part of a namespace's level that is for small jobs; the rest is for all other pods.

    `small` and the largest pod of either kind: by resource, in resource units. `ratio`: the part of what the queue may use at once that
    is for small jobs. `small_pods`, `other_pods`: how many pods they want.
    """

    small: Amounts
    ratio: float
    small_unit: Amounts
    other_unit: Amounts
    small_pods: int
    other_pods: int


def divided(
    whole: QuotaTarget, division: Division, usage: NamespaceUsage, present: ResourceQuota | None
) -> tuple[QuotaTarget, QuotaTarget]:
    """Return the quotas of small and of other pods, which together permit what `whole` does, and a pod each beyond it.

    `present`: the quota of the small jobs as it is.
    """
    small = {name: min(division.small.get(name, 0.0), amount) for name, amount in whole.level.items()}
    other = {name: amount - small[name] for name, amount in whole.level.items()}
    # of what it may use at once, small jobs may use the reserve's part, though not what is the others' level
    small_entitled = {name: max(min(division.ratio * amount, amount - other[name]), small[name]) for name, amount in whole.entitled.items()}
    of_class = _of_class(usage, SMALL_CLASS)
    places = None if whole.pods is None else _small_places(whole.pods, division, None if present is None else pods_permitted(present))
    return (
        replace(
            whole,
            name=SMALL_QUOTA,
            scope=SCOPES[SMALL_QUOTA],
            level=small,
            entitled=small_entitled,
            unit=_unit(division.small_unit, of_class.largest, whole.unit),
            counted={name: of_class.stored.get(name, 0.0) for name in whole.counted},
            counted_pods=of_class.pods,
            pods=places,
        ),
        replace(
            whole,
            scope=without_small(whole.scope),
            level=other,
            entitled={name: amount - small_entitled[name] for name, amount in whole.entitled.items()},
            unit=_unit(division.other_unit, _of_class(usage, LARGE_CLASS).largest, whole.unit),
            counted={name: amount - of_class.stored.get(name, 0.0) for name, amount in whole.counted.items()},
            counted_pods=whole.counted_pods - of_class.pods,
            pods=None if whole.pods is None or places is None else whole.pods - places,
        ),
    )


def without_small(scope: Scope) -> Scope:
    """Return the pods that the namespace quota counts where small jobs have a quota of their own. `scope`: where they have none."""
    return replace(scope, classes=(*scope.classes, SMALL_CLASS))


def leaves_out_small(quota: ResourceQuota | None) -> bool:
    """Return whether this namespace quota leaves pods of small jobs to the quota of these."""
    return leaves_to(quota, SMALL_QUOTA)


def holding(quotas: Mapping[QuotaKey, ResourceQuota], keys: Iterable[QuotaKey]) -> list[ResourceQuota]:
    """Return those of a namespace's quotas that its pods count for, each pod for one. `keys`: the namespace quota's first."""
    first, *others = [quotas.get(key) for key in keys]
    found = [first, *others] if leaves_out_small(first) else [first]
    return [quota for quota in found if quota is not None]


def counted(quota: ResourceQuota, usage: NamespaceUsage) -> Amounts:
    """Return the requests of the existing pods that a quota of the namespace counts, by resource, in resource units."""
    small = _of_class(usage, SMALL_CLASS).stored
    if quota.metadata.name == SMALL_QUOTA:
        return small
    return {name: amount - small.get(name, 0.0) for name, amount in usage.stored.items()} if leaves_out_small(quota) else usage.stored


def largest(quota: ResourceQuota, usage: NamespaceUsage, unit: Amounts) -> Amounts:
    """Return the largest pod that a quota of the namespace counts; `unit`, the namespace's largest, where there is none of its size."""
    if quota.metadata.name != SMALL_QUOTA and not leaves_out_small(quota):
        return unit
    return _of_class(usage, SMALL_CLASS if quota.metadata.name == SMALL_QUOTA else LARGE_CLASS).largest or unit


def _of_class(usage: NamespaceUsage, name: str) -> ClassUsage:
    return usage.by_class.get(name, ClassUsage({}, {}, 0))


def _unit(wanted: Amounts, existing: Amounts, most: Amounts) -> dict[str, float]:
    """Return the largest pod, wanted or existing. Pods that no node could hold need no room (`most`)."""
    return {name: min(max(wanted.get(name, 0.0), existing.get(name, 0.0)) or amount, amount) for name, amount in most.items()}


def _small_places(places: int, division: Division, present: int | None) -> int:
    """Return how many of the places for pods the small jobs' pods may take: as many as at `present` while both kinds have enough."""
    small, other = division.small_pods, division.other_pods
    fresh = min(max(round(places * small / max(small + other, 1)), 1), places)
    if present is None or present > places:
        return fresh
    enough = small <= present and other <= places - present
    return present if enough or (small + other > places and abs(fresh - present) <= PLACES_MOVED * places) else fresh
