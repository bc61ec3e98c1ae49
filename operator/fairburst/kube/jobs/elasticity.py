"""PAF on the cluster: the Jobs that share elastic queues' slots before a decision, and the consequences for them after it. No I/O.

Before: candidates with bounds and curves, for the core. After: new sizes, sizes to restore, events on Jobs, and each elastic queue's view
of them. An error in a Job affects that Job only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairburst.bounds import MOST_PARALLELISM
from fairburst.config import ElasticityConfig
from fairburst.curves.explore import next_parallelism, safe_slots
from fairburst.kube.api.objects import Job, Pod
from fairburst.kube.jobs.elastic_jobs import Candidate, DeclarationReader, JobProblem, candidates
from fairburst.kube.jobs.job_runs import JobRuns
from fairburst.kube.jobs.learned_curves import LearnedCurves
from fairburst.kube.jobs.parallelism_plan import ParallelismWrite, ResizeDamping, Sizing, plan_parallelism, plan_restores
from fairburst.kube.queues.job_annotations import family_of, read_mark
from fairburst.kube.queues.lanes import asks_for
from fairburst.kube.queues.queue_set import QueueEntry, QueueSet
from fairburst.kube.queues.spaces import Spaces
from fairburst.kube.queues.specs import Elasticity, ThroughputQueueSpec
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.pod_defaults import PodDefaults
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot, RoundResult
from fairburst.policy.paf.divide import SlotRules
from fairburst.policy.paf.jobs import ElasticJob, SlotDecision, SlotReason

EXPLORING = "Exploring"
RESIZED = "ParallelismChanged"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An Event to publish on a Job."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool


@dataclass(frozen=True, slots=True)
class JobView:
    """One Job's view for users: its decision, its present size, and its progress rate at that size (None: unknown)."""

    candidate: Candidate
    decision: SlotDecision
    measured: float | None


@dataclass(frozen=True, slots=True)
class QueueView:
    """One elastic queue's view: its settings, its Jobs, the slots that moved to it (K,), and problems of some of its Jobs.

    curve_problem: why the curve of its own spec is unusable, if one is declared.
    """

    elasticity: Elasticity
    fairness_knob: float
    jobs: Sequence[JobView]
    moved: FloatArray | None
    problems: Sequence[JobProblem]
    curve_problem: str | None = None


@dataclass(frozen=True, slots=True)
class ElasticPlan:
    """The changes that a round requests. `wait`: seconds until a deferred change falls due."""

    writes: list[ParallelismWrite] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    queues: dict[str, QueueView] = field(default_factory=dict)
    wait: float = math.inf

    def not_written(self, jobs: Collection[tuple[str, str]]) -> None:
        """Remove the Events on new sizes of these Jobs, given by namespace and name: a later round plans them again."""
        self.events[:] = [one for one in self.events if one.reason != RESIZED or (one.namespace, one.name) not in jobs]


@dataclass(frozen=True, slots=True)
class _ElasticQueue:
    entry: QueueEntry
    elasticity: Elasticity
    enforced: bool

    @property
    def resizes(self) -> bool:
        """Whether its Jobs are given sizes."""
        return self.enforced and self.elasticity.mode == "Parallelism"


