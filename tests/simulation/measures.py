"""The cost of a fault, measured from the API server's objects and not from the operator's own counts: rows of docs/reliability.md."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fairburst.kube.names import LANE_OF_CLASS, LANE_QUOTAS
from fairburst.kube.process import Operator
from fairburst.kube.queues.lanes import asks_for
from fairburst.kube.rounds.view import RoundPlan
from fairburst.policy.table import OPEN
from tests.simulation import controllers, quotas
from tests.simulation.api_server import ApiServer, Write
from tests.simulation.controllers import SECONDS_ANNOTATION, PodKey
from tests.simulation.invariants import Invariants
from tests.simulation.replica import Replica
from tests.simulation.resources import JOBS, LATENCY_QUEUES, PODS, QUOTAS, Object
from tests.simulation.rounds_seen import before_each_round_is_shown
from tests.simulation.scenario import DEFAULT_QUEUE, Tenant
from tests.simulation.virtual_time import EPOCH

SAME_SECONDS = 0.01  # windows that open closer to each other are the same
LOOK_SECONDS = 0.1  # how finely recovery is measured
TAKE_OVER_SECONDS = 9.0  # until another replica leads, at most: docs/queues.md, "When the operator is absent"
LOOK_AGAIN_SECONDS = 3.0  # until a miss is in the status
START_SECONDS = 4.0  # from a write of the operator to the start of the last pod: controllers, quota controller, scheduler, kubelet


@dataclass
class _Burst:
    """One Job of a queue that was promised its bursts when the Job came.

    latest: when its pods have to be released at the latest. within_reach: whether it needed no write of the operator, or some replica could
    write between its arrival and then. crowded: whether its queue evicts no work, and what had been bound before its arrival left it too
    little room on the nodes at `latest`; None before that. No operator could have kept such a burst.
    """

    job: Object
    arrival: float
    deadline: float
    latest: float
    needs_webhook: bool
    evicts: bool
    within_reach: bool
    crowded: bool | None = None
    done_at: float | None = None

    @property
    def late(self) -> bool:
        return self.done_at is None or self.done_at > self.deadline


@dataclass
class _Use:
    """The cpu that a namespace's bound pods have used up to each change, in cpu-seconds of virtual time."""

    times: list[float] = field(default_factory=lambda: [0.0])
    totals: list[float] = field(default_factory=lambda: [0.0])
    rates: list[float] = field(default_factory=lambda: [0.0])

    def put(self, now: float, rate: float) -> None:
        """Set the rate of use from `now` on."""
        total = self.at(now)
        self.times.append(now)
        self.totals.append(total)
        self.rates.append(rate)

    def at(self, now: float) -> float:
        """Return the use until `now`."""
        last = bisect_right(self.times, now) - 1
        return self.totals[last] + self.rates[last] * (now - self.times[last])


@dataclass(frozen=True)
class _Account:
    """The open window that a process knew after its round."""

    who: str
    opened: float
    deadline: float


