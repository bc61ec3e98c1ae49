"""Find the queues whose decision has changed enough to look at their namespaces. Pure, apart from the last decision looked at."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.kube.containment import Containment
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.rounds.view import RoundContext
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.drf import by_resource, column_sum, row_any
from fairburst.policy.entitlement import entitlements
from fairburst.policy.model import Memory, RoundResult

ENTITLED_STEP = 1.25  # an entitlement moves with the demand of all other queues; quota_plan.py writes only large differences
ROOMY_PART = 0.25  # of each resource that is free where a quota above its queue's level takes nothing from others yet


@dataclass(frozen=True, slots=True)
class Entitlement:
    """(N, K) amounts that quotas may admit, (N,) whether these exceed the level (`more`), and whether an armed burst bounds them.

    roomy: no armed burst relies on the free room, which is so large that sinking levels are no hurry.
    """

    amounts: FloatArray
    more: BoolArray
    bound_by_burst: bool
    roomy: bool = False


class DecisionChanges:
    """Compares a round's decision, row by row, with that of the last look at each namespace. O(N K) array operations."""

    def __init__(self, contained: Containment, reserve: Reserve | None) -> None:
        self._contained = contained
        self._reserve = reserve
        self._small_level: FloatArray | None = None
        self._ratio = 0  # of the reserve, in percent
        self._level: FloatArray | None = None
        self._entitled = np.zeros((0, 0))
        self._amounts = np.zeros((0, 0))
        self._lowest = np.zeros((0, 0))  # entitlements below which an armed burst's room needs a quota lowered
        self._more = np.zeros(0, dtype=np.bool_)
        self._held_back = np.zeros(0, dtype=np.bool_)
        self._promised = np.zeros((0, 2))

    def touch(self, round_: RoundContext) -> Entitlement:
        """Touch all spaces of the namespaces whose rows differ; return the amounts that quotas may admit, after an error the levels."""
        amounts, bound, roomy, snapshot = round_.result.level, False, False, round_.snapshot
        with self._contained.object("entitle", ""):
            amounts, bound = entitlements(round_.result, snapshot, round_.memory)
            free = snapshot.live_capacity - column_sum(by_resource(snapshot.usage))
            roomy = not bound and bool(np.all(free >= ROOMY_PART * snapshot.live_capacity))
        entitled, self._amounts = Entitlement(amounts, row_any(amounts > round_.result.level), bound, roomy), amounts
        governing = round_.queue_set.governing
        rows = self._differing(round_.result, round_.memory, entitled)
        differing = {governing[row].space for row in np.flatnonzero(rows).tolist()} | self._divided_anew(round_)
        round_.touched.update(round_.queue_set.spaces.whole(differing))
        return entitled

    def note_margins(self, margins: Mapping[int, Mapping[str, float]], resources: Sequence[str]) -> None:
        """Note by how much the entitlements of these rows may sink before their quotas are lowered for an armed burst, by resource."""
        if self._lowest.shape != self._amounts.shape:
            self._lowest = np.full(self._amounts.shape, -np.inf)
        for row, margin in margins.items():
            self._lowest[row] = self._amounts[row] - [margin.get(resource, np.inf) for resource in resources]

    def _divided_anew(self, round_: RoundContext) -> set[str]:
        """Return the spaces whose level is divided between small and large jobs, if the small part differs, or the reserve by a point."""
        before, self._small_level = self._small_level, round_.result.small_level
        ratio, self._ratio = self._ratio, round(100 * (round_.result.reserve_ratio or 0.0))
        if self._reserve is None or self._small_level is None or self._small_level is before:
            return set()
        spaces = [space for space in self._reserve.divided if space in round_.rows]
        if before is None or before.shape != self._small_level.shape or ratio != self._ratio:
            return set(spaces)
        rows = [round_.rows[space] for space in spaces]
        return set(itertools.compress(spaces, row_any(self._small_level[rows] != before[rows])))

    def _differing(self, result: RoundResult, memory: Memory, entitled: Entitlement) -> BoolArray:
        """Return (N,) whether a row differs."""
        level = result.level
        held_back = np.zeros(len(level), dtype=np.bool_) if result.held_back is None else result.held_back
        columns = memory.columns
        promised = np.zeros((len(level), 2)) if columns is None else np.column_stack([columns.guarantee, columns.index])
        if self._level is None or self._level.shape != level.shape:
            changed: BoolArray = np.ones(len(level), dtype=np.bool_)
            self._entitled = entitled.amounts
        else:
            changed = row_any(level != self._level) | (held_back != self._held_back) | (entitled.more != self._more)
            changed |= row_any(promised != self._promised)
            before = self._entitled
            amounts = entitled.amounts
            differs = (amounts > ENTITLED_STEP * before) | (amounts * ENTITLED_STEP < before)
            if entitled.bound_by_burst and self._lowest.shape == amounts.shape:
                differs |= amounts < self._lowest
            changed |= row_any(differs)
            self._entitled = np.where(changed[:, None], amounts, before)
        self._level, self._held_back, self._more, self._promised = level, held_back, entitled.more, promised
        return changed
