"""The rules of the BoPF authors' simulator as slowly and plainly as they can be written: second by second, task by task, in fractions
(only shares are compared in doubles, as the authors compare them).

The oracle for fairburst.sim.table4, which shares nothing with it but the jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from fairburst.sim.table4 import Rules, Workload
from fairburst.sim.workload import DagJob


@dataclass
class Live:
    """A job in a queue. offered: stages in the order in which they became runnable."""

    spec: DagJob
    arrival: int
    counts: list[int]
    seconds: list[int]
    offered: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    first: int | None = None
    end: int | None = None

    def next_stage(self) -> int | None:
        return next((stage for stage in self.offered if self.started[stage] < self.counts[stage]), None)

    def offer(self) -> None:
        for index, stage in enumerate(self.spec.stages):
            if index not in self.offered and all(self.ended[parent] == self.counts[parent] for parent in stage.parents):
                self.offered.append(index)


class StarvedError(Exception):
    """Throughput jobs don't end."""


def half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def live(job: DagJob, arrival: int, tasks: float, seconds: float) -> Live:
    counts = [max(1, math.floor(Fraction(str(tasks)) * stage.tasks)) for stage in job.stages]
    lengths = [max(1, half_up(Fraction(str(stage.seconds)) * Fraction(str(seconds)))) for stage in job.stages]
    return Live(job, arrival, counts, lengths, started=[0] * len(counts), ended=[0] * len(counts))


def need(job: Live, stage: int) -> tuple[Fraction, Fraction]:
    cpu, memory = job.spec.stages[stage].demand[:2]
    return Fraction(half_up(Fraction(str(cpu)) * 100), 100), Fraction(half_up(Fraction(str(memory)) * 100), 100)


class Reference:
    def __init__(self, batch: list[list[DagJob]], bursts: list[DagJob], workload: Workload, policy: str, rules: Rules) -> None:
        self.rules, self.policy = rules, policy
        self.queues = [[live(job, 0, rules.throughput_tasks, 1.0) for job in queued] for queued in batch]
        self.bursts, self.factors = bursts, (workload.latency_tasks, workload.latency_seconds)
        self.latency: list[Live] = []
        self.capacity = Fraction(str(rules.capacity))
        self.running: list[tuple[int, int, Live, int]] = []
        self.usage = [[Fraction(0), Fraction(0)] for _ in range(len(batch) + 1)]
        self.log: list[tuple[Fraction, Fraction]] = []
        self.tasks = 0

    def run(self) -> tuple[list[float], list[float], int]:
        time = 0
        while True:
            over = [item for item in self.running if item[0] == time]
            self.running = [item for item in self.running if item[0] != time]
            for _, queue, job, stage in over:
                job.ended[stage] += 1
                for column, amount in enumerate(need(job, stage)):
                    self.usage[queue][column] -= amount
            for _, _, job, _ in over:
                job.offer()
                if job.ended == job.counts and job.end is None:
                    job.end = time
            arrived = [job for queue in self.queues for job in queue if time == 0]
            if time % self.rules.period == 0:
                number = time // self.rules.period
                self.latency.append(live(self.bursts[number % len(self.bursts)], time, *self.factors))
                arrived.append(self.latency[-1])
            for job in arrived:
                job.offer()
            if len(self.latency) == self.rules.most_bursts:
                raise StarvedError
            if all(job.end is not None for queue in self.queues for job in queue):
                break
            if over or arrived:
                self.schedule(time)
                self.log.append((self.usage[-1][0], self.usage[-1][1]))
            time += 1
        return (
            [completion(job) for job in self.latency if job.arrival < time],
            [completion(job) for queue in self.queues for job in queue],
            time,
        )

    def free(self) -> list[Fraction]:
        return [self.capacity - sum(usage[column] for usage in self.usage) for column in range(2)]

    def offer_of(self, queue: int) -> tuple[Live, int] | None:
        jobs = self.latency if queue == len(self.queues) else self.queues[queue]
        for job in jobs:
            stage = job.next_stage()
            if stage is not None:
                return job, stage
        return None

    def start(self, queue: int, time: int, limit: list[Fraction]) -> bool:
        offered = self.offer_of(queue)
        if offered is None:
            return False
        job, stage = offered
        amounts = need(job, stage)
        if any(amount > bound for amount, bound in zip(amounts, limit, strict=True)):
            return False
        for column, amount in enumerate(amounts):
            self.usage[queue][column] += amount
        job.started[stage] += 1
        job.first = time if job.first is None else job.first
        self.running.append((time + job.seconds[stage], queue, job, stage))
        self.tasks += 1
        return True

    def share(self, queue: int) -> int:
        """In whole percents, in doubles and in this order, as the authors compute it."""
        return max(math.floor(int(amount * 100) / 100 / float(self.capacity) * 100 + 0.5) for amount in self.usage[queue])

    def fair(self, queues: list[int], time: int) -> None:
        still_in = list(queues)
        while still_in:
            chosen = min(still_in, key=lambda queue: (self.share(queue), queue))
            if not self.start(chosen, time, self.free()):
                still_in.remove(chosen)

    def schedule(self, time: int) -> None:
        last = len(self.queues)
        if self.policy == "drf":
            self.fair(list(range(last + 1)), time)
            return
        if self.policy == "sp":
            self.fair([last], time)
        else:
            since = time % self.rules.period
            recent = self.log[-since:] if since else []
            received = [sum((entry[column] for entry in recent), Fraction(0)) for column in range(2)]
            on, period = self.rules.on_seconds, self.rules.period
            guarantee = [self.capacity, self.capacity]
            if since > on and not any(amount < on * self.capacity for amount in received):
                guarantee = [max(Fraction(0), self.capacity * period / (last + 1) - amount) / (period - on) for amount in received]
            going = True
            while going:
                room = [min(g - used, free) for g, used, free in zip(guarantee, self.usage[last], self.free(), strict=True)]
                going = self.start(last, time, room)
        self.fair(list(range(last)), time)


def completion(job: Live) -> float:
    return math.nan if job.end is None or job.first is None else float(job.end - job.first)
