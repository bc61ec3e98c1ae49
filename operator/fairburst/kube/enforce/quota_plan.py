"""Plan writes of ResourceQuotas: compare the quotas with their targets and choose those to write now.

The namespace quota holds a namespace to its level. Where the queue keeps a reserve, pods of small jobs have a quota of their own
(`division.py`).
Pure, apart from the times of the last writes, which limit the rate. It decides no level: levels come from the core.
`hard = max(level, floor) + slack`, so that a finished pod's place is taken at once; `slack.py` computes the slack.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairburst.bounds import bounded_amount
from fairburst.kube.api.objects import Quantity
from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.containment import Containment
from fairburst.kube.enforce.quota_scope import SCOPES, Scope
from fairburst.kube.enforce.quota_worth import (
    ENTITLED_FACTOR,
    permits_twice,
    raise_is_due,
    raises,
    same_amount,
    usable_part,
    worth_lowering,
)
from fairburst.kube.enforce.slack import FIRST_PODS
from fairburst.kube.names import OUR_QUOTAS, POOL_LABEL, QUOTA_NAME
from fairburst.kube.usage.pod_counts import pods_in
from fairburst.quantity import format_quantity, parse_quantity

QuotaKey = tuple[str, str]  # namespace, name
PODS_KEY = "pods"  # counts pods that have not ended
LOWER_AFTER_SECONDS = 10.0  # a small surplus is written only once it has lasted
# An entitlement moves with the demand of all other queues: for an idle queue only a large and lasting difference is written. Most bursts,
# whose room it has meanwhile, are shorter. Levels move as much while work comes to many queues and the cluster is not full yet.
ENTITLED_SECONDS = 60.0
BELOW_BOUND = 2**0.5  # a quota lowered at once for an armed burst loses more than it must, by this factor of what exceeds the level


def quota_key(resource: str) -> str:
    """Return the name of a resource inside a ResourceQuota: requests.<name>. `resource_of` is the inverse."""
    return f"requests.{resource}"


@functools.lru_cache(maxsize=4096)
def resource_of(key: str) -> str | None:
    """Return the resource of a quota key; None for other keys."""
    prefix, _, resource = key.partition("requests.")
    return resource if not prefix and resource else None


def amounts(hard_or_used: Mapping[str, Quantity] | None) -> dict[str, float]:
    """Return a quota's figures by resource, in resource units, without keys of other kinds."""
    return {resource: parse_quantity(text) for key, text in (hard_or_used or {}).items() if (resource := resource_of(key)) is not None}


def is_full(quota: ResourceQuota, unit: Mapping[str, float]) -> bool:
    """Return whether the quota would refuse a pod of the size `unit`, by resource, in resource units."""
    used = amounts(quota.status.used)
    return any(used.get(name, 0.0) + unit.get(name, 0.0) > most * (1 + 1e-9) for name, most in amounts(quota.status.hard).items())


@dataclass(frozen=True, slots=True)
class QuotaTarget:
    """The amounts that one quota (`name`) of a namespace should permit, by resource, in resource units.

    `level`: from the core, not below the floor. `unit`: the largest pod's requests. `slack`: pods of that size above the level.
    `entitled`: least amounts to admit before a level follows; never urgent. `strict`: a quota a pod above its target is lowered at once.
    `patient`: its level sinks only because others demand more, so it may be lowered later while much of the cluster is free.
    `notes`: annotations that it should carry, None for those to remove. `renews`: whether they alone are worth a write.
    `recount`: its spec should change by the least amount, so that the quota controller counts its pods again.
    `counted`: requests of the existing pods, written as `used` with a new key.
    `pods`: its greatest number of pods; None: any number. `counted_pods`: the existing ones. `scope`: the pods that it counts.
    `latency`: raises of latency queues go first. `exact`: room is kept from this queue, so its quota permits no more than the level, and a
    sinking level is written at once. `opening`: its burst has just begun, so a raise for slack alone waits: no pod of it has ended yet,
    and a write would conflict with the creation of the others.
    """

    namespace: str
    level: Mapping[str, float]
    unit: Mapping[str, float]
    counted: Mapping[str, float]
    latency: bool
    name: str = QUOTA_NAME
    exact: bool = False
    opening: bool = False
    slack: float = FIRST_PODS
    entitled: Mapping[str, float] = field(default_factory=dict)
    strict: bool = False
    patient: bool = False
    notes: Mapping[str, str | None] = field(default_factory=dict)
    renews: bool = False
    recount: bool = False
    pods: int | None = None
    counted_pods: int = 0
    scope: Scope = SCOPES[QUOTA_NAME]

    @property
    def key(self) -> QuotaKey:
        """Return namespace and name."""
        return self.namespace, self.name

    def hard(self, resource: str, divisor: float = 1.0) -> float:
        """Return the value to write for `resource`, rounded down to the units of a quota (millicores, whole bytes and devices).

        `divisor`: of what it is entitled to above the level.
        """
        grain, level, entitled = 1000 if resource == "cpu" else 1, self.level[resource], self.entitled.get(resource, 0.0)
        if divisor != 1.0:
            entitled = level + max(0.0, entitled - level) / divisor
        amount = bounded_amount(max(self.needed(resource), entitled))  # a larger one would be read as the bound
        return math.floor(amount * grain + 1e-6) / grain

    def pod(self, resource: str) -> float:
        """Return the largest pod's request, or the level, an idle queue's floor, where no pod requests the resource."""
        return self.unit.get(resource, 0.0) or self.level[resource]

    def needed(self, resource: str) -> float:
        """Return level and slack, the amount that is due now."""
        return self.level[resource] + (0.0 if self.exact else self.slack * self.unit.get(resource, 0.0))