class Measures:
    """Measures one run. `over`: the time at which the last fault has ended."""

    def __init__(
        self, server: ApiServer, replicas: Sequence[Replica], invariants: Invariants, tenants: Sequence[Tenant], over: float
    ) -> None:
        self.recovered_seconds = 0.0
        # Both in seconds of the whole declared burst: the error of the next process about a window that the last one knew, and the largest
        # difference between an account and the truth while a process runs.
        self.lost_seconds = self.unseen_seconds = 0.0
        self._server, self._replicas, self._invariants, self._over = server, replicas, invariants, over
        self._deadlines = {one.namespace: one.spec["burst"]["deadlineSeconds"] for one in tenants if one.collection == LATENCY_QUEUES}
        self._cpu = {one.namespace: float(one.spec["burst"]["resources"]["cpu"]) for one in tenants if one.collection == LATENCY_QUEUES}
        self._bursts: dict[tuple[str, str], _Burst] = {}
        self._accounts: dict[str, _Account] = {}
        self._reach = _Reach(replicas)
        self._led_since: dict[str, float] | None = None  # None before the first look, at which all leaders count as settled
        self._uses = {namespace: _Use() for namespace in self._deadlines}
        self._bound_at: dict[PodKey, float] = {}
        server.observers.append(self._on_write)
        for replica in replicas:
            replica.on_start = self._watching(replica.on_start)

    # Bursts ----------------------------------------------------------------------------------------------------------

    def bursts(self, until: float, *, within_reach: bool) -> tuple[int, int]:
        """How many bursts within reach, or out of it, were promised and due by `until`, and how many of them were not done by their
        deadline. A Job that was refused at its creation is out of reach."""
        due = [one for one in self._bursts.values() if one.deadline <= until and (one.within_reach and not one.crowded) is within_reach]
        asked = [] if within_reach else [job for job in self._server.refused_jobs if _of_default_queue(job)]
        refused = sum(self._is_promised(job["metadata"]["namespace"]) for job in asked)
        return len(due) + refused, sum(one.late for one in due) + refused

    def waited_late(self, until: float) -> int:
        """How many bursts that were due by `until` were late, and were not done when the last fault had ended: a leader saw their work."""
        waited = [one for one in self._bursts.values() if one.done_at is None or one.done_at > self._over]
        return sum(one.late and one.deadline <= until - LOOK_AGAIN_SECONDS for one in waited)

    async def reach(self, until: float) -> None:
        """Look often whether a replica could serve the bursts that wait."""
        loop = self._server.loop
        while loop.now < until:
            if self._reach.can_write(loop.now):
                for one in self._bursts.values():
                    served = not (one.needs_webhook and self._server.webhook_down)
                    one.within_reach |= served and one.arrival <= loop.now <= max(one.latest, one.arrival + LOOK_SECONDS)
            for one in self._bursts.values():
                if one.crowded is None and loop.now >= max(one.latest, one.arrival):
                    one.crowded = not one.evicts and self._is_crowded(one)
            await asyncio.sleep(LOOK_SECONDS)

    def _is_crowded(self, burst: _Burst) -> bool:
        """Whether the nodes have too little room for the burst, even without what has been bound since its arrival."""
        since = {key for key, at in self._bound_at.items() if at >= burst.arrival}
        return controllers.places(self._server, {"spec": burst.job["spec"]["template"]["spec"]}, since) < burst.job["spec"]["parallelism"]

    def _on_write(self, write: Write) -> None:
        if write.collection == PODS:
            self._note_binding(write)
        if write.collection == JOBS and write.new is not None and write.namespace in self._deadlines:
            if _of_default_queue(write.new):
                self._on_job(write.namespace, write.new, is_new=write.old is None)
        elif write.collection == PODS and write.namespace in self._uses:
            own = (pod for pod in self._server.of(PODS, write.namespace) if pod["spec"].get("priorityClassName") not in LANE_OF_CLASS)
            pods = (pod for pod in own if pod["spec"].get("nodeName") and not quotas.is_released(pod))
            rate = sum(float(quotas.requests_of(pod).get("cpu", 0)) for pod in pods)
            self._uses[write.namespace].put(self._server.loop.now, rate)

    def _note_binding(self, write: Write) -> None:
        pod = write.new or write.old or {}
        key = write.namespace, pod["metadata"]["name"]
        if write.new is None:
            self._bound_at.pop(key, None)
        elif pod["spec"].get("nodeName"):
            self._bound_at.setdefault(key, self._server.loop.now)

    def _on_job(self, namespace: str, job: Object, *, is_new: bool) -> None:
        now, key = self._server.loop.now, (namespace, job["metadata"]["name"])
        if is_new:
            if self._is_promised(namespace):
                queue = self._server.objects[LATENCY_QUEUES][namespace, "queue"]
                seconds = float(job["spec"]["template"]["metadata"]["annotations"][SECONDS_ANNOTATION])
                deadline, mode = now + self._deadlines[namespace], queue["spec"].get("enforcement", "Quota")
                needs_write = mode != "Quota" or not self._has_room(namespace, job)
                latest = deadline - seconds - START_SECONDS
                evicts = queue["spec"].get("reclaim") == "Evict"
                self._bursts[key] = _Burst(job, now, deadline, latest, mode == "Gate", evicts, within_reach=not needs_write)
        elif key in self._bursts and (job.get("status") or {}).get("completionTime") and self._bursts[key].done_at is None:
            self._bursts[key].done_at = now

    def _is_promised(self, namespace: str) -> bool:
        queue = self._server.get(LATENCY_QUEUES, namespace, "queue") or {}
        enforced = queue.get("spec", {}).get("enforcement") != "Observe"
        return enforced and (queue.get("status") or {}).get("class") == "Hard"

    def _has_room(self, namespace: str, job: Object) -> bool:
        """Whether the quotas and the nodes, as they are, take all pods of a new Job."""
        pods, template = job["spec"]["parallelism"], {"spec": job["spec"]["template"]["spec"]}
        for quota in (one for one in self._server.of(QUOTAS, namespace) if one["metadata"]["name"] not in LANE_QUOTAS.values()):
            status = quota.get("status") or {}
            for key, limit in (status.get("hard") or {}).items():
                charge = (quotas.charged(template, key) or 0) * pods
                if charge and quotas.exact(str((status.get("used") or {}).get(key, "0"))) + charge > quotas.exact(str(limit)):
                    return False
        return controllers.places(self._server, template) >= pods

    # Accounts --------------------------------------------------------------------------------------------------------

    def _watching(self, before: Callable[[Replica, Operator], None]) -> Callable[[Replica, Operator], None]:
        def on_start(replica: Replica, operator: Operator) -> None:
            before(replica, operator)

            def ended(plan: RoundPlan) -> None:
                if replica.link.alive:
                    self._on_round(plan, operator, replica)

            before_each_round_is_shown(operator, ended)

        return on_start

    def _on_round(self, plan: RoundPlan, operator: Operator, replica: Replica) -> None:
        """Compare the delivery of each open window with the use of its pods; a window that another process knew counts as taken over."""
        columns = operator.term.engine.memory.columns
        if columns is None:
            return
        now, ahead = self._server.loop.now, replica.clock.ahead - operator.term.engine._wall_clock.ahead
        delivered = columns.delivered(EPOCH + now + ahead)
        cpu = plan.snapshot.resources.index("cpu")
        capacity = plan.snapshot.committed_capacity[cpu] or plan.snapshot.live_capacity[cpu]
        for row, name in enumerate(columns.declared.names):
            namespace, _, queue = name.partition("/")
            use = self._uses.get(namespace) if queue == DEFAULT_QUEUE else None
            if use is None:
                continue
            rate = self._cpu[namespace] / capacity
            is_open, former = columns.state[row] == OPEN, self._accounts.pop(namespace, None)
            opened = float(columns.opened[row]) - EPOCH - ahead
            if former is not None and former.who != replica.identity and now < former.deadline:
                late, used = abs(opened - former.opened), (use.at(min(now, former.deadline)) - use.at(former.opened)) / capacity
                lost = late if late > SAME_SECONDS else abs(used - float(delivered[row])) / rate
                self.lost_seconds = max(self.lost_seconds, lost)
            if is_open:
                used = (use.at(now) - use.at(opened)) / capacity
                self.unseen_seconds = max(self.unseen_seconds, abs(used - float(delivered[row])) / rate)
                deadline = float(columns.deadline[row]) - EPOCH - ahead
                self._accounts[namespace] = _Account(replica.identity, opened, deadline)

    # Recovery --------------------------------------------------------------------------------------------------------

    async def recovery(self, until: float) -> None:
        """Look often from the end of the faults on, and set `recovered_seconds` to the last look with a difference."""
        loop = self._server.loop
        await asyncio.sleep(max(0.0, self._over - loop.now))
        while loop.now < until:
            if self._amiss():
                self.recovered_seconds = loop.now - self._over + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)

    def _amiss(self) -> bool:
        """Return True if anything differs from a run without faults, or if a leader has not ended a round."""
        leading = {one.identity: one.operator for one in self._replicas if one.running and one.operator and one.operator._leading}
        before, now = self._led_since, self._server.loop.now
        self._led_since = {who: 0.0 if before is None else before.get(who, now) for who in leading}
        idle = any(self._invariants.last_round(who) < since for who, since in self._led_since.items())
        return bool(self._invariants.amiss()) or idle or any(_waiting_writes(one, now) for one in leading.values())


class _Reach:
    """Whether the operator can write: its leader's link passes writes. Without a leader it cannot for as long as a take-over may last.

    Faults and the Lease decide, not what the operator makes of them: where no replica leads after that time, it counts as able to.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self._excused_until: float | None = None

    def can_write(self, now: float) -> bool:
        able = [one for one in self._replicas if one.running and one.link.passes_writes]
        if any(one.operator is not None and one.operator._leading for one in able):
            self._excused_until = None
            return True
        if self._excused_until is None or not able:
            self._excused_until = now + TAKE_OVER_SECONDS
        return now > self._excused_until


def _of_default_queue(job: Object) -> bool:
    return not asks_for((job["spec"]["template"].get("metadata") or {}).get("labels"))


def _waiting_writes(operator: Operator, now: float) -> bool:
    """Return True if a failed write waits for its next attempt."""
    retries = operator._client.retries
    return retries is not None and any(one.waits_until > now for one in retries._failing.values())