class SlotPlanner:
    """Keeps between rounds what was learned of Jobs and the events that were published.

    namespaces: those of its elastic queues. observed: those of elastic queues in Observe mode, on which another planner decides; what their
    Jobs' runs teach is the same.
    """

    def __init__(self, config: ElasticityConfig) -> None:
        self._config = config
        self._damping = ResizeDamping(float(config.change_interval_seconds), config.hysteresis_percent / 100)
        self.runs = JobRuns()
        self.learned = LearnedCurves()
        self.namespaces: frozenset[str] = frozenset()
        self.observed: frozenset[str] = frozenset()
        self._reader = DeclarationReader()
        self._queues: dict[str, _ElasticQueue] = {}
        self._candidates: dict[str, list[Candidate]] = {}
        self._desired: dict[str, dict[str, int]] = {}
        self._last_published: set[tuple[str, str, str]] = set()

    def teach(self, other: SlotPlanner) -> None:
        """Let the planner of observed queues read what is learned here."""
        other.runs, other.learned = self.runs, self.learned

    def pod_changed(self, old: Pod | None, new: Pod | None, now: float, *, watched: bool) -> None:
        """Record a change of a pod, as `JobRuns.pod_changed`."""
        pod = new or old
        if pod is not None and self._watches(pod.metadata.namespace):
            self.runs.pod_changed(old, new, now, watched=watched)

    def _watches(self, namespace: str) -> bool:
        return namespace in self.namespaces or namespace in self.observed

    def job_changed(self, old: Job | None, new: Job | None, wall: float, now: float) -> None:
        """Record a change of a Job: its progress, or the curve data of its finished run. `wall` and `now` as for `plan`."""
        if new is None:
            if old is not None:
                self.runs.forget(old)
        elif not self._watches(new.metadata.namespace):
            return
        elif not new.finished:
            self.runs.job_changed(new, now)
        elif new.succeeded:
            run, family = self.runs.finished(new, now), family_of(new)
            if run is not None and family is not None and self._config.learn:
                self.learned.completed(family, run, wall)
        else:
            self.runs.forget(new)

    # Before the decision ----------------------------------------------------------------------------------------------------------

    def prepare(
        self, controllers: ControllerIndex, pods: PodIndex, queue_set: QueueSet, pod_defaults: Callable[[str], PodDefaults],
        *, moved: bool = True,
    ) -> set[str]:  # fmt: skip
        """Find this round's candidates and return the namespaces whose demand this changes.

        pod_defaults: by space, what the API server adds to pods. moved: whether the queues or their specs have changed since the last call.
        """
        if moved:
            self._queues = {queue.entry.qualified_name: queue for queue in map(_elastic_queue, queue_set.governing) if queue is not None}
            self.namespaces = frozenset(queue.entry.namespace for queue in self._queues.values())
        if not self._queues and not self._desired:
            self._candidates = {}
            return set()
        self._candidates = {
            name: candidates(
                name,
                queue.elasticity,
                _jobs_of(controllers, queue.entry.space),
                pods.owners_in(queue.entry.namespace),
                pods.resources,
                self.learned.curves,
                self._reader,
                pod_defaults(queue.entry.space),
            )
            for name, queue in self._queues.items()
        }
        self._reader.keep((one.job.metadata.uid for found in self._candidates.values() for one in found), self._queues)
        former, self._desired = self._desired, self._all_desired_pods()
        return {namespace for namespace in former.keys() | self._desired.keys() if former.get(namespace) != self._desired.get(namespace)}

    def desired_pods(self, namespace: str) -> Mapping[str, int]:
        """Return the pods that Jobs demand at most, by uid, regardless of the sizes they were given."""
        return self._desired.get(namespace, {})

    def part(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return the snapshot with the jobs among which the core divides slots; without jobs, the same snapshot."""
        values = (one.value for name in sorted(self._candidates) for one in self._candidates[name] if one.value.request.any())
        jobs = tuple(_within(value, snapshot.live_capacity) for value in values)
        return replace(snapshot, elastic_jobs=jobs, elastic_rules=self._rules()) if jobs else snapshot

    def _rules(self) -> SlotRules:
        """Return α by queue, and the queues that exchange slots with others."""
        exchanging = frozenset(name for name, queue in self._queues.items() if queue.elasticity.across_queues and queue.enforced)
        return SlotRules(
            fairness_knob=self._config.fairness_percent / 100,
            exchanging=exchanging,
            knobs={name: self._knob(queue) for name, queue in self._queues.items()},
        )

    def _knob(self, queue: _ElasticQueue) -> float:
        return (queue.elasticity.fairness_percent or self._config.fairness_percent) / 100

    def _all_desired_pods(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for name, queue in self._queues.items():
            if queue.resizes:
                found[queue.entry.space] = {one.job.metadata.uid: one.desired for one in self._candidates[name]}
        return found

    # After it ---------------------------------------------------------------------------------------------------------------------

    def plan(
        self,
        result: RoundResult,
        marked: Collection[Job],
        queue_set: QueueSet,
        ending: frozenset[str],
        wall: float,
        now: float,
    ) -> ElasticPlan:
        """Return new sizes, sizes to restore, events and views.

        `marked`: Jobs that carry our annotations. `ending`: namespaces that are being deleted. `wall` is in seconds since the epoch, `now`
        in monotonic seconds.
        """
        if not self._queues and not marked:
            return ElasticPlan()
        decisions = {decision.job: decision for decision in result.slots}
        queues = {name: self._view(name, decisions, result.moved.get(name), now) for name in self._queues}
        sized = [one for name in sorted(queues) for one in self._sized(self._queues[name], queues[name])]
        writes, wait = plan_parallelism(sized, lambda job: self.runs.completing(job, now), self._damping, wall)
        given = {one.candidate.job.metadata.uid for one in sized}
        orphans = self._orphans(marked, given, _frozen_spaces(queue_set) | ending, queue_set.spaces) if marked else []
        events = self._events(queues.values(), writes, {one.decision.job: one for one in sized})
        return ElasticPlan(writes + plan_restores(orphans), events, queues, wait)

    def _orphans(self, marked: Collection[Job], sized: set[str], frozen: frozenset[str], spaces: Spaces) -> list[Job]:
        """Return the Jobs to restore: those that we have resized and that have no size from us now.

        In namespaces whose Jobs are sized, a Job keeps its parallelism if another controller sizes it or it demands no pods (suspended,
        complete).
        """
        resized = {
            queue.entry.space: {one.job.metadata.uid: one for one in self._candidates[name]}
            for name, queue in self._queues.items()
            if queue.resizes
        }
        found = []
        for job in marked:
            namespace, uid = job.metadata.namespace, job.metadata.uid
            space = spaces.of_queue(namespace, asks_for(job.spec.template.metadata.labels))
            candidate = resized[space].get(uid) if space in resized else None
            rests = space in resized and (candidate is None or _is_foreign(candidate))
            if not rests and uid not in sized and frozen.isdisjoint({namespace, space}):
                found.append(job)
        return found

    def _view(self, name: str, decisions: Mapping[str, SlotDecision], moved: FloatArray | None, now: float) -> QueueView:
        queue = self._queues[name]
        jobs = [
            JobView(one, decisions[one.value.name], self.runs.progress(one.job, one.alone_seconds, now))
            for one in self._candidates[name]
            if one.value.name in decisions
        ]
        problems = [one.problem for one in self._candidates[name] if one.problem is not None]
        problems += [_refused(one) for one in jobs if one.decision.reason == SlotReason.CURVE_REFUSED.value]
        declared = self._reader.queue_curve(name, queue.elasticity)
        return QueueView(queue.elasticity, self._knob(queue), jobs, moved, problems, declared.problem)

    def _sized(self, queue: _ElasticQueue, view: QueueView) -> list[Sizing]:
        """Return the Jobs that receive a size now: those with a curve, and those whose family's curve is being explored."""
        if not queue.resizes:
            return []
        curved = [one for one in view.jobs if one.candidate.elastic and one.decision.predicted is not None]
        found = [Sizing(one.candidate, one.decision, view.fairness_knob) for one in curved]
        if self._config.explore:
            found += [sizing for one in view.jobs if (sizing := self._exploring(one, view)) is not None]
        return found

    def _exploring(self, one: JobView, view: QueueView) -> Sizing | None:
        """Return an unseen size of the family for a Job that is about to begin. The Job keeps it for the whole run."""
        candidate, decision = one.candidate, one.decision
        family = family_of(candidate.job)
        if candidate.elastic or candidate.problem is not None or family is None or family in self.learned.curves:
            return None
        runs, mark = self.learned.runs(family), read_mark(candidate.job.metadata.annotations)
        if mark is not None:
            size = max(mark.given, safe_slots(runs, decision.fair, view.fairness_knob))
        elif candidate.job.status.succeeded or candidate.job.status.failed or decision.fair < 1:
            return None
        else:
            value = candidate.value
            size = next_parallelism(runs, decision.fair, value.minimum, value.maximum, 0, view.fairness_knob)
        message = f"It runs with {size} slots, {decision.fair} being fair, to learn how its family speeds up."
        return Sizing(candidate, replace(decision, given=size, reason=EXPLORING, message=message), view.fairness_knob)

    # Publishing -------------------------------------------------------------------------------------------------------------------

    def _events(self, queues: Iterable[QueueView], writes: Iterable[ParallelismWrite], sized: Mapping[str, Sizing]) -> list[JobEvent]:
        events, published = [], set()
        for problem in (problem for view in queues for problem in view.problems):
            key = problem.uid, problem.reason, problem.message
            published.add(key)
            if key not in self._last_published:
                events.append(JobEvent(problem.namespace, problem.name, problem.uid, problem.reason, problem.message, warning=True))
        self._last_published = published
        for write in writes:
            one = sized[f"{write.namespace}/{write.name}"]
            message = f"parallelism {write.present} -> {write.parallelism}. {one.decision.message}"
            events.append(JobEvent(write.namespace, write.name, one.candidate.job.metadata.uid, RESIZED, message, warning=False))
        return events


def _within(job: ElasticJob, capacity: FloatArray) -> ElasticJob:
    """Return the job with at most the pool's slots, which bounds the cost of evaluating a curve."""
    asked = job.request > 0
    fits = int(min(float((capacity[asked] / job.request[asked]).min()) + 1e-9, MOST_PARALLELISM))
    return job if job.maximum <= fits else replace(job, maximum=fits, minimum=min(job.minimum, fits))


def _jobs_of(controllers: ControllerIndex, space: str) -> list[Job]:
    """Return the Jobs of a space."""
    belongs = controllers.belongs_to(space)
    return [job for job in controllers.workloads(space).of("Job") if belongs(job.spec.template)]


def _frozen_spaces(queue_set: QueueSet) -> frozenset[str]:
    """Return the spaces in which Jobs are neither resized nor restored.

    These are the namespaces of other pools, those whose queue is suspended, and those whose queue has an invalid spec, so that their
    intended sizes are unknown.
    """
    unknown = {entry.space for entry in queue_set.governing if entry.queue is None or (entry.spec is not None and entry.spec.suspended)}
    return queue_set.elsewhere | unknown


def _elastic_queue(entry: QueueEntry) -> _ElasticQueue | None:
    spec = entry.queue.spec if entry.queue is not None else None
    if not isinstance(spec, ThroughputQueueSpec) or spec.elasticity is None or spec.suspended:
        return None
    return _ElasticQueue(entry, spec.elasticity, not entry.observed_only)


def _refused(one: JobView) -> JobProblem:
    metadata, message = one.candidate.job.metadata, one.decision.message
    if one.candidate.queues_curve:
        message += " The curve is that of the queue's spec."
    return JobProblem(metadata.namespace, metadata.name, metadata.uid, one.decision.reason, message)


def _is_foreign(candidate: Candidate) -> bool:
    return candidate.problem is not None and candidate.problem.reason == "ForeignManager"
