"""One run of a workload on a separate control plane, with or without fairburst, and its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measure import processor_seconds
from benchmarks.peers import audit
from benchmarks.scale.scenarios import Workload
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import WorkloadRecord, average_dominant_shares
from e2e.workload.progress import Progress
from fairburst.kube.api.client import ApiClient

WARM_UP_SECONDS = 20.0
LONGEST_SECONDS = 420.0
LISTED_A_SECOND = 500  # Jobs, while a run waits for their completion
SLOWEST_A_SECOND = 6  # pods, of a run that takes longer than that
# Beside the enforcement modes: a ResourceQuota in each namespace that refuses nothing, and no fairburst; and what the operator has written,
# quotas and policies, while it is stopped.
PLAIN_QUOTA, STOPPED = "ResourceQuota", "Stopped"


@dataclass(slots=True)
class Outcome:
    """The outcome of one run.

    used: mean fraction of the cluster that ran work, after a warm-up of `WARM_UP_SECONDS`.
    used_later: the same in the second half of the measured time, when no queue's first Jobs are being created any more.
    tasks: number finished in the measured time.
    bound_seconds: from the first Job to the last pod bound (or ended). None for endless work, infinite if it took too long.
    complete_seconds: to the last Job complete, for work that runs to its end. The Job controller may be far behind the pods by then.
    refused: creations of pods that a quota refused.
    created: seconds that the API server took for each pod that was created.
    conflicts: writes that it refused because the object had changed; most are of quotas.
    writes: write requests, by user.
    ours: those of the operator, by verb and resource.
    operator_seconds, server_seconds: processor time of the operator and of the API server.
    idle: fraction of the cluster's cpu that was idle, by the operator's causes, from the first Job to the end.
    """

    used: float = 0.0
    used_later: float = 0.0
    tasks: int = 0
    bound_seconds: float | None = None
    complete_seconds: float | None = None
    refused: int = 0
    created: list[float] = field(default_factory=list)
    conflicts: int = 0
    writes: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    operator_seconds: float = 0.0
    server_seconds: float = 0.0
    idle: dict[str, float] = field(default_factory=dict)


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run this many processes that use a core each, at our priority."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run(name: str, work: Workload, mode: str | None, seconds: float) -> Outcome:
    """Run the workload; `mode` is an enforcement mode, `PLAIN_QUOTA` or `STOPPED`, or None for a cluster with none of it."""
    with Cluster.start(name, **work.cluster, audit=True, report=lambda _: None) as cluster:
        return asyncio.run(_run(cluster, work, mode, seconds))


async def _run(cluster: Cluster, work: Workload, mode: str | None, seconds: float) -> Outcome:
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        await each([client.create("/api/v1/namespaces", {"metadata": {"name": name}}) for name in work.queues])
        if mode is None or mode == PLAIN_QUOTA:
            if mode == PLAIN_QUOTA:
                await give_quotas(client, work)
            await warm(client, work.queues[0])
            return await _fed(cluster, client, work, seconds, None)
        operator = OperatorProcess(cluster, {"log": {"level": "INFO"}}, "scale")
        with operator:
            await declare(client, work, "Quota" if mode == STOPPED else mode)
            if mode == STOPPED:
                operator.stop()
            await warm(client, work.queues[0])
            return await _fed(cluster, client, work, seconds, None if mode == STOPPED else operator)


async def give_quotas(client: ApiClient, work: Workload) -> None:
    """Create a ResourceQuota in each namespace with room for the whole cluster; return once each has its status."""
    hard = {"requests.cpu": f"{work.capacity.cpu:g}", "requests.memory": f"{work.capacity.memory:.0f}"}
    body = {"metadata": {"name": "plain"}, "spec": {"hard": hard}}
    await each([client.create(f"/api/v1/namespaces/{name}/resourcequotas", body) for name in work.queues])
    await _all_have(client, "hard", "/api/v1/resourcequotas")


async def warm(client: ApiClient, namespace: str) -> None:
    """Create a Job and a pod without storing them (dry run).

    An API server parses the schema of a kind when a policy patches the first object of that kind. It does that once in its life, and takes
    0.3 s of processor time for each kind.
    """
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}]}
    await client.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "warm"}, "spec": pod}, {"dryRun": "All"})
    job = {"metadata": {"name": "warm"}, "spec": {"template": {"spec": pod}}}
    await client.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job, {"dryRun": "All"})


async def _fed(cluster: Cluster, client: ApiClient, work: Workload, seconds: float, operator: OperatorProcess | None) -> Outcome:
    driver = WorkloadDriver(client, "scale", work.latency, work.throughput, work.capacity)
    if cluster.audit_log is None:
        raise SystemExit("the control plane keeps no audit log")
    log, before = audit.AuditLog(cluster.audit_log), _processor_seconds(cluster, operator)
    log.skip()
    outcome = Outcome()
    started, idle = time.monotonic(), {} if operator is None else operator.idle_seconds()
    if work.pods is None:
        record = await driver.run(seconds, drain_seconds=0.0)
        outcome.used = _used(record, work, WARM_UP_SECONDS, seconds)
        outcome.used_later = _used(record, work, (WARM_UP_SECONDS + seconds) / 2, seconds)
        outcome.tasks = len(record.overheads)
    else:
        outcome.bound_seconds, outcome.complete_seconds = await _until_bound(driver, client, work)
    after = _processor_seconds(cluster, operator)
    if operator is not None:
        took = time.monotonic() - started
        outcome.idle = {cause: (seconds - idle.get(cause, 0.0)) / took for cause, seconds in operator.idle_seconds().items()}
    outcome.operator_seconds, outcome.server_seconds = after[0] - before[0], after[1] - before[1]
    _read_audit(log, outcome)
    return outcome


def _used(record: WorkloadRecord, work: Workload, start: float, end: float) -> float:
    return sum(average_dominant_shares(record.samples, work.capacity, start, end).values())


async def _until_bound(driver: WorkloadDriver, client: ApiClient, work: Workload) -> tuple[float, float | None]:
    """Return the seconds from the first Job to the last pod bound, or ended (infinite if that takes too long), and to the last Job's end
    for work that runs to its end.
    """
    longest = max(LONGEST_SECONDS, (work.pods or 0) / SLOWEST_A_SECOND)
    running = asyncio.create_task(driver.run(longest, drain_seconds=0.0))
    progress = driver.progress
    try:
        while not running.done():
            await asyncio.sleep(0.1)
            if _has_come(work, progress):
                bursts = progress.bursts
                bound = max(one.bound_at or 0.0 for one in bursts) - bursts[0].arrival if bursts else driver.now
                return bound, await _until_complete(driver, client, longest) if work.finish else None
        running.result()
        return float("inf"), None
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def _has_come(work: Workload, progress: Progress) -> bool:
    """Return whether the run has come to its end: each burst is bound, or as many pods are bound or have finished as there are."""
    if work.latency:
        return len(progress.bursts) == len(work.latency) and all(burst.bound_at is not None for burst in progress.bursts)
    return (sum(progress.tasks_done.values()) if work.finish else progress.started_pods) >= (work.pods or 0)


async def _until_complete(driver: WorkloadDriver, client: ApiClient, longest: float) -> float:
    """Return the seconds from the first Job until all are complete, or were deleted as such.

    To list thousands of Jobs takes the API server a second of processor time, so the more are left, the rarer it is.
    """
    while driver.now < longest:
        query = {"resourceVersion": "0", "fieldSelector": "status.successful=0"}
        left = len((await client.get_json("/apis/batch/v1/jobs", query))["items"])
        if not left:
            jobs = (await client.get_json("/apis/batch/v1/jobs", {"resourceVersion": "0"}))["items"]
            left = sum(not (job.get("status") or {}).get("completionTime") for job in jobs)
        if not left:
            return driver.now
        await asyncio.sleep(max(0.5, left / LISTED_A_SECOND))
    return float("inf")


async def declare(client: ApiClient, work: Workload, mode: str) -> None:
    """Create the queues; return once each has its class and its quota."""
    hard = {plan.namespace for plan in work.latency}
    bodies = []
    for name in work.queues:
        spec: dict[str, Any] = {"enforcement": mode}
        plural, kind = "throughputqueues", "ThroughputQueue"
        if name in hard:
            plural, kind = "latencyqueues", "LatencyQueue"
            resources = {"cpu": f"{work.hard:g}", "memory": f"{work.hard:g}Gi"}
            burst = {"resources": resources, "durationSeconds": work.burst_seconds}
            spec |= {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": work.apart_seconds}}}
            spec["weight"] = max(1, len(work.queues))
        body = {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        bodies.append(client.create(f"/apis/fairburst.dev/v1alpha1/namespaces/{name}/{plural}", body))
    await each(bodies)
    await _all_have(client, "class", *(f"/apis/fairburst.dev/v1alpha1/{plural}" for plural in ("latencyqueues", "throughputqueues")))
    await asyncio.sleep(2.0)


async def _all_have(client: ApiClient, name: str, *paths: str) -> None:
    """Wait until each object of these lists has the field in its status."""
    deadline = time.monotonic() + 180
    while True:
        lists = [await client.get_json(path) for path in paths]
        without = sum(not (item.get("status") or {}).get(name) for one in lists for item in one["items"])
        if not without:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"after 180 s {without} of {', '.join(paths)} have no {name}")
        await asyncio.sleep(0.5)


async def each(actions: list[Any], size: int = 32) -> None:
    for start in range(0, len(actions), size):
        await asyncio.gather(*actions[start : start + size])


def _processor_seconds(cluster: Cluster, operator: OperatorProcess | None) -> tuple[float, float]:
    """Return the processor time of the operator and of the API server."""
    server = cluster.status()["kube-apiserver"]
    return 0.0 if operator is None else processor_seconds(operator.pid), 0.0 if server is None else processor_seconds(server)


def _read_audit(log: audit.AuditLog, outcome: Outcome) -> None:
    for event in log.new_events():
        user, what, code = event.user.username.rsplit(":", 1)[-1], event.object_ref, event.response_status.code
        outcome.writes[user] += 1
        if user == "fairburst":
            outcome.ours["/".join(filter(None, (event.verb, what.resource, what.subresource)))] += 1
        outcome.conflicts += code == 409
        if event.verb == "create" and what.resource == "pods" and not what.subresource:
            outcome.refused += code == 403
            if code == 201:
                outcome.created.append(audit.seconds(event.stage_timestamp) - audit.seconds(event.request_received_timestamp))
