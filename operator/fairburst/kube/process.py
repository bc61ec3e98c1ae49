"""`fairburst run`: connects informers, queue watch, engine, loop, writers and web server, and stops them cleanly on SIGTERM.

Only the holder of the Lease runs rounds. The other processes keep their caches warm and decide nothing. A new leader reads the memory from
the cluster, as after a restart, but lists no pods.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from fairburst.config import Config
from fairburst.kube.api.class_objects import COLLECTIONS, DeviceClass, PriorityClass, RuntimeClass
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, CredentialsError
from fairburst.kube.api.first_answer import first_answer
from fairburst.kube.api.informer import Informer, silence
from fairburst.kube.api.lease import LeaderElection
from fairburst.kube.api.objects import LIVE_PODS, Namespace, Node, Pod
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.api.retry import WriteRetries
from fairburst.kube.api.served_certificate import CertificateError
from fairburst.kube.apply import Applier
from fairburst.kube.election import elected
from fairburst.kube.evict import Evictor
from fairburst.kube.forecasts.forecaster import Forecaster
from fairburst.kube.garbage import short_collections
from fairburst.kube.loop import SchedulingLoop
from fairburst.kube.memories import Memories
from fairburst.kube.object_writes import ObjectWrites
from fairburst.kube.queues.queue_watch import QueueWatch
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.sending import Channel
from fairburst.kube.serving import serving
from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.side_thread import Runner, SideThread, here
from fairburst.kube.status_writer import StatusWriter
from fairburst.kube.supervision import reconnected, stopped_by_signal, supervised
from fairburst.kube.ungate import Ungater
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.recent_use import RecentUse
from fairburst.kube.usage.shared_parts import sharing
from fairburst.kube.views.elastic_view import figures
from fairburst.kube.work_event_writer import WorkEventWriter
from fairburst.kube.workloads.registry import KINDS
from fairburst.policy.decide import decide
from fairburst.policy.model import QueueKind
from fairburst.recording.writer import recorder_of
from fairburst.telemetry.log import event, set_up
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

# The process is stuck if no round ends and no write is answered for this long beyond a round's interval: no request takes longer.
STUCK_SECONDS = 60.0
NO_CLUSTER = 3  # exit status of every command for a cluster that cannot be reached or refuses
FINISH_SECONDS = 5.0  # for the last round and its statuses; Kubernetes kills the process 30 s after SIGTERM


def run(config: Config, forecaster: Sequence[str] = ()) -> int:
    """Run the operator until SIGTERM or SIGINT; return the exit code. forecaster: the command of its forecaster; without one, none runs."""
    set_up(config.log.level, config.log.json_lines)
    try:
        with short_collections():
            asyncio.run(_main(config, forecaster))
    except (ApiError, CertificateError, CredentialsError) as error:
        event(logger, logging.ERROR, "cannot run", problem=str(error))
        return 1 if isinstance(error, CertificateError) else NO_CLUSTER
    return 0


async def _main(config: Config, forecaster: Sequence[str]) -> None:
    stop = stopped_by_signal()
    # A restarted container has the same host name, and so have all processes of one machine.
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    rates = {"write_rate": config.writes.per_second, "write_burst": config.writes.burst}
    async with await ApiClient.connect(config.kubeconfig, config.context, **rates, agent=f"fairburst {identity}") as client:
        await first_answer(client, stop)
        async with SideThread() as aside, elected(config, client, identity, aside) as election:
            await Operator(config, client, election, forecaster, aside).run(stop)
    event(logger, logging.INFO, "stopped")


class Operator:
    """One operator process: its caches, its engine and its tasks. Without an `election` it leads as long as it runs.

    `aside` runs what must not wait for a round; an `election` sends its requests there.
    """

    def __init__(
        self, config: Config, client: ApiClient, election: LeaderElection | None = None, forecaster: Sequence[str] = (),
        aside: Runner = here,
    ) -> None:  # fmt: skip
        self._config, self._forecaster_command, self._aside = config, forecaster, aside
        self._client, self._election = client, election
        client.retries = WriteRetries(on_pardon=self._try_again)
        client.answers.on_return = client.retries.pardon
        if election is not None:
            election.share(client.answers)
        self.metrics = Metrics()
        self._recorder = recorder_of(config.recording)
        self._recent = RecentUse()
        self._pods = Informer(
            client, "/api/v1/pods", Pod, self._pods_changed, params=LIVE_PODS, on_lost=self._recent.watch_lost,
            on_event=sharing(self._on_pod),
        )  # fmt: skip
        self._nodes = Informer(client, "/api/v1/nodes", Node, self._mark, on_rewind=self._list_queues)
        self._classes = {kind: Informer(client, path, kind, self._mark, optional=True) for kind, path in COLLECTIONS.items()}
        self._namespaces = Informer(client, "/api/v1/namespaces", Namespace, self._mark)
        self._quotas = Informer(client, "/api/v1/resourcequotas", ResourceQuota, self._mark)
        self._limit_ranges = Informer(client, "/api/v1/limitranges", LimitRange, self._mark)
        self._controllers = {
            name: Informer(client, kind.collection, kind.item, self._mark, optional=kind.optional, on_event=self._controller_hook(name))
            for name, kind in KINDS.items()
        }
        self._queues = QueueWatch(client, on_change=self._mark)
        self._view = ClusterView(
            pods=PodIndex(config.pool.counted_resources, by_class=config.small_jobs.enabled),
            stored_pods=self._pods.store,
            controllers=ControllerIndex(),
            nodes=self._nodes.store,
            device_classes=self._classes[DeviceClass].store,
            runtime_classes=self._classes[RuntimeClass].store,
            priority_classes=self._classes[PriorityClass].store,
            namespaces=self._namespaces.store,
            quotas=self._quotas.store,
            limit_ranges=self._limit_ranges.store,
            read_queues=self._queues.in_force,
        )
        writes = ObjectWrites(
            client, config.pool.name, namespace_seen=self._namespace_seen, quota_seen=self._quota_seen, job_seen=self._job_seen
        )
        self._applier = Applier(Channel(writes, self.metrics, self._progressed))
        self._changed_pods_in: set[str] = set()
        self._ready, self._leading, self._term_began = False, False, -math.inf
        self._prepare_term()

    def _prepare_term(self) -> None:
        """Create the parts of a term of leadership: an engine without memory, the saved memory, the loop and the writers."""
        pool = self._config.pool.name
        self._engine = ObservingEngine(self._config, self._config.namespace, decide if self._recorder is None else self._recorder.decide)
        self._engine.absence.begin(self._recent)
        for pod in self._pods.store.values():
            self._engine.gates.pod_changed(None, pod)
        self._ungater = Ungater(self._client, self._engine.gates, self.metrics, pod_seen=self._pod_answered, on_failure=self._mark)
        self._status_writer = StatusWriter(self._client, pool, self.metrics, self._engine, self._queues, on_failure=self._retry)
        self._work_events = WorkEventWriter(self._client, pool, self.metrics, self._engine)
        self._forecaster = Forecaster(self._forecaster_command, self._client, self._config, self._engine, self._view, self.metrics)
        self._evictor = Evictor(self._client, pool, self._engine.reclaim, self.metrics, on_failure=self._mark)
        self._memories = Memories(self._client, self._config)
        self._loop = SchedulingLoop(self._engine, self._view, self._send, self._config.rounds, self.metrics)
        self._loop.after_round = self._after_round

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Caches are complete before the first round, so a restart changes no decision."""
        if self._recorder is not None:
            self._recorder.start()
        try:
            async with serving(
                self._config, self.metrics, self._aside, healthy=self.unhealthy, ready=self.unready,
                queues=lambda namespace: self._queues.objects_in(namespace) if self._ready else None,
            ) as port:  # fmt: skip
                event(logger, logging.INFO, "started", pool=self._config.pool.name, port=port, server=self._client.credentials.server)
                await self._run(stop)
        finally:
            if self._recorder is not None:
                self._recorder.stop()

    async def _run(self, stop: asyncio.Event) -> None:
        ended = asyncio.create_task(stop.wait())
        tasks = [self._supervise(informer.path, informer.run) for informer in self._informers()]
        tasks.append(asyncio.create_task(self._run_terms(), name="terms"))
        if (election := self._election) is not None:
            tasks.append(self._supervise("election", lambda: self._aside(election.run())))
        try:
            done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ended}:
                task.result()  # its caches could not be filled: raise the reason
        finally:
            await self._finish()
            if election is not None:
                await self._hand_over(election)
            for task in (ended, *tasks):
                task.cancel()
            await asyncio.gather(ended, *tasks, return_exceptions=True)
            await self._queues.stop()

    def _supervise(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(supervised(name, run, self.metrics), name=name)

    async def _finish(self) -> None:
        """Finish the current round and write its statuses and memory, unless the API server takes too long."""
        if not self._leading:
            return
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self._loop.finish()
                await asyncio.gather(self._applier.ended(), self._status_writer.flush(), self._memories.flush())
        except TimeoutError:
            event(logger, logging.WARNING, "stopped with writes left", seconds=FINISH_SECONDS)

    async def _hand_over(self, election: LeaderElection) -> None:
        """Start no more writes, wait for those in flight, and then give up the Lease."""
        await self._aside(election.resign())
        await self._client.writes_ended()
        await self._aside(election.release())

    async def _run_terms(self) -> None:
        """Fill the caches; then lead whenever this process holds the Lease."""
        for informer in self._informers():
            await informer.synced.wait()
        await self._queues.start()
        self._recent.watch_from(time.monotonic())
        self._ready = True
        event(logger, logging.INFO, "ready", pods=len(self._pods.store), nodes=len(self._nodes.store), queues=len(self._queues.objects))
        while self._election is not None:
            await self._election.leading.wait()
            await self._lead_until(self._election.standing_by)
        await supervised("lead", self._lead, self.metrics)

    async def _lead_until(self, standing_by: asyncio.Event) -> None:
        term, lost = self._supervise("lead", self._lead), asyncio.create_task(standing_by.wait())
        try:
            await asyncio.wait([term, lost], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (term, lost):
                task.cancel()
            await asyncio.gather(term, lost, return_exceptions=True)

    async def _lead(self) -> None:
        """Read the memory, which the former leader may have written until just now; then run rounds."""
        self._leading, self._term_began = True, time.monotonic()
        self._engine.absence.since = self._term_began if self._election is None else self._election.vacant_since
        self.metrics.lead()
        try:
            await asyncio.gather(reconnected(self._informers()), self._queues.refresh(), self._memories.recall(self._engine))
            async with asyncio.TaskGroup() as term:
                for name, run in (
                    ("rounds", self._loop.run),
                    ("ungater", self._ungater.run),
                    ("statuses", self._status_writer.run),
                    ("memories", functools.partial(self._memories.run, self._engine)),
                    ("evictions", self._evictor.run),
                    ("work events", self._work_events.run),
                    ("forecaster", self._forecaster.run),
                ):
                    term.create_task(supervised(name, run, self.metrics), name=name)
        finally:
            self._leading = False
            self.metrics.stand_by()
            await self._applier.cancel()
            self._prepare_term()

    def unready(self) -> str | None:
        """Return why this process could not take over at once, or None: a standby is ready too."""
        if not self._ready:
            return "caches are not complete yet"
        if self._leading and (problem := self._loop.unready()) is not None:
            return problem
        return None if self._election is None else self._election.unread

    def unhealthy(self) -> str | None:
        """Return why a restart would help, or None. A slow or unreachable API server is no reason: caches and leadership would be lost."""
        idle = time.monotonic() - max(self._loop.last_progress, self._term_began)
        if self._leading and idle > self._config.rounds.interval_seconds + STUCK_SECONDS:
            return f"no round ended and no write was answered for {idle:.0f} s"
        return silence(self._informers()) if self._ready else None

    def _informers(self) -> list[Informer[Any]]:
        kinds = *self._classes.values(), *self._controllers.values()
        return [self._pods, self._nodes, self._namespaces, self._quotas, self._limit_ranges, *kinds]

    def _progressed(self) -> None:
        self._loop.progressed()  # of the present term

    def _mark(self) -> None:
        self._loop.mark()

    def _list_queues(self) -> None:
        self._queues.request_relist()

    def _retry(self) -> None:
        self._loop.retry()

    def _try_again(self) -> None:
        """Send at once the writes that waited because the API server failed."""
        self._engine.resyncs.pardon(time.monotonic())
        self._loop.mark()

    def _pods_changed(self) -> None:
        """Handle a batch of pod events. Pods that the last round's levels permit are released at once, without another round."""
        changed, self._changed_pods_in = self._changed_pods_in, set()
        if not self._leading:  # no round does it
            self._view.changed_namespaces |= self._view.pods.expire(time.time())
        if not self._recent.watching and self._pods.connected.is_set():
            self._recent.watch_from(time.monotonic())
        self._ungater.send(self._engine.gates.between_rounds(changed, self._view.pods), time.monotonic())
        self._loop.mark(urgent=self._engine.gates.next_has_arrived())

    def _pod_answered(self, pod: Pod) -> None:
        """Store the answer to a patch, unless the pod has ended meanwhile: no further event would report that."""
        if (pod.metadata.namespace, pod.metadata.name) in self._pods.store:
            self._pods.observe(pod)

    def _on_pod(self, _: str, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        namespace, space, now = pod.metadata.namespace, self._view.pods.space_of(pod), time.monotonic()
        self._view.pods.update(old, new)
        self._recent.pod_changed(old, new, time.time(), now)
        self._view.changed_namespaces.add(namespace)
        if old is None and self._engine.queues.kind_of(namespace) is QueueKind.LATENCY:
            self._applier.hurry()
        self._engine.gates.pod_changed(old, new, now)
        self._changed_pods_in.add(namespace)
        if old is not None and not old.ended and (new is None or new.ended):
            self._engine.pod_ended(space, now)
        self._engine.pod_changed(old, new, self._view.pods, time.time(), now)
        self._forecaster.pod_changed(old, new)
        self._engine.slots.pod_changed(old, new, now, watched=self._pods.synced.is_set())
        if self._pods.synced.is_set():  # the first list shows no rate of creation
            self._view.pace.observe(old, new, now, elastic=self._engine.queues.kind_of(space) is QueueKind.THROUGHPUT)

    def _controller_hook(self, kind: str) -> Callable[[str, Any, Any], None]:
        def changed(_: str, old: Any, new: Any) -> None:
            self._view.controllers.update(kind, old, new)
            self._view.changed_namespaces.add(namespace := (new or old).metadata.namespace)
            if self._engine.queues.kind_of(namespace) is QueueKind.LATENCY:
                self._applier.hurry()
            if kind == "Job":
                self._engine.slots.job_changed(old, new, time.time(), time.monotonic())
            if new is None:
                self._view.pods.forget_owner(old.metadata.namespace, old.metadata.uid)

        return changed

    def _job_seen(self, obj: dict[str, Any]) -> None:
        self._controllers[obj["kind"]].observe(msgspec.convert(obj, KINDS[obj["kind"]].item))

    def _namespace_seen(self, obj: dict[str, Any]) -> None:
        self._namespaces.observe(msgspec.convert(obj, Namespace))

    def _quota_seen(self, obj: dict[str, Any]) -> None:
        self._quotas.observe(msgspec.convert(obj, ResourceQuota))

    async def _send(self, plan: RoundPlan) -> bool:
        self._ungater.send(plan.ungates, plan.since)
        evictions = plan.reclaim.evictions
        if evictions and await self._memories.before_evictions(self._engine):
            self._evictor.send(evictions)
        else:
            self._engine.reclaim.not_done(evictions)
        applied = await self._applier.apply(plan, self._engine.quota_written, self._engine.resyncs.planner.not_resynced)
        return await self._status_writer.write(plan) and applied

    def _after_round(self, plan: RoundPlan) -> None:
        for step, count in self._engine.contained.failures.items():
            self.metrics.contained_failures.labels(step).inc(count)
        self._engine.contained.failures.clear()
        if plan.statuses_planned:
            self._show(plan)
        self._memories.note(plan)
        self._work_events.note(plan)
        self._forecaster.note(plan)

    def _show(self, plan: RoundPlan) -> None:
        """Publish metrics of the round and of the queues whose statuses were computed."""
        shares = plan.dominant_shares([row for row, _ in plan.shown]).tolist()
        for (_, decision), (allocated, used, pending) in zip(plan.shown, shares, strict=True):
            remembered = self._engine.memory.entry(decision.queue)
            self.metrics.queues.show(
                decision,
                allocated=allocated,
                used=used,
                pending=pending,
                met=remembered.met,
                missed=remembered.missed,
                false_conditions=plan.false_conditions.get(decision.queue, set()),
                wall=time.time(),
            )
        if plan.shows_all:
            names = ((*spec.name.partition("/"), spec.kind.value) for spec in plan.queue_set.specs)
            self.metrics.queues.forget({(namespace, name, kind) for namespace, _, name, kind in names})
        if plan.result.dress is not None:
            self.metrics.show_reserve(plan.result.dress)
        self.metrics.show_elasticity({name: figures(view) for name, view in plan.elastic.queues.items()})
        learned = self._engine.slots.learned
        self.metrics.show_families(len(learned.curves), len(learned.refusals), unreadable=self._memories.job_runs_unreadable)
        self.metrics.show_watches(self._queues.restarts, {informer.path: informer.lists for informer in self._informers()})
