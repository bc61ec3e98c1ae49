"""Completed runs by job family: an immutable value, bounded in every direction, which converts to and from plain JSON values.

The caller decides which jobs form a family, that is, count as the same job. Each parallelism keeps its latest runs, so that a hundred runs
at the usual parallelism do not push out the few that determine the curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairburst.curves.runs import Run
from fairburst.policy.forgetting import kept_fairly

RUNS_EACH = 3  # runs per family and parallelism: a median of three survives one outlier
POINTS = 8  # parallelisms per family: four coefficients need four, and the range some in between
FAMILIES = 256  # 8 x 3 runs of at most 24 bytes each: 150 kB in all, far below the megabyte of a ConfigMap


@dataclass(frozen=True, slots=True)
class Family:
    """Runs of one job family. runs: latest last. seen: time of the last record, seconds since the epoch."""

    runs: tuple[Run, ...] = ()
    seen: float = 0.0


@dataclass(frozen=True, slots=True)
class Observations:
    """Completed runs by family. Instances are never changed in place."""

    families: Mapping[str, Family] = field(default_factory=dict)

    def of(self, family: str) -> tuple[Run, ...]:
        """Return the family's runs, latest last; an unknown family has none."""
        return self.families[family].runs if family in self.families else ()


def record(observations: Observations, family: str, run: Run, now: float) -> Observations:
    """Return the observations with one more run. An implausible run is not recorded.

    Three bounds drop older data, in this order: the oldest runs at the same parallelism; the parallelism seen longest ago, except the
    lowest and the highest; the family seen longest ago of the namespace with the most.
    """
    if not run.plausible:
        return observations
    runs = [*observations.of(family), run]
    same = [place for place, each in enumerate(runs) if each.parallelism == run.parallelism]
    for place in reversed(same[: max(len(same) - RUNS_EACH, 0)]):
        del runs[place]
    families = dict(observations.families)
    families[family] = Family(tuple(_without_oldest_point(runs)), now)
    kept = kept_fairly({name: known.seen for name, known in families.items()}, FAMILIES)
    return Observations({name: families[name] for name in kept})


def _without_oldest_point(runs: list[Run]) -> list[Run]:
    last = {run.parallelism: place for place, run in enumerate(runs)}
    if len(last) <= POINTS:
        return runs
    lowest, highest, newest = min(last), max(last), runs[-1].parallelism
    oldest = min((each for each in last if each not in {lowest, highest, newest}), key=last.__getitem__)
    return [run for run in runs if run.parallelism != oldest]


def as_values(observations: Observations) -> dict[str, Any]:
    """Return the observations as plain JSON values, which `from_values` reads."""
    return {
        name: {"seen": family.seen, "runs": [[run.parallelism, run.seconds] for run in family.runs]}
        for name, family in sorted(observations.families.items())
    }


def from_values(values: object) -> Observations:
    """Read values written by `as_values`. Skip invalid entries: a lost run is measured again, but an error would fail a round."""
    if not isinstance(values, Mapping):
        return Observations()
    observations = Observations()
    read = {name: _family(entry) for name, entry in values.items() if isinstance(name, str) and isinstance(entry, Mapping)}
    for name, (seen, runs) in sorted(read.items(), key=lambda item: (item[1][0], item[0])):
        for run in runs:
            observations = record(observations, name, run, seen)
    return observations


def _family(entry: Mapping[Any, Any]) -> tuple[float, list[Run]]:
    seen, runs = entry.get("seen"), entry.get("runs")
    if not isinstance(seen, int | float) or isinstance(seen, bool) or not math.isfinite(seen) or not isinstance(runs, list):
        return 0.0, []
    found = [
        Run(pair[0], float(pair[1]))
        for pair in runs
        if isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int and isinstance(pair[1], int | float)
    ]
    return float(seen), [run for run in found if run.plausible]
