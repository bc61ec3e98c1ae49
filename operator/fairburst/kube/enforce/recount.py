"""Make Kubernetes recount quotas that count pods which do not exist. Pure, apart from the memory of earlier observations.

The API server charges a pod to its quotas before it stores it. If it then fails to store the pod, the charge stays. The quota controller
corrects it when the quota's spec changes, when a pod of the namespace ends, or every five minutes; until then the quota refuses as many
pods. A change of one byte in the spec is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.quota_plan import QuotaKey, QuotaTarget, amounts

FIRST_SECONDS = 10.0  # longer than a pod's events and the quota controller usually need
LAST_SECONDS = 600.0


@dataclass(slots=True)
class _Stuck:
    """A full quota whose use stays the same. `next_look`: when it is counted again; `pause`: seconds from one count to the next."""

    used: Mapping[str, float]
    next_look: float
    pause: float = FIRST_SECONDS


class Recounts:
    """Remembers since when each full quota has counted more than exists."""

    def __init__(self) -> None:
        self._stuck: dict[QuotaKey, _Stuck] = {}

    def observe(self, target: QuotaTarget, quota: ResourceQuota | None, now: float) -> bool:
        """Return whether the quota should be counted again now. Recounts that change nothing are repeated ever more rarely."""
        used = amounts(quota.status.used) if quota is not None else {}
        if quota is None or not _counts_too_much(target, used, amounts(quota.status.hard)):
            self._stuck.pop(target.key, None)
            return False
        state = self._stuck.get(target.key)
        if state is None or state.used != used:
            self._stuck[target.key] = _Stuck(used, now + FIRST_SECONDS)
            return False
        if now < state.next_look:
            return False
        state.pause = min(2 * state.pause, LAST_SECONDS)
        state.next_look = now + state.pause
        return True

    def next_look(self, key: QuotaKey) -> float | None:
        """Return when to observe the quota again; None: at its next change."""
        state = self._stuck.get(key)
        return None if state is None else state.next_look

    def forget(self, namespace: str) -> None:
        """Drop a namespace that is no longer managed."""
        for key in [key for key in self._stuck if key[0] == namespace]:
            del self._stuck[key]


def _counts_too_much(target: QuotaTarget, used: Mapping[str, float], hard: Mapping[str, float]) -> bool:
    """Return whether the quota would refuse the next pod, and counts at least half a pod more than exists."""
    sizes = [(name, size) for name, size in target.unit.items() if size > 0 and name in hard]
    full = any(used.get(name, 0.0) + size > hard[name] * (1 + 1e-9) for name, size in sizes)
    return full and any(used.get(name, 0.0) - target.counted.get(name, 0.0) >= 0.5 * size for name, size in sizes)
