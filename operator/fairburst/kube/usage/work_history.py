"""The work of namespaces in Observe mode as pieces over time: from a pod's first sight to its end, with its effective requests.

Bounded: a namespace keeps its last `MOST_PIECES` pieces that differ. Pods that were there before the namespace was watched are left out, as
their beginning is not known. Forgotten at a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from fairburst.kube.api.objects import Pod
from fairburst.kube.usage.effective_requests import effective_requests
from fairburst.suggestion.bursts import WorkHistory

MOST_PIECES = 4_000
_ENDED = frozenset({"Succeeded", "Failed"})
_RESOLUTION = 0.1  # seconds: pods of one size that begin and end together are one piece

_Amounts = tuple[tuple[str, float], ...]


@dataclass(slots=True)
class _Namespace:
    """running: by uid, when it began and its requests. ended: pods by begin, end and requests, in the order of their ends."""

    since: float
    running: dict[str, tuple[float, _Amounts]] = field(default_factory=dict)
    ended: OrderedDict[tuple[float, float, _Amounts], int] = field(default_factory=OrderedDict)
    changed: bool = False


class WorkHistories:
    """Updated with every change of a pod, O(1) a change. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._of: dict[str, _Namespace] = {}

    def watch(self, namespaces: Collection[str], wall: float) -> None:
        """Keep the history of these namespaces and of no other."""
        self._of = {name: self._of[name] if name in self._of else _Namespace(wall) for name in sorted(namespaces)}

    def pod_changed(self, old: Pod | None, new: Pod | None, wall: float) -> None:
        """Record one change of a pod."""
        pod = new if new is not None else old
        if pod is None or pod.metadata.namespace not in self._of:
            return
        known = self._of[pod.metadata.namespace]
        there = new is not None and new.status.phase not in _ENDED
        if there and old is None:
            known.running[pod.metadata.uid] = (round(wall / _RESOLUTION) * _RESOLUTION, tuple(sorted(effective_requests(pod).items())))
        elif not there and pod.metadata.uid in known.running:
            begin, amounts = known.running.pop(pod.metadata.uid)
            _add(known, (begin, round(wall / _RESOLUTION) * _RESOLUTION, amounts))

    def changed(self) -> list[str]:
        """Return the namespaces in which work has ended since their history was last read."""
        return [name for name, known in self._of.items() if known.changed]

    def read(self, namespace: str, resources: Collection[str], wall: float) -> WorkHistory:
        """Return the namespace's history until now, with amounts of `resources`."""
        known = self._of[namespace]
        known.changed = False
        pieces = [(begin, end, amounts, count) for (begin, end, amounts), count in known.ended.items()]
        pieces += [(begin, wall, amounts, 1) for begin, amounts in known.running.values()]
        sizes = [[dict(amounts).get(name, 0.0) * count for name in resources] for _, _, amounts, count in pieces]
        return WorkHistory(
            begin=np.array([one[0] for one in pieces]),
            end=np.array([one[1] for one in pieces]),
            amounts=np.array(sizes, dtype=np.float64).reshape(len(pieces), len(resources)),
            since=known.since,
            until=wall,
        )


def _add(known: _Namespace, piece: tuple[float, float, _Amounts]) -> None:
    known.changed = True
    known.ended[piece] = known.ended.get(piece, 0) + 1
    if len(known.ended) > MOST_PIECES:
        (_, end, _), _ = known.ended.popitem(last=False)
        known.since = max(known.since, end)  # what ended before is incomplete now
