"""Variants of DRESS where the paper is silent: the floor of δ and how often it falls, the order of waiting jobs, the size of a small job.

Half of the seeds choose the variant, the other half give the reported figures. A variant qualifies if, on the choosing seeds, large jobs do
not take longer than in the paper and the makespan stays within 5 % of Capacity's, in each of the six settings. The qualifying variant with
the least mean shortfall from the paper's reductions is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairburst.policy.dress.values import DressConfig
from fairburst.sim.engine import run
from fairburst.sim.reproductions.dress import CONTAINERS, GAP_SECONDS, PROGRAMS, SPARK, every_second, generated, scenario
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, holds
from fairburst.sim.sink import Record
from fairburst.sim.workload import DagJob

MOST_LARGE_GROWTH = 0.161  # §V-B: growth of the completion times of those large jobs that take longer
MOST_MAKESPAN = 1.05
SEEDS = 20
FLOORS = (0.0, 0.04, 0.08, 0.10, 0.15)
STEPS = (5.0, 20.0)
MEAN_SECONDS = sum(PROGRAMS.values()) / len(PROGRAMS)


@dataclass(frozen=True, slots=True)
class Setting:
    """One figure of the paper: the number of small jobs among 20, the programs, and the reduction of small jobs' completion."""

    name: str
    small: int
    programs: Sequence[str]
    mapreduce: Callable[[int], Callable[[str], bool]]
    reduction: float

    def jobs(self, seed: int) -> list[tuple[float, DagJob]]:
        """Return the jobs of one seed."""
        return generated(seed, self.small, self.programs, self.mapreduce(seed))


SETTINGS = (
    Setting("Spark", 6, SPARK, lambda _: lambda _: False, 0.276),
    Setting("MapReduce", 6, tuple(PROGRAMS), lambda _: lambda _: True, 0.257),
    *(
        Setting(f"{small / 20:.0%} small", small, tuple(PROGRAMS), every_second, reduction)
        for small, reduction in ((2, 0.761), (4, 0.362), (6, 0.219), (8, 0.237))
    ),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One choice for all open questions. by_work: whether a job is small by its work instead of its request."""

    floor: float
    step_seconds: float
    smallest_first: bool
    by_work: bool

    @property
    def name(self) -> str:
        """Return a description of the choice."""
        order = "smallest first" if self.smallest_first else "in order"
        return f"floor {self.floor:.0%}, step {self.step_seconds:g} s, {order}, small by {'work' if self.by_work else 'request'}"

    def run(self, jobs: Sequence[tuple[float, DagJob]]) -> Record:
        """Run DRESS."""
        config = DressConfig(
            max_wait_seconds=math.inf, step_seconds=self.step_seconds, min_reserve=self.floor, smallest_first=self.smallest_first
        )
        one = scenario(jobs, CONTAINERS, config)
        return run(replace(one, small_work_seconds=MEAN_SECONDS) if self.by_work else one, "dress")


PAPER = Variant(0.0, GAP_SECONDS, smallest_first=False, by_work=False)
VARIANTS = tuple(
    Variant(floor, step, smallest, work) for work in (False, True) for smallest in (False, True) for step in STEPS for floor in FLOORS
)


@dataclass(frozen=True, slots=True)
class Result:
    """Means over seeds in one setting: reduction of small jobs' completion, growth of large ones', makespan relative to Capacity's."""

    reduction: float
    large_growth: float
    makespan: float


def evaluate(variant: Variant, setting: Setting, seeds: Sequence[int], capacity: Mapping[tuple[str, int], Record]) -> Result:
    """Run one variant in one setting."""
    small, large, longer = [], [], []
    for seed in seeds:
        before, after = capacity[setting.name, seed], variant.run(setting.jobs(seed))
        changes = [(was.name, now.completion / was.completion - 1.0) for was, now in zip(before.jobs, after.jobs, strict=True)]
        small.append(-float(np.mean([change for name, change in changes if name.startswith("small")])))
        large.append(float(np.mean([change for name, change in changes if name.startswith("large")])))
        longer.append(after.end / before.end)
    return Result(float(np.mean(small)), float(np.mean(large)), float(np.mean(longer)))


def shortfall(results: Sequence[Result]) -> float:
    """Return the mean shortfall of the reductions from the paper's, over the settings."""
    return float(np.mean([max(0.0, setting.reduction - one.reduction) for setting, one in zip(SETTINGS, results, strict=True)]))


def may_be_chosen(results: Sequence[Result]) -> bool:
    """Return whether large jobs and the makespan stay within bounds in every setting."""
    return all(one.large_growth <= MOST_LARGE_GROWTH and one.makespan <= MOST_MAKESPAN for one in results)


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Choose on the first half of the seeds. Report the paper's rules and the chosen variant on the other half."""
    seeds = range(options.seed, options.seed + (4 if options.quick else SEEDS))
    choosing, reporting = seeds[: len(seeds) // 2], seeds[len(seeds) // 2 :]
    variants = (PAPER, replace(PAPER, floor=0.1)) if options.quick else VARIANTS
    plain = DressConfig(max_wait_seconds=math.inf)
    capacity = {
        (setting.name, seed): run(scenario(setting.jobs(seed), CONTAINERS, plain), "capacity") for setting in SETTINGS for seed in seeds
    }
    found: dict[Variant, list[Result]] = {}
    for number, variant in enumerate(variants):
        progress(number / len(variants), variant.name)
        found[variant] = [evaluate(variant, setting, choosing, capacity) for setting in SETTINGS]
    allowed = [variant for variant in variants if may_be_chosen(found[variant])]
    chosen = min(allowed or [PAPER], key=lambda variant: shortfall(found[variant]))
    least = min(variants, key=lambda variant: shortfall(found[variant]))
    rows = [
        Row("variants", None, float(len(variants)), "tried"),
        Row("variants within the bounds", None, float(len(allowed)), "allowed"),
        *(
            Row(f"choosing: shortfall, {label} ({variant.name})", None, shortfall(found[variant]), "-")
            for label, variant in (("paper", PAPER), ("chosen", chosen), ("least, bounds or not", least))
        ),
    ]
    for label, variant in (("paper", PAPER), ("chosen", chosen), ("least, bounds or not", least)):
        results = [evaluate(variant, setting, reporting, capacity) for setting in SETTINGS]
        for setting, one in zip(SETTINGS, results, strict=True):
            reached = "reached" if one.reduction >= setting.reduction else "not reached"
            rows += [
                Row(f"{label}, {setting.name}: small jobs' reduction", setting.reduction, one.reduction, reached),
                Row(f"{label}, {setting.name}: large jobs' growth", MOST_LARGE_GROWTH, one.large_growth,
                    holds(one.large_growth <= MOST_LARGE_GROWTH)),
                Row(f"{label}, {setting.name}: makespan / Capacity", 1.0, one.makespan, holds(one.makespan <= MOST_MAKESPAN)),
            ]  # fmt: skip
    data = {
        "seeds": {"choosing": list(choosing), "reporting": list(reporting)},
        "choosing": [
            {"variant": variant.name, "shortfall": shortfall(results), "allowed": may_be_chosen(results),
             "settings": {setting.name: [one.reduction, one.large_growth, one.makespan]
                          for setting, one in zip(SETTINGS, results, strict=True)}}
            for variant, results in found.items()
        ],
    }  # fmt: skip
    notes = ["Small and large are the jobs' sizes as generated, whatever the variant takes them for."]
    return Reproduction("dress-sweep", "what DRESS leaves open, chosen on half of the seeds", options.seed, rows, data, notes=notes)
