"""Readers of traces, one for each format, with a common result. A file with an error is refused as a whole.

The native format is JSON Lines, version 1. The first line is the header, every other line one job:

    {"fairburst-trace": 1, "resources": ["cpu", "memory"]}
    {"name": "report-1", "queue": "reports", "arrival": 30.0,
     "stages": [{"name": "map", "tasks": 8, "seconds": 25, "demand": [1, 2.5]},
                {"name": "reduce", "tasks": 1, "seconds": 2, "demand": [2, 1], "parents": ["map"]}]}

`arrival` (seconds from the start), `queue` and `parents` are optional. Demands are those of one task, in the cluster's units.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairburst.sim.errors import TraceError
from fairburst.sim.stage_list import read_stage_list, read_text
from fairburst.sim.workload import DagJob, Stage, topological_order

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs with demands over `resources`."""

    resources: tuple[str, ...]
    jobs: tuple[DagJob, ...]


def read_trace(path: Path, trace_format: str) -> Trace:
    """Read a trace. Raises TraceError with file, line, what was expected and what was found."""
    if trace_format not in FORMATS:
        raise TraceError(f"expected a trace format among {', '.join(FORMATS)}, found {trace_format!r}")
    return FORMATS[trace_format](path)


# --- native --------------------------------------------------------------------------------------------------------------------


def _read_native(path: Path) -> Trace:
    lines = [(number, text) for number, text in enumerate(read_text(path).splitlines(), 1) if text.strip()]
    if not lines:
        raise TraceError(f"{path}:1: expected the header {{'fairburst-trace': {FORMAT_VERSION}, ...}}, found an empty file")
    head = _Line(path, *lines[0])
    version = head.get("fairburst-trace", int, "a version")
    if version != FORMAT_VERSION:
        head.fail(f"version {FORMAT_VERSION} of the format", str(version))
    resources = tuple(head.get("resources", list, "a list of resource names"))
    if not resources or not all(isinstance(name, str) for name in resources) or len(set(resources)) != len(resources):
        head.fail("a list of distinct resource names", str(list(resources)))
    head.only("fairburst-trace", "resources")
    jobs = tuple(_native_job(_Line(path, *line), len(resources)) for line in lines[1:])
    if not jobs:
        raise TraceError(f"{path}: expected at least one job after the header, found none")
    return Trace(resources, jobs)


