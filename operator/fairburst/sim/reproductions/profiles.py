"""Table 4 by two profiles on the same input: `realistic`, which uses `policy.decide`, and the authors' rules (BoPF §5.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fairburst.sim import table4
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import run
from fairburst.sim.experiment import LATENCY_QUEUE, batch_with_bursts
from fairburst.sim.figures import mean
from fairburst.sim.generate import generate
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, within
from fairburst.sim.scenario import Scenario
from fairburst.sim.workload import DagJob, scaled, with_stages

AGREE = 0.10
FINE_GRAIN = 100_000  # shares compare almost exactly, instead of in whole percents
CAUSE = "share rounding (see the row without it)"


def as_scenario(jobs: Sequence[DagJob], workload: table4.Workload, throughput_queues: int, rules: table4.Rules) -> Scenario:
    """Return Table 4's input for the realistic engine: the same jobs in the same queues, whole seconds, one round a second."""
    batch = [
        dataclasses.replace(scaled(job, rules.throughput_tasks), queue=f"tq-{number:02}")
        for number, slots in enumerate(table4.throughput_slots(jobs, throughput_queues, rules.slots))
        for job in slots
    ]
    bursts = [
        with_stages(
            scaled(job, workload.latency_tasks),
            lambda stage: dataclasses.replace(stage, seconds=table4.whole_seconds(stage.seconds, workload.latency_seconds)),
        )
        for job in table4.latency_jobs(jobs, workload, rules.latency_jobs)
    ]
    machine = one_machine(("cpu", "memory"), (rules.capacity, rules.capacity))
    return batch_with_bursts(
        machine, batch, 0, bursts, period=float(rules.period), on_seconds=float(rules.on_seconds), round_seconds=1.0
    )  # fmt: skip


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Compute Table 4's factors by both profiles and by the authors' rules without share rounding; compare the ends of batch work."""
    names = ("bb",) if options.quick else tuple(table4.WORKLOADS)
    counts = (2, 8) if options.quick else table4.THROUGHPUT_QUEUES
    rules = table4.Rules(slots=40) if options.quick else table4.Rules()
    factors: dict[str, dict[str, list[float]]] = {name: {"realistic": [], "bopf-table4": [], "without rounding": []} for name in names}
    later: dict[str, list[float]] = {name: [] for name in names}
    rows, done = [], 0
    for name in names:
        jobs, title = generate(name, options.seed), table4.WORKLOADS[name].title
        for queues in counts:
            progress(done / len(names) / len(counts), f"{title}, {queues} throughput queues")
            done += 1
            authors, ends = _by_the_authors_rules(jobs, name, queues, rules, options)
            exact, _ = _by_the_authors_rules(jobs, name, queues, dataclasses.replace(rules, share_grain=FINE_GRAIN), options)
            ours, our_end = _by_the_core(jobs, name, queues, rules)
            for kind, factor in zip(factors[name], (ours, authors, exact), strict=True):
                factors[name][kind].append(factor)
            later[name].append(our_end / ends)
            rows += [
                Row(f"{title}, {queues} TQ: bopf-table4, realistic", authors, ours, *within(authors, ours, AGREE, CAUSE)),
                Row(f"{title}, {queues} TQ: without share rounding, realistic", exact, ours, within(exact, ours, AGREE)[0]),
                Row(f"{title}, {queues} TQ: end of batch work, realistic / bopf-table4", 1.0, our_end / ends, "see notes"),
            ]
    series = [Series(f"{table4.WORKLOADS[name].title}, {kind}", counts, values) for name in names for kind, values in factors[name].items()]
    chart = Chart("profiles", "Factor of improvement by profile", ChartKind.LINES, "throughput queues", "factor", series, logarithmic=True)
    notes = [
        'Here "paper" is what the authors\' rules give on the same input.',
        "In `realistic` allocations follow the mix of all that waits; what the next tasks cannot use of them is lent task by task.",
    ]
    data = {"throughput_queues": counts, "factors": factors, "end_of_batch_realistic_over_table4": later}
    return Reproduction(
        "bopf-profiles", "the profiles realistic and bopf-table4 on the same input", options.seed, rows, data, [chart], notes
    )


def _by_the_authors_rules(jobs: Sequence[DagJob], name: str, queues: int, rules: table4.Rules, options: Options) -> tuple[float, float]:
    """Return (factor of improvement, end of batch work under DRF)."""
    drf, bopf = (
        table4.run(jobs, table4.WORKLOADS[name], policy, queues, rules, compiled=options.compiled) for policy in ("drf", "bopf")
    )  # fmt: skip
    return drf.latency_mean / bopf.latency_mean, float(drf.stopped_at)


def _by_the_core(jobs: Sequence[DagJob], name: str, queues: int, rules: table4.Rules) -> tuple[float, float]:
    scenario = as_scenario(jobs, table4.WORKLOADS[name], queues, rules)
    drf, bopf = (run(scenario, policy) for policy in ("drf", "bopf"))
    means = [mean([job.runtime for job in record.ended(LATENCY_QUEUE)]) for record in (drf, bopf)]
    return means[0] / means[1], drf.end
