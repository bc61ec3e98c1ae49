"""Faults of objects, by seed: queues and namespaces that are deleted and created again, nodes that are lost, and damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tests.simulation.api_server import ApiServer
from tests.simulation.damage import Damage
from tests.simulation.fault import Fault
from tests.simulation.replica import Replica
from tests.simulation.resources import NAMESPACES, NODES, Object
from tests.simulation.scenario import DEFAULT_QUEUE, Scenario, Tenant, namespace, node

AT_ONCE_SECONDS = 0.01  # as `kubectl replace --force` does it
GONE_SECONDS, LOOK_SECONDS = 10.0, 0.2  # in which a namespace ends whose nodes all run; between two looks whether it is gone
KILLED = 0.4  # part of the faults during which the leader is killed


class ObjectFaults:
    """Draws faults from one source."""

    def __init__(self, server: ApiServer, replicas: list[Replica], scenario: Scenario, source: random.Random) -> None:
        self._server, self._replicas, self._scenario, self._source = server, replicas, scenario, source
        self._damage = Damage(server, scenario, source)

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

    def _queue_of(self, tenant: Tenant) -> Object | None:
        return self._server.get(tenant.collection, tenant.namespace, tenant.queue)

    def _delete_queue(self, tenant: Tenant) -> None:
        queue = self._queue_of(tenant)
        if queue is not None:
            self._server.remove(tenant.collection, queue, "tenant")

    def _rename(self, tenant: Tenant) -> None:
        """Give a default queue another name. The work of a further queue asks for it by its name, which stays."""
        if not tenant.asks_for:
            tenant.queue = "renamed" if tenant.queue == DEFAULT_QUEUE else DEFAULT_QUEUE

    # Namespaces ------------------------------------------------------------------------------------------------------

    def _namespace_recreated(self, at: float) -> Fault:
        """Delete a namespace with all that it has; once it is gone, create it again with the queues of its tenants."""
        name = self._source.choice(self._scenario.tenants).namespace
        seconds = self._source.choice((AT_ONCE_SECONDS, self._source.uniform(2, 20)))

        def end() -> None:
            if self._server.get(NAMESPACES, "", name) is not None:
                if self._server.loop.now < at + seconds + GONE_SECONDS:  # later a pod waits for a lost node
                    self._server.loop.call_later(LOOK_SECONDS, end)
                return
            self._server.create(NAMESPACES, namespace(name))
            for tenant in self._scenario.tenants:
                if tenant.namespace == name:
                    self._scenario.recreate(self._server, tenant)

        begin = partial(self._server.delete_namespace, name, "administrator")
        return self._killing(Fault(f"namespace {name} deleted and created again", at, seconds, begin, end, felt=seconds + GONE_SECONDS))

    # Nodes -----------------------------------------------------------------------------------------------------------

    def _nodes_lost(self, at: float) -> Fault:
        """Take nodes away, a part of them for good, or all of them for a while."""
        names, lasting = self._scenario.node_names, self._source.random() < 0.3
        hit = self._source.sample(names, self._source.randint(1, len(names) - lasting))
        how, lose = self._source.choice((("deleted", self._delete_node), ("not ready", self._unready), ("cordoned", self._cordon)))

        def begin() -> None:
            for name in hit:
                node_now = self._server.get(NODES, "", name)
                if node_now is not None:
                    lose(node_now)

        def end() -> None:
            for name in hit:
                self._return_node(name)

        seconds = self._source.uniform(0.5, 20 if lasting else 40)
        name = f"nodes {how}{' for good' if lasting else ''}: {', '.join(hit)}"
        return self._killing(Fault(name, at, seconds, begin, (lambda: None) if lasting else end))

    def _delete_node(self, lost: Object) -> None:
        self._server.remove(NODES, lost, "administrator")

    def _unready(self, lost: Object) -> None:
        self._server.update(NODES, lost, {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "node-controller")

    def _cordon(self, lost: Object) -> None:
        self._server.update(NODES, lost, {"spec": {"unschedulable": True}}, "administrator")

    def _return_node(self, name: str) -> None:
        whole, present = node(name, self._scenario.node_cpu), self._server.get(NODES, "", name)
        if present is None:
            self._server.create(NODES, whole)
        else:
            self._server.update(NODES, present, {"spec": {"unschedulable": None}, "status": whole["status"]})

    # Damage ----------------------------------------------------------------------------------------------------------

    def _damaged(self, at: float) -> Fault:
        return self._killing(self._damage.draw(at))


_KINDS: tuple[Callable[[ObjectFaults, float], Fault], ...] = (
    ObjectFaults._queue_recreated,
    ObjectFaults._namespace_recreated,
    ObjectFaults._nodes_lost,
    ObjectFaults._damaged,
)