class _Line:
    """One JSON object and its place in the file."""

    def __init__(self, path: Path, number: int, text: str) -> None:
        self.where = f"{path}:{number}"
        try:
            self.fields = json.loads(text)
        except ValueError as error:
            raise TraceError(f"{self.where}: expected one JSON object a line, found: {error}") from error
        if not isinstance(self.fields, dict):
            self.fail("a JSON object", text[:60])

    def fail(self, expected: str, found: str) -> None:
        raise TraceError(f"{self.where}: expected {expected}, found {found}")

    def get(self, name: str, kind: type | tuple[type, ...], what: str, fields: Mapping[str, Any] | None = None) -> Any:
        value = (self.fields if fields is None else fields).get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            self.fail(f"{what} as {name!r}", repr(value))
        return value

    def amount(self, value: object, what: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
            self.fail(f"{what} as a number of at least 0", repr(value))
        return float(value)  # type: ignore[arg-type]

    def only(self, *names: str, fields: Mapping[str, Any] | None = None) -> None:
        unknown = sorted(set(self.fields if fields is None else fields) - set(names))
        if unknown:
            self.fail(f"only {', '.join(names)}", f"{unknown[0]!r}")


def _native_job(line: _Line, width: int) -> DagJob:
    line.only("name", "queue", "arrival", "stages")
    name = line.get("name", str, "a name")
    raw = line.get("stages", list, "a list of stages")
    if not raw or not all(isinstance(item, dict) for item in raw):
        line.fail("at least one stage, each an object", repr(raw)[:80])
    position = {item.get("name"): index for index, item in enumerate(raw)}
    if len(position) != len(raw):
        line.fail("distinct stage names", repr([item.get("name") for item in raw]))
    stages = tuple(_native_stage(line, item, position, width) for item in raw)
    try:
        topological_order(stages)
    except ValueError as cycle:
        line.fail("parents without a cycle", str(cycle))
    arrival = line.fields.get("arrival")
    queue = line.get("queue", str, "a queue's name") if "queue" in line.fields else None
    return DagJob(name, stages, None if arrival is None else line.amount(arrival, "the arrival"), queue)


def _native_stage(line: _Line, item: Mapping[str, Any], position: Mapping[str, int], width: int) -> Stage:
    line.only("name", "tasks", "seconds", "demand", "parents", fields=item)
    name = line.get("name", str, "a stage's name", item)
    tasks = line.get("tasks", int, "a number of tasks", item)
    if tasks < 1:
        line.fail(f"at least one task in stage {name!r}", str(tasks))
    demand = line.get("demand", list, "a list of demands", item)
    if len(demand) != width:
        line.fail(f"{width} demands in stage {name!r}, one a resource", str(len(demand)))
    above = item.get("parents", [])
    for parent in above if isinstance(above, list) else [above]:
        if parent not in position:
            line.fail(f"parents of stage {name!r} among {', '.join(map(str, position))}", repr(parent))
    amounts = tuple(line.amount(amount, f"a demand of stage {name!r}") for amount in demand)
    return Stage(
        name, tasks, line.amount(item.get("seconds"), f"the seconds of stage {name!r}"), amounts, tuple(position[each] for each in above)
    )


# --- others --------------------------------------------------------------------------------------------------------------------


def _read_stages(path: Path) -> Trace:
    return Trace(("cpu", "memory", "disk-in", "disk-out", "network-in", "network-out"), tuple(read_stage_list(path)))


def read_tpch_profiles(folder: Path, scale: str = "50g", max_cores: int = 50, memory: float = 2.0) -> Trace:
    """Read the 22 TPC-H queries measured on Spark: graphs from queries.yaml, task counts and mean task times from the profiles.

    The measurements used one core per task. They do not include memory, so every task requests `memory` units.
    """
    source = folder / "cloudlab_22query_tpch_profiles.json"
    try:
        profiles = json.loads(read_text(source))
        graphs = yaml.safe_load(read_text(folder / "queries.yaml"))["graphs"]
    except (ValueError, yaml.YAMLError, KeyError, TypeError) as error:
        raise TraceError(f"{folder}: expected profiles as JSON and queries.yaml with `graphs`, found: {error}") from error
    jobs = []
    for graph in graphs:
        name = str(graph["name"]).lower()
        key = f"tpch_{name}_{scale}_maxCores_{max_cores}"
        if key not in profiles:
            sizes = sorted({profile.split("_", 2)[2] for profile in profiles})
            raise TraceError(f"{source}: expected a profile {key}, found none; sizes there: {', '.join(sizes)}")
        measured = {stage["stage_id"]: stage for stage in profiles[key]}
        children = {node["name"]: node.get("children", []) for node in graph["graph"]}
        if set(children) != set(measured):
            raise TraceError(
                f"{folder}: {key}: expected stages {sorted(measured)} as in the profile, found {list(children)} in queries.yaml"
            )
        position = {stage: index for index, stage in enumerate(children)}
        stages = tuple(
            Stage(
                f"stage-{stage}",
                measured[stage]["num_tasks"],
                measured[stage]["average_runtime_ms"] / 1000,
                (1.0, memory),
                tuple(position[parent] for parent, below in children.items() if stage in below),
            )
            for stage in children
        )
        jobs.append(DagJob(name, stages))
    return Trace(("cpu", "memory"), tuple(jobs))


# SWIM records bytes, not tasks. Assumptions: one map per block, one reduce per shuffled gigabyte, and a disk's reading rate.
SWIM_BLOCK_BYTES = 128 * 2**20
SWIM_REDUCE_BYTES = 2**30
SWIM_BYTES_A_SECOND = 32 * 2**20


def _read_swim(path: Path) -> Trace:
    """Read a SWIM sample: recorded arrivals, stages derived from bytes with the constants above; one core, two units of memory a task."""
    jobs = []
    for number, text in enumerate(read_text(path).splitlines(), 1):
        fields = text.split("\t")
        try:
            if len(fields) != 6:
                raise ValueError(f"{len(fields)} fields")
            arrival, _, read, shuffled, written = (float(field) for field in fields[1:])
            if not all(math.isfinite(value) and value >= 0 for value in (arrival, read, shuffled, written)):
                raise ValueError(text[:60])
        except ValueError as error:
            raise TraceError(
                f"{path}:{number}: expected job, submit time, gap and three sizes in bytes, tab separated, found {error}"
            ) from error
        jobs.append(DagJob(fields[0], _swim_stages(read, shuffled, written), arrival))
    if not jobs:
        raise TraceError(f"{path}: expected at least one job, found an empty file")
    return Trace(("cpu", "memory"), tuple(jobs))


def _swim_stages(read: float, shuffled: float, written: float) -> tuple[Stage, ...]:
    maps = max(1, math.ceil(read / SWIM_BLOCK_BYTES))
    stages = [Stage("map", maps, max(1.0, read / maps / SWIM_BYTES_A_SECOND), (1.0, 2.0))]
    if shuffled > 0:
        reduces = max(1, math.ceil(shuffled / SWIM_REDUCE_BYTES))
        seconds = max(1.0, (shuffled + written) / reduces / SWIM_BYTES_A_SECOND)
        stages.append(Stage("reduce", reduces, seconds, (1.0, 2.0), (0,)))
    return tuple(stages)


# Rates of an inference request: tokens produced a second, and the much higher rate for reading its context.
AZURE_TOKENS_A_SECOND = 50.0
AZURE_CONTEXT_TOKENS_A_SECOND = 5000.0


def _read_azure(path: Path) -> Trace:
    """Read an Azure inference trace: a request is a one-task job that lasts as long as its tokens and needs one unit per resource."""
    lines = list(csv.reader(read_text(path).splitlines()))
    if not lines or [name.strip() for name in lines[0]] != ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]:
        raise TraceError(
            f"{path}:1: expected the header TIMESTAMP,ContextTokens,GeneratedTokens, found {','.join(lines[0]) if lines else 'nothing'}"
        )
    jobs, first = [], None
    for number, fields in enumerate(lines[1:], 2):
        try:
            written, context, generated = fields
            # Times have seven decimals. datetime reads six, and 100 ns do not matter.
            time = dt.datetime.strptime(written[:26], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=dt.UTC).timestamp()
            seconds = int(context) / AZURE_CONTEXT_TOKENS_A_SECOND + int(generated) / AZURE_TOKENS_A_SECOND
        except ValueError as error:
            raise TraceError(f"{path}:{number}: expected a time and two counts of tokens, found {','.join(fields)[:60]!r}") from error
        first = time if first is None else first
        jobs.append(DagJob(f"request-{number - 1}", (Stage("serve", 1, seconds, (1.0, 1.0)),), max(0.0, time - first)))
    if not jobs:
        raise TraceError(f"{path}: expected at least one request, found none")
    return Trace(("cpu", "memory"), tuple(jobs))


FORMATS: Mapping[str, Callable[[Path], Trace]] = {
    "native": _read_native, "stages": _read_stages, "dagsched-tpch": read_tpch_profiles, "swim": _read_swim, "azure": _read_azure,
}  # fmt: skip


def in_queues(jobs: Sequence[DagJob], count: int) -> Iterator[tuple[str, DagJob]]:
    """Yield (queue, job): the queue that the trace names, otherwise throughput queues in turn."""
    turn = 0
    for job in jobs:
        if job.queue is not None:
            yield job.queue, job
            continue
        yield f"tq-{turn % count}", job
        turn += 1
