"""How far kube-controller-manager is behind in releasing the charge of ended pods, by quota. Decides no level.

ResourceQuota admission compares with `status.used`, which the controller lowers only after a queue of its own
(docs/decisions/0003-quota-slack.md). Until then an ended pod still occupies quota, so the quota is written higher by that lag.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping

from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.quota_plan import QuotaKey
from fairburst.kube.usage.charge import charge


class ReleaseLag:
    """Largest lag of the last `hold_seconds`, by quota and resource: raised at once, lowered late, so quotas don't flap."""

    def __init__(self, hold_seconds: float = 15.0) -> None:
        self._hold_seconds = hold_seconds
        self._samples: dict[QuotaKey, deque[tuple[float, dict[str, float]]]] = {}
        self._ended: dict[QuotaKey, deque[tuple[float, dict[str, float]]]] = {}

    def ended(self, quota: QuotaKey, pod: Pod, now: float) -> None:
        """A pod that the quota counts has ended or is gone: its charge is to be released."""
        ended = self._ended.setdefault(quota, deque())
        ended.append((now, charge(pod)))
        _expire(ended, now - self._hold_seconds)

    def observe(self, quota: QuotaKey, charged: Mapping[str, float], counted: Mapping[str, float], now: float) -> None:
        """Record one observation: `charged` is the quota's status.used, `counted` the charge of pods that still exist.

        A difference is a lag only as far as pods have ended lately: a pod that was charged but has not reached our cache yet
        is none.
        """
        ended = self._ended.get(quota, deque())
        _expire(ended, now - self._hold_seconds)
        positive: dict[str, float] = {}
        for resource, amount in charged.items():
            difference = amount - counted.get(resource, 0.0)
            if difference > 0 and ended:
                lag = min(difference, sum(one.get(resource, 0.0) for _, one in ended))
                positive |= {resource: lag} if lag > 0 else {}
        samples = self._samples.setdefault(quota, deque())
        _expire(samples, now - self._hold_seconds)
        if positive:
            samples.append((now, positive))
        elif not samples:
            del self._samples[quota]

    def allowance(self, quota: QuotaKey, resource: str, unit: float, cap: float) -> float:
        """Extra quota for charges not released yet, in whole `unit`s (one pod's charge) and at most `cap`, resource units."""
        largest = max((sample.get(resource, 0.0) for _, sample in self._samples.get(quota, ())), default=0.0)
        if largest <= 0 or unit <= 0:
            return min(max(largest, 0.0), cap)
        pods = math.ceil(largest / unit - 1e-9)
        return min(pods * unit, cap)

    def next_expiry(self, now: float) -> float:
        """Earliest time after `now` at which an allowance may shrink by itself; infinite without samples."""
        for quota, samples in list(self._samples.items()):  # also of quotas that nobody observes any more
            _expire(samples, now - self._hold_seconds)
            if not samples:
                del self._samples[quota]
        return min((samples[0][0] + self._hold_seconds for samples in self._samples.values()), default=math.inf)

    def retain(self, namespaces: Collection[str]) -> None:
        """Drop the quotas of every other namespace: they are not managed."""
        for by_quota in (self._samples, self._ended):
            for key in [key for key in by_quota if key[0] not in namespaces]:
                del by_quota[key]


def _expire(samples: deque[tuple[float, dict[str, float]]], before: float) -> None:
    while samples and samples[0][0] <= before:
        samples.popleft()