class WriteOrder(enum.IntEnum):
    """The order of quota writes within a round: raise the bursts, shrink the largest, raise the rest."""

    RAISE_BURST = 0
    SHRINK = 1
    RAISE = 2


@dataclass(frozen=True, slots=True)
class QuotaWrite:
    """One quota to create, patch or replace. `hard` by quota key in canonical text; `used` for keys that are new to the quota.

    `notes`: annotations, None for those to remove.
    `size`: the change as a fraction of the old value, for ordering. `rescope`: it should count other pods than it does. `replace`: it was
    made by hand with `scopes`, which only a new object repairs.
    """

    namespace: str
    hard: Mapping[str, str]
    used: Mapping[str, str]
    stale_keys: tuple[str, ...]
    create: bool
    replace: bool
    order: WriteOrder
    size: float
    rescope: bool = False
    name: str = QUOTA_NAME
    notes: Mapping[str, str | None] = field(default_factory=dict)
    scope: Scope = SCOPES[QUOTA_NAME]

    @property
    def key(self) -> QuotaKey:
        """Return namespace and name."""
        return self.namespace, self.name


class QuotaPlanner:
    """Compares targets with the present quotas. Remembers when each was last written and since when it has been a little too large.

    One quota is written at most every `min_interval_seconds`: more writes cause 409 conflicts for pod creation in its namespace.
    """

    def __init__(self, pool: str, min_interval_seconds: float, contained: Containment | None = None) -> None:
        self._pool = pool
        self._contained = contained or Containment()
        self._min_interval = min_interval_seconds
        self._written_at: dict[QuotaKey, float] = {}
        self._surplus_since: dict[QuotaKey, float] = {}
        self._entitled_since: dict[QuotaKey, float] = {}
        self._hard: dict[QuotaKey, Mapping[str, str]] = {}  # as last written
        self._put_off = set[QuotaKey]()  # too large, in a cluster with much free room

    def plan(
        self, targets: Sequence[QuotaTarget], quotas: Mapping[QuotaKey, ResourceQuota], now: float, *, roomy: bool = False
    ) -> tuple[list[QuotaWrite], dict[str, float]]:
        """Return the writes due now, in order, and by namespace the time at which a deferred one falls due.

        `quotas` by namespace and name; `now` is monotonic seconds. `roomy`: so much of the cluster is free that sinking levels can wait.
        Once it is not, the quotas that were left too large fall due.
        """
        writes: list[QuotaWrite] = []
        dues: dict[str, float] = {}
        if not roomy:
            dues = {namespace: now for namespace, _ in self._put_off - {target.key for target in targets}}
            self._put_off.clear()
        for target in targets:
            write: QuotaWrite | float | None = None
            with self._contained.object("enforce", target.namespace):
                write = self._difference(target, quotas.get(target.key), now, roomy=roomy)
                if (target.renews or target.recount) and not isinstance(write, QuotaWrite):
                    write = self._renewal(target, quotas[target.key])
            if write is None:
                continue
            if isinstance(write, float):
                dues[target.namespace] = min(dues.get(target.namespace, math.inf), write)
                continue
            earliest = self._written_at.get(target.key, -math.inf) + self._min_interval
            if earliest > now and not write.create:
                dues[target.namespace] = min(dues.get(target.namespace, math.inf), earliest)
            else:
                writes.append(write)
                self._hard[target.key] = write.hard
        writes.sort(key=lambda write: (write.order, -write.size, write.key))
        return writes, dues

    def margins(self, targets: Sequence[QuotaTarget], quotas: Mapping[QuotaKey, ResourceQuota]) -> dict[str, float]:
        """Return by how much the entitlement of a namespace may sink before its quotas, once written, are a pod larger: by resource.

        Infinite where they permit no more than is needed.
        """
        found, stored = dict[str, float](), list[dict[str, float]]()
        for target in targets:
            quota = quotas.get(target.key)
            stored.append(amounts(self._hard.get(target.key) or (quota.spec.hard if quota is not None else None)))
        for resource in targets[0].level if targets else ():
            permitted = sum(one.get(resource, 0.0) for one in stored)
            most, needed = sum(target.hard(resource) for target in targets), sum(target.needed(resource) for target in targets)
            pod = min(target.pod(resource) for target in targets)
            found[resource] = most + pod - permitted if permitted > needed + 1e-6 else math.inf
        return found

    def written(self, quota: QuotaKey, now: float) -> None:
        """Note that a write was sent, successful or not."""
        self._written_at[quota] = now
        self._surplus_since.pop(quota, None)
        self._entitled_since.pop(quota, None)
        self._put_off.discard(quota)

    def not_sent(self, quota: QuotaKey) -> None:
        """Note that a planned write was not sent."""
        self._hard.pop(quota, None)

    def forget(self, namespace: str) -> None:
        """Drop a namespace that is no longer managed."""
        for key in [(namespace, name) for name in OUR_QUOTAS]:
            self._hard.pop(key, None)
            for times in (self._written_at, self._surplus_since, self._entitled_since):
                times.pop(key, None)
            self._put_off.discard(key)

    def _difference(self, target: QuotaTarget, quota: ResourceQuota | None, now: float, *, roomy: bool) -> QuotaWrite | float | None:
        """Return a write, or the time at which a surplus that may last for a while becomes worth one, or None if the quota is right."""
        want = {resource: target.hard(resource) for resource in target.level}
        if quota is None or quota.spec.scopes:
            return self._write(target, want, {}, create=True, replace=quota is not None)
        rescope = not target.scope.is_of(quota)
        have, enforced = amounts(quota.spec.hard), amounts(quota.status.hard)
        kept = set() if target.pods is None else {PODS_KEY}
        stale = tuple(sorted(key for key in quota.spec.hard or {} if key not in kept and resource_of(key) not in want))
        edited = (
            rescope
            or stale
            or _pods_matter(pods_permitted(quota), target, want)
            or set(have) != set(want)
            or pool_of(quota) != self._pool
            or bool(quota.metadata.owner_references)
        )
        if not edited and want == have == enforced:
            self._surplus_since.pop(target.key, None)
            self._entitled_since.pop(target.key, None)
            return None
        as_written = have == amounts(self._hard.get(target.key, quota.spec.hard))
        if not edited and target.entitled and as_written:
            return self._entitled(target, want, have, amounts(quota.status.used), now)
        units, used = {r: target.unit.get(r, 0.0) for r in want}, amounts(quota.status.used)
        worth = edited or raise_is_due(want, have, used, units, target.level, opening=target.opening)
        usable, exact = have if target.exact else usable_part(have, units, target.counted), target.exact or target.strict
        lower = not worth and any(worth_lowering(want[r], usable[r], units[r], exact=exact) for r in want)
        put_off = lower and roomy and as_written and target.patient and not exact
        if put_off:
            self._put_off.add(target.key)
        patient = put_off or (not target.opening and raises(want, have, units))
        due = -math.inf if worth or (lower and not put_off) else self._settled_at(target.key, want, have, enforced, now, patient=patient)
        if now >= due:
            return self._write(target, want, have, stale=stale, rescope=rescope, has_pods=PODS_KEY in (quota.spec.hard or {}))
        return due if due < math.inf else None

    def _settled_at(
        self, key: QuotaKey, want: Mapping[str, float], have: Mapping[str, float], enforced: Mapping[str, float], now: float, *,
        patient: bool,
    ) -> float:  # fmt: skip
        """Return when a difference will have lasted long enough; infinite, and forgotten, if there is none."""
        differs = any(not same_amount(want[r], have[r]) for r in want)
        unenforced = any(not same_amount(have[r], enforced.get(r, math.inf)) for r in want if enforced)
        seconds = ENTITLED_SECONDS if patient and not unenforced else LOWER_AFTER_SECONDS
        return _lasting(differs or unenforced, self._surplus_since, key, now, seconds)

    def _renewal(self, target: QuotaTarget, quota: ResourceQuota) -> QuotaWrite:
        """Return a write of the quota as it is, with the annotations that it should have, and a byte or a millicore more for a recount."""
        have = amounts(quota.spec.hard)
        want = {resource: have.get(resource, target.hard(resource)) for resource in target.level}
        if target.recount and "memory" in want:
            want["memory"] += 1.0
        elif target.recount and "cpu" in want:
            want["cpu"] += 0.001
        return self._write(target, want, have, has_pods=PODS_KEY in (quota.spec.hard or {}))

    def _entitled(
        self, target: QuotaTarget, want: Mapping[str, float], have: Mapping[str, float], used: Mapping[str, float], now: float
    ) -> QuotaWrite | float | None:
        """Return the same as `_difference` for a quota that may be larger than its target."""
        unit = target.unit
        raised = raise_is_due({r: target.needed(r) for r in want}, have, used, unit, target.level, opening=target.opening)
        lowered = target.strict and any(worth_lowering(want[r], have[r], target.pod(r), exact=True) for r in want)
        larger = permits_twice(want, have, unit)
        smaller = any(have[r] >= ENTITLED_FACTOR * want[r] + 1e-6 for r in want)
        due = min(
            _lasting(larger, self._entitled_since, target.key, now, ENTITLED_SECONDS),
            _lasting(smaller, self._surplus_since, target.key, now, ENTITLED_SECONDS),
        )
        if lowered and not raised:  # the entitlement sinks with each pod that starts anywhere: by more, so that the next ones cost no write
            want = {r: target.hard(r, BELOW_BOUND) for r in want}
        if raised or lowered or now >= due:
            return self._write(target, want, have, has_pods=True)
        return due if due < math.inf else None

    def _write(
        self,
        target: QuotaTarget,
        want: Mapping[str, float],
        have: Mapping[str, float],
        *,
        stale: tuple[str, ...] = (),
        create: bool = False,
        replace: bool = False,
        rescope: bool = False,
        has_pods: bool = False,
    ) -> QuotaWrite:
        new = [resource for resource in want if rescope or resource not in have]
        used_pods = {} if target.pods is None or (has_pods and not rescope) else {PODS_KEY: str(target.counted_pods)}
        growth = max(((want[r] - have[r]) / max(have[r], want[r], 1e-9) for r in want if r in have), default=1.0)
        shrink = max(((have[r] - want[r]) / max(have[r], 1e-9) for r in want if r in have), default=0.0)
        order = WriteOrder.SHRINK if shrink > growth else WriteOrder.RAISE_BURST if target.latency else WriteOrder.RAISE
        return QuotaWrite(
            namespace=target.namespace,
            hard={quota_key(r): format_quantity(r, want[r]) for r in sorted(want)} | _pods_hard(target),
            used={quota_key(r): format_quantity(r, target.counted.get(r, 0.0)) for r in sorted(new)} | used_pods,
            stale_keys=stale,
            create=create,
            replace=replace,
            rescope=rescope,
            order=order,
            size=max(growth, shrink),
            name=target.name,
            notes=target.notes,
            scope=target.scope,
        )


