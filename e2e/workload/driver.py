"""Submits DAG jobs to a cluster as Kubernetes Jobs in real time, and records their progress with its own watch.

A stage is one Job, created when the stages above it have completed. Latency queues get bursts at set times; throughput queues are kept
backlogged. The driver does not know fairburst, so the same plans run with and without it. It watches pods itself instead of using the
operator's informer, so that it can't share the operator's errors.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from e2e.workload.metrics import Amounts, BurstRecord, Sample, WorkloadRecord
from e2e.workload.stages import DagJob, Stage
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import AlreadyExists, ApiError, Gone, NotFound
from fairburst.quantity import parse_quantity

RUN_LABEL = "workload-run"
SAMPLE_SECONDS = 0.25
# The API server may restart in the middle of a run. A longer outage ends the run.
OUTAGE_SECONDS = 60.0


class WorkloadError(Exception):
    """The run can't continue: the cluster is gone, or refuses the workload."""


@dataclass(frozen=True, slots=True)
class PlannedBurst:
    """`job` starts `at` seconds after the start and should complete within `deadline_seconds`."""

    at: float
    job: DagJob
    deadline_seconds: float


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """Bursts of one latency queue; queue and namespace have the same name."""

    namespace: str
    bursts: Sequence[PlannedBurst]


@dataclass(frozen=True, slots=True)
class ThroughputPlan:
    """Work of one throughput queue.

    `jobs` are started in order while fewer than `backlog_tasks` runnable tasks are unfinished, at most `active_jobs` at a time.
    """

    namespace: str
    jobs: Iterable[DagJob]
    active_jobs: int = 8
    backlog_tasks: int = 200


# The image of a task's container on real kubelets (docs/e2e.md); it has `sleep`. KWOK reads only the annotation `run-seconds`.
WORKLOAD_IMAGE = os.environ.get("WORKLOAD_IMAGE", "busybox:1.37")


@dataclass(eq=False, slots=True)
class _JobRun:
    """A started DAG job."""

    queue: str
    name: str
    job: DagJob
    stages_done: set[int] = field(default_factory=set)
    stages_started: set[int] = field(default_factory=set)
    burst: int | None = None

    @property
    def done(self) -> bool:
        return len(self.stages_done) == len(self.job.stages)

    def startable(self) -> list[int]:
        return [
            index
            for index, stage in enumerate(self.job.stages)
            if index not in self.stages_started and self.stages_done.issuperset(stage.parents)
        ]


@dataclass(eq=False, slots=True)
class _StageRun:
    """A started stage: its pods by UID, as last seen. `running`: bound pods and the time at which each was first seen bound."""

    run: _JobRun
    index: int
    name: str
    running: dict[str, float] = field(default_factory=dict)
    succeeded: set[str] = field(default_factory=set)

    @property
    def stage(self) -> Stage:
        return self.run.job.stages[self.index]


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _PodList(msgspec.Struct):
    metadata: _Metadata
    items: list[_Pod]


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_pod_list = msgspec.json.Decoder(_PodList)
_watch_event = msgspec.json.Decoder(_WatchEvent)
_pod = msgspec.json.Decoder(_Pod)
_status_object = msgspec.json.Decoder(dict[str, Any])


