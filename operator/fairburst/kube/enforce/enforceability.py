"""Obstacles to a namespace's quota and pods: pods without requests, foreign quotas, limit ranges, priority classes that are missing. Pure;
decides no level.

A quota on cpu and memory makes the API server refuse every pod that does not request them. A namespace that runs such pods
gets a condition instead of a quota, until it has a LimitRange that supplies defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.enforce.quota_plan import amounts
from fairburst.quantity import format_quantity, parse_quantity

PODS_WITHOUT_REQUESTS = "PodsWithoutRequests"
PRIORITY_CLASS_MISSING = "PriorityClassMissing"
NAMED_AT_MOST = 5
PLAIN_KEYS = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason why enforcement is incomplete. `blocks`: no first quota is written while it lasts."""

    reason: str
    message: str
    blocks: bool


def obstacles(
    *,
    unrequested: Collection[str],
    foreign_quotas: Iterable[ResourceQuota],
    limit_ranges: Iterable[LimitRange],
    promise: Mapping[str, float],
    unit: Mapping[str, float],
    has_quota: bool,
    gated: bool = False,
    classes: Mapping[str, int] = MappingProxyType({}),
    priorities: Mapping[str, int] = MappingProxyType({}),
) -> list[Obstacle]:
    """Return the obstacles of a namespace, the blocking ones first.

    `unrequested`: pods and controllers whose containers lack cpu or memory requests. `promise`: the level promised, `unit`: the
    largest pod, both in resource units. `has_quota`: the namespace has our quota already, which stays. `gated`: its new pods
    wait behind a gate. `classes`: the priority classes that new pods get, with their values. `priorities`: those that the cluster has;
    empty if they are unknown.
    """
    ranges = list(limit_ranges)
    found = []
    if unrequested and not _defaults_requests(ranges):
        found.append(_unrequested(unrequested, has_quota=has_quota, gated=gated))
    found += [obstacle for quota in foreign_quotas if (obstacle := _foreign_quota(quota, promise)) is not None]
    found += [obstacle for limit_range in ranges if (obstacle := _limit_range(limit_range, unit)) is not None]
    found += [_class(name, value, priorities.get(name)) for name, value in classes.items() if priorities and priorities.get(name) != value]
    return found


def _unrequested(names: Collection[str], *, has_quota: bool, gated: bool) -> Obstacle:
    listed = ", ".join(sorted(names)[:NAMED_AT_MOST]) + (f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else "")
    refused = "the namespace's quota refuses their successors" if has_quota else "a quota would refuse their successors, so none is written"
    if gated and has_quota:  # it has no limits
        refused = "a policy refuses their successors, or these wait behind the gate"
    return Obstacle(
        PODS_WITHOUT_REQUESTS,
        f"expected cpu and memory requests on every container, found none on {listed}; {refused}. Add requests, or a LimitRange with "
        "defaultRequest for cpu and memory (type Container).",
        blocks=True,
    )


def _foreign_quota(quota: ResourceQuota, promise: Mapping[str, float]) -> Obstacle | None:
    for resource, limit in sorted(_requests_limited(quota).items()):
        wanted = promise.get(resource, 0.0)
        if limit < wanted - 1e-9:
            return Obstacle(
                "ForeignQuotaBelowPromise",
                f"ResourceQuota {quota.metadata.name} limits {resource} to {format_quantity(resource, limit)}, the promise is "
                f"{format_quantity(resource, wanted)}; raise or delete it.",
                blocks=False,
            )
    return None


def _requests_limited(quota: ResourceQuota) -> dict[str, float]:
    """Return the quota's limits by resource. "cpu" in a quota is another name for "requests.cpu"."""
    plain = {key: parse_quantity(text) for key, text in (quota.spec.hard or {}).items() if key in PLAIN_KEYS}
    requests = amounts(quota.spec.hard)
    return requests | {key: min(limit, requests.get(key, limit)) for key, limit in plain.items()}


def _limit_range(limit_range: LimitRange, unit: Mapping[str, float]) -> Obstacle | None:
    for item in limit_range.spec.limits:
        if item.type != "Pod":
            continue
        for resource, text in sorted((item.max or {}).items()):
            largest = unit.get(resource, 0.0)
            if parse_quantity(str(text)) < largest - 1e-9:
                return Obstacle(
                    "LimitRangeBelowPod",
                    f"LimitRange {limit_range.metadata.name} allows pods at most {text} {resource}, the largest pod needs "
                    f"{format_quantity(resource, largest)}; raise the maximum.",
                    blocks=False,
                )
    return None


def _class(name: str, value: int, found: int | None) -> Obstacle:
    what = "none has this name" if found is None else f"found {found}"
    return Obstacle(
        PRIORITY_CLASS_MISSING,
        f"expected PriorityClass {name} with the value {value}, {what}: the API server refuses the queue's new pods, which get it. An "
        "administrator applies the chart or `fairburst manifests` again; a class of another value has to be deleted first.",
        blocks=False,
    )


def _defaults_requests(limit_ranges: Iterable[LimitRange]) -> bool:
    """Return whether new containers get cpu and memory requests by default; a limit counts where no request is given."""
    supplied: set[str] = set()
    for limit_range in limit_ranges:
        for item in limit_range.spec.limits:
            if item.type == "Container":
                supplied |= set(item.default_request or {}) | set(item.default or {})
    return {"cpu", "memory"} <= supplied
