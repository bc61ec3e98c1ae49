"""Faults by seed: their kind, time, duration and victims."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.simulation.api_server import ApiServer
from tests.simulation.connection import Faults
from tests.simulation.damage import Damage
from tests.simulation.fault import Fault
from tests.simulation.object_faults import ObjectFaults
from tests.simulation.replica import Replica
from tests.simulation.resources import NODES, PODS, QUOTAS
from tests.simulation.scenario import Scenario

FIRST_SECONDS, LAST_SECONDS = 15.0, 75.0  # when faults begin
SILENCE_SECONDS = 75.0  # until a stalled watch is noticed: a bookmark comes each minute, and the client ends a watch after 70 s of silence

Chosen = Callable[["FaultPlan"], list["Fault"]]


class FaultPlan:
    """The faults of one run: drawn from the seed, or `chosen`. `damage`: draws some for a choice."""

    def __init__(
        self, server: ApiServer, replicas: list[Replica], scenario: Scenario, source: random.Random, chosen: Chosen | None = None
    ) -> None:
        self._server, self._replicas, self._scenario, self._source = server, replicas, scenario, source
        self.damage = Damage(server, scenario, source)
        self._tasks: set[asyncio.Task[None]] = set()
        drawn = [self._draw() for _ in range(source.randint(3, 8))] + self._of_objects() if chosen is None else chosen(self)
        self.faults = sorted(drawn, key=lambda fault: fault.at)
        self.over = max(fault.over for fault in self.faults)

    def start(self) -> None:
        """Set the timers."""
        loop = self._server.loop
        for fault in self.faults:
            loop.call_at(fault.at, fault.begin)
            loop.call_at(fault.at + fault.seconds, fault.end)

    def _draw(self) -> Fault:
        draw = self._source.choice(_KINDS)
        return draw(self, self._source.uniform(FIRST_SECONDS, LAST_SECONDS))

    def _of_objects(self) -> list[Fault]:
        """Draw faults of objects for most runs, from a source of their own: all other faults of a seed stay the same."""
        own = random.Random(repr(self._source.getstate()))
        faults = ObjectFaults(self._server, self._replicas, self._scenario, own)
        return [faults.draw(own.uniform(FIRST_SECONDS, LAST_SECONDS)) for _ in range(own.choice((0, 1, 1, 2, 3)))]

    # On the way to the API server ------------------------------------------------------------------------------------

    def _on_links(self, name: str, at: float, seconds: float, *, one: bool = False, **changes: Any) -> Fault:
        """Change the links of one replica, or of all, for a while."""
        hit = [self._source.choice(self._replicas)] if one or self._source.random() < 0.3 else self._replicas
        ordinary = Faults()

        def change(values: dict[str, Any]) -> None:
            for replica in hit:
                replica.link.faults = replace(replica.link.faults, **values)

        back = {key: getattr(ordinary, key) for key in changes}
        return Fault(name, at, seconds, lambda: change(changes), lambda: change(back))

    def _latency(self, at: float) -> Fault:
        low = self._source.uniform(0.02, 1.0)
        return self._on_links("latency", at, self._source.uniform(3, 25), latency=(low, low * self._source.uniform(1, 3)))

    def _slow_server(self, at: float) -> Fault:
        low = self._source.uniform(0.1, 4.0)
        return self._on_links("slow API server", at, self._source.uniform(3, 25), processing=(low, low * 2))

    def _stuck(self, at: float) -> Fault:
        chance, seconds = self._source.uniform(0.05, 0.5), self._source.uniform(5, 25)
        return replace(self._on_links("requests stuck", at, seconds, stuck=chance), felt=seconds + 40)

    def _lease_errors(self, at: float) -> Fault:
        stuck = self._source.choice((0.0, 0.5))
        fault = self._on_links("lease refused", at, self._source.uniform(5, 40), one=True, lease_errors=1.0, stuck=stuck)
        return replace(fault, felt=fault.seconds + 40)

    def _conflicts(self, at: float) -> Fault:
        return self._on_links("409", at, self._source.uniform(3, 25), conflict=self._source.uniform(0.1, 0.9))

    def _busy(self, at: float) -> Fault:
        chance, seconds = self._source.uniform(0.1, 0.9), self._source.choice((0.1, 1.0, 5.0))
        return self._on_links("429", at, self._source.uniform(3, 25), busy=chance, retry_after=seconds)

    def _errors(self, at: float) -> Fault:
        codes = self._source.choice(((500,), (503,), (500, 502, 503, 504)))
        return self._on_links("5xx", at, self._source.uniform(3, 30), errors=self._source.choice((0.2, 0.6, 1.0)), codes=codes)

    def _resets(self, at: float) -> Fault:
        before, after = self._source.uniform(0, 0.5), self._source.uniform(0, 0.5)
        return self._on_links("resets", at, self._source.uniform(3, 25), lost_before=before, lost_after=after)

    def _torn(self, at: float) -> Fault:
        return self._on_links("torn events", at, self._source.uniform(3, 25), torn=self._source.uniform(0.01, 0.4))

    def _doubled(self, at: float) -> Fault:
        return self._on_links("doubled events", at, self._source.uniform(3, 25), doubled=self._source.uniform(0.1, 1.0))

    def _cut(self, at: float) -> Fault:
        return self._on_links("cut off", at, self._source.uniform(1, 40), one=self._source.random() < 0.7, cut=True)

    def _down(self, at: float) -> Fault:
        return self.down(at, self._source.uniform(1, 30))

    def down(self, at: float, seconds: float) -> Fault:
        """Refuse connections, and end open ones."""
        fault = self._on_links("API server down", at, seconds, refused=True)

        def begin() -> None:
            fault.begin()
            for replica in self._replicas:
                replica.link.reset_streams()

        return replace(fault, begin=begin)

    def failing_writes(self, at: float, seconds: float) -> Fault:
        """Answer every write of every replica with 500, except those of leases."""

        def put(chance: float) -> None:
            for replica in self._replicas:
                replica.link.faults = replace(replica.link.faults, write_errors=chance, codes=(500,))

        return Fault("500 to writes", at, seconds, lambda: put(1.0), lambda: put(0.0))

    # Watches ---------------------------------------------------------------------------------------------------------

    def _stalled(self, at: float) -> Fault:
        at = self._source.uniform(FIRST_SECONDS, 40)
        replica = self._source.choice(self._replicas)

        def begin() -> None:
            replica.link.stall_streams()

        return Fault("stalled watches", at, 0, begin, felt=SILENCE_SECONDS)

    def _dropped(self, at: float) -> Fault:
        return Fault("watches dropped", at, 0, lambda: [replica.link.reset_streams() for replica in self._replicas])

    def _expired(self, at: float) -> Fault:
        """End the watches for a while, and forget the versions that they would resume from."""
        down = self._down(at)

        def end() -> None:
            self._server.compact()
            down.end()

        return replace(down, name="410", end=end)

    def _error_events(self, at: float) -> Fault:
        def begin() -> None:
            for collection in (PODS, NODES, QUOTAS):
                self._server.send_error(collection)

        return Fault("ERROR events", at, 0, begin)

    # Processes and clocks --------------------------------------------------------------------------------------------

    def _killed(self, at: float) -> Fault:
        replica = self._source.choice(self._replicas)
        return Fault("kill -9", at, self._source.uniform(0.5, 20), replica.kill, lambda: replica.running or replica.start())

    def _both_killed(self, at: float) -> Fault:
        return Fault(
            "kill -9 of all",
            at,
            self._source.uniform(0.5, 20),
            lambda: [replica.kill() for replica in self._replicas],
            lambda: [replica.running or replica.start() for replica in self._replicas],
        )

    def _stopped(self, at: float) -> Fault:
        replica = self._source.choice(self._replicas)

        async def restart() -> None:
            await replica.stop()
            if not replica.running:
                replica.start()

        def begin() -> None:
            task = self._server.loop.create_task(restart())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return Fault("SIGTERM", at, 0, begin, felt=30)

    def _clock_step(self, at: float) -> Fault:
        replica, step = self._source.choice(self._replicas), self._source.choice((-3600, -60, -5, 5, 60, 3600))

        def ahead(seconds: float) -> None:
            replica.clock.ahead = seconds

        return Fault(f"clock {step:+d} s", at, self._source.uniform(5, 25), lambda: ahead(step), lambda: ahead(0.0))

    # By hand ---------------------------------------------------------------------------------------------------------

    def _quotas_deleted(self, at: float) -> Fault:
        def begin() -> None:
            for quota in self._server.of(QUOTAS):
                self._server.remove(QUOTAS, quota, "administrator")

        return Fault("quotas deleted", at, 0, begin)

    def _quotas_edited(self, at: float) -> Fault:
        def begin() -> None:
            for quota in self._server.of(QUOTAS):
                self._server.update(QUOTAS, quota, {"spec": {"hard": {"requests.cpu": "1000"}}}, "administrator")

        return Fault("quotas edited", at, 0, begin)

    def _queue_edited(self, at: float) -> Fault:
        tenant = self._source.choice(self._scenario.tenants)
        change = self._source.choice(({"weight": 5}, *({"enforcement": mode} for mode in ("Quota", "Gate", "Suspend", "Observe"))))

        def begin() -> None:
            queue = self._server.get(tenant.collection, tenant.namespace, tenant.queue)
            tenant.edited = True
            tenant.spec = {**tenant.spec, **change}
            if queue is not None:
                self._server.update(tenant.collection, queue, {"spec": change}, "tenant")

        return Fault(f"queue edited ({change})", at, 0, begin)


_KINDS: tuple[Callable[[FaultPlan, float], Fault], ...] = (
    FaultPlan._latency,
    FaultPlan._slow_server,
    FaultPlan._stuck,
    FaultPlan._lease_errors,
    FaultPlan._lease_errors,
    FaultPlan._conflicts,
    FaultPlan._busy,
    FaultPlan._errors,
    FaultPlan._resets,
    FaultPlan._torn,
    FaultPlan._doubled,
    FaultPlan._cut,
    FaultPlan._down,
    FaultPlan._stalled,
    FaultPlan._dropped,
    FaultPlan._expired,
    FaultPlan._error_events,
    FaultPlan._killed,
    FaultPlan._both_killed,
    FaultPlan._stopped,
    FaultPlan._clock_step,
    FaultPlan._quotas_deleted,
    FaultPlan._quotas_edited,
    FaultPlan._queue_edited,
)
