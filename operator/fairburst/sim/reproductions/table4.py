"""BoPF Table 4: factors of improvement of a latency queue next to 1 to 32 throughput queues, by the rules of the authors' simulator."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairburst.sim import table4
from fairburst.sim.charts import Chart, ChartKind, Series
from fairburst.sim.errors import TraceError
from fairburst.sim.generate import generate
from fairburst.sim.reproductions.result import Options, Progress, Reproduction, Row, within
from fairburst.sim.stage_list import read_stage_list
from fairburst.sim.workload import DagJob

PAPER = {
    "bb": (1.08, 1.56, 2.32, 4.09, 7.28, 16.61),
    "tpcds": (1.06, 1.38, 1.66, 2.93, 5.16, 10.40),
    "tpch": (1.01, 1.28, 1.92, 3.04, 5.50, 11.35),
}
CAUSE = {
    "bb": "stand-in list: queues hold unlike amounts of work and run dry one by one; see docs/reproduction.md",
    "tpcds": "stand-in list: unlike queues, and long batch tasks for which each stage of query21 waits; see docs/reproduction.md",
    "tpch": "stand-in list: see docs/reproduction.md",
}


def reproduce(options: Options, progress: Progress) -> Reproduction:
    """Compute all 18 cells under DRF and BoPF, on the stage lists of `options.trace` or on generated ones."""
    lists = _lists(options)
    means: dict[str, dict[str, dict[str, list[float]]]] = {"lq": {}, "tq": {}}
    exact: dict[str, dict[str, list[float]]] = {}
    done, runs = 0, len(lists) * len(table4.THROUGHPUT_QUEUES) * 2
    for name, jobs in lists.items():
        means["lq"][name], means["tq"][name], exact[name] = {}, {}, {}
        for policy in ("drf", "bopf"):
            outcomes, rounded_exactly = [], []
            for queues in table4.THROUGHPUT_QUEUES:
                progress(done / runs, f"{table4.WORKLOADS[name].title}, {policy}, {queues} throughput queues")
                run = functools.partial(table4.run, jobs, table4.WORKLOADS[name], policy, queues, compiled=options.compiled)
                outcomes.append(run())
                rounded_exactly.append(run(rules=table4.Rules(exact_shares=True)))
                done += 1
            means["lq"][name][policy] = [outcome.latency_mean for outcome in outcomes]
            means["tq"][name][policy] = [outcome.throughput_mean for outcome in outcomes]
            exact[name][policy] = [outcome.latency_mean for outcome in rounded_exactly]
    factors, exact_factors = _factors(means["lq"]), _factors(exact)
    return Reproduction(
        name="bopf-table4",
        title="factor of improvement, mean completion under DRF / under BoPF",
        seed=options.seed,
        rows=_rows(factors, generated=options.trace is None),
        data={
            "factors": factors, "factors_with_exact_shares": exact_factors, "lq_mean_seconds": means["lq"], "tq_mean_seconds": means["tq"],
            "throughput_queues": table4.THROUGHPUT_QUEUES,
        },
        charts=_charts(factors, means["lq"]),
        notes=[
            "Inputs: " + (f"stage lists of {options.trace}" if options.trace else "lists generated from the published statistics"),
            _spread(factors, exact_factors),
        ],
    )  # fmt: skip


def _factors(means: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Return mean completion under DRF / under BoPF, by workload and number of queues."""
    return {name: [drf / bopf for drf, bopf in zip(policies["drf"], policies["bopf"], strict=True)] for name, policies in means.items()}


def _spread(factors: Mapping[str, Sequence[float]], exact: Mapping[str, Sequence[float]]) -> str:
    """Describe how far the cells move if shares are rounded half up exactly, not as the authors' doubles round them."""
    moves = [after / before - 1 for name in factors for before, after in zip(factors[name], exact[name], strict=True)]
    return f"With shares rounded half up exactly the cells move by {min(moves):+.1%} to {max(moves):+.1%}: an artefact of doubles."


def _lists(options: Options) -> dict[str, list[DagJob]]:
    if options.trace is None:
        return {name: generate(name, options.seed) for name in table4.WORKLOADS}
    return {name: read_stage_list(_file(options.trace, name)) for name in table4.WORKLOADS}


def _file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.txt"
    if not path.is_file():
        raise TraceError(
            f"{folder}: expected the stage lists {', '.join(f'{each}.txt' for each in table4.WORKLOADS)}, found no {path.name}"
        )
    return path


def _rows(factors: Mapping[str, Sequence[float]], *, generated: bool) -> list[Row]:
    rows = []
    for name, values in factors.items():
        for queues, paper, ours in zip(table4.THROUGHPUT_QUEUES, PAPER[name], values, strict=True):
            label = f"{table4.WORKLOADS[name].title}, {queues} TQ"
            if f"{ours:.2f}" == f"{paper:.2f}":
                rows.append(Row(label, paper, ours, "equal"))
                continue
            verdict, cause = within(paper, ours, 0.25, CAUSE[name] if generated else "not the authors' lists?")
            rows.append(Row(label, paper, ours, verdict, cause))
    return rows


def _charts(factors: Mapping[str, Sequence[float]], means: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Chart]:
    x = list(table4.THROUGHPUT_QUEUES)
    both = [Series(f"{table4.WORKLOADS[name].title}, ours", x, list(values)) for name, values in factors.items()]
    both += [Series(f"{table4.WORKLOADS[name].title}, paper", x, list(PAPER[name])) for name in factors]
    times = [
        Series(f"{table4.WORKLOADS[name].title}, {policy}", x, list(values))
        for name, policies in means.items()
        for policy, values in policies.items()
    ]
    return [
        Chart("table4-factors", "Factor of improvement (Table 4)", ChartKind.LINES, "throughput queues", "factor", both, logarithmic=True),
        Chart(
            "table4-seconds", "Mean completion of latency jobs", ChartKind.LINES, "throughput queues", "seconds", times, logarithmic=True
        ),
    ]
