"""Faults of objects, by seed: queues that are deleted and created again."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tests.simulation.api_server import ApiServer
from tests.simulation.fault import Fault
from tests.simulation.replica import Replica
from tests.simulation.scenario import DEFAULT_QUEUE, Scenario, Tenant

AT_ONCE_SECONDS = 0.01  # as `kubectl replace --force` does it
KILLED = 0.4  # part of the faults during which the leader is killed


class ObjectFaults:
    """Draws faults from one source."""

    def __init__(self, server: ApiServer, replicas: list[Replica], scenario: Scenario, source: random.Random) -> None:
        self._server, self._replicas, self._scenario, self._source = server, replicas, scenario, source

    def draw(self, at: float) -> Fault:
        """Return a fault of any kind."""
        return self._source.choice(_KINDS)(self, at)

    def _killing(self, fault: Fault) -> Fault:
        """Return the fault, with the leader killed at its begin and started again at its end in a part of them."""
        if self._source.random() >= KILLED:
            return fault

        def begin() -> None:
            fault.begin()
            for replica in self._replicas:
                if replica.running and replica.operator is not None and replica.operator._leading:
                    replica.kill()

        def end() -> None:
            fault.end()
            for replica in self._replicas:
                if not replica.running:
                    replica.start()

        return Fault(f"{fault.name}, leader killed", fault.at, fault.seconds, begin, end, fault.felt)

    # Queues ----------------------------------------------------------------------------------------------------------

    def _queue_recreated(self, at: float) -> Fault:
        """Delete a queue and create it again: the same one, or one of another name or kind."""
        tenant = self._source.choice(self._scenario.tenants)
        seconds = self._source.choice((AT_ONCE_SECONDS, self._source.uniform(0.1, 2), self._source.uniform(2, 20)))
        change, what = self._source.choice(
            (
                (lambda: None, ""),
                (lambda: None, ""),
                (partial(self._rename, tenant), " under another name"),
                (partial(self._scenario.change_kind, tenant, self._source), " as one of the other kind"),
            )
        )

        def end() -> None:
            if self._queue_of(tenant) is None:
                change()
                self._scenario.recreate(self._server, tenant)

        name = f"queue {tenant.namespace}/{tenant.queue} deleted and created again{what}"
        return self._killing(Fault(name, at, seconds, lambda: self._delete_queue(tenant), end))

    def _queue_of(self, tenant: Tenant) -> dict[str, object] | None:
        return self._server.get(tenant.collection, tenant.namespace, tenant.queue)

    def _delete_queue(self, tenant: Tenant) -> None:
        queue = self._queue_of(tenant)
        if queue is not None:
            self._server.remove(tenant.collection, queue, "tenant")

    def _rename(self, tenant: Tenant) -> None:
        """Give a default queue another name. The work of a further queue asks for it by its name, which stays."""
        if not tenant.asks_for:
            tenant.queue = "renamed" if tenant.queue == DEFAULT_QUEUE else DEFAULT_QUEUE


_KINDS: tuple[Callable[[ObjectFaults, float], Fault], ...] = (ObjectFaults._queue_recreated,)
