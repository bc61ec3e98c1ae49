"""`fairburst run`: connects caches, terms of leadership and web server, and stops them cleanly on SIGTERM.

Only the holder of the Lease runs rounds. The other processes keep their caches warm and decide nothing. A new leader reads the memory from
the cluster, as after a restart, but lists no pods.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, CredentialsError
from fairburst.kube.api.first_answer import first_answer
from fairburst.kube.api.informer import silence
from fairburst.kube.api.lease import LeaderElection
from fairburst.kube.api.objects import Pod
from fairburst.kube.api.retry import WriteRetries
from fairburst.kube.api.served_certificate import CertificateError
from fairburst.kube.apply import Applier
from fairburst.kube.caches import Caches
from fairburst.kube.election import elected
from fairburst.kube.garbage import short_collections
from fairburst.kube.object_writes import ObjectWrites
from fairburst.kube.sending import Channel
from fairburst.kube.serving import serving
from fairburst.kube.side_thread import Runner, SideThread, here
from fairburst.kube.supervision import stopped_by_signal, supervised
from fairburst.kube.term import Term
from fairburst.policy.decide import decide
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
    """One operator process. Without an `election` it leads as long as it runs. forecaster: the command of its forecaster, if it has one.

    `aside` runs what must not wait for a round; an `election` sends its requests there. `caches` follow the cluster all the time. `term` is
    the present term of leadership, or the next one; it is told what the caches follow.
    """

    def __init__(
        self, config: Config, client: ApiClient, election: LeaderElection | None = None, forecaster: Sequence[str] = (),
        aside: Runner = here,
    ) -> None:  # fmt: skip
        self._config, self._forecaster, self._aside = config, forecaster, aside
        self._client, self._election = client, election
        client.retries = WriteRetries(on_pardon=self._try_again)
        client.answers.on_return = client.retries.pardon
        if election is not None:
            election.share(client.answers)
        self.metrics = Metrics()
        self._recorder = recorder_of(config.recording)
        caches = self.caches = Caches(client, config, self)
        writes = ObjectWrites(
            client, config.pool.name, namespace_seen=caches.namespace_answered, quota_seen=caches.quota_answered,
            job_seen=caches.controller_answered,
        )  # fmt: skip
        self._applier = Applier(Channel(writes, self.metrics, self._progressed))
        self._ready, self._leading, self._term_began = False, False, -math.inf
        self.term = self._next_term()

    def _next_term(self) -> Term:
        policy = decide if self._recorder is None else self._recorder.decide
        return Term(self._config, self._client, self.caches, self._applier, self.metrics, policy=policy, forecaster=self._forecaster)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Caches are complete before the first round, so a restart changes no decision."""
        if self._recorder is not None:
            self._recorder.start()
        try:
            async with serving(
                self._config, self.metrics, self._aside, healthy=self.unhealthy, ready=self.unready,
                queues=lambda namespace: self.caches.queues.objects_in(namespace) if self._ready else None,
            ) as port:  # fmt: skip
                event(logger, logging.INFO, "started", pool=self._config.pool.name, port=port, server=self._client.credentials.server)
                await self._run(stop)
        finally:
            if self._recorder is not None:
                self._recorder.stop()

    async def _run(self, stop: asyncio.Event) -> None:
        ended = asyncio.create_task(stop.wait())
        tasks = [self._supervise(informer.path, informer.run) for informer in self.caches.informers()]
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
            await self.caches.queues.stop()

    def _supervise(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(supervised(name, run, self.metrics), name=name)

    async def _finish(self) -> None:
        """Finish the current round and write its statuses and memory, unless the API server takes too long."""
        if not self._leading:
            return
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self.term.finish()
        except TimeoutError:
            event(logger, logging.WARNING, "stopped with writes left", seconds=FINISH_SECONDS)

    async def _hand_over(self, election: LeaderElection) -> None:
        """Start no more writes, wait for those in flight, and then give up the Lease."""
        await self._aside(election.resign())
        await self._client.writes_ended()
        await self._aside(election.release())

    async def _run_terms(self) -> None:
        """Fill the caches; then lead whenever this process holds the Lease."""
        caches = self.caches
        await caches.fill()
        self._ready = True
        counts = {"pods": len(caches.pods.store), "nodes": len(caches.nodes.store), "queues": len(caches.queues.objects)}
        event(logger, logging.INFO, "ready", **counts)
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
        self._leading, self._term_began = True, time.monotonic()
        self.metrics.lead()
        try:
            await self.term.run(self._term_began if self._election is None else self._election.vacant_since)
        finally:
            self._leading = False
            self.metrics.stand_by()
            await self._applier.cancel()
            self.term = self._next_term()

    def unready(self) -> str | None:
        """Return why this process could not take over at once, or None: a standby is ready too."""
        if not self._ready:
            return "caches are not complete yet"
        if self._leading and (problem := self.term.loop.unready()) is not None:
            return problem
        return None if self._election is None else self._election.unread

    def unhealthy(self) -> str | None:
        """Return why a restart would help, or None. A slow or unreachable API server is no reason: caches and leadership would be lost."""
        idle = time.monotonic() - max(self.term.loop.last_progress, self._term_began)
        if self._leading and idle > self._config.rounds.interval_seconds + STUCK_SECONDS:
            return f"no round ended and no write was answered for {idle:.0f} s"
        return silence(self.caches.informers()) if self._ready else None

    def mark(self) -> None:
        """Note that something has changed."""
        self.term.loop.mark()

    def pod_changed(self, old: Pod | None, new: Pod | None, space: str, now: float) -> None:
        """Note one change of a pod of this space."""
        self.term.pod_changed(old, new, space, now)

    def pods_changed(self, namespaces: set[str]) -> None:
        """Note the end of a batch of changes of pods in these namespaces."""
        if not self._leading:  # no round does it
            self.caches.forget_ended_pods()
        self.term.pods_changed(namespaces)

    def controller_changed(self, kind: str, old: Any, new: Any) -> None:
        """Note one change of an object that creates pods."""
        self.term.controller_changed(kind, old, new)

    def _progressed(self) -> None:
        self.term.loop.progressed()

    def _try_again(self) -> None:
        self.term.try_again()
