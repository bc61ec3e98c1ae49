"""Make Kubernetes recount quotas that count pods which do not exist. Pure, apart from the memory of earlier observations.

The API server charges a pod to its quotas before it stores it. If it then fails to store the pod, the charge stays. The quota controller
corrects it when the quota's spec changes, when a pod of the namespace ends, or every five minutes; until then the quota refuses as many
pods. A change of one byte in the spec is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.quota_plan import PODS_KEY, QuotaKey, QuotaTarget, amounts, is_full
from fairburst.quantity import parse_quantity

FIRST_SECONDS = 10.0  # longer than a pod's events and the quota controller usually need
LAST_SECONDS = 600.0


@dataclass(slots=True)
class _Stuck:
    """A full quota that counts too much. `next_look`: when it is counted again if its use stays `used`; `pause`: seconds until then."""

    used: Mapping[str, float]
    next_look: float
    pause: float = FIRST_SECONDS
    proposed: bool = False


class Recounts:
    """Remembers since when each full quota has counted more than exists."""

    def __init__(self) -> None:
        self._stuck: dict[QuotaKey, _Stuck] = {}

    def observe(self, target: QuotaTarget, quota: ResourceQuota | None, unmanaged: Mapping[str, float], now: float) -> bool:
        """Return whether the quota should be counted again now: ever more rarely if that does not help.

        `unmanaged`: requests of the namespace's pods that are not in `target.counted`, though its quota may count them.
        """
        if quota is None or not (is_full(quota, target.unit) or _has_no_place(quota)) or not _counts_too_much(target, quota, unmanaged):
            self._stuck.pop(target.key, None)
            return False
        state, used = self._stuck.get(target.key), amounts(quota.status.used)
        if state is None or state.used != used:
            pause = FIRST_SECONDS if state is None else state.pause
            self._stuck[target.key] = _Stuck(used, now + pause, pause)
            return False
        state.proposed = now >= state.next_look
        return state.proposed

    def written(self, key: QuotaKey, now: float) -> None:
        """Note a write of the quota, which has it counted again."""
        state = self._stuck.get(key)
        if state is not None and state.proposed:
            state.pause, state.proposed = min(2 * state.pause, LAST_SECONDS), False
            state.next_look = now + state.pause

    def next_look(self, key: QuotaKey) -> float | None:
        """Return when to observe the quota again; None: at its next change."""
        state = self._stuck.get(key)
        return None if state is None else state.next_look

    def forget(self, namespace: str) -> None:
        """Drop a namespace that is no longer managed."""
        for key in [key for key in self._stuck if key[0] == namespace]:
            del self._stuck[key]


def _has_no_place(quota: ResourceQuota) -> bool:
    """Return whether the quota permits no further pod, of any size."""
    most, used = (quota.status.hard or {}).get(PODS_KEY), (quota.status.used or {}).get(PODS_KEY)
    return most is not None and used is not None and parse_quantity(used) >= parse_quantity(most)


def _counts_too_much(target: QuotaTarget, quota: ResourceQuota, unmanaged: Mapping[str, float]) -> bool:
    """Return whether the quota counts at least half a pod more than exists."""
    used, counted = amounts(quota.status.used), target.counted
    excess = {name: used.get(name, 0.0) - counted.get(name, 0.0) - unmanaged.get(name, 0.0) for name in target.unit}
    return any(excess[name] >= 0.5 * size > 0 for name, size in target.unit.items())
