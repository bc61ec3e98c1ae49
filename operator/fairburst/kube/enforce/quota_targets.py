"""The target of a namespace's quota, from the namespace's level. Pure; `quota_plan.py` compares it with the quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_plan import QuotaTarget
from fairburst.kube.enforce.quota_scope import SCOPES, default_scope
from fairburst.kube.names import QUOTA_NAME


def namespace_quota_target(
    item: ManagedNamespace,
    stored: Mapping[str, float],
    pods: int,
    resources: tuple[str, ...],
    lanes: Iterable[int] = (),
    *,
    opening: bool = False,
) -> QuotaTarget:
    """Return the level of a namespace, or of one of its several queues, as a quota.

    `stored`: requests of the existing `pods`, by resource. `lanes`: those whose pods the namespace quota leaves out. `opening`: its burst
    just began.
    """
    level = dict(zip(resources, item.level.tolist(), strict=True))
    entitled = {} if item.entitled is None or item.held_back else dict(zip(resources, item.entitled.tolist(), strict=True))
    entry = item.entry
    latency = entry is not None and entry.key[0] == "LatencyQueue"
    spec = None if entry is None or item.row is None else entry.spec
    namespace, name = item.quota_key
    return QuotaTarget(
        namespace,
        level,
        item.unit,
        stored,
        latency,
        name=name,
        exact=item.held_back,
        opening=opening,
        slack=item.slack,
        entitled=entitled,
        strict=item.bound_by_burst or item.takes_head_room,
        patient=spec is not None and not (latency or spec.suspended or spec.limits),
        pods=item.slots,
        counted_pods=pods,
        scope=default_scope(lanes) if name == QUOTA_NAME else SCOPES[name],
    )


def gated_target(target: QuotaTarget, present: Mapping[str, float] | None, *, certain: bool) -> QuotaTarget:
    """Return the quota of a namespace in Gate mode: without limits, once new pods are sure to get the gate (`certain`), which holds them.

    `present`: the limits of its quota, None without one. A quota that has none lost them when pods were sure to get the gate.
    """
    if certain or present == {}:
        return replace(target, level={}, entitled={}, unit={}, exact=False, pods=None)
    had, counted = present or {}, target.counted
    least = {name: max(amount, counted.get(name, 0.0), had.get(name, 0.0)) for name, amount in target.level.items()}
    return replace(target, level=least, entitled={}, unit={} if had else target.unit, exact=False, pods=None)
