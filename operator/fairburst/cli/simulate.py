"""`fairburst simulate`: replay a trace under several policies in virtual time, and compare."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairburst.cli.command import Commands

if TYPE_CHECKING:
    from fairburst.sim.scenario import Scenario
    from fairburst.sim.sink import Record

TRACE_FORMATS = ("native", "stages", "dagsched-tpch", "swim", "azure", "generated")
POLICIES = ("bopf", "drf", "sp", "n-bopf", "m-bvt", "capacity", "dress", "static")


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("simulate", help="replay a trace under several policies in virtual time")
    parser.add_argument("--trace", metavar="FILE", required=True, help="the trace; for `generated`: bb, tpcds or tpch")
    parser.add_argument("--trace-format", choices=TRACE_FORMATS, default="native", help="docs/reproduction.md describes each")
    parser.add_argument("--policies", default="drf,bopf", help=f"comma separated, of {', '.join(POLICIES)} (default drf,bopf)")
    parser.add_argument("--throughput-queues", type=int, default=8, metavar="N", help="jobs that name no queue are dealt out to so many")
    parser.add_argument("--profile", choices=("realistic", "bopf-table4"), default="realistic", help="the engine's rules")
    parser.add_argument("--benchmark", choices=("bb", "tpcds", "tpch"), default="bb", help="bopf-table4: whose limits and multipliers")
    parser.add_argument("--seed", type=int, default=1, help="seed of generated traces (default 1)")
    parser.add_argument("--capacity", default="1000,1000", help="of each resource, comma separated (default 1000,1000)")
    parser.add_argument("--nodes", type=int, default=1, help="split the capacity over so many equal nodes (default one big machine)")
    parser.add_argument("--period", type=float, default=1000.0, help="seconds between bursts of the latency queue; 0: no latency queue")
    parser.add_argument("--on-seconds", type=float, default=25.0, help="declared length of a burst that takes the whole capacity")
    parser.add_argument("--deadline", type=float, help="seconds by which a burst should be served (default: --on-seconds)")
    parser.add_argument("--task-factor", type=float, default=1.0, help="multiply the task counts of batch jobs")
    parser.add_argument("--start-delay", type=float, default=0.0, help="seconds from a task's start to its work's")
    parser.add_argument("--round-seconds", type=float, default=0.0, help="drain events into a round every so often (default: at once)")
    parser.add_argument("--preemptive", action="store_true", help="evict tasks for what latency queues are owed")
    parser.add_argument("--until", type=float, default=math.inf, help="end after so many seconds (default: when batch work is done)")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--save", metavar="DIR", type=Path, help="write tables (Parquet, else CSV) and report.html")
    parser.set_defaults(function=simulate)


def simulate(given: argparse.Namespace) -> int:
    """Run every policy and print."""
    from fairburst.sim.errors import SimulationError  # noqa: PLC0415  keeps `fairburst --help` quick

    policies = [name.strip() for name in given.policies.split(",")]
    unknown = [name for name in policies if name not in POLICIES]
    if unknown:
        sys.stderr.write(f"fairburst simulate: --policies: expected some of {', '.join(POLICIES)}, found {unknown[0]!r}\n")
        return 2
    try:
        if given.profile == "bopf-table4":
            return _table4(given, policies)
        return _realistic(given, policies)
    except SimulationError as error:
        sys.stderr.write(f"fairburst simulate: {error}\n")
        return 1


def _realistic(given: argparse.Namespace, policies: list[str]) -> int:
    from fairburst.cli.progress import ProgressLine  # noqa: PLC0415
    from fairburst.sim.engine import run  # noqa: PLC0415
    from fairburst.sim.report import save_page, save_tables  # noqa: PLC0415

    scenario = _scenario(given)
    records: dict[str, Record] = {}
    progress = ProgressLine()
    for number, policy in enumerate(policies):

        def tell(part: float, done: int = number, name: str = policy) -> None:
            progress((done + part) / len(policies), name)

        records[policy] = run(scenario, policy, record_use=given.save is not None, progress=tell)
    progress.end()
    sys.stdout.write(json.dumps(_as_json(given, records)) + "\n" if given.output == "json" else _as_text(records))
    if given.save is not None:
        save_tables(given.save, records)
        save_page(given.save / "report.html", f"{Path(given.trace).name}: {', '.join(policies)}", records, [f"Seed {given.seed}."])
    return 0


def _scenario(given: argparse.Namespace) -> Scenario:
    from fairburst.sim.cluster import Cluster  # noqa: PLC0415
    from fairburst.sim.errors import ScenarioError  # noqa: PLC0415
    from fairburst.sim.experiment import batch_with_bursts, fill_capacity, in_resources, short_jobs  # noqa: PLC0415
    from fairburst.sim.generate import generate  # noqa: PLC0415
    from fairburst.sim.trace import Trace, read_trace  # noqa: PLC0415
    from fairburst.sim.workload import scaled  # noqa: PLC0415

    try:
        amounts = [float(text) for text in given.capacity.split(",")]
    except ValueError as error:
        raise ScenarioError(f"--capacity: expected amounts separated by commas, found {given.capacity!r}") from error
    if given.nodes < 1:
        raise ScenarioError(f"--nodes: expected at least 1, found {given.nodes}")
    if given.trace_format == "generated":
        trace = Trace(("cpu", "memory"), tuple(generate(given.trace, given.seed)))
    else:
        trace = read_trace(Path(given.trace), given.trace_format)
    resources = trace.resources[: len(amounts)]
    if len(resources) < len(amounts):
        raise ScenarioError(f"--capacity: expected an amount for each of {', '.join(trace.resources)}, found {len(amounts)}")
    cluster = Cluster(resources, (tuple(amount / given.nodes for amount in amounts),) * given.nodes)
    jobs = [in_resources(job, len(resources)) for job in trace.jobs]
    bursts = [fill_capacity(job, amounts) for job in short_jobs(jobs)] if given.period > 0 else []
    return batch_with_bursts(
        cluster, [scaled(job, given.task_factor) for job in jobs], given.throughput_queues, bursts, period=given.period,
        on_seconds=given.on_seconds, deadline=given.deadline, until=given.until, start_delay_seconds=given.start_delay,
        preemptive=given.preemptive, round_seconds=given.round_seconds,
    )  # fmt: skip


def _as_json(given: argparse.Namespace, records: dict[str, Record]) -> dict[str, Any]:
    import dataclasses  # noqa: PLC0415

    from fairburst.sim.figures import summaries  # noqa: PLC0415

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "seed": given.seed,
        "profile": given.profile,
        "policies": {
            policy: {
                "end_seconds": record.end, "rounds": record.rounds, "tasks_started": record.tasks_started,
                "tasks_evicted": record.tasks_evicted, "utilisation": dict(record.utilisation),
                "guaranteed_utilisation": dict(record.guaranteed_utilisation),
                "queues": [{name: plain(value) for name, value in dataclasses.asdict(row).items()} for row in summaries(record)],
            }
            for policy, record in records.items()
        },
    }  # fmt: skip


def _as_text(records: dict[str, Record]) -> str:
    from fairburst.sim.report import QUEUE_HEAD, queue_rows  # noqa: PLC0415

    lines = []
    for policy, record in records.items():
        table = [list(QUEUE_HEAD), *queue_rows(record)]
        widths = [max(len(row[column]) for row in table) for column in range(len(QUEUE_HEAD))]
        use = ", ".join(f"{name} {part:.1%}" for name, part in record.utilisation.items())
        lines.append(f"{policy}: {record.tasks_started} tasks in {record.end:.0f} s, use {use}")
        lines += [
            "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
            for row in table
        ]
        lines.append("")
    return "\n".join(lines)


def _table4(given: argparse.Namespace, policies: list[str]) -> int:
    from fairburst.sim.errors import ScenarioError  # noqa: PLC0415
    from fairburst.sim.generate import generate  # noqa: PLC0415
    from fairburst.sim.table4 import POLICIES as KNOWN  # noqa: PLC0415
    from fairburst.sim.table4 import WORKLOADS, run  # noqa: PLC0415
    from fairburst.sim.trace import read_trace  # noqa: PLC0415

    unknown = [name for name in policies if name not in KNOWN]
    if unknown:
        raise ScenarioError(f"--profile bopf-table4: expected policies among {', '.join(KNOWN)}, found {unknown[0]!r}")
    name = given.trace if given.trace_format == "generated" else given.benchmark
    jobs = generate(name, given.seed) if given.trace_format == "generated" else read_trace(Path(given.trace), given.trace_format).jobs
    outcomes = {policy: run(jobs, WORKLOADS[name], policy, given.throughput_queues) for policy in policies}
    result = {
        policy: {
            "lq_mean_seconds": outcome.latency_mean, "tq_mean_seconds": outcome.throughput_mean, "end_seconds": outcome.stopped_at,
            "tasks_started": outcome.tasks_started,
        }
        for policy, outcome in outcomes.items()
    }  # fmt: skip
    if given.output == "json":
        sys.stdout.write(json.dumps({"seed": given.seed, "profile": given.profile, "policies": result}) + "\n")
        return 0
    for policy, values in result.items():
        sys.stdout.write(f"{policy:>8}  " + "  ".join(f"{key} {value:.2f}" for key, value in values.items()) + "\n")
    return 0
