"""The realistic engine: virtual time around `policy.decide` (or a baseline behind the same interface).

Events have a total order (time, kind, serial). After all events of one instant there is one round: the policy sees a snapshot, and each
queue starts tasks, first job first, while its use is below its allocation and the next task fits on a node. Queues are served in the order
hard, soft, others; among equals, the queue that uses the least part of its allocation is first. Lent amounts come last.
"""

from __future__ import annotations

import dataclasses
import enum
import heapq
import math
from collections.abc import Callable

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.baselines import LATENCY_FIRST, POLICIES, Policy
from fairburst.policy.dress.values import DemandCategory, DressConfig, StartMode
from fairburst.policy.model import ClusterSnapshot, EventKind, GuaranteeClass, Memory, QueueKind, RoundResult, Schedule
from fairburst.sim.backlog import Backlog, Batch, LiveJob, permitted
from fairburst.sim.cluster import MILLIONTHS, Machines, snapshot
from fairburst.sim.dress_jobs import DressJob, DressJobs
from fairburst.sim.errors import ScenarioError
from fairburst.sim.eviction import short_of, victims
from fairburst.sim.scenario import BurstPlan, NodeChange, Scenario, Submission
from fairburst.sim.sink import JobRecord, Record
from fairburst.sim.workload import DagJob

# The core's clock begins here, so that no time it sees is zero or negative.
EPOCH = 1_000_000.0
_RANK = {GuaranteeClass.HARD: 0, GuaranteeClass.SOFT: 1, GuaranteeClass.ELASTIC: 2, None: 3}
Observer = Callable[[float, ClusterSnapshot, RoundResult], None]


class Kind(enum.IntEnum):
    """Order of events at one instant."""

    END = 0
    NODE = 1
    ARRIVAL = 2


def run(
    scenario: Scenario, policy: str | Policy = "bopf", *, record_use: bool = False, observer: Observer | None = None,
    progress: Callable[[float], None] | None = None,
) -> Record:  # fmt: skip
    """Run a scenario. `observer` receives every round's inputs and outcome. Raises ScenarioError if the scenario can't be run."""
    scenario.check()
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise ScenarioError(f"expected a policy among {', '.join(POLICIES)}, found {policy!r}")
        return Simulation(scenario, POLICIES[policy], policy, record_use, observer, progress).run()
    return Simulation(scenario, policy, getattr(policy, "__name__", "policy"), record_use, observer, progress).run()


