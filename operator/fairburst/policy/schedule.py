"""A schedule's bursts as columns, read once with the schedule and not again when another queue changes.

Decides nothing. A loader of many bursts makes a `BurstTable` directly; any other sequence of bursts is converted when it is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
from typing_extensions import override

from fairburst.policy.arrays import FloatArray
from fairburst.policy.spec import Burst, ScheduledBurst
from fairburst.policy.tolerance import LARGEST, LONGEST_SECONDS, TIME_STEP_SECONDS


class BurstTable(Sequence[ScheduledBurst]):
    """n scheduled bursts. A value: the arrays must not be changed.

    resources: R names. arrival, duration, deadline: (n,) seconds. amounts: (n, R) resource units needed for the duration.
    """

    def __init__(
        self, resources: tuple[str, ...], arrival: FloatArray, duration: FloatArray, deadline: FloatArray, amounts: FloatArray
    ) -> None:
        self.resources = resources
        self.arrival, self.duration, self.deadline, self.amounts = arrival, duration, deadline, amounts
        self._heaviest: dict[float, tuple[FloatArray, FloatArray]] = {}

    @classmethod
    def of(cls, bursts: Sequence[ScheduledBurst]) -> BurstTable:
        """Return the same bursts as columns; `bursts` itself if it is a table."""
        if isinstance(bursts, BurstTable):
            return bursts
        resources = tuple(dict.fromkeys(name for item in bursts for name in item.burst.resources))
        times = np.array([(item.arrival, item.burst.duration_seconds, item.burst.deadline_seconds) for item in bursts], dtype=np.float64)
        amounts = np.array([[item.burst.resources.get(name, 0.0) for name in resources] for item in bursts], dtype=np.float64)
        arrival, duration, deadline = times.reshape(-1, 3).T.copy()
        return cls(resources, arrival, duration, deadline, amounts.reshape(len(bursts), len(resources)))

    @override
    def __len__(self) -> int:
        return len(self.arrival)

    @overload
    def __getitem__(self, index: int) -> ScheduledBurst: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ScheduledBurst]: ...
    @override
    def __getitem__(self, index: int | slice) -> ScheduledBurst | Sequence[ScheduledBurst]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        resources = dict(zip(self.resources, self.amounts[index].tolist(), strict=True))
        return ScheduledBurst(float(self.arrival[index]), Burst(resources, float(self.duration[index]), float(self.deadline[index])))

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        if isinstance(other, BurstTable) and self.resources == other.resources:
            mine, theirs = self._columns, other._columns
            return all(np.array_equal(one, another) for one, another in zip(mine, theirs, strict=True))
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    @property
    def _columns(self) -> tuple[FloatArray, ...]:
        return self.arrival, self.duration, self.deadline, self.amounts

    @property
    def demand(self) -> FloatArray:
        """(n, R) resource-seconds."""
        demand: FloatArray = self.amounts * self.duration[:, None]
        return demand

    @property
    def gap(self) -> FloatArray:
        """(n,) seconds to the next arrival; infinite for the last."""
        return np.append(self.arrival[1:] - self.arrival[:-1], math.inf)

    @cached_property
    def problem(self) -> str:
        """The problem with the numbers, empty if there is none. Checked once, so that no NaN gets further."""
        if len(self) == 0:
            return "expected at least one scheduled burst, found none"
        if self.amounts.size and not (self.amounts.min() >= 0 and self.amounts.max() <= LARGEST):
            at, column = np.argwhere(~((self.amounts >= 0) & (self.amounts <= LARGEST)))[0]
            return (
                f"expected an amount of {self.resources[column]} between 0 and {LARGEST:g} in the burst, found {self.amounts[at, column]}"
            )
        bad = ~((self.duration >= TIME_STEP_SECONDS) & (self.duration <= self.deadline) & (self.deadline <= LONGEST_SECONDS))
        if bad.any():
            at = int(np.argmax(bad))
            return (
                f"expected {TIME_STEP_SECONDS} s <= duration <= deadline <= {LONGEST_SECONDS:g} s, "
                f"found duration {self.duration[at]} s and deadline {self.deadline[at]} s"
            )
        gap = self.gap
        bad = ~((np.abs(self.arrival) <= LONGEST_SECONDS) & (gap > 0) & (self.deadline <= gap))
        if bad.any():
            at = int(np.argmax(bad))
            return (
                "expected scheduled arrivals in ascending order, each deadline before the next arrival, "
                f"found {gap[at]} s after the arrival at {self.arrival[at]} with deadline {self.deadline[at]} s"
            )
        return ""

    def heaviest(self, max_cycle: float) -> tuple[FloatArray, FloatArray]:
        """(R,) each, over the bursts: the largest d / min(gap, max_cycle), and the largest rate d / deadline. Computed once."""
        if max_cycle not in self._heaviest:
            demand = self.demand
            load = (demand / np.minimum(self.gap, max_cycle)[:, None]).max(axis=0)
            self._heaviest[max_cycle] = (load, (demand / self.deadline[:, None]).max(axis=0))
        return self._heaviest[max_cycle]
