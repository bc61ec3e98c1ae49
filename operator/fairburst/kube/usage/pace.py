"""Measured speed of the cluster: how fast it creates, binds, starts and ends pods. Decides nothing."""

from __future__ import annotations

import math
from collections import deque
from statistics import median, quantiles

from fairburst.kube.api.objects import Pod
from fairburst.policy.attainability import ClusterPace

SAMPLES = 256
RATE_HORIZON_SECONDS = 600
FEWEST_SAMPLES = 8  # fewer values make no quantile
LEAST_PEAK = 20  # pods in one second: smaller peaks show the demand, not the limit (kube-controller-manager creates 20 a second by default)


class PaceMeter:
    """Reads every change of a pod. Its memory is bounded, apart from one number for each bound pod."""

    def __init__(self) -> None:
        self._bound_at: dict[str, float] = {}
        self._lifetimes: deque[float] = deque(maxlen=SAMPLES)
        self._startups: deque[float] = deque(maxlen=SAMPLES)
        self._created = _PeakRate()
        self._bound = _PeakRate()

    def observe(self, old: Pod | None, new: Pod | None, now: float, *, elastic: bool) -> None:
        """Note one change, seen at monotonic `now`. `elastic`: the pod is batch work, whose lifetime bursts wait for."""
        pod = new or old
        if pod is None:
            return
        uid = pod.metadata.uid
        if old is None and new is not None and not new.spec.node_name:
            self._created.count(now)
        if new is not None and new.spec.node_name and old is not None and not old.spec.node_name:
            self._bound_at[uid] = now
            self._bound.count(now)
        if new is not None and old is not None and new.status.phase == "Running" != old.status.phase and uid in self._bound_at:
            self._startups.append(now - self._bound_at[uid])
        if new is None or new.ended:
            bound_at = self._bound_at.pop(uid, None)
            if bound_at is not None and elastic:
                self._lifetimes.append(now - bound_at)

    def pace(self, now: float) -> ClusterPace:
        """Return the measurements so far; None where too few pods were seen."""
        return ClusterPace(
            release_seconds=quantiles(self._lifetimes, n=20)[-1] if len(self._lifetimes) >= FEWEST_SAMPLES else None,
            creation_rate=self._created.peak(now),
            bind_rate=self._bound.peak(now),
            startup_seconds=median(self._startups) if len(self._startups) >= FEWEST_SAMPLES else None,
        )


class _PeakRate:
    """The most events in one second, over the last ten minutes: the rate that the cluster can reach."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque()

    def count(self, now: float) -> None:
        second = math.floor(now)
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1] = (second, self._seconds[-1][1] + 1)
        else:
            self._seconds.append((second, 1))
        while self._seconds[0][0] < second - RATE_HORIZON_SECONDS:
            self._seconds.popleft()

    def peak(self, now: float) -> float | None:
        recent = [count for second, count in self._seconds if second >= now - RATE_HORIZON_SECONDS]
        return float(max(recent)) if max(recent, default=0) >= LEAST_PEAK else None
