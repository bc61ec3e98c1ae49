"""The started work of a run, and how far it has come by its pods. Pure: times are arguments, in seconds after the start of the run.

A stage is one Job. Methods that start stages return these, and the caller creates their Jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from e2e.workload.metrics import Amounts, BurstRecord
from e2e.workload.plans import PlannedBurst
from e2e.workload.pods import Pod
from e2e.workload.stages import DagJob, Stage


@dataclass(eq=False, slots=True)
class JobRun:
    """A started DAG job. `burst`: its place in `Progress.bursts`, None for a throughput job."""

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
class StageRun:
    """A started stage: its pods by UID, as last seen. `running`: bound pods and the time at which each was first seen bound."""

    run: JobRun
    index: int
    name: str
    running: dict[str, float] = field(default_factory=dict)
    succeeded: set[str] = field(default_factory=set)

    @property
    def stage(self) -> Stage:
        return self.run.job.stages[self.index]


class Progress:
    """Started jobs of a run.

    bursts, jobs_done, tasks_done, overheads: as in `WorkloadRecord`. started_pods: number of pods seen bound. active: unfinished jobs by
    queue. feeding: cleared at the end of the run, after which the jobs of throughput queues start no further stage.
    """

    def __init__(self, run_name: str, queues: Iterable[str], most_parallel: int) -> None:
        self.bursts: list[BurstRecord] = []
        self.jobs_done: Counter[str] = Counter()
        self.tasks_done: Counter[str] = Counter()
        self.overheads: list[float] = []
        self.started_pods = 0
        self.active: dict[str, set[JobRun]] = {queue: set() for queue in queues}
        self.feeding = True
        self._run_name = run_name
        self._most_parallel = most_parallel
        self._stages: dict[tuple[str, str], StageRun] = {}
        self._numbers: Counter[str] = Counter()

    def begin_burst(self, queue: str, burst: PlannedBurst, now: float) -> list[StageRun]:
        """Start a burst. Return its first stages."""
        number = len([known for known in self.bursts if known.queue == queue])
        self.bursts.append(BurstRecord(queue, number, now, burst.job.tasks, burst.deadline_seconds))
        return self.begin(queue, burst.job, burst=len(self.bursts) - 1)

    def begin(self, queue: str, job: DagJob, burst: int | None = None) -> list[StageRun]:
        """Start a job. Return its first stages."""
        self._numbers[queue] += 1
        run = JobRun(queue, f"{self._run_name}-{self._numbers[queue]}", job, burst=burst)
        self.active[queue].add(run)
        return self._start_stages(run)

    def _start_stages(self, run: JobRun) -> list[StageRun]:
        started = [StageRun(run, index, f"{run.name}-{index}") for index in run.startable()]
        for stage in started:
            run.stages_started.add(stage.index)
            self._stages[run.queue, stage.name] = stage
        return started

    def stages(self) -> list[StageRun]:
        """Return the started stages that have not been finished."""
        return list(self._stages.values())

    def has_open_burst(self) -> bool:
        """Return whether a burst that has begun is unfinished."""
        return any(run.burst is not None for runs in self.active.values() for run in runs)

    def runnable(self, queue: str) -> int:
        """Return the number of unfinished tasks in a queue's started stages."""
        return sum(s.stage.tasks - len(s.succeeded) for s in self._stages.values() if s.run.queue == queue)

    def held(self) -> dict[str, Amounts]:
        """Return the resources that each queue's bound pods hold now."""
        return self._sum(lambda stage: len(stage.running))

    def wanted(self) -> dict[str, Amounts]:
        """Return each queue's present demand: every unfinished task of its started stages."""
        return self._sum(lambda stage: max(len(stage.running), min(stage.stage.tasks, self._most_parallel) - len(stage.succeeded)))

    def _sum(self, count: Callable[[StageRun], int]) -> dict[str, Amounts]:
        totals = dict.fromkeys(self.active, Amounts())
        for stage in self._stages.values():
            totals[stage.run.queue] += Amounts(stage.stage.cpu, stage.stage.memory).times(count(stage))
        return totals

    # --- what is seen of its pods ---

    def forget_others(self, stored: Collection[str]) -> None:
        """Forget running pods whose UIDs are not among the stored ones."""
        for stage in self._stages.values():
            stage.running = {uid: since for uid, since in stage.running.items() if uid in stored}

    def see_pod(self, event: str, pod: Pod, now: float) -> list[StageRun]:
        """Apply one watch event. Return the stages that it starts."""
        stage = self._stages.get((pod.metadata.namespace, pod.metadata.labels.get("batch.kubernetes.io/job-name", "")))
        if stage is None:
            return []
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded":
            if uid in stage.running:
                self.overheads.append(now - stage.running[uid] - stage.stage.seconds)
            stage.succeeded.add(uid)
        if event == "DELETED" or pod.status.phase in {"Succeeded", "Failed"}:
            stage.running.pop(uid, None)
        elif pod.spec.node_name and uid not in stage.running:
            stage.running[uid] = now
            self.started_pods += 1
        self._note_burst(stage, now)
        return self.finish(stage, now) if len(stage.succeeded) >= stage.stage.tasks else []

    def _note_burst(self, stage: StageRun, now: float) -> None:
        """Record when the last stage of a burst had all its pods bound."""
        run = stage.run
        if run.burst is None or len(run.stages_started) < len(run.job.stages):
            return
        record = self.bursts[run.burst]
        all_bound = all(
            len(other.running) + len(other.succeeded) >= other.stage.tasks for other in self._stages.values() if other.run is run
        )
        if record.bound_at is None and all_bound:
            self.bursts[run.burst] = replace(record, bound_at=now)

    def finish(self, stage: StageRun, now: float) -> list[StageRun]:
        """Complete a stage, and its job if it is the last one. Return the stages that waited for it. A finished stage is no error."""
        run = stage.run
        if self._stages.pop((run.queue, stage.name), None) is None:
            return []
        run.stages_done.add(stage.index)
        self.tasks_done[run.queue] += stage.stage.tasks
        if not run.done:
            return self._start_stages(run) if self.feeding or run.burst is not None else []
        self.active[run.queue].discard(run)
        self.jobs_done[run.queue] += 1
        if run.burst is not None:
            record = self.bursts[run.burst]
            self.bursts[run.burst] = replace(record, completed_at=now, bound_at=record.bound_at or now)
        return []
