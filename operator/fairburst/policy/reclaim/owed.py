"""The amounts that queues are owed but do not run (design §4 and §6). `victims` picks the pods to evict for them.

While its window is open, a burst is owed the part of its guarantee that it demands and does not run. After the deadline it is late
already and waits for work to end. A throughput queue is owed the missing part of its fair share, once it has lacked it for the grace time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, QueueKind, RoundResult, WindowState
from fairburst.policy.reclaim.values import Ground, Owed, ReclaimRules
from fairburst.policy.tolerance import slack_of


def owed(
    snapshot: ClusterSnapshot, result: RoundResult, reclaiming: BoolArray, short_since: Mapping[str, float], rules: ReclaimRules, now: float
) -> tuple[tuple[Owed, ...], dict[str, float], float]:
    """Compute what queues are owed now, most urgent first.

    Parameters
    ----------
    snapshot, result : one round; `result.guaranteed`, `result.promised` and `snapshot.usage` (N, K), resource units
    reclaiming : (N,) queues whose `reclaim` is Evict
    short_since : result of the last call; empty at first
    rules : settings
    now : seconds since the epoch

    Returns
    -------
    First, the owed amounts. Those of hard queues in their open windows come first, in the order of the queues and including queues that do
    not evict, because these take free room first. Those of throughput queues follow, longest shortage first. Second, the start of each
    throughput queue's shortage. Third, the end of the next grace time.

    Notes
    -----
    Design §6: "the part of a burst inside its guarantee; a throughput queue's fair share after a grace time". The guarantee is
    min(d/t, demand). The fair share is what DRF gives before anything is spare. Both are the round's `guaranteed`; for a hard queue only
    the `promised` part counts, because capacity beyond its rate comes as pods end. O(N), plus the rows that lack.
    """
    guaranteed = result.guaranteed if result.promised is None else result.promised
    lacking = np.maximum(snapshot.usage, guaranteed) - snapshot.usage
    lacks = (lacking > slack_of(snapshot.live_capacity)).any(axis=1)
    bursts = [
        Owed(row, Ground.BURST, lacking[row], bool(reclaiming[row]), _deadline(result, row))
        for row in np.flatnonzero(lacks).tolist()
        if result.classes[row] is GuaranteeClass.HARD and _in_window(result, row)
    ]
    since = {
        snapshot.queues[row].name: short_since.get(snapshot.queues[row].name, now)
        for row in np.flatnonzero(lacks & reclaiming).tolist()
        if snapshot.queues[row].kind is QueueKind.THROUGHPUT
    }
    shares, waits = _fair_shares(snapshot, lacking, since, now - rules.grace_seconds)
    return (*bursts, *shares), since, waits + rules.grace_seconds


def _in_window(result: RoundResult, row: int) -> bool:
    window = result.windows[row]
    return window is not None and window.state is WindowState.OPEN


def _deadline(result: RoundResult, row: int) -> float:
    window = result.windows[row]
    return math.inf if window is None or window.deadline is None else window.deadline


def _fair_shares(
    snapshot: ClusterSnapshot, lacking: FloatArray, since: Mapping[str, float], latest: float
) -> tuple[list[Owed], float]:  # fmt: skip
    """Return the queues that have been short since `latest` or before, longest first, and the next start after it (or infinity)."""
    row_of = {spec.name: row for row, spec in enumerate(snapshot.queues) if spec.name in since}
    order = sorted(since, key=lambda name: (since[name], name))
    due = [Owed(row_of[name], Ground.FAIR_SHARE, lacking[row_of[name]], evicts=True) for name in order if since[name] <= latest]
    return due, min((since[name] for name in order if since[name] > latest), default=math.inf)
