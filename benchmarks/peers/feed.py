"""Submits a scenario's Jobs. It learns from the audit log which pods have ended, so that it adds no watch to the API server's load."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.peers.audit import AuditLog, JobLife
from benchmarks.peers.contender import Contender, JsonObject, Site
from benchmarks.peers.figures import SentBurst
from benchmarks.peers.scenarios import Burst, Graph, Queue, Scenario, Work
from e2e.workload.job_object import job_object
from e2e.workload.stages import GIB, Stage
from fairburst.kube.api.errors import AlreadyExists, ApiError

TICK_SECONDS = 0.2
IN_FLIGHT = 32  # creations of Jobs at a time: 300 a second and more
REVIVED_AFTER = 5.0
SUBMIT_SECONDS = 60.0
TAIL_SECONDS = 5.0  # after the last binding, to count the requests that it causes


@dataclass(slots=True)
class _GraphRun:
    """A started batch job: the names of its submitted Jobs, by index."""

    queue: str
    graph: Graph
    names: dict[int, str] = field(default_factory=dict)


class Feed:
    """One run of a workload. `sent`: the bursts so far. `before_kill` is called before the contender is killed, if it is."""

    def __init__(self, site: Site, contender: Contender, log: AuditLog, before_kill: Callable[[], None] = lambda: None) -> None:
        self.site, self.contender, self.log = site, contender, log
        self._before_kill = before_kill
        self.sent: list[SentBurst] = []
        self.jobs: dict[tuple[str, str], Work] = {}
        self._queues = {queue.name: queue for queue in site.scenario.queues}
        self._numbers: dict[str, int] = defaultdict(int)
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._unfinished: set[tuple[str, str]] = set()
        self._graphs: list[_GraphRun] = []

    @property
    def now(self) -> float:
        """Return the seconds since the start of the workload."""
        return time.time() - self.site.start

    async def run(self) -> None:
        """Submit everything. Return at the end of the scenario."""
        scenario = self.site.scenario
        backlog = {queue: make() for queue, make in scenario.backlog.items()}
        bursts = sorted(scenario.bursts, key=lambda burst: burst.at)
        killed_at = scenario.killed_at
        await asyncio.sleep(max(0.0, -self.now))
        async with asyncio.TaskGroup() as group:
            for queue, works in scenario.given.items():
                for work in works:
                    self._submit(group, queue, work)
            while not self._over(bursts):
                self.log.read()
                while bursts and bursts[0].at <= self.now:
                    self._send(group, bursts.pop(0))
                    if killed_at is not None:
                        self._before_kill()
                        self.contender.kill()
                        group.create_task(self._revive())
                        killed_at = None
                self._refill(group, backlog)
                await asyncio.sleep(TICK_SECONDS)
        if scenario.until_bound:
            await asyncio.sleep(TAIL_SECONDS)
        self.log.read()

    async def _revive(self) -> None:
        await asyncio.sleep(REVIVED_AFTER)
        await self.contender.revive()

    def _over(self, waiting: list[Burst]) -> bool:
        scenario = self.site.scenario
        if self.now >= scenario.seconds:
            return True
        if scenario.given:
            return self._all_done(scenario)
        return scenario.until_burst and not waiting and all(self._done(burst) for burst in self.sent)

    def _all_done(self, scenario: Scenario) -> bool:
        record = self.log.record
        if len(record.jobs) < len(self.jobs):
            return False
        return all(_count(record.jobs[key], scenario.until_bound) >= work.pods for key, work in self.jobs.items())

    def _done(self, burst: SentBurst) -> bool:
        return all(self._job_done(burst.queue, name) for name in burst.jobs)

    def _job_done(self, queue: str, name: str) -> bool:
        life = self.log.record.jobs.get((queue, name))
        return life is not None and life.ended >= self.jobs[queue, name].pods

    def _continue(self, group: asyncio.TaskGroup) -> None:
        """Submit the Jobs of started graphs whose parents are done. Forget graphs whose Jobs are all submitted."""
        for run in self._graphs:
            done = {index for index, name in run.names.items() if self._job_done(run.queue, name)}
            for index, work in enumerate(run.graph):
                if index not in run.names and done.issuperset(work.parents):
                    run.names[index] = self._submit(group, run.queue, work)
        self._graphs = [run for run in self._graphs if len(run.names) < len(run.graph)]

    def _refill(self, group: asyncio.TaskGroup, backlog: dict[str, Iterator[Graph]]) -> None:
        """Submit batch Jobs until each queue has as many unfinished pods as the scenario wants."""
        self._continue(group)
        unfinished: dict[str, int] = defaultdict(int)
        for key in list(self._unfinished):
            life = self.log.record.jobs.get(key)
            left = self.jobs[key].pods - (life.ended if life is not None else 0)
            if left <= 0:
                self._unfinished.discard(key)
            unfinished[key[0]] += left
        for queue, stream in backlog.items():
            while unfinished[queue] < self.site.scenario.deep:
                run = _GraphRun(queue, next(stream))
                self._graphs.append(run)
                self._continue(group)
                unfinished[queue] += sum(run.graph[index].pods for index in run.names)

    def _send(self, group: asyncio.TaskGroup, burst: Burst) -> None:
        names = tuple(self._submit(group, burst.queue, work) for work in burst.jobs)
        self.sent.append(SentBurst(burst.queue, names, sum(work.pods for work in burst.jobs), burst.deadline))

    def _submit(self, group: asyncio.TaskGroup, queue: str, work: Work) -> str:
        self._numbers[queue] += 1
        name = f"job-{self._numbers[queue]}"
        self.jobs[queue, name] = work
        self._unfinished.add((queue, name))
        body = job_object(name, "peers", Stage("work", work.pods, work.seconds, 1.0, GIB), work.pods)
        group.create_task(self._create(self._queues[queue], self.contender.dress(self._queues[queue], body)))
        return name

    async def _create(self, queue: Queue, body: JsonObject) -> None:
        """Create a Job. Retry while the API server, or a webhook that it calls, is unavailable."""
        deadline = time.monotonic() + SUBMIT_SECONDS
        while True:
            try:
                async with self._slots:
                    await self.site.client.create(f"/apis/batch/v1/namespaces/{queue.name}/jobs", body)
                return
            except AlreadyExists:
                return
            except ApiError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.3)


def _count(life: JobLife, bound: bool) -> int:
    return life.bound if bound else life.ended
