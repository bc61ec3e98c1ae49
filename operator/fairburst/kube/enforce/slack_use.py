"""The present use of a namespace's quota or gate, in pods, for `slack.py`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.division import largest
from fairburst.kube.enforce.expiry import lasting_amounts
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import amounts, is_full, quota_key
from fairburst.kube.enforce.slack import FIRST_PODS, Use
from fairburst.kube.usage.pod_counts import pods_in
from fairburst.kube.usage.pod_usage import NamespaceUsage


def use_of(
    item: ManagedNamespace, level: Mapping[str, float], usage: NamespaceUsage, quotas: Iterable[ResourceQuota], room: Mapping[str, float],
    uncharged: Mapping[str, float],
) -> Use | None:  # fmt: skip
    """Return how a namespace's level is used; None if the level does not stop its work, or if nothing may be above it.

    `level`, `room` (on the pool's nodes) and `uncharged` (requests of its pods that count for no queue): by resource, in resource units.
    `quotas`: the namespace's own quotas. A full one stops work even if it is that of the small jobs only.
    """
    if item.row is None or item.held_back or not any(item.unit.values()):
        return None
    if not any(item.demand.demand.get(name, 0.0) >= amount + 0.5 * item.unit[name] > 0 for name, amount in level.items()):
        return None
    bound = {name: usage.bound.get(name, 0.0) - uncharged.get(name, 0.0) for name in level}
    free = {name: amount - usage.stored.get(name, 0.0) for name, amount in level.items()}
    if item.mode.holds == "Pods":
        free = {name: amount + usage.gated.get(name, 0.0) for name, amount in free.items()}
        full = bool(usage.gated) and pods_in(free, item.unit) < 1.0
    elif item.mode.holds == "Jobs":
        full = bool(item.demand.held)
    else:
        full = any(is_full(quota, largest(quota, usage, item.unit)) for quota in quotas)
    return Use(
        short=pods_in({name: amount - bound[name] for name, amount in level.items()}, item.unit),
        missing=pods_in(free, item.unit),
        room=pods_in(room, item.unit),
        full=full,
        level=pods_in(level, item.unit),
        gated=item.mode.holds == "Pods",
    )


def noted_slack(quotas: Iterable[ResourceQuota], unit: Mapping[str, float]) -> tuple[float, float] | None:
    """Return the slack that an earlier process gave a namespace, and the level, in pods of the size `unit`; None if there is none.

    The annotations of its quotas hold what stays without it: the level and one pod.
    """
    above, lasting = dict[str, float](), dict[str, float]()
    for quota in quotas:
        noted = lasting_amounts(quota.metadata.annotations or {})
        for name, amount in amounts(quota.spec.hard).items() if noted else ():
            stays = noted.get(quota_key(name), 0.0)
            above[name], lasting[name] = above.get(name, 0.0) + amount - stays, lasting.get(name, 0.0) + stays
    pods = pods_in(above, unit)
    return (pods + FIRST_PODS, pods_in(lasting, unit) - FIRST_PODS) if pods > 0 else None
