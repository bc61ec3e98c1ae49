"""Use of each queue's space in the last minute, as this process has seen it. A replica that takes over charges this use.

A leader writes its accounts seconds late, and not at all if it is killed. A standby replica sees each binding and end of a pod. A replica
that has just started learns from its first list when the running pods were bound, and so does one that has lost its watch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np

from fairburst.kube.api.objects import Pod
from fairburst.kube.queues.spaces import Spaces
from fairburst.kube.times import to_epoch
from fairburst.kube.usage.effective_requests import milli_requests
from fairburst.policy.arrays import FloatArray

KEPT_SECONDS = 60.0  # longer than any pause between two leaders while a replica stands by


class RecentUse:
    """The changes of bound pods. Updated with every change of a pod, O(1) a change. Times are monotonic seconds of this process."""

    def __init__(self) -> None:
        self._watched_since = math.inf
        self._changes: deque[tuple[float, str, str, int, Mapping[str, int]]] = deque()

    def watch_from(self, now: float) -> None:
        """Note that this process sees every change from `now` on."""
        self._watched_since = now

    def watch_lost(self) -> None:
        """Note that this process does not see when pods are bound and end."""
        self._watched_since = math.inf

    @property
    def watching(self) -> bool:
        """Whether this process sees every change."""
        return math.isfinite(self._watched_since)

    def pod_changed(self, old: Pod | None, new: Pod | None, wall: float, now: float) -> None:
        """Record one change of a pod: it was bound, has ended, or was resized."""
        before, after = _bound_amounts(old), _bound_amounts(new)
        if before == after:
            return
        while self._changes and self._changes[0][0] < now - KEPT_SECONDS:
            self._changes.popleft()
        for pod, sign, amounts in ((old, -1, before), (new, 1, after)):
            if pod is None or amounts is None:
                continue
            if not self.watching and sign < 0:
                continue  # it ended at an unknown time
            at = now if self.watching else now - _seconds_bound(pod, wall)
            if at >= now - KEPT_SECONDS:
                self._changes.append((at, pod.metadata.namespace, pod.spec.priority_class_name, sign, amounts))

    def pieces(
        self, space: str, spaces: Spaces, resources: tuple[str, ...], bound: FloatArray, begin: float, end: float, now: float
    ) -> Iterator[tuple[float, FloatArray | None, bool]]:
        """Yield the use of a space from `end` back to `begin`, as seconds, (K,) amounts and whether this process saw all of it.

        `bound`: (K,) requests of all bound pods now. Amounts that were not all seen are a lower bound, because pods may have ended before;
        None if nothing is known.
        """
        horizon, level, at = now - KEPT_SECONDS, bound.copy(), now
        changes = ((time, sign, amounts) for time, *where, sign, amounts in self._changes if spaces.of_class(*where) == space)
        marks: list[tuple[float, int, Mapping[str, int]]] = [*changes]
        marks += [(time, 0, {}) for time in (self._watched_since, horizon) if time < now]
        for time, sign, amounts in (*sorted(marks, key=lambda mark: -mark[0]), (-math.inf, 0, {})):
            seconds = min(at, end) - max(time, begin)
            if seconds > 0:
                yield seconds, np.maximum(level, 0.0) if at > horizon else None, at > max(horizon, self._watched_since)
            if sign:
                level = level - sign * np.array([amounts.get(resource, 0) / 1000 for resource in resources])
            at = min(at, time)


def _bound_amounts(pod: Pod | None) -> Mapping[str, int] | None:
    """Return the requests of a bound pod of a queue, in thousandths; None for every other pod."""
    return milli_requests(pod) if pod is not None and pod.bound and not pod.unmanaged else None


def _seconds_bound(pod: Pod, wall: float) -> float:
    """Return for how long a pod has been bound; infinite if it does not say."""
    scheduled = (one.last_transition_time for one in pod.status.conditions or () if one.type == "PodScheduled" and one.status == "True")
    text = next(scheduled, None) or pod.status.start_time
    try:
        return math.inf if text is None else max(0.0, wall - to_epoch(datetime.fromisoformat(text)))
    except (TypeError, ValueError):
        return math.inf
