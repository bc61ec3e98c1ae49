"""Divide the places for pods among managed namespaces by `policy/slots.py`. Pure, apart from the limits given before."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fairburst.kube.enforce.quota_plan import pods_permitted
from fairburst.kube.rounds.managed import ManagedNamespaces, burst_rate
from fairburst.kube.rounds.view import RoundContext
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import GuaranteeClass, RoundResult
from fairburst.policy.slots import reserved_places, slot_limits

FLOOR_PODS = 10  # of a managed namespace without a queue
LOWERED_PART = 0.9  # a limit that must sink is lowered to this part, so that it does not sink in every round
# Of the places that are not reserved for bursts. Until pods of any kind take so many, a limit that is too large takes none from others and
# stays: an API server does not create the rest, at least `MOST_AT_ONCE` pods, between two rounds.
ROOMY_PART = 0.5
MOST_AT_ONCE = 500


class Places:
    """Keeps the limits by namespace. A limit stays while it is neither too small for its queue nor too large for others."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}
        self._promised: tuple[object, FloatArray] | None = None

    def divide(self, round_: RoundContext, managed: ManagedNamespaces, total: float, wanted: FloatArray, *, promises_changed: bool) -> None:
        """Set `slots` of every managed namespace; a namespace whose limit changes is touched."""
        if math.isinf(total) or not round_.rows:
            if self._given:
                round_.touched.update(self._given)
                self._given = {}
            for item in managed.of(round_.touched):
                item.slots = None if math.isinf(total) else FLOOR_PODS
            return
        weight = np.array([spec.weight for spec in round_.snapshot.queues])
        total, shares = max(total, 0.0), self._shares(round_, promises_changed)
        limits = slot_limits(total, shares, weight, wanted)
        if len(self._given) < len(round_.rows):
            self._recall(round_, managed)
        most = ROOMY_PART * (total - float(reserved_places(total, shares).sum())) - MOST_AT_ONCE
        self._keep(round_.rows, limits, wanted, round_.touched, roomy=len(round_.view.stored_pods) <= most)
        for item in managed.of(round_.touched):
            item.slots = FLOOR_PODS if item.row is None else self._given[item.namespace]

    def _recall(self, round_: RoundContext, managed: ManagedNamespaces) -> None:
        """Read the limits of new queues from their quotas: an earlier process may have given them."""
        for item in managed.of(round_.rows.keys() - self._given.keys()):
            limit = sum(pods_permitted(quota) or 0 for quota in round_.view.quotas_of(item.quota_keys))
            if limit > 0:  # one of zero, written by someone else, would refuse the bare pods that show a demand
                self._given[item.namespace] = limit

    def _keep(self, rows: Mapping[str, int], limits: FloatArray, wanted: FloatArray, touched: set[str], *, roomy: bool) -> None:
        """Change the limits that are too small, and where nodes are not `roomy` those that are too large.

        The others stay, so that an unchanged cluster gets no writes.
        """
        former = self._given
        given = np.array([former.get(namespace, -1) for namespace in rows], dtype=float)
        stays = ((given <= limits) | roomy) & (given >= np.minimum(wanted, limits))
        lowered = np.maximum(np.minimum(wanted, limits), np.floor(LOWERED_PART * limits))
        fresh = np.where(stays, given, np.where(given > limits, lowered, limits))
        self._given = {namespace: int(most) for namespace, most in zip(rows, fresh.tolist(), strict=True)}
        touched.update(namespace for namespace, moved in zip(rows, (fresh != given).tolist(), strict=True) if moved)

    def _shares(self, round_: RoundContext, promises_changed: bool) -> FloatArray:
        """Return (N,) the dominant share of each hard queue's promised rate in the committed capacity."""
        key = (round_.result.classes, round_.snapshot.committed_capacity.tobytes(), round_.snapshot.resources)
        if promises_changed or round_.everything or self._promised is None or self._promised[0] != key:
            self._promised = key, self._read_shares(round_, round_.result)
        return self._promised[1]

    @staticmethod
    def _read_shares(round_: RoundContext, result: RoundResult) -> FloatArray:
        snapshot = round_.snapshot
        counted = snapshot.committed_capacity > 0
        shares = np.zeros(len(snapshot.queues))
        for row, granted in enumerate(result.classes):
            promised = round_.memory.promised(snapshot.queues[row].name) if granted is GuaranteeClass.HARD else None
            if promised is not None and promised.burst is not None:
                rate = burst_rate(promised.burst, snapshot.resources)
                shares[row] = float(np.max(rate[counted] / snapshot.committed_capacity[counted], initial=0.0))
        return shares
