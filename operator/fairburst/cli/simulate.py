"""`fairburst simulate`: replay a trace under several policies in virtual time, and compare."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from fairburst.cli.arguments import Form, OutputForm, SaveFolder, not_negative, positive
from fairburst.cli.output import Table, is_data, print_table, print_value

if TYPE_CHECKING:
    from fairburst.sim.scenario import Scenario
    from fairburst.sim.sink import Record

TraceFormat = Literal["native", "stages", "dagsched-tpch", "swim", "azure", "generated"]
Profile = Literal["realistic", "bopf-table4"]
Benchmark = Literal["bb", "tpcds", "tpch"]
POLICIES = ("bopf", "drf", "sp", "n-bopf", "m-bvt", "capacity", "dress", "static", "edf")
TABLE4_POLICIES = ("drf", "sp", "bopf")  # as fairburst.sim.table4.POLICIES, which is imported late; a test compares the two


@dataclass(frozen=True, slots=True)
class Given:
    """The valid arguments of `simulate`."""

    trace: str
    trace_format: TraceFormat
    policies: tuple[str, ...]
    throughput_queues: int
    profile: Profile
    benchmark: Benchmark
    seed: int
    capacity: tuple[float, ...]
    nodes: int
    period: float
    on_seconds: float
    deadline: float | None
    task_factor: float
    start_delay: float
    round_seconds: float
    preemptive: bool
    until: float
    output: Form
    save: Path | None


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in POLICIES:
            raise typer.BadParameter(f"expected some of {', '.join(POLICIES)}, found {name!r}", param_hint="--policies")
    return names


def _amounts(text: str) -> tuple[float, ...]:
    try:
        amounts = tuple(float(part) for part in text.split(","))
    except ValueError:
        amounts = ()
    if not amounts or not all(0 < amount < math.inf for amount in amounts):
        raise typer.BadParameter(f"expected amounts above 0 separated by commas, found {text!r}", param_hint="--capacity")
    return amounts


def _number(flag: str, text: str, default: float | None, *, above_zero: bool = True) -> Any:
    return typer.Option(flag, callback=positive if above_zero else not_negative, help=text, show_default=default is not None)


def simulate(
    trace: Annotated[str, typer.Option("--trace", metavar="FILE", help="The trace; for `generated`: bb, tpcds or tpch.")] = "",
    example: Annotated[
        bool, typer.Option("--example", help="Instead of a trace: a busy cluster under fair sharing, strict priority and fairburst.")
    ] = False,
    trace_format: Annotated[TraceFormat, typer.Option("--trace-format", help="docs/reproduction.md describes each.")] = "native",
    policies: Annotated[str, typer.Option("--policies", metavar="NAMES", help=f"Of {', '.join(POLICIES)}; comma separated.")] = "drf,bopf",
    throughput_queues: Annotated[
        int, typer.Option("--throughput-queues", metavar="N", min=1, help="Jobs that name no queue are dealt out to so many.")
    ] = 8,
    profile: Annotated[Profile, typer.Option("--profile", help="The engine's rules.")] = "realistic",
    benchmark: Annotated[Benchmark, typer.Option("--benchmark", help="bopf-table4: whose limits and multipliers.")] = "bb",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of generated traces.")] = 1,
    capacity: Annotated[str, typer.Option("--capacity", metavar="N,...", help="Of each resource, comma separated.")] = "1000,1000",
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Split the capacity over so many equal nodes.")] = 1,
    period: Annotated[
        float, _number("--period", "Seconds between bursts of the latency queue; 0: none.", 1000.0, above_zero=False)
    ] = 1000.0,
    on_seconds: Annotated[float, _number("--on-seconds", "Declared length of a burst that takes the whole capacity.", 25.0)] = 25.0,
    deadline: Annotated[
        float | None, _number("--deadline", "Seconds to serve a burst in; without it, those of --on-seconds.", None)
    ] = None,
    task_factor: Annotated[float, _number("--task-factor", "Multiply the task counts of batch jobs.", 1.0)] = 1.0,
    start_delay: Annotated[float, _number("--start-delay", "Seconds from a task's start to its work's.", 0.0, above_zero=False)] = 0.0,
    round_seconds: Annotated[
        float, _number("--round-seconds", "Drain events into a round every so often; 0: at once.", 0.0, above_zero=False)
    ] = 0.0,
    preemptive: Annotated[bool, typer.Option("--preemptive", help="Evict tasks for what latency queues are owed.")] = False,
    until: Annotated[float, _number("--until", "End after so many seconds; without it, when batch work is done.", None)] = math.inf,
    output: OutputForm = "table",
    save: SaveFolder = None,
) -> None:
    """Replay a trace under several policies in virtual time."""
    if example:
        _example(trace, seed, output, save)
        return
    given = Given(
        trace, trace_format, _policies(policies), throughput_queues, profile, benchmark, seed, _amounts(capacity), nodes, period,
        on_seconds, deadline, task_factor, start_delay, round_seconds, preemptive, until, output, save,
    )  # fmt: skip
    _check_together(given)
    if given.profile == "bopf-table4":
        _table4(given)
    else:
        _realistic(given)


def _example(trace: str, seed: int, output: Form, save: Path | None) -> None:
    from fairburst.cli.progress import ProgressLine  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.sim.example import CORES, PERIOD_SECONDS, TASK_SECONDS, TASKS, conclusion, outcomes  # noqa: PLC0415

    for flag, text in (("--trace", trace), ("--save", save)):
        if text:
            raise typer.BadParameter(f"expected none with --example, found {text}", param_hint=flag)
    with ProgressLine() as progress:
        found = outcomes(seed, progress)
    if is_data(output):
        print_value({"seed": seed, "runs": [dataclasses.asdict(one) for one in found], "conclusion": conclusion(found)}, output)
        return
    sys.stdout.write(
        f"{CORES} cores, eight queues of batch jobs, and a dashboard.\n"
        f"The dashboard asks for all cores for {TASK_SECONDS * TASKS / CORES:.0f} s every {PERIOD_SECONDS:.0f} s.\n\n"
    )
    head = ("policy", "dashboard", "bursts", "burst s", "in time", "batch job s")
    rows: list[Sequence[str]] = [
        (one.policy, "greedy" if one.greedy else "honest", str(one.bursts), f"{one.burst_seconds:.1f}", f"{one.met:.0%}",
         f"{one.batch_seconds:.0f}")
        for one in found
    ]  # fmt: skip
    print_table(Table(head, rows, right=frozenset(head[2:])), output)
    sys.stdout.write("\n" + "\n".join(textwrap.fill(sentence, 80) for sentence in conclusion(found)) + "\n")


def _check_together(given: Given) -> None:
    """Raise an error for arguments that are valid alone but not together."""
    if not given.trace:
        raise typer.BadParameter("expected a file, or --example, found neither", param_hint="--trace")
    if given.trace_format == "generated":
        if given.trace not in get_args(Benchmark):
            raise typer.BadParameter(f"expected one of {', '.join(get_args(Benchmark))}, found {given.trace!r}", param_hint="--trace")
    elif not os.access(Path(given.trace).expanduser(), os.R_OK):
        raise typer.BadParameter(f"expected a readable file {given.trace}, found none", param_hint="--trace")
    if given.profile == "bopf-table4":
        for name in given.policies:
            if name not in TABLE4_POLICIES:
                raise typer.BadParameter(
                    f"expected policies among {', '.join(TABLE4_POLICIES)} with --profile bopf-table4, found {name!r}",
                    param_hint="--policies",
                )
        if given.save is not None:
            raise typer.BadParameter("expected none with --profile bopf-table4, which has no tables", param_hint="--save")


def _realistic(given: Given) -> None:
    from fairburst.cli.progress import ProgressLine  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.sim.engine import run  # noqa: PLC0415
    from fairburst.sim.report import save_page, save_tables  # noqa: PLC0415

    scenario = _scenario(given)
    records: dict[str, Record] = {}
    with ProgressLine() as progress:
        for number, policy in enumerate(given.policies):

            def show(part: float, done: int = number, name: str = policy) -> None:
                progress((done + part) / len(given.policies), name)

            records[policy] = run(scenario, policy, record_use=given.save is not None, progress=show)
    if is_data(given.output):
        print_value(_as_json(given, records), given.output)
    else:
        _print(records, given.output)
    if given.save is not None:
        save_tables(given.save, records)
        title = f"{Path(given.trace).name}: {', '.join(given.policies)}"
        save_page(given.save / "report.html", title, records, [f"Seed {given.seed}."])


def _scenario(given: Given) -> Scenario:
    from fairburst.sim.cluster import Cluster  # noqa: PLC0415
    from fairburst.sim.errors import ScenarioError  # noqa: PLC0415
    from fairburst.sim.experiment import batch_with_bursts, fill_capacity, in_resources, short_jobs  # noqa: PLC0415
    from fairburst.sim.generate import generate  # noqa: PLC0415
    from fairburst.sim.trace import Trace, read_trace  # noqa: PLC0415
    from fairburst.sim.workload import scaled  # noqa: PLC0415

    amounts = given.capacity
    if given.trace_format == "generated":
        trace = Trace(("cpu", "memory"), tuple(generate(given.trace, given.seed)))
    else:
        trace = read_trace(Path(given.trace).expanduser(), given.trace_format)
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


def _as_json(given: Given, records: dict[str, Record]) -> dict[str, Any]:
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


def _print(records: dict[str, Record], form: Form) -> None:
    from fairburst.sim.report import QUEUE_HEAD, queue_rows  # noqa: PLC0415

    for policy, record in records.items():
        use = ", ".join(f"{name} {part:.1%}" for name, part in record.utilisation.items())
        sys.stdout.write(f"{policy}: {record.tasks_started} tasks in {record.end:.0f} s, use {use}\n")
        print_table(Table(QUEUE_HEAD, list(queue_rows(record)), right=frozenset(QUEUE_HEAD[1:])), form)
        sys.stdout.write("\n")


def _table4(given: Given) -> None:
    from fairburst.sim.generate import generate  # noqa: PLC0415
    from fairburst.sim.table4 import WORKLOADS, run  # noqa: PLC0415
    from fairburst.sim.trace import read_trace  # noqa: PLC0415

    name = given.trace if given.trace_format == "generated" else given.benchmark
    jobs = (
        generate(name, given.seed)
        if given.trace_format == "generated"
        else read_trace(Path(given.trace).expanduser(), given.trace_format).jobs
    )
    outcomes = {policy: run(jobs, WORKLOADS[name], policy, given.throughput_queues) for policy in given.policies}
    result = {
        policy: {
            "lq_mean_seconds": outcome.latency_mean, "tq_mean_seconds": outcome.throughput_mean, "end_seconds": outcome.stopped_at,
            "tasks_started": outcome.tasks_started,
        }
        for policy, outcome in outcomes.items()
    }  # fmt: skip
    if is_data(given.output):
        print_value({"seed": given.seed, "profile": given.profile, "policies": result}, given.output)
        return
    for policy, values in result.items():
        sys.stdout.write(f"{policy:>8}  " + "  ".join(f"{key} {value:.2f}" for key, value in values.items()) + "\n")
