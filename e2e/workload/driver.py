"""Submits DAG jobs to a cluster as Kubernetes Jobs in real time, and records their progress with its own watch.

A stage is one Job, created when the stages above it have completed. Latency queues get bursts at set times; throughput queues are kept
backlogged. The driver does not know fairburst, so the same plans run with and without it. It watches pods itself instead of using the
operator's informer, so that it can't share the operator's errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from e2e.workload.job_object import RUN_LABEL, job_object
from e2e.workload.metrics import Amounts, Sample, WorkloadRecord
from e2e.workload.plans import LatencyPlan, ThroughputPlan
from e2e.workload.pods import decode_event, decode_pod, decode_pods
from e2e.workload.progress import Progress, StageRun
from e2e.workload.stages import DagJob
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import AlreadyExists, ApiError, Gone, NotFound

SAMPLE_SECONDS = 0.25
# The API server may restart in the middle of a run. A longer outage ends the run.
OUTAGE_SECONDS = 60.0


class WorkloadError(Exception):
    """The run can't continue: the cluster is gone, or refuses the workload."""


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
        self.progress = Progress(run_name, self.queues, most_parallel)
        self.samples: list[Sample] = []
        self.api_errors = 0
        self._latency = latency
        self._throughput = {plan.namespace: plan for plan in throughput}
        self._jobs: dict[str, Iterator[DagJob]] = {plan.namespace: iter(plan.jobs) for plan in throughput}
        self._most_parallel = most_parallel
        self._group = asyncio.TaskGroup()
        self._synced = asyncio.Event()
        self._start = 0.0
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
                self.progress.feeding = False
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        except TimeoutError as error:
            raise WorkloadError(f"run {self.run_name}: did not end within {seconds:g} s, its drain time and a minute more") from error
        return self.record(seconds)

    def record(self, seconds: float) -> WorkloadRecord:
        """Return the observations so far."""
        progress = self.progress
        return WorkloadRecord(
            seconds,
            self.capacity,
            tuple(progress.bursts),
            tuple(self.samples),
            dict(progress.jobs_done),
            dict(progress.tasks_done),
            self.api_errors,
            tuple(progress.overheads),
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
                    pods = decode_pods(await self.client.get("/api/v1/pods", selector)).items
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
        while time.monotonic() < until and self.progress.has_open_burst():  # noqa: ASYNC110
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _sample(self) -> None:
        while True:
            self.samples.append(Sample(self.now, self.progress.held(), self.progress.wanted()))
            await asyncio.sleep(SAMPLE_SECONDS)

    # --- submitting ---

    async def _send_bursts(self, plan: LatencyPlan) -> None:
        for burst in plan.bursts:
            await asyncio.sleep(max(0.0, burst.at - self.now))
            self._submit_all(self.progress.begin_burst(plan.namespace, burst, self.now))

    def _refill(self, queue: str) -> None:
        """Start jobs of a throughput queue until it is backlogged again."""
        plan, progress = self._throughput[queue], self.progress
        while progress.feeding and len(progress.active[queue]) < plan.active_jobs:
            job = next(self._jobs[queue], None) if progress.runnable(queue) < plan.backlog_tasks else None
            if job is None:
                return
            self._submit_all(progress.begin(queue, job))

    def _submit_all(self, stages: Iterable[StageRun]) -> None:
        for stage in stages:
            self._group.create_task(self._submit(stage))

    async def _submit(self, stage: StageRun) -> None:
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
        pods = decode_pods(await self.client.get("/api/v1/pods", {"labelSelector": f"{RUN_LABEL}={self.run_name}"}))
        self._last_contact = time.monotonic()
        self.progress.forget_others({pod.metadata.uid for pod in pods.items})
        for pod in pods.items:
            self._submit_all(self.progress.see_pod("ADDED", pod, self.now))
        if self._synced.is_set():
            await self._repair()
        return pods.metadata.resource_version

    async def _repair(self) -> None:
        """Finish stages whose last pods ended and were deleted during a gap in the watch."""
        for stage in self.progress.stages():
            try:
                job = await self.client.get_json(f"/apis/batch/v1/namespaces/{stage.run.queue}/jobs/{stage.name}")
                complete = any(c["type"] == "Complete" and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
            except NotFound:
                complete = bool(stage.running or stage.succeeded)  # only finished Jobs are ever deleted; one without pods may not exist yet
            if complete:
                self._submit_all(self.progress.finish(stage, self.now))

    def _see_lines(self, lines: list[bytes], version: str) -> str:
        """Apply watch events. Return the version to resume from, empty if a new list is needed."""
        for line in lines:
            event = decode_event(line)
            if event.type == "ERROR":
                return ""
            pod = decode_pod(event.object)
            version = pod.metadata.resource_version
            if event.type != "BOOKMARK":
                self._submit_all(self.progress.see_pod(event.type, pod, self.now))
        for queue in self._throughput:
            self._refill(queue)
        return version


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first error of a group, at any depth."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
