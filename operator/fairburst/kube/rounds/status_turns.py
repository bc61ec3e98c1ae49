"""Which queues' statuses are looked at: at once where a decision differs, in turn where only figures have moved, and all from time to time.

Most changes of pods move figures only, and few statuses with new figures are written in a second. Pure, apart from the last look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from fairburst.kube.rounds.view import RoundContext
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.table import SOFT

FIGURES_AHEAD = 2.0  # looks for each status with new figures that may be written: not every look finds that they differ
SWEEP_SECONDS = 120.0  # time in which every queue is looked at once, whatever has changed
_REMEMBERED = (
    "guarantee", "state", "index", "opened", "deadline", "demanded", "judged", "behind", "period_started", "ledger_rate", "debt",
    "delivered_rate", "fair_rate", "residual_level", "waiting_since", "unit_held_since", "balance_rate", "bursts", "met", "missed",
)  # fmt: skip
_LEVELS = frozenset({"level", "small_level"})
_FIGURES = _LEVELS | {
    "demand", "usage", "allocation", "guaranteed", "ledger_rate", "delivered_rate", "fair_rate", "balance_rate", "waiting_since",
    "unit_held_since",
}  # fmt: skip


class StatusTurns:
    """Compares each round in which statuses are computed with the last one, by the rows of N governing queues."""

    def __init__(self) -> None:
        self.patient: BoolArray = np.zeros(0, dtype=np.bool_)  # (N,) queues whose figures may be late
        self._starts_whole: BoolArray = np.zeros(0, dtype=np.bool_)  # (N,) those whose levels may not be
        self._drifted: BoolArray = np.zeros(0, dtype=np.bool_)  # (N,) queues with new figures that may be late
        self._shown_at = np.zeros(0)  # (N,)
        self._last: dict[str, np.ndarray] = {}
        self._pace: tuple[object, ...] = ()
        self._looked_at = -math.inf
        self._swept = 0.0

    def lay_out(self, patient: Sequence[bool], starts_whole: Sequence[bool]) -> None:
        """Prepare for other queues. `patient`: of each, whether its figures may be late; `starts_whole`: whether its level may not."""
        self._starts_whole = np.array(starts_whole, dtype=np.bool_)
        self.patient, self._drifted = np.array(patient, dtype=np.bool_), np.zeros(len(patient), dtype=np.bool_)
        self._shown_at = np.full(len(patient), -math.inf)

    @property
    def waiting(self) -> bool:
        """Whether a queue with new figures waits for its turn."""
        return bool(self._drifted.any())

    def take(self, round_: RoundContext, writes_a_second: float, due: int) -> list[int]:
        """Return the rows to look at now: those whose decision or memory differs from the last look, and some others in turn.

        writes_a_second: statuses with new figures that may be written. due: looks that take place for other reasons.
        """
        count = len(round_.rows)
        changed: BoolArray = np.zeros(count, dtype=np.bool_)
        snapshot, result, columns = round_.snapshot, round_.result, round_.memory.columns
        now: dict[str, np.ndarray] = {"demand": snapshot.demand, "usage": snapshot.usage}
        now |= {"allocation": result.allocation, "guaranteed": result.guaranteed, "level": result.level}
        if result.small_level is not None:
            now["small_level"] = result.small_level
        if columns is not None:
            now |= {name: getattr(columns, name) for name in _REMEMBERED}
            now["room"] = self._room_is_free(round_, columns.declared.highest_rate)
            self._drifted |= (columns.guarantee >= SOFT) & self._pace_changed(round_)  # moves Attainable, a forecast
            if columns.refused:
                changed[list(columns.refused)] = True
        for name, array in now.items():
            before = self._last.get(name)
            if before is None or before.shape != array.shape:
                changed[:] = True
            elif before is not array:
                differs = before != array
                if array.dtype.kind == "f":
                    differs &= ~(np.isnan(before) & np.isnan(array))
                rows = differs if differs.ndim == 1 else differs.any(axis=1)
                if name in _FIGURES:
                    late = self.patient & ~self._starts_whole if name in _LEVELS else self.patient
                    self._drifted |= rows & late
                    rows = rows & ~late
                changed |= rows
        self._last = now
        self._add_in_turn(changed, writes_a_second, due, round_.now)
        found: list[int] = np.flatnonzero(changed).tolist()
        return found

    def _add_in_turn(self, changed: BoolArray, writes_a_second: float, due: int, now: float) -> None:
        """Mark some of the rows with new figures and some others, those first that were looked at longest ago."""
        elapsed = min(now - self._looked_at, SWEEP_SECONDS)
        self._swept += len(changed) * elapsed / SWEEP_SECONDS
        share = writes_a_second * elapsed
        most = math.ceil(max(share, FIGURES_AHEAD * share - due))
        waiting = np.flatnonzero(self._drifted & ~changed)
        changed[waiting[np.argsort(self._shown_at[waiting], kind="stable")[:most]]] = True
        changed[np.argsort(self._shown_at, kind="stable")[: int(self._swept)]] = True
        self._swept %= 1.0
        self._drifted &= ~changed
        self._shown_at[changed] = now
        self._looked_at = now

    @staticmethod
    def _room_is_free(round_: RoundContext, rate: FloatArray) -> BoolArray:
        """Return (N,) whether each queue's burst, of (N, K) rates, has room in addition to the use of all others."""
        snapshot = round_.snapshot
        others = snapshot.usage.sum(axis=0) - snapshot.usage
        free: BoolArray = np.all(others + rate <= snapshot.live_capacity * (1 + 1e-9), axis=1)
        return free

    def _pace_changed(self, round_: RoundContext) -> bool:
        """Return whether pods are created and started visibly faster or slower than at the last look."""
        pace = astuple(round_.view.pace.pace(round_.now))
        steps = tuple(value if not isinstance(value, float) else round(2 * math.log2(max(value, 1e-6))) for value in pace)
        changed, self._pace = steps != self._pace, steps
        return changed