def _pods_hard(target: QuotaTarget) -> dict[str, str]:
    return {} if target.pods is None else {PODS_KEY: str(target.pods)}


def _pods_matter(permitted: int | None, target: QuotaTarget, want: Mapping[str, float]) -> bool:
    """Return whether another limit on pods is worth a write. A higher one is if this limit stops pods before the amounts `want` do."""
    if permitted is None or target.pods is None or target.pods <= permitted:
        return permitted != target.pods
    sized = any(size > 0 for size in target.unit.values())
    return permitted < (max(pods_in(want, target.unit), target.counted_pods + 2) if sized else target.pods)


def pods_permitted(quota: ResourceQuota) -> int | None:
    """Return how many pods the quota permits; None if it has no such limit."""
    text = (quota.spec.hard or {}).get(PODS_KEY)
    return None if text is None else int(parse_quantity(text))


def pool_of(quota: ResourceQuota) -> str | None:
    """Return the pool whose operator wrote the quota; None without the label."""
    return (quota.metadata.labels or {}).get(POOL_LABEL)


def _lasting(found: bool, since: dict[QuotaKey, float], quota: QuotaKey, now: float, seconds: float) -> float:
    """Return when the difference, if it is `found`, will have lasted for `seconds`; infinite, and forgotten, if it is not."""
    if found:
        return since.setdefault(quota, now) + seconds
    since.pop(quota, None)
    return math.inf
