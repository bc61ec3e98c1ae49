"""The waiting pods of all queues, by size, as the core reads them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairburst.bounds import MOST_AMOUNT
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import WaitingPods

MOST_SIZES = 200  # of waiting pods listed for a queue; those of further sizes are listed once these have started


def waiting_lines(demand: NamespaceDemand, resources: tuple[str, ...]) -> tuple[FloatArray, FloatArray] | None:
    """Return (L, K) requests and (L,) counts of a namespace's waiting pods, equal ones together; None if none are listed.

    At most `MOST_SIZES` sizes are listed: each costs every round something, and a tenant may create a Job of another size every second.
    """
    lines = dict[tuple[float, ...], float]()
    for requests, count in demand.waiting:
        if count > 0:
            request = tuple([min(requests.get(resource, 0.0), MOST_AMOUNT) for resource in resources])
            if request in lines:
                lines[request] += count
            elif len(lines) < MOST_SIZES and any(request):
                lines[request] = count
    if not lines:
        return None
    return np.array(list(lines), dtype=np.float64), np.minimum(list(lines.values()), MOST_AMOUNT)


def waiting_pods(former: WaitingPods | None, changed: Mapping[int, tuple[FloatArray, FloatArray] | None]) -> WaitingPods | None:
    """Return `former` with the `waiting_lines` of the changed rows in place of their former ones; None without any. O(L log L) in numpy.

    A queue's pods have no order: the scheduler skips a pod that does not fit.
    """
    parts = [(np.full(len(lines[1]), row), *lines) for row, lines in changed.items() if lines is not None]
    if former is not None:
        kept = ~np.isin(former.row, np.fromiter(changed, np.int64, len(changed)))
        parts.append((former.row[kept], former.request[kept], former.count[kept]))
    if not any(len(part[0]) for part in parts):
        return None
    row, request, count = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return WaitingPods(row[order], request[order], count[order])
