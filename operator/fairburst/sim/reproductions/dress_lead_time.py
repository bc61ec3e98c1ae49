"""Lead time, an experiment without a counterpart in the papers: bursts of a hard queue on a busy cluster, without preemption.

Batch jobs of three recurring kinds keep a cluster at 95 % of its capacity. A periodic burst needs two fifths of the cluster for 20 s. The
experiment compares an idle cluster, no lead time, and lead time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairburst.policy.dress.values import DressConfig
from fairburst.policy.model import ClusterSnapshot, PolicyConfig, RoundResult
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import run
from fairburst.sim.experiment import latency_spec, throughput_spec
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, holds
from fairburst.sim.scenario import BurstPlan, Scenario, Submission
from fairburst.sim.sink import Record
from fairburst.sim.workload import DagJob, Stage

SLOTS, BURST_SLOTS, BURST_SECONDS, PERIOD, FIRST = 200.0, 80, 20.0, 300.0, 400.0
LOAD = 0.95
KINDS = {"etl": 40.0, "report": 60.0, "train": 80.0}
VARIATION = 0.05


@dataclass
class HeldCapacity:
    """An observer of the engine that integrates the capacity held idle for expected bursts over time."""

    share_seconds: float = 0.0
    since: float = 0.0
    share: float = 0.0
    largest_overdraft: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)

    def __call__(self, now: float, _given: ClusterSnapshot, result: RoundResult) -> None:
        """Observe one round."""
        self.share_seconds += self.share * (now - self.since)
        self.since, self.share = now, sum(decision.cost_rate for decision in result.lead_time)
        for decision in result.lead_time:
            self.reasons[decision.reason] = self.reasons.get(decision.reason, 0) + 1
        first = result.decisions[0]
        self.largest_overdraft = max(self.largest_overdraft, first.ledger - first.debt - first.fair_share_of_period)


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Measure burst completion relative to an idle cluster, the idle capacity, and the effect on other queues."""
    seeds = range(options.seed, options.seed + (2 if options.quick else 5))
    periods = 6 if options.quick else 12
    outcomes: dict[str, list[tuple[Record, HeldCapacity]]] = {"idle": [], "without": [], "with": []}
    for number, seed in enumerate(seeds):
        for at, name in enumerate(outcomes):
            progress((number + at / 3) / len(seeds), f"seed {seed}, {name}")
            watch = HeldCapacity()
            scenario = _scenario(seed, periods, batch=name != "idle", lead_time=name == "with")
            outcomes[name].append((run(scenario, "dress", observer=watch), watch))
    times = {name: [seconds for record, _ in runs for seconds in _completions(record)] for name, runs in outcomes.items()}
    idle = float(np.mean(times["idle"]))
    rows = [Row("burst on an idle cluster, s", None, idle, "base")]
    for name, label in (("without", "without lead time"), ("with", "with lead time")):
        ratio = np.array(times[name]) / idle
        rows.append(Row(f"{label}: completion / idle, mean", None, float(ratio.mean()), _within_target(name, float(ratio.mean()))))
        rows.append(Row(f"{label}: completion / idle, 90th percentile", None, float(np.quantile(ratio, 0.9)), "spread"))
        rows.append(Row(f"{label}: completion / idle, worst burst", None, float(ratio.max()), "spread"))
        used = [_batch_share(record) for record, _ in outcomes[name]]
        rows.append(Row(f"{label}: batch work's part of the capacity", None, float(np.mean(used)), "load"))
        rows.append(Row(f"{label}: first / second batch queue's use", None, _evenness(outcomes[name]), "fairness among batch queues"))
    idle_part = float(np.mean([watch.share_seconds / record.end for record, watch in outcomes["with"]]))
    rows.append(Row("capacity held idle, % of capacity", None, 100.0 * idle_part, holds(idle_part <= 0.03)))
    over = max(watch.largest_overdraft for runs in outcomes.values() for _, watch in runs)
    rows.append(Row("largest ledger above F, share-seconds", None, over, holds(over <= 1.0)))
    chart = Chart(
        "dress-lead-time", "Burst completion at 95 % batch load, no preemption", ChartKind.CDF, "seconds", "part of the bursts",
        [Series(name, [], values) for name, values in times.items()],
    )  # fmt: skip
    data = {"reasons": [watch.reasons for _, watch in outcomes["with"]], "completions": times}
    notes = [
        "The first burst is left out: nothing has been learned before it. A ledger may pass F by what runs on when its budget is spent, "
        "here at most a round's worth."
    ]
    return Reproduction("dress-lead-time", "bursts without preemption at 95 % load", options.seed, rows, data, [chart], notes)


def _within_target(name: str, ratio: float) -> str:
    return holds(ratio <= 1.10) if name == "with" else "reported"


def _scenario(seed: int, periods: int, *, batch: bool, lead_time: bool) -> Scenario:
    burst = DagJob("burst", (Stage("serve", BURST_SLOTS, BURST_SECONDS, (1.0,)),))
    queue = latency_spec("lq", 0.0, ("cpu",), (float(BURST_SLOTS),), BURST_SECONDS, PERIOD, FIRST)
    until = FIRST + periods * PERIOD
    return Scenario(
        one_machine(("cpu",), (SLOTS,)),
        (replace(queue, lead_time=lead_time), throughput_spec("tq-0", 1.0), throughput_spec("tq-1", 2.0)),
        _batch(seed, until) if batch else [], [BurstPlan("lq", FIRST, PERIOD, [burst], periods)],
        config=PolicyConfig(dress=DressConfig()), round_seconds=0.5, until=until,
    )  # fmt: skip


def _batch(seed: int, until: float) -> Sequence[Submission]:
    """Return jobs at random times with a load of LOAD. A job's task length deviates from its kind's by VARIATION (standard deviation)."""
    rng = np.random.default_rng(seed)
    jobs: list[Submission] = []
    time = 0.0
    while time < until:
        kind = sorted(KINDS)[int(rng.integers(len(KINDS)))]
        tasks = int(rng.integers(4, 25))
        seconds = KINDS[kind] * float(rng.normal(1.0, VARIATION))
        jobs.append(Submission(time, f"tq-{len(jobs) % 2}", DagJob(kind, (Stage("run", tasks, seconds, (1.0,)),))))
        time += tasks * seconds / (LOAD * SLOTS)
    return jobs


def _completions(record: Record) -> list[float]:
    return [job.completion for job in record.ended("lq")[1:]]


def _batch_share(record: Record) -> float:
    return float(record.resource_seconds[1:, 0].sum() / record.capacity_seconds[0])


def _evenness(runs: Sequence[tuple[Record, HeldCapacity]]) -> float:
    return float(np.mean([record.resource_seconds[1, 0] / record.resource_seconds[2, 0] for record, _ in runs]))