class WorkloadDriver:
    """One run of a workload. Use once: `record = await WorkloadDriver(...).run(seconds)`.

    `run_name` must be a DNS label and unique on the cluster: it marks this run's Jobs and pods. Namespaces must exist.
    """

    def __init__(
        self,
        client: ApiClient,
        run_name: str,
        latency: Sequence[LatencyPlan],
        throughput: Sequence[ThroughputPlan],
        capacity: Amounts,
        *,
        most_parallel: int = 500,
    ) -> None:
        self.client = client
        self.run_name = run_name
        self.capacity = capacity
        self.queues = [plan.namespace for plan in latency] + [plan.namespace for plan in throughput]
        self.bursts: list[BurstRecord] = []
        self.samples: list[Sample] = []
        self.jobs_done: Counter[str] = Counter()
        self.tasks_done: Counter[str] = Counter()
        self.api_errors = 0
        self.overheads: list[float] = []
        self.started_pods = 0
        self._latency = latency
        self._throughput = {plan.namespace: plan for plan in throughput}
        self._jobs: dict[str, Iterator[DagJob]] = {plan.namespace: iter(plan.jobs) for plan in throughput}
        self._most_parallel = most_parallel
        self._active: dict[str, set[_JobRun]] = {queue: set() for queue in self.queues}
        self._stages: dict[tuple[str, str], _StageRun] = {}
        self._numbers: Counter[str] = Counter()
        self._group = asyncio.TaskGroup()
        self._synced = asyncio.Event()
        self._start = 0.0
        self._feeding = True
        self._last_contact = 0.0

    # --- the run ---

    @property
    def now(self) -> float:
        """Return the seconds after the start of the run; negative before it."""
        return time.monotonic() - self._start

    async def run(self, seconds: float, *, start_at: float | None = None, drain_seconds: float = 60.0) -> WorkloadRecord:
        """Submit work for `seconds`, then wait up to `drain_seconds` for open bursts, with the other queues still backlogged.

        `start_at` (seconds since the epoch) fixes the start, so that a queue's first arrival can be declared beforehand. Raises
        WorkloadError. No task of this object continues afterwards, even on errors; the Jobs stay (see `cleanup`).
        """
        self._start = time.monotonic() + (0.0 if start_at is None else start_at - time.time())
        self._last_contact = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, -self.now) + seconds + drain_seconds + OUTAGE_SECONDS), self._group as group:
                background = [group.create_task(self._watch_pods())]
                await self._synced.wait()
                await asyncio.sleep(max(0.0, -self.now))
                background.append(group.create_task(self._sample()))
                feeders = [group.create_task(self._send_bursts(plan)) for plan in self._latency]
                for queue in self._throughput:
                    self._refill(queue)
                await asyncio.sleep(max(0.0, seconds - self.now))
                await self._drain(feeders, drain_seconds)
                self._feeding = False
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        except TimeoutError as error:
            raise WorkloadError(f"run {self.run_name}: did not end within {seconds:g} s, its drain time and a minute more") from error
        return self.record(seconds)

    def record(self, seconds: float) -> WorkloadRecord:
        """Return the observations so far."""
        return WorkloadRecord(
            seconds,
            self.capacity,
            tuple(self.bursts),
            tuple(self.samples),
            dict(self.jobs_done),
            dict(self.tasks_done),
            self.api_errors,
            tuple(self.overheads),
        )

    async def cleanup(self, timeout_seconds: float = 120.0) -> None:
        """Delete this run's Jobs and pods and wait until no pod is left."""
        selector = {"labelSelector": f"{RUN_LABEL}={self.run_name}"}
        try:
            async with asyncio.timeout(timeout_seconds):
                for queue in self.queues:
                    await self._patiently(f"/apis/batch/v1/namespaces/{queue}/jobs", selector)
                    await self._patiently(f"/api/v1/namespaces/{queue}/pods", selector)
                while True:
                    pods = _pod_list.decode(await self.client.get("/api/v1/pods", selector)).items
                    if not pods:
                        return
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise WorkloadError(f"pods of run {self.run_name} were still there {timeout_seconds:g} s after their deletion") from None

    async def _drain(self, feeders: list[asyncio.Task[None]], drain_seconds: float) -> None:
        """Wait for the bursts that have begun. Later bursts are no longer sent."""
        for feeder in feeders:
            feeder.cancel()
        until = time.monotonic() + drain_seconds
        # Polling: the wait is for a condition over many jobs, and the run samples regularly anyway.
        while time.monotonic() < until and any(  # noqa: ASYNC110
            run.burst is not None for runs in self._active.values() for run in runs
        ):
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _sample(self) -> None:
        while True:
            self.samples.append(Sample(self.now, self.held(), self.wanted()))
            await asyncio.sleep(SAMPLE_SECONDS)

    def held(self) -> dict[str, Amounts]:
        """Return the resources that each queue's bound pods hold now."""
        return self._sum(lambda stage: len(stage.running))

    def wanted(self) -> dict[str, Amounts]:
        """Return each queue's present demand: every unfinished task of its started stages."""
        return self._sum(lambda stage: max(len(stage.running), min(stage.stage.tasks, self._most_parallel) - len(stage.succeeded)))

    def _sum(self, count: Any) -> dict[str, Amounts]:
        totals = dict.fromkeys(self.queues, Amounts())
        for stage in self._stages.values():
            totals[stage.run.queue] += Amounts(stage.stage.cpu, stage.stage.memory).times(count(stage))
        return totals

    # --- submitting ---

    async def _send_bursts(self, plan: LatencyPlan) -> None:
        for burst in plan.bursts:
            await asyncio.sleep(max(0.0, burst.at - self.now))
            number = len([known for known in self.bursts if known.queue == plan.namespace])
            self.bursts.append(BurstRecord(plan.namespace, number, self.now, burst.job.tasks, burst.deadline_seconds))
            self._begin(plan.namespace, burst.job, burst=len(self.bursts) - 1)

    def _refill(self, queue: str) -> None:
        """Start jobs of a throughput queue until it is backlogged again."""
        plan = self._throughput[queue]
        while self._feeding and len(self._active[queue]) < plan.active_jobs:
            runnable = sum(s.stage.tasks - len(s.succeeded) for s in self._stages.values() if s.run.queue == queue)
            job = next(self._jobs[queue], None) if runnable < plan.backlog_tasks else None
            if job is None:
                return
            self._begin(queue, job)

    def _begin(self, queue: str, job: DagJob, burst: int | None = None) -> None:
        self._numbers[queue] += 1
        run = _JobRun(queue, f"{self.run_name}-{self._numbers[queue]}", job, burst=burst)
        self._active[queue].add(run)
        self._start_stages(run)

    def _start_stages(self, run: _JobRun) -> None:
        for index in run.startable():
            run.stages_started.add(index)
            stage = _StageRun(run, index, f"{run.name}-{index}")
            self._stages[run.queue, stage.name] = stage
            self._group.create_task(self._submit(stage))

    async def _submit(self, stage: _StageRun) -> None:
        """Create the stage's Job. Retry while the API server is unavailable or busy, until the outage lasts too long."""
        body = job_object(stage.name, self.run_name, stage.stage, self._most_parallel)
        pause = 0.2
        while True:
            try:
                await self.client.create(f"/apis/batch/v1/namespaces/{stage.run.queue}/jobs", body)
                return
            except AlreadyExists:
                return  # an earlier attempt had succeeded
            except ApiError as error:
                self._note(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    def _note(self, error: ApiError) -> None:
        """Count an error; raise if a retry is useless."""
        self.api_errors += 1
        away = time.monotonic() - self._last_contact
        if not error.transient or away > OUTAGE_SECONDS:
            raise WorkloadError(f"run {self.run_name}: the cluster refuses, or has been silent for {away:.0f} s: {error}") from error

    async def _patiently(self, collection: str, selector: Mapping[str, str]) -> None:
        """Delete a collection, dependants in the background, with retries while the API server is busy."""
        while True:
            try:
                await self.client.delete(collection, selector, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
                return
            except NotFound:
                return
            except ApiError as error:
                if not error.transient:
                    raise
                await asyncio.sleep(0.5)

    # --- watching ---

    async def _watch_pods(self) -> None:
        """List, then watch; list again if the watch can't be resumed."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list_pods()
                    self._synced.set()
                async for lines in self.client.stream_batches("/api/v1/pods", self._watch_params(version)):
                    self._last_contact = time.monotonic()
                    version = self._see_lines(lines, version)
                    if not version:
                        break
            except Gone:
                version = ""
            except ApiError as error:
                self._note(error)
                await asyncio.sleep(0.5)

    def _watch_params(self, version: str) -> dict[str, str]:
        selector = f"{RUN_LABEL}={self.run_name}"
        return {"labelSelector": selector, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}

    async def _list_pods(self) -> str:
        """Update every stage to the stored state and return the list's resourceVersion."""
        pods = _pod_list.decode(await self.client.get("/api/v1/pods", {"labelSelector": f"{RUN_LABEL}={self.run_name}"}))
        self._last_contact = time.monotonic()
        stored = {pod.metadata.uid for pod in pods.items}
        for stage in self._stages.values():
            stage.running = {uid: since for uid, since in stage.running.items() if uid in stored}
        for pod in pods.items:
            self._see_pod("ADDED", pod)
        if self._synced.is_set():
            await self._repair()
        return pods.metadata.resource_version

    async def _repair(self) -> None:
        """Finish stages whose last pods ended and were deleted during a gap in the watch."""
        for stage in list(self._stages.values()):
            try:
                job = await self.client.get_json(f"/apis/batch/v1/namespaces/{stage.run.queue}/jobs/{stage.name}")
                complete = any(c["type"] == "Complete" and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
            except NotFound:
                complete = bool(stage.running or stage.succeeded)  # only finished Jobs are ever deleted; one without pods may not exist yet
            if complete and (stage.run.queue, stage.name) in self._stages:
                self._finish(stage)

    def _see_lines(self, lines: list[bytes], version: str) -> str:
        """Apply watch events. Return the version to resume from, empty if a new list is needed."""
        for line in lines:
            event = _watch_event.decode(line)
            if event.type == "ERROR":
                return ""
            pod = _pod.decode(event.object)
            version = pod.metadata.resource_version
            if event.type != "BOOKMARK":
                self._see_pod(event.type, pod)
        for queue in self._throughput:
            self._refill(queue)
        return version

    def _see_pod(self, event: str, pod: _Pod) -> None:
        stage = self._stages.get((pod.metadata.namespace, pod.metadata.labels.get("batch.kubernetes.io/job-name", "")))
        if stage is None:
            return
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded":
            if uid in stage.running:
                self.overheads.append(self.now - stage.running[uid] - stage.stage.seconds)
            stage.succeeded.add(uid)
        if event == "DELETED" or pod.status.phase in {"Succeeded", "Failed"}:
            stage.running.pop(uid, None)
        elif pod.spec.node_name and uid not in stage.running:
            stage.running[uid] = self.now
            self.started_pods += 1
        self._note_burst(stage)
        if len(stage.succeeded) >= stage.stage.tasks:
            self._finish(stage)

    def _note_burst(self, stage: _StageRun) -> None:
        """Record when the last stage of a burst had all its pods bound."""
        run = stage.run
        if run.burst is None or len(run.stages_started) < len(run.job.stages):
            return
        record = self.bursts[run.burst]
        others_bound = all(
            len(other.running) + len(other.succeeded) >= other.stage.tasks for other in self._stages.values() if other.run is run
        )
        if record.bound_at is None and others_bound:
            self.bursts[run.burst] = replace(record, bound_at=self.now)

    def _finish(self, stage: _StageRun) -> None:
        """Complete a stage: start the stages that waited for it, or end its job."""
        run = stage.run
        del self._stages[run.queue, stage.name]
        run.stages_done.add(stage.index)
        self.tasks_done[run.queue] += stage.stage.tasks
        if run.done:
            self._active[run.queue].discard(run)
            self.jobs_done[run.queue] += 1
            if run.burst is not None:
                record = self.bursts[run.burst]
                self.bursts[run.burst] = replace(record, completed_at=self.now, bound_at=record.bound_at or self.now)
        elif self._feeding or run.burst is not None:
            self._start_stages(run)


def job_object(name: str, run_name: str, stage: Stage, most_parallel: int) -> dict[str, Any]:
    """Return the Job of one stage."""
    requests = {"cpu": f"{round(stage.cpu * 1000)}m", "memory": str(round(stage.memory))}
    container = {
        "name": "task",
        "image": WORKLOAD_IMAGE,
        "command": ["sleep", f"{stage.seconds:g}"],
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {RUN_LABEL: run_name}},
        "spec": {
            "completions": stage.tasks,
            "parallelism": min(stage.tasks, most_parallel),
            "backoffLimit": 10_000,  # an evicted pod is replaced, however often
            "ttlSecondsAfterFinished": 10,  # keeps the cluster light, and outlives a short watch gap
            "template": {
                "metadata": {"labels": {RUN_LABEL: run_name}, "annotations": {"run-seconds": f"{stage.seconds:.3f}s"}},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "containers": [container],
                },
            },
        },
    }


async def cluster_capacity(client: ApiClient) -> Amounts:
    """Return the allocatable of all ready, schedulable, untainted nodes, less the present requests of their pods."""
    total, counted = Amounts(), set()
    for node in (await client.get_json("/api/v1/nodes"))["items"]:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        if ready and not node["spec"].get("unschedulable") and not node["spec"].get("taints"):
            counted.add(node["metadata"]["name"])
            total += _amounts(node["status"]["allocatable"])
    unfinished = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    for pod in (await client.get_json("/api/v1/pods", unfinished))["items"]:
        if pod["spec"].get("nodeName") in counted:
            for container in pod["spec"]["containers"]:
                total += _amounts(container.get("resources", {}).get("requests", {})).times(-1)
    return total


def _amounts(quantities: Mapping[str, str]) -> Amounts:
    return Amounts(float(parse_quantity(quantities.get("cpu", "0"))), float(parse_quantity(quantities.get("memory", "0"))))


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first error of a group, at any depth."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
