"""The α-strategy (BoPF §3.5, Fig. 12): bursts of random size, with a request that should suffice for 95 % of them or the mean.

There are three resources. A burst's demand is normal around its mean, with resources independent or perfectly correlated, and must be
served within the burst's length. The mean rate is a third of the cluster; the fair share of a period is at least twice the mean demand.
Batch work takes everything that is not guaranteed. It comes from several queues, because a queue in its window gets at least the share of a
throughput queue of its weight. Next to a single one that is half of the cluster, enough for a burst with any request. Eviction is on,
because the experiment measures the size of the request and not how soon tasks end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.extras import scipy
from fairburst.policy.uncertainty import Correlation, Request, request_normal
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import run
from fairburst.sim.experiment import latency_spec, throughput_spec
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, holds, within
from fairburst.sim.scenario import BurstPlan, Scenario, Submission
from fairburst.sim.workload import DagJob, Stage

RESOURCES = ("cpu", "memory", "network")
CAPACITY = 900.0
MEAN_RATE = 300.0
ON_SECONDS, PERIOD = 10.0, 60.0
CONFIDENCE = 0.95
BATCH_QUEUES = 5
TASKS = 1000  # a guarantee is rounded up to whole tasks; many small tasks keep the rounding from deciding
LIKELY = 0.01  # significance of the one-sided binomial test for a fraction below 95 %


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run. met: fraction of the bursts served in time. batch_share: mean dominant share of the throughput queue."""

    met: float
    bursts: int
    batch_share: float
    latency_seconds: float


def demands(seed: int, deviation: float, correlation: FloatArray, bursts: int) -> FloatArray:
    """(bursts, K) rates that the bursts need, at least a hundredth of the mean."""
    drawn = np.random.default_rng(seed).multivariate_normal(np.zeros(len(RESOURCES)), correlation, bursts, method="eigh")
    return np.maximum(MEAN_RATE * (1 + deviation * drawn), MEAN_RATE / 100)


def replay(rates: FloatArray, request: FloatArray) -> Outcome:
    """Run bursts of these rates under a guarantee for `request` (K,), resource units over the burst's length."""
    count = len(rates)
    jobs = [
        DagJob(f"burst-{number}", (Stage("s", TASKS, ON_SECONDS, tuple((rate / TASKS).tolist())),)) for number, rate in enumerate(rates)
    ]
    # batch tasks are small compared with a burst, so that batch work takes free capacity at once
    batch = DagJob("batch", (Stage("work", int(count * CAPACITY / 10 / BATCH_QUEUES) + 1000, PERIOD, (10.0,) * len(RESOURCES)),))
    batch_queues = [f"tq-{number}" for number in range(BATCH_QUEUES)]
    queues = (
        *(throughput_spec(name, 0.0) for name in batch_queues),
        latency_spec("lq", 1.0, RESOURCES, request.tolist(), ON_SECONDS, PERIOD, first=PERIOD, deadline=ON_SECONDS),
    )
    scenario = Scenario(
        one_machine(RESOURCES, (CAPACITY,) * len(RESOURCES)), queues, [Submission(0.0, name, batch) for name in batch_queues],
        [BurstPlan("lq", PERIOD, PERIOD, jobs, count)], preemptive=True, until=(count + 1) * PERIOD,
    )  # fmt: skip
    record = run(scenario, "bopf")
    met = [job.met for job in record.of("lq")]
    *of_batch, of_bursts = record.dominant_seconds.tolist()
    return Outcome(sum(met) / len(met), len(met), sum(of_batch) / record.end, of_bursts)