class Simulation:
    """The state of one run, from its start, or in `forecast/` from a later state."""

    def __init__(
        self, scenario: Scenario, policy: Policy, name: str, record_use: bool = False, observer: Observer | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:  # fmt: skip
        self.scenario, self.policy, self.observer, self.progress = scenario, policy, observer, progress
        self.queues = scenario.queues
        self.row_of = {spec.name: row for row, spec in enumerate(self.queues)}
        self.latency: BoolArray = np.array([spec.kind is QueueKind.LATENCY for spec in self.queues], dtype=bool)
        self.machines = Machines(scenario.cluster)
        self.total = self.machines.total()
        self.committed = scenario.cluster.capacity
        self.running: dict[int, list[Batch]] = {}
        self.heap: list[tuple[float, int, int, object]] = []
        self.serial = 0
        self.memory = Memory()
        self.now, self.wake = 0.0, math.inf
        self.latency_first = policy in LATENCY_FIRST
        self.granted: BoolArray = np.zeros(len(self.queues), dtype=bool)
        self.record_use = record_use
        self.record = Record(self.queues, scenario.cluster.resources, name)
        self.throughput_left = self.jobs_left = 0
        self.endless = any(plan.count is None for plan in scenario.bursts)
        # jobs that start whole need the records of DRESS under every policy
        keeps_jobs = name == "dress" or scenario.whole_jobs
        self.dress_jobs = DressJobs(scenario.config.dress or DressConfig(), scenario.small_work_seconds) if keeps_jobs else None
        self.work = Backlog(len(self.queues), len(scenario.cluster.resources), self.dress_jobs)

    def run(self) -> Record:
        self._lay_out()
        had_throughput = self.throughput_left > 0
        started_with = max(self.throughput_left if had_throughput else self.jobs_left, 1)
        while True:
            time = min(self.heap[0][0] if self.heap else math.inf, self.wake)
            if time > self.scenario.until or math.isinf(time):
                self._account(min(self.scenario.until, max(time, self.now)) if math.isfinite(self.scenario.until) else self.now)
                break
            self._advance(time)
            left = self.throughput_left if had_throughput else self.jobs_left
            if left == 0 and (had_throughput or not self.endless):
                break
            if self._round_if_due(time) and self.progress is not None and self.record.rounds % 512 == 0:
                part = 1 - left / started_with
                self.progress(max(part, time / self.scenario.until) if math.isfinite(self.scenario.until) else part)
        self.record.end = self.now
        return self.record

    def _advance(self, time: float) -> None:
        """Process all events until `time`."""
        self._account(time)
        self.wake = math.inf if time >= self.wake else self.wake
        while self.heap and self.heap[0][0] <= time:
            self._happen(heapq.heappop(self.heap))

    def _round_if_due(self, time: float) -> bool:
        """Run a round at `time` if one may run, else schedule it. Return whether it ran."""
        due = self._next_round(time)
        if due > time:
            self.wake = min(self.wake, due)
            return False
        self._round()
        return True

    def _next_round(self, time: float) -> float:
        """Return the earliest time from `time` on at which a round may run."""
        step = self.scenario.round_seconds
        if step <= 0:
            return time
        due = math.ceil(time / step - 1e-9) * step
        return due if due > time + 1e-9 else time

    def _push(self, time: float, kind: Kind, what: object) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (time, kind, self.serial, what))

    def _lay_out(self) -> None:
        for submission in self.scenario.submissions:
            self._push(submission.time, Kind.ARRIVAL, submission)
            self._expect(submission.queue, 1)
        for plan in self.scenario.bursts:
            if plan.count is not None:
                self._expect(plan.queue, plan.count)
            if plan.count != 0:
                self._push(plan.first, Kind.ARRIVAL, (plan, 0))
        for change in self.scenario.changes:
            self._push(change.time, Kind.NODE, change)

    def _expect(self, queue: str, count: int) -> None:
        self.jobs_left += count
        if not self.latency[self.row_of[queue]]:
            self.throughput_left += count

    def _happen(self, event: tuple[float, int, int, object]) -> None:
        match event[3]:
            case Batch() as batch:
                self._end(batch)
            case NodeChange() as change:
                self._change(change)
            case Submission(_, queue, job):
                self._arrive(queue, job)
            case (BurstPlan() as plan, int(number)):
                self._arrive(plan.queue, plan.jobs[number % len(plan.jobs)])
                if plan.count is None or number + 1 < plan.count:
                    self._push(plan.first + (number + 1) * plan.period, Kind.ARRIVAL, (plan, number + 1))
            case other:
                raise AssertionError(f"no such event: {other}")

    def _arrive(self, queue: str, spec: DagJob) -> LiveJob:
        row = self.row_of[queue]
        record = JobRecord(queue, spec.name, self.now, self.now + self._deadline(row))
        self.record.jobs.append(record)
        job = LiveJob.submitted(spec, row, len(self.record.jobs), record)
        if self.dress_jobs is not None and not self.latency[row]:
            self.dress_jobs.submit(job.serial, queue, spec, self.total / MILLIONTHS, EPOCH + self.now)
        self.work.offer(job, [index for index, count in enumerate(job.waits_for) if count == 0])
        return job

    def _deadline(self, row: int) -> float:
        spec = self.queues[row]
        if isinstance(spec.arrival, Schedule):
            due = [item.burst.deadline_seconds for item in spec.arrival.bursts if item.arrival <= EPOCH + self.now + 1e-6]
            return due[-1] if due else math.inf
        return spec.burst.deadline_seconds if spec.burst is not None else math.inf

    def _end(self, batch: Batch) -> None:
        if batch.count == 0:
            return
        job, stage = batch.job, batch.stage
        self._leave(batch, batch.count)
        count, batch.count = batch.count, 0
        job.unfinished[stage] -= count
        if job.unfinished[stage]:
            return
        freed = job.end_stage(stage)
        if job.stages_left == 0:
            job.record.end = self.now
            if self.work.dress_job(job) is not None and self.dress_jobs is not None:
                self.dress_jobs.leave(job.serial)
            self.jobs_left -= 1
            if not self.latency[job.queue]:
                self.throughput_left -= 1
            return
        self.work.offer(job, freed)

    def _leave(self, batch: Batch, count: int) -> None:
        """Release the node's room of `count` tasks of the batch."""
        demand = batch.job.demand[batch.stage]
        self.machines.release(batch.node, demand, count)
        self.work.leave(batch.job, batch.stage, count)
        if batch.dress_tasks is not None and self.dress_jobs is not None:
            self.dress_jobs.end(batch.dress_tasks, demand, count, EPOCH + self.now)
        if count == batch.count and self._tracks():
            self.running[batch.job.queue].remove(batch)

    def _tracks(self) -> bool:
        """Return whether to track running batches, which only eviction and failures need."""
        return self.scenario.preemptive or bool(self.scenario.changes)

    def _change(self, change: NodeChange) -> None:
        if change.lost:
            for batches in list(self.running.values()):
                for batch in [batch for batch in batches if batch.node == change.node]:
                    self._requeue(batch, batch.count)
        self.machines.resize(change.node, change.amounts)
        self.total = self.machines.total()
        # the operator keeps a low-water mark; here admission follows the present capacity
        self.committed = self.total / MILLIONTHS
        self.work.stale.update(range(len(self.queues)))

    def _requeue(self, batch: Batch, count: int) -> None:
        """Stop tasks of a batch, which wait again before those of their stage that never ran."""
        self._leave(batch, count)
        batch.count -= count
        self.work.put_back(batch.job, batch.stage, count)
        self.record.tasks_evicted += count

    def _round(self) -> None:
        result = self._decide()
        if self.scenario.preemptive:
            self._evict(result)
        started = self._start(result)
        if self._must_count(started):
            result = self._decide()  # charges the new tasks from this instant, like a cluster, where a binding is an event
        boundary = result.next_boundary - EPOCH
        self.wake = boundary if boundary > self.now else self.now + 1e-3

    def _must_count(self, started: IntArray) -> bool:
        """Return whether the tasks `started` (N,) are to be charged before the next event."""
        return bool(started[self.latency & self.granted].any())

    def _decide(self) -> RoundResult:
        work = self.work
        work.refresh(self.total)
        resources = self.scenario.cluster.resources
        given = snapshot(resources, self.total, self.committed, self.queues, work.demand, work.usage, work.unit)
        oldest = {row: EPOCH + time for row, time in work.oldest_jobs(self.latency)}
        given = dataclasses.replace(given, waiting=work.waiting_pods(), oldest_work=oldest, next_start=self._next_starts())
        if self.dress_jobs is not None:
            given = dataclasses.replace(given, jobs=self.dress_jobs.part(len(self.total), EPOCH + self.now))
        result, self.memory = self.policy(given, self.memory, self.scenario.config, EPOCH + self.now)
        self.record.rounds += 1
        if result.events or self.record.rounds == 1:
            self._note(result)
        if self.observer is not None:
            self.observer(self.now, given, result)
        return result

    def _next_starts(self) -> dict[int, FloatArray]:
        """Return by row the need of a queue, beyond its usage, for its next job that starts whole. Here tasks start singly."""
        return {}

    def _note(self, result: RoundResult) -> None:
        self.record.classes = {spec.name: granted for spec, granted in zip(self.queues, result.classes, strict=True)}
        self.granted = np.array([granted in {GuaranteeClass.HARD, GuaranteeClass.SOFT} for granted in result.classes], dtype=bool)
        for event in result.events:
            self.record.events.append((self.now, event))
            if event.kind is EventKind.BURST_OPENED:
                window = result.windows[self.row_of[event.queue]]
                if window is not None and window.opened is not None and window.deadline is not None:
                    self.record.windows.append((event.queue, window.opened - EPOCH, window.deadline - EPOCH))

    def _start(self, result: RoundResult) -> IntArray:
        """Start tasks. Return (N,) their number. What hard and soft queues are lent is placed last (docs/decisions/0257)."""
        allocation, guaranteed = (np.round(amount * MILLIONTHS).astype(np.int64) for amount in (result.allocation, result.guaranteed))
        started = np.zeros(len(self.queues), dtype=np.int64)
        capacity = np.maximum(self.total, 1)
        served = (self.work.usage / capacity).max(axis=1) / np.maximum((allocation / capacity).max(axis=1), 1e-12)
        rows = [row for row in range(len(self.queues)) if self.work.offering[row]]
        rows.sort(key=lambda row: (self._rank(row, result), served[row], row))
        lent = [row for row in rows if self._rank(row, result) < _RANK[GuaranteeClass.ELASTIC] and any(guaranteed[row] < allocation[row])]
        for row in rows:
            jobs, most = self.dress_jobs, guaranteed[row] if row in lent else allocation[row]
            started[row] = self._start_queue_of_jobs(jobs, row, most, result) if jobs else self._start_queue(row, most)
        for row in lent:
            started[row] += self._start_queue(row, allocation[row])
        return started

    def _rank(self, row: int, result: RoundResult) -> int:
        """Return the queue's place in the order in which tasks are placed; 0 is first."""
        return _RANK[GuaranteeClass.HARD if self.latency_first and self.latency[row] else result.classes[row]]

    def _start_queue(self, row: int, allocation: IntArray) -> int:
        offering, started = self.work.offering[row], 0
        while offering:
            job = offering[0][1]
            started += self._start_job(job, allocation, allocation)
            if job.offered:
                break
            offering.pop(0)
        self.record.tasks_started += started
        return started

    def _start_queue_of_jobs(self, dress_jobs: DressJobs, row: int, allocation: IntArray, result: RoundResult) -> int:
        """Start tasks of a queue whose jobs have a size category, or start whole."""
        if self.latency[row]:
            return self._start_queue(row, allocation)
        started = 0
        blocked: set[object] = set()
        small_level = None if result.small_level is None else np.round(result.small_level[row] * MILLIONTHS).astype(np.int64)
        whole = self.scenario.whole_jobs if result.dress is None else self._starts_whole()
        for _, job in list(self.work.offering[row]):
            if len(blocked) == len(DemandCategory) and not whole:
                break
            dress_job = dress_jobs.jobs[job.serial]
            category: object = dress_job.category if small_level is not None else None
            if category in blocked and not (whole and dress_job.started):
                continue
            if whole and not dress_job.started and not self._may_start_whole(dress_job, result):
                if result.dress is None:  # DRESS has its own order, and names every job that may start
                    blocked.add(category)
                continue
            level = allocation if small_level is None or whole else self._part(dress_jobs, row, dress_job, allocation, small_level)
            given = self._start_job(job, allocation, level)
            started += given
            if job.offered and not whole:
                blocked.add(category)
        self.work.offering[row] = [entry for entry in self.work.offering[row] if entry[1].offered]
        self.record.tasks_started += started
        return started

    def _starts_whole(self) -> bool:
        dress = self.scenario.config.dress
        return dress is not None and dress.start_mode is StartMode.WHOLE_JOBS

    def _may_start_whole(self, job: DressJob, result: RoundResult) -> bool:
        if result.dress is not None:
            return job.name in result.dress.startable
        return bool((np.round(job.request * MILLIONTHS) <= self.machines.free.clip(0).sum(axis=0)).all())

    def _part(self, dress_jobs: DressJobs, row: int, dress_job: DressJob, allocation: IntArray, small_level: IntArray) -> IntArray:
        """Return the part of the queue's allocation for jobs of this category, less the use of its other jobs."""
        part = small_level if dress_job.category is DemandCategory.SMALL else allocation - small_level
        bound: IntArray = part - dress_jobs.held[dress_job.queue, dress_job.category] + self.work.usage[row]
        return bound

    def _start_job(self, job: LiveJob, allocation: IntArray, level: IntArray) -> int:
        """Start tasks of one job's offered stages. `level` and `allocation` both bound the queue's use."""
        started = 0
        while job.offered:
            stage = job.offered[0]
            demand, usage = job.demand[stage].tolist(), self.work.usage[job.queue].tolist()
            count = min(permitted(bound.tolist(), usage, demand, job.pending[stage]) for bound in (allocation, level))
            placed = self.machines.place(job.demand[stage], count) if count else []
            if not placed:
                break
            for node, number in placed:
                self._begin(job, stage, node, number)
            given = sum(number for _, number in placed)
            self.work.start(job, stage, given)
            started += given
            if job.offered and job.offered[0] == stage:
                break
        return started

    def _begin(self, job: LiveJob, stage: int, node: int, count: int) -> None:
        if math.isnan(job.record.first_start):
            job.record.first_start = self.now
        batch = Batch(job, stage, node, count, self.now)
        if self.dress_jobs is not None and self.work.dress_job(job) is not None:
            batch.dress_tasks = self.dress_jobs.start(job.serial, stage, job.demand[stage], count, EPOCH + self.now)
        if self._tracks():
            self.running.setdefault(job.queue, []).append(batch)
        self._push(self.now + self.scenario.start_delay_seconds + job.spec.stages[stage].seconds, Kind.END, batch)

    def _evict(self, result: RoundResult) -> None:
        """Evict tasks of queues above their allocation, as far as guaranteed queues are owed more than the free room."""
        allocation = np.round(result.allocation * MILLIONTHS).astype(np.int64)
        work, free = self.work, self.machines.free.clip(0).sum(axis=0)
        short = short_of(np.flatnonzero(self.granted & self.latency), allocation, work.demand, work.usage, free)
        for batch, count in victims(short, allocation, work.usage, self.total, self.running):
            self._requeue(batch, count)

    def _account(self, time: float) -> None:
        """Extend the integrals to `time`."""
        if time > self.now:
            used = self.work.usage / MILLIONTHS
            self.record.carry_on(time - self.now, used, self.total / MILLIONTHS, self.latency & self.granted)
            if self.record_use:
                self.record.times.append(self.now)
                self.record.use.append(used)
        self.now = time
