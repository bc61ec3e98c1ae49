"""A cluster in virtual time on which quotas are enforced as admission does it, around the operator's engine.

Controllers create pods while the quota has room, charges of ended pods are released late, the scheduler binds by priority and then in
order of creation, nothing is preempted. A model of the effects of enforcement on a decision; tests/t1 has the real API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.workload.plans import LatencyPlan
from e2e.workload.stages import DagJob, Stage
from fairburst.kube.shadow import ObservingEngine
from fairburst.policy.baselines import Policy
from fairburst.policy.model import GuaranteeClass
from fairburst.quantity import parse_quantity
from tests.support.objects import World, job, pod, quota, requesting

STEP_SECONDS = 0.25
PRIORITY = {GuaranteeClass.HARD: 2000, GuaranteeClass.SOFT: 1000}


@dataclass(eq=False)
class JobRun:
    """A DAG job under way."""

    name: str
    namespace: str
    spec: DagJob
    begun: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)


@dataclass(eq=False)
class StageRun:
    """A stage as a Kubernetes Job: pods made and ended so far; `shown` is the object as the operator sees it."""

    run: JobRun
    index: int
    made: int = 0
    ended: int = 0
    shown: Any = None

    @property
    def stage(self) -> Stage:
        return self.run.spec.stages[self.index]

    @property
    def name(self) -> str:
        return f"{self.run.name}-{self.index}"


@dataclass(eq=False)
class VirtualPod:
    """A pod of a stage; bound once it has a node, ended at `ends`."""

    name: str
    of: StageRun
    node: str = ""
    ends: float = 0.0


class QuotaCluster:
    """`overhead_seconds`: how long a pod is bound beyond its work. `release_seconds`: from its end until its charge is released."""

    def __init__(self, world: World, policy: Policy, *, overhead_seconds: float, release_seconds: float) -> None:
        self.world = world
        world.engine = ObservingEngine(world.config, world.config.namespace, policy)
        self.overhead, self.release = overhead_seconds, release_seconds
        self.free = {name: parse_quantity(node.status.allocatable["cpu"]) for (_, name), node in world.nodes.items()}
        self.stages: list[StageRun] = []
        self.pending: list[VirtualPod] = []
        self.bound: list[VirtualPod] = []
        self.stored: Counter[str] = Counter()
        self.unreleased: list[tuple[float, str, float]] = []
        self.priority: dict[str, int] = {}
        self.due = 0.0
        self.dirty = True

    def run(self, planned: Sequence[LatencyPlan], started: float, seconds: float) -> None:
        """Let the plan come from `started` (seconds since the epoch) on; a round at every step in which something happened."""
        arrivals = sorted(
            ((burst.at, plan.namespace, number, burst.job) for plan in planned for number, burst in enumerate(plan.bursts)),
            key=lambda item: item[:3],
        )
        zero = self.world.now + started - self.world.wall
        for step in range(int(seconds / STEP_SECONDS)):
            now = step * STEP_SECONDS
            self.world.wall, self.world.now = started + now, zero + now
            while arrivals and arrivals[0][0] <= now:
                _, namespace, number, spec = arrivals.pop(0)
                self._begin(JobRun(f"{namespace}{number}", namespace, spec))
            self._end_pods(now)
            self._create_pods()
            self._bind_pods(now)
            if self.dirty or self.world.now >= self.due:
                self._round()

    def _begin(self, run: JobRun) -> None:
        """Create the Jobs of all stages whose parents have ended."""
        for index, stage in enumerate(run.spec.stages):
            if index not in run.begun and run.done.issuperset(stage.parents):
                run.begun.add(index)
                self.stages.append(StageRun(run, index))
                self._show(self.stages[-1])

    def _show(self, stage: StageRun) -> None:
        self.dirty = True
        tasks, left = stage.stage.tasks, stage.stage.tasks - stage.ended
        status = {"succeeded": stage.ended}
        new = job(stage.run.namespace, stage.name, tasks, charge(stage), completions=tasks, status=status) if left else None
        self.world.controller("Job", stage.shown, new)
        stage.shown = new

    def _end_pods(self, now: float) -> None:
        self.unreleased = [item for item in self.unreleased if item[0] > now]
        for one in [one for one in self.bound if one.ends <= now]:
            stage, namespace = one.of, one.of.run.namespace
            self.bound.remove(one)
            self.free[one.node] += stage.stage.cpu
            self.world.end(namespace, one.name)
            self.stored[namespace] -= round(stage.stage.cpu)
            self.unreleased.append((now + self.release, namespace, stage.stage.cpu))
            stage.ended += 1
            self._show(stage)
            if stage.ended == stage.stage.tasks:
                self.stages.remove(stage)
                stage.run.done.add(stage.index)
                self._begin(stage.run)

    def _used(self, namespace: str) -> float:
        """Return the use in the quota's status: charges of pods that exist, and charges that are not released yet."""
        return self.stored[namespace] + sum(cpu for _, whose, cpu in self.unreleased if whose == namespace)

    def _create_pods(self) -> None:
        for stage in self.stages:
            namespace, cpu = stage.run.namespace, stage.stage.cpu
            hard = parse_quantity((self.world.quotas[namespace, "fairburst"].spec.hard or {})["requests.cpu"])
            while stage.made < stage.stage.tasks and self._used(namespace) + cpu <= hard:
                stage.made += 1
                self.stored[namespace] += round(cpu)
                self.pending.append(VirtualPod(f"{stage.name}-{stage.made}", stage))
                self._put(self.pending[-1])

    def _bind_pods(self, now: float) -> None:
        for one in sorted(self.pending, key=lambda one: -self.priority.get(one.of.run.namespace, 0)):
            cpu = one.of.stage.cpu
            node = max(self.free, key=lambda name: self.free[name])
            if self.free[node] < cpu:
                continue
            self.free[node] -= cpu
            one.node, one.ends = node, now + one.of.stage.seconds + self.overhead
            self.pending.remove(one)
            self.bound.append(one)
            self._put(one)

    def _put(self, one: VirtualPod) -> None:
        self.dirty = True
        phase = "Running" if one.node else "Pending"
        self.world.put(pod(one.of.run.namespace, one.name, charge(one.of), owner=("Job", one.of.name), node=one.node, phase=phase))

    def _round(self) -> None:
        for (namespace, name), held in list(self.world.quotas.items()):
            used = round(self._used(namespace))
            self.world.quotas[namespace, name] = quota(
                namespace, dict(held.spec.hard or {}), {"requests.cpu": f"{used}", "requests.memory": f"{2 * used}Gi"}
            )
        plan = self.world.round()
        self.due, self.dirty = min(plan.due, self.world.now + 10), False
        for spec, granted in zip(plan.snapshot.queues, plan.result.classes, strict=True):
            self.priority[spec.name.split("/", maxsplit=1)[0]] = PRIORITY.get(granted, 0) if granted else 0


def charge(stage: StageRun) -> dict[str, Any]:
    """A task's container: twice as many Gi as cpu."""
    return requesting(f"{stage.stage.cpu:g}", f"{2 * stage.stage.cpu:g}Gi")
