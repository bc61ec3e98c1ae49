"""Learned release estimate: past durations of a family's tasks predict when its running tasks will end.

This goes beyond the paper, whose estimator (phases.py) knows nothing of a job until its first tasks have ended. Recurring jobs have earlier
runs. The value is bounded: it holds the last DURATIONS durations of at most FAMILIES families. It drops the least recently seen family of
the namespace with the most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.dress.values import TaskTable
from fairburst.policy.forgetting import kept_fairly

DURATIONS = 32  # enough for a quantile of one in twenty
FAMILIES = 1000
LONGEST = 1e6  # seconds; longer tasks count as this long, so that a family and a duration fit in one sortable float64
SPAN = 2.0 * LONGEST + 1.0
FEWEST = 5  # a family with fewer durations gives no estimate


@dataclass(frozen=True, slots=True, eq=False)
class FamilyDurations:
    """Durations by family.

    oldest_first: durations in the order in which they were seen.
    seen: when a task of the family last ended.
    The remaining fields are computed from these two, for F families.
    row_of: name to row.
    ascending: (F x DURATIONS,) all families in one sorted row. Family f starts at f x SPAN; the padding is larger than any duration.
    count: (F,) durations of each family.
    """

    oldest_first: Mapping[str, tuple[float, ...]]
    seen: Mapping[str, float]
    row_of: Mapping[str, int]
    ascending: FloatArray
    count: IntArray

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FamilyDurations):
            return NotImplemented
        return dict(self.oldest_first) == dict(other.oldest_first) and dict(self.seen) == dict(other.seen)

    __hash__ = None  # type: ignore[assignment]  # a value that contains mappings

    @classmethod
    def of(cls, oldest_first: Mapping[str, Sequence[float]], seen: Mapping[str, float]) -> FamilyDurations:
        """Build the value from observations, cut to the bounds."""
        kept = kept_fairly({name: seen[name] for name in oldest_first}, FAMILIES)
        rows = {name: tuple(oldest_first[name][-DURATIONS:]) for name in kept}
        table = np.full((len(kept), DURATIONS), SPAN - 0.5)
        for at, durations in enumerate(rows.values()):
            table[at, : len(durations)] = sorted(durations)
        table += SPAN * np.arange(len(kept))[:, None]
        count = np.array([len(durations) for durations in rows.values()], dtype=np.int64)
        return cls(rows, {name: seen[name] for name in kept}, {name: at for at, name in enumerate(kept)}, table.ravel(), count)


def nothing_learned() -> FamilyDurations:
    """Return the initial value, without families."""
    return FamilyDurations.of({}, {})


def learn(former: FamilyDurations, tasks: TaskTable, since: float, until: float) -> FamilyDurations:
    """Add the durations of the tasks that ended in (since, until]; return the same object if there are none."""
    with np.errstate(invalid="ignore"):
        done = (tasks.ended > since) & (tasks.ended <= until) & (tasks.family >= 0) & (tasks.ended >= tasks.started)
    rows = np.flatnonzero(done)
    if rows.size == 0:
        return former
    rows = rows[np.lexsort((tasks.started[rows], tasks.ended[rows]))]
    durations = {name: list(values) for name, values in former.oldest_first.items()}
    seen = dict(former.seen)
    for row in rows:
        name = tasks.families[tasks.family[row]]
        durations.setdefault(name, []).append(min(float(tasks.ended[row] - tasks.started[row]), LONGEST))
        seen[name] = float(tasks.ended[row])
    return FamilyDurations.of(durations, seen)


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Running tasks of families with enough durations, at one moment.

    small, request: their category and the resources they hold.
    age: seconds they have run.
    base: where their family begins in the sorted row.
    younger: how many durations end before their age in that row.
    longer: how many durations of their family are longer.
    """

    families: FamilyDurations
    small: BoolArray
    request: FloatArray
    age: FloatArray
    base: FloatArray
    younger: IntArray
    longer: IntArray

    @classmethod
    def of(cls, families: FamilyDurations, tasks: TaskTable, now: float) -> Outlook:
        """Look up every running task once. O(M log(F x DURATIONS))."""
        place = np.array([families.row_of.get(name, -1) for name in tasks.families] + [-1], dtype=np.int64)
        with np.errstate(invalid="ignore"):
            running = ~(tasks.ended <= now) & (tasks.started < now)
        family = place[tasks.family]  # -1, the unknown family, selects the -1 at the end
        enough = np.append(families.count >= FEWEST, False)
        rows = np.flatnonzero(running & enough[family])
        family = family[rows]
        age = np.minimum(now - tasks.started[rows], LONGEST)
        base = SPAN * family.astype(np.float64)
        younger = np.searchsorted(families.ascending, base + age, side="right")
        longer = family * DURATIONS + np.append(families.count, 0)[family] - younger
        some = np.flatnonzero(longer > 0)
        rows = rows[some]
        return cls(families, tasks.small[rows], tasks.request[rows], age[some], base[some], younger[some], longer[some])

    def ending_chance(self, ahead: float) -> FloatArray:
        """Return the chance that each task ends within `ahead` seconds: P(D <= age + ahead | D > age), by its family's durations.

        Tasks that have run longer than any task of their family are excluded: their durations predict no end.
        """
        by_then = np.searchsorted(self.families.ascending, self.base + np.minimum(self.age + ahead, LONGEST), side="right")
        chance: FloatArray = (by_then - self.younger) / self.longer
        return chance

    def cautious_release(self, ahead: float, deviations: float) -> FloatArray:
        """Return (R,) what these tasks release within `ahead` seconds: the mean less `deviations` standard deviations, at least 0."""
        chance = self.ending_chance(ahead)[:, None]
        mean = (chance * self.request).sum(axis=0)
        variance = (chance * (1.0 - chance) * self.request**2).sum(axis=0)
        release: FloatArray = np.maximum(mean - deviations * np.sqrt(variance), 0.0)
        return release
