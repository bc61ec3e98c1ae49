"""Simulates Jobs whose speed follows a known curve: with x running pods, a Job makes progress p(x) times its progress alone at full size.

KWOK ends a pod once its annotation `run-seconds` is set. Here pods start without it. At every tick each running pod of a Job with x of them
is credited an equal part of p(x), and it ends when its share of the work is done. Pods thus speed up and slow down with the Job's present
size, like those of a real data-parallel job, and a deleted pod loses its work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairburst.kube.api.client import ApiClient

TICK_SECONDS = 0.5
JOB_LABEL = "batch.kubernetes.io/job-name"


@dataclass(slots=True)
class PlayedJob:
    """A Job. `progress(x)` is in units of its progress alone, which is `tasks_per_second`.

    `work`: seconds of running alone done so far, net of the work of deleted pods, which is `lost`.
    """

    namespace: str
    name: str
    progress: Callable[[int], float]
    tasks_per_second: float
    work: float = 0.0
    lost: float = 0.0
    running: int = 0
    tasks: dict[str, float] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)


class SpeedUpPlayer:
    """Simulates the Jobs until cancelled."""

    def __init__(self, client: ApiClient, jobs: list[PlayedJob]) -> None:
        self._client = client
        self.jobs = jobs

    async def run(self) -> None:
        """Tick repeatedly. The time between ticks is measured, so a busy machine slows no Job down."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            running = {job.name: await self._running(job) for job in self.jobs}
            now = time.monotonic()
            for job in self.jobs:
                for pod in self._tick(job, running[job.name], now - last):
                    body = {"metadata": {"annotations": {"run-seconds": "0s"}}}
                    await self._client.merge_patch(f"/api/v1/namespaces/{job.namespace}/pods/{pod}", body)
            last = now

    async def _running(self, job: PlayedJob) -> set[str]:
        params = {"labelSelector": f"{JOB_LABEL}={job.name}", "fieldSelector": "status.phase=Running"}
        listed = await self._client.get_json(f"/api/v1/namespaces/{job.namespace}/pods", params)
        return {item["metadata"]["name"] for item in listed["items"] if "deletionTimestamp" not in item["metadata"]}

    def _tick(self, job: PlayedJob, running: set[str], seconds: float) -> list[str]:
        """Credit the pods and return those that end now."""
        for gone in job.tasks.keys() - running - job.ending:
            lost = job.tasks.pop(gone) / job.tasks_per_second
            job.work -= lost
            job.lost += lost
        for ended in job.ending - running:
            job.ending.discard(ended)
            job.tasks.pop(ended, None)
        busy = sorted(running - job.ending)
        job.running = len(busy)
        each = job.progress(len(busy)) * job.tasks_per_second * seconds / len(busy) if busy else 0.0
        done = []
        for pod in busy:
            credit = min(each, 1.0 - job.tasks.get(pod, 0.0))
            job.tasks[pod] = job.tasks.get(pod, 0.0) + credit
            job.work += credit / job.tasks_per_second
            if job.tasks[pod] >= 1.0 - 1e-9:
                done.append(pod)
        job.ending.update(done)
        return done


def work_done(jobs: list[PlayedJob]) -> Mapping[str, float]:
    """Return the seconds of running alone that each Job has done so far."""
    return {job.name: job.work for job in jobs}
