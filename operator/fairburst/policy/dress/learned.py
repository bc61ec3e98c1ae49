"""Learned release estimate: how long tasks of the same family took before, and so when the running ones will end.

Beyond the paper, whose estimator (phases.py) knows nothing of a job until its first tasks have ended. Recurring jobs have earlier runs.
A bounded value: the last DURATIONS durations of each of at most FAMILIES families, the longest unseen family is dropped first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fairburst.policy.dress.values import TaskTable
from fairburst.policy.model import BoolArray, FloatArray

DURATIONS = 32  # enough for a quantile of one in twenty
FAMILIES = 1000
LONGEST = 1e6  # seconds; longer tasks count as this long, so that a family and a duration fit in one sortable float64
FEWEST = 5  # durations below which a family says nothing


@dataclass(frozen=True, slots=True, eq=False)
class FamilyDurations:
    """Durations by family. names: F families. durations: (F, DURATIONS) ascending in each row, infinite where there are fewer.
    oldest_first: the same in the order in which they were seen, by name; seen: (F,) when a task of the family last ended."""

    oldest_first: Mapping[str, tuple[float, ...]]
    seen: Mapping[str, float]
    names: tuple[str, ...]
    durations: FloatArray

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FamilyDurations):
            return NotImplemented
        return dict(self.oldest_first) == dict(other.oldest_first) and dict(self.seen) == dict(other.seen)

    __hash__ = None  # type: ignore[assignment]  # a value with mappings inside

    @classmethod
    def of(cls, oldest_first: Mapping[str, Sequence[float]], seen: Mapping[str, float]) -> FamilyDurations:
        """From what was seen, cut to the bounds."""
        kept = sorted(oldest_first, key=lambda name: (-seen[name], name))[:FAMILIES]
        names = tuple(sorted(kept))
        table = np.full((len(names), DURATIONS), math.inf)
        rows = {name: tuple(oldest_first[name][-DURATIONS:]) for name in names}
        for at, name in enumerate(names):
            table[at, : len(rows[name])] = sorted(rows[name])
        return cls(rows, {name: seen[name] for name in names}, names, table)


def nothing_learned() -> FamilyDurations:
    """The beginning."""
    return FamilyDurations.of({}, {})


def learn(former: FamilyDurations, tasks: TaskTable, since: float, until: float) -> FamilyDurations:
    """Add the durations of the tasks that ended in (since, until]; the same object if there are none."""
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


def ending_chance(families: FamilyDurations, tasks: TaskTable, running: BoolArray, now: float, ahead: float) -> FloatArray:
    """Chance that each task ends within `ahead` seconds, by the empirical distribution of its family given how long it has run.

    Parameters
    ----------
    families : what has been learned
    tasks : (M,) tasks
    running : (M,) which of them run; the rest get 0
    now, ahead : seconds

    Returns
    -------
    (M,) in [0, 1]; 0 where the family is unknown, has fewer than FEWEST durations, or never ran as long as this task has.

    Notes
    -----
    P(D <= a + h | D > a) for a task of age a. O(M log(F x DURATIONS)) with one sorted table for all families.
    """
    chance = np.zeros(len(tasks.job))
    if not families.names or not tasks.families:
        return chance
    place = {name: at for at, name in enumerate(families.names)}
    known = np.array([place.get(name, -1) for name in tasks.families], dtype=np.int64)
    rows = np.flatnonzero(running & (tasks.family >= 0))
    rows = rows[known[tasks.family[rows]] >= 0]
    if rows.size == 0:
        return chance
    family = known[tasks.family[rows]]
    age = np.clip(now - tasks.started[rows], 0.0, LONGEST)
    span = 2.0 * LONGEST + 1.0
    table = np.minimum(families.durations, span - 0.5) + span * np.arange(len(families.names))[:, None]
    flat = table.ravel()
    base = span * family
    younger = np.searchsorted(flat, base + age, side="right")
    by_then = np.searchsorted(flat, base + np.minimum(age + ahead, LONGEST), side="right")
    count = np.isfinite(families.durations).sum(axis=1)[family]
    longer = family * DURATIONS + count - younger
    usable = (longer > 0) & (count >= FEWEST)
    chance[rows] = np.where(usable, (by_then - younger) / np.maximum(longer, 1), 0.0)
    return chance
