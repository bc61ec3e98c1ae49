"""The operator at work for ten minutes on a separate control plane: its memory, tasks, open files and log, and a restart.

A tenth of the queues have a burst each minute, the others run Jobs one after the other (`benchmarks.scale.scenarios.steady`). The operator
is restarted near the end. Quotas change all the time with the work, so a restart is compared with the seconds before it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import Measurement, as_found, benchmark, figure, processor_seconds
from benchmarks.scale.run import declare, each, warm
from benchmarks.scale.scenarios import Workload, steady
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import WorkloadRecord
from fairburst.kube.api.client import ApiClient

QUEUES, SECONDS, RESTARTED_BEFORE_END = 100, 600.0, 60.0
SAMPLE_SECONDS, WATCHED_SECONDS = 10.0, 10.0
MIB = 1024.0**2
LONGEST_LINE = 500
FLAT = 1.05  # the last quarter of the time before the restart to the second one


@dataclass(frozen=True, slots=True)
class Use:
    """What the process has at one moment. memory: MiB."""

    memory: float
    tasks: float
    files: float

    @classmethod
    def of(cls, metrics: Mapping[str, float]) -> Use:
        files = metrics["process_open_fds"]
        return cls(metrics["process_resident_memory_bytes"] / MIB, metrics["fairburst_asyncio_tasks"], files)


@benchmark
def soak() -> Iterator[Measurement]:
    """Measure what ten minutes of work leave behind in the operator, and the quotas that a restart changes."""
    yield from soak_of(QUEUES, SECONDS)


def soak_of(queues: int, seconds: float) -> Iterator[Measurement]:
    """Measure it for so many queues and seconds."""
    work = steady(queues, seconds)
    with Cluster.start("soak", **work.cluster, report=lambda _: None) as cluster:
        yield from as_found(_measured(cluster, work, seconds))


async def _measured(cluster: Cluster, work: Workload, seconds: float) -> AsyncIterator[Measurement]:
    what = f"soak: {len(work.queues)} queues, {seconds / 60:g} minutes"
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        await each([client.create("/api/v1/namespaces", {"metadata": {"name": name}}) for name in work.queues])
        with OperatorProcess(cluster, {"log": {"level": "INFO", "json": True}}, "soak") as operator:
            await declare(client, work, "Quota")
            await warm(client, work.queues[0])
            driver = WorkloadDriver(client, "soak", work.latency, work.throughput, work.capacity)
            running = asyncio.create_task(driver.run(seconds, drain_seconds=30.0))
            began = processor_seconds(operator.pid)
            uses = await _sampled(operator, running, seconds - RESTARTED_BEFORE_END)
            spent = processor_seconds(operator.pid) - began
            before, after = await _restarted(operator, client)
            record = await running
            log = operator.log.read_text()
    for name in ("memory", "tasks", "files"):
        early, late = _quarters([getattr(use, name) for use in uses])
        yield figure(f"{what}: {name}, in the second quarter", early, "MiB" if name == "memory" else "")
        yield figure(f"{what}: {name}, the last quarter to the second", late / early, "ratio", FLAT)
    yield figure(f"{what}: processor time", spent / (seconds - RESTARTED_BEFORE_END), "cores")
    yield figure(f"{what}: tasks finished", float(sum(record.tasks_done.values())), "")
    yield figure(f"{what}: bursts met", sum(burst.met for burst in record.bursts) / max(1, len(record.bursts)), "ratio", 1.0, at_least=True)
    yield figure(f"{what}: quotas that changed in the {WATCHED_SECONDS:g} s before a restart", before, "")
    yield figure(f"{what}: quotas that changed in the {WATCHED_SECONDS:g} s after it", after, "")
    warnings = warned(log)
    for line in log.splitlines():
        if warned(line):
            print(line[:LONGEST_LINE], file=sys.stderr)
    yield figure(f"{what}: log lines from WARNING on {dict(warnings) or ''}".rstrip(), float(warnings.total()), "", 0.0)


async def _sampled(operator: OperatorProcess, running: asyncio.Task[WorkloadRecord], seconds: float) -> list[Use]:
    """Return the operator's use every few seconds, for so many. Raise the error of the workload's task if it has one."""
    uses, until = list[Use](), time.monotonic() + seconds
    while time.monotonic() < until:
        if running.done():
            running.result()
        await asyncio.sleep(SAMPLE_SECONDS)
        uses.append(Use.of(await asyncio.to_thread(operator.metrics)))
    return uses


def _quarters(values: Sequence[float]) -> tuple[float, float]:
    """Return the greatest value of the second quarter, and of the last one."""
    quarter = max(1, len(values) // 4)
    return max(values[quarter : 2 * quarter]), max(values[-quarter:])


async def _restarted(operator: OperatorProcess, client: ApiClient) -> tuple[float, float]:
    """Restart the operator; return how many quotas changed in the seconds before, and from then until some seconds after it was ready."""
    first = await _quotas(client)
    await asyncio.sleep(WATCHED_SECONDS)
    last = await _quotas(client)
    await asyncio.to_thread(operator.stop)
    stopped = await _quotas(client)
    await asyncio.to_thread(operator.start)
    await asyncio.sleep(WATCHED_SECONDS)
    return _changed(first, last), _changed(stopped, await _quotas(client))


async def _quotas(client: ApiClient) -> dict[tuple[str, str], object]:
    """Return what each quota permits."""
    items = (await client.get_json("/api/v1/resourcequotas"))["items"]
    return {(item["metadata"]["namespace"], item["metadata"]["name"]): item["spec"].get("hard", {}) for item in items}


def _changed(before: Mapping[tuple[str, str], object], after: Mapping[tuple[str, str], object]) -> float:
    return float(sum(before.get(key) != after.get(key) for key in before.keys() | after.keys()))


def warned(log: str) -> Counter[str]:
    """Count the events of a log in JSON from WARNING on. A line that is no JSON counts as itself."""
    found = Counter[str]()
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            entry = {"level": "ERROR", "event": line}
        if entry["level"] not in {"DEBUG", "INFO"}:
            found[entry["event"]] += 1
    return found