def suffices(outcome: Outcome) -> bool:
    """Return whether the fraction met is compatible with 95 %."""
    met = round(outcome.met * outcome.bursts)
    return bool(scipy().stats.binomtest(met, outcome.bursts, CONFIDENCE, alternative="less").pvalue >= LIKELY)


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Reproduce Fig. 12 for independent and perfectly correlated demand, and measure the cost of wrong assumptions."""
    bursts = 200 if options.quick else 2000
    deviations = (0.1,) if options.quick else (0.0, 0.1, 0.2, 0.3, 0.4)
    mean = np.full(len(RESOURCES), MEAN_RATE)
    kinds = {Correlation.INDEPENDENT: np.eye(3), Correlation.PERFECT: np.ones((3, 3))}
    rows: list[Row] = []
    data: dict[str, dict[str, list[float]]] = {}
    done, runs = 0, len(kinds) * len(deviations) * 2
    for kind, correlation in kinds.items():
        table: dict[str, list[float]] = {"vanilla": [], "strategy": [], "request": []}
        for deviation in deviations:
            rates = demands(options.seed + round(100 * deviation), deviation, correlation, bursts)
            request = request_normal(mean, deviation * mean, CONFIDENCE, kind)
            outcomes = []
            for name, demand in (("vanilla", mean), ("strategy", request.demand)):
                progress(done / runs, f"{kind.value}, deviation {deviation:.0%}, {name}")
                done += 1
                outcomes.append(replay(rates, demand))
                table[name].append(outcomes[-1].met)
            table["request"].append(float(request.demand[0] / MEAN_RATE))
            rows += _rows(f"{kind.value}, {deviation:.0%}", deviation, *outcomes)
        data[kind.value] = table
    rows += _costs(mean)
    charts = [_chart(kind, deviations, table) for kind, table in data.items()]
    return Reproduction(
        "bopf-alpha", f"bursts served in time with and without the α-strategy ({bursts} bursts each)", options.seed, rows,
        {"deviations": deviations, "confidence": CONFIDENCE, "correlations": data}, charts,
    )  # fmt: skip


def _rows(label: str, deviation: float, vanilla: Outcome, strategy: Outcome) -> list[Row]:
    rows = [Row(f"{label}: met with the strategy", CONFIDENCE, strategy.met, holds(suffices(strategy)))]
    if deviation >= 0.1:
        rows.append(Row(f"{label}: met without", 0.5, vanilla.met, holds(vanilla.met < 0.6)))
    change = strategy.batch_share / vanilla.batch_share
    rows.append(Row(f"{label}: share of batch, with / without", 1.0, change, holds(abs(change - 1) < 0.01)))
    return rows


def _costs(mean: FloatArray) -> list[Row]:
    """Compare the requests of the three assumptions at a deviation of 40 % with three resources."""

    def ask(assumption: Correlation, correlation: FloatArray | None = None) -> Request:
        return request_normal(mean, 0.4 * mean, CONFIDENCE, assumption, correlation)

    independent, perfect = ask(Correlation.INDEPENDENT).demand[0], ask(Correlation.PERFECT).demand[0]
    less = 1 - perfect / independent
    positive = ask(Correlation.MEASURED, np.full((3, 3), 0.5) + 0.5 * np.eye(3)).demand[0]
    negative = ask(Correlation.MEASURED, np.full((3, 3), -0.3) + 1.3 * np.eye(3)).demand[0]
    return [
        Row("perfect correlation lowers the request by", 0.10, float(less), *within(0.10, float(less), 0.35)),
        Row(
            "positive correlation: independence over-provisions by", None, float(independent / positive - 1), holds(independent > positive)
        ),
        Row(
            "negative correlation: independence under-provisions by", None, float(negative / independent - 1), holds(negative > independent)
        ),
    ]


def _chart(kind: str, deviations: tuple[float, ...], table: dict[str, list[float]]) -> Chart:
    series = [Series(name, deviations, table[name]) for name in ("vanilla", "strategy")]
    series.append(Series("95 %", deviations, [CONFIDENCE] * len(deviations)))
    return Chart(
        f"fig12-{kind.lower()}", f"Deadlines met, {kind.lower()} demand (Fig. 12)", ChartKind.LINES, "deviation", "part met", series
    )


__all__ = ["Outcome", "demands", "replay", "reproduce", "suffices"]
