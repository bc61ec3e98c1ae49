"""Invariants that hold under every fault, checked at each write, after each round and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairburst.kube.api.saved import memory_name
from fairburst.kube.names import LANE_LABELS, LANE_OF_CLASS, LANE_QUOTAS, MANAGED_LABEL, OUR_QUOTAS, POOL_LABEL, QUOTA_NAME
from fairburst.kube.process import Operator
from fairburst.kube.rounds.view import RoundPlan
from tests.simulation import quotas
from tests.simulation.accounts import Accounts
from tests.simulation.api_server import ApiServer, Write
from tests.simulation.damage import FOREIGN_KEY
from tests.simulation.quotas import ENDED
from tests.simulation.replica import Replica
from tests.simulation.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    QUOTAS,
    THROUGHPUT_QUEUES,
    Object,
)
from tests.simulation.rounds_seen import before_each_round_is_shown
from tests.simulation.scenario import OWN_NAMESPACE, Scenario

SETTLED_SECONDS = 3.0  # a change this old must have reached every cache
_CACHES = {PODS: "pods", NODES: "nodes", NAMESPACES: "namespaces", QUOTAS: "quotas", LIMIT_RANGES: "limit_ranges"}


class Invariants:
    """Checks a run. `broken`: one sentence for each invariant that broke, with the time."""

    def __init__(self, server: ApiServer, replicas: Sequence[Replica], scenario: Scenario) -> None:
        self.broken: list[str] = []
        self.rounds = self.writes = self.wrong_writes = 0
        self._server, self._replicas = server, replicas
        self._namespaces = {tenant.namespace for tenant in scenario.tenants}
        self._accounts = Accounts(server, replicas, scenario, self.note)
        self._changed_at: dict[tuple[str, str, str], float] = {}
        self._rescoped_at: dict[str, float] = {}  # by namespace, when a quota last came, went or began to count other pods
        self._last_round: dict[str, float] = {}
        self._known_problems: set[tuple[str, str]] = set()
        server.observers.append(self._on_write)
        for replica in replicas:
            replica.on_start = self._watch_rounds

    def note(self, sentence: str) -> None:
        """Record that an invariant broke, up to twenty times."""
        if len(self.broken) < 20:
            self.broken.append(f"at {self._server.loop.now:.3f} s: {sentence}")

    # Each write ------------------------------------------------------------------------------------------------------

    def _on_write(self, write: Write) -> None:
        obj = write.new or write.old or {}
        self._changed_at[write.collection, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = self._server.loop.now
        self._accounts.observe(write)
        if write.collection == QUOTAS and (write.old is None or write.new is None or _scope(write.old) != _scope(write.new)):
            self._rescoped_at[write.namespace] = self._server.loop.now
        if not any(write.who.startswith(f"{replica.name}.") for replica in self._replicas):
            return
        self.writes += 1
        if write.collection == LEASES:
            return
        self._one_writer(write)
        self._only_managed(write)
        if write.collection == QUOTAS and write.old is not None:
            self._pods_stay_counted(write.namespace, write.old)
        if write.collection in QUEUES:
            self._accounts.judge(write)
            self._accounts.promises_fit()

    def _one_writer(self, write: Write) -> None:
        leases = self._server.of(LEASES)
        holder = leases[0]["spec"].get("holderIdentity") if leases else None
        if holder != write.who:
            self.note(f"two writers: {write.who} wrote {write.collection} while the lease was held by {holder or 'no one'}")

    def _only_managed(self, write: Write) -> None:
        allowed = self._namespaces if write.collection != CONFIG_MAPS else {OWN_NAMESPACE}
        if write.namespace not in allowed:
            self.wrong_writes += 1
            self.note(f"a write outside managed namespaces: {write.method} {write.collection} in {write.namespace}")
        if write.collection not in {NAMESPACES, QUOTAS, CONFIG_MAPS, EVENTS, PODS, JOBS, *QUEUES}:
            self.note(f"a write to {write.collection}")
        if write.collection == QUOTAS and (write.new or write.old or {})["metadata"]["name"] not in OUR_QUOTAS:
            self.note("a write to a quota of others")

    def _our_quotas(self, namespace: str) -> list[Object]:
        return [one for key in OUR_QUOTAS if (one := self._server.get(QUOTAS, namespace, key)) is not None]

    def _pods_stay_counted(self, namespace: str, old: Object) -> None:
        """Check that a write to a quota left no pod that it counted without any quota of ours, unless the namespace is left to itself."""
        queues = [queue for collection in QUEUES for queue in self._server.of(collection, namespace)]
        if queues and all(queue["spec"].get("enforcement") == "Observe" for queue in queues):
            return
        labels = (self._server.objects[NAMESPACES]["", namespace]["metadata"].get("labels")) or {}
        ours = self._our_quotas(namespace)
        for pod in self._server.of(PODS, namespace) if ours and labels.get(MANAGED_LABEL) == "true" else ():
            if quotas.matches(old, pod) and not any(quotas.matches(quota, pod) for quota in ours):
                self.note(f"the pod {namespace}/{pod['metadata']['name']} counts for no quota any more")

    # Each round ------------------------------------------------------------------------------------------------------

    def _watch_rounds(self, replica: Replica, operator: Operator) -> None:
        link = replica.link

        def ended(plan: RoundPlan) -> None:
            if link.alive:
                self._on_round(plan)
                self._contained(operator.term.engine.contained.problems)
                self._last_round[link.identity] = self._server.loop.now

        before_each_round_is_shown(operator, ended)

    def _on_round(self, plan: RoundPlan) -> None:
        self.rounds += 1
        snapshot = plan.snapshot
        if (plan.result.allocation.sum(axis=0) > snapshot.live_capacity * (1 + 1e-6) + 1e-9).any():
            self.note(f"allocations {plan.result.allocation.sum(axis=0)} exceed the live capacity {snapshot.live_capacity}")

    def _contained(self, problems: Mapping[str, str]) -> None:
        """Note each error that had to be contained, once: faults are no reason for any."""
        for namespace, sentence in problems.items():
            if (namespace, sentence) not in self._known_problems:
                self._known_problems.add((namespace, sentence))
                self.note(f"an error was contained in {namespace}: {sentence}")

    def failures(self) -> None:
        """Check that no process ended and no liveness probe asked for a restart."""
        for replica in self._replicas:
            for reason in replica.exits:
                self.note(f"a process ended: {reason}")
            for reason in replica.probe_kills:
                self.note(f"a process would have been restarted by its liveness probe: {reason}")

    # The end ---------------------------------------------------------------------------------------------------------

    def converged(self) -> None:
        """Check that the cluster is as after a run without faults."""
        for problem in self.amiss():
            self.note(f"not converged: {problem}")
        self._accounts.converged()

    def last_round(self, identity: str) -> float:
        """Return the time at which a process has ended its last round."""
        return self._last_round.get(identity, float("-inf"))

    def amiss(self) -> list[str]:
        """Return a sentence for each difference from a cluster without faults."""
        found: list[str] = []
        leading = [replica for replica in self._replicas if replica.running and replica.operator is not None and replica.operator._leading]
        if len(leading) != 1:
            found.append(f"{len(leading)} replicas lead")
        for replica in self._replicas:
            if not replica.running or replica.operator is None:
                found.append(f"{replica.name} does not run")
                continue
            problem = replica.operator.unready() or replica.operator.unhealthy()
            if problem:
                found.append(f"{replica.identity}: {problem}")
            for collection, attribute in _CACHES.items():
                found += self._cache(replica.identity, collection, getattr(replica.operator.caches, attribute).store)
            found += self._cache(replica.identity, JOBS, replica.operator.caches.controllers["Job"].store)
            found += self._queues(replica.identity, replica.operator.caches.queues.objects)
        for replica in leading:
            idle = self._server.loop.now - self.last_round(replica.identity)
            if idle > replica.operator._config.rounds.interval_seconds + 2:
                found.append(f"{replica.identity} ended no round for {idle:.0f} s")
        return found + self._enforced() + self._divided() + self._repaired()

    def _cache(self, who: str, collection: str, store: dict[Any, Any]) -> list[str]:
        found: list[str] = []
        truth = {
            key: obj
            for key, obj in self._server.objects[collection].items()
            if collection != PODS or obj.get("status", {}).get("phase") not in ENDED
        }
        for key in truth.keys() | store.keys():
            if self._server.loop.now - self._changed_at.get((collection, *key), 0.0) < SETTLED_SECONDS:
                continue
            true = truth[key]["metadata"]["resourceVersion"] if key in truth else None
            known = store[key].metadata.resource_version if key in store else None
            if true != known:
                found.append(f"{who} knows {collection} {key} at {known}, it is at {true}")

        return found

    def _queues(self, who: str, known: dict[Any, Object]) -> list[str]:
        problems: list[str] = []
        for collection, kind in QUEUES.items():
            for (namespace, name), obj in self._server.objects[collection].items():
                if self._server.loop.now - self._changed_at[collection, namespace, name] < SETTLED_SECONDS:
                    continue
                found = known.get((kind, namespace, name))
                if found is None or found["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                    problems.append(f"{who} knows {namespace}/{name} not as it is")
        return problems

    def _divided(self) -> list[str]:
        """Compare lanes with queues and quotas, and count the quotas for each pod. A namespace that ends lost both and admits no pod."""
        found: list[str] = []
        for namespace in self._server.of(NAMESPACES):
            if "deletionTimestamp" in namespace["metadata"]:
                continue
            name, labels = namespace["metadata"]["name"], namespace["metadata"].get("labels") or {}
            lanes = {LANE_QUOTAS[lane]: labels[label] for lane, label in LANE_LABELS.items() if label in labels}
            for quota, queue in lanes.items():
                found += self._class_of_lane(name, queue, quota)
                if self._server.get(QUOTAS, name, quota) is None:
                    found.append(f"{name} has no quota for {queue}")
            ours = self._our_quotas(name)
            moves = self._server.loop.now - self._rescoped_at.get(name, 0.0) < SETTLED_SECONDS
            for pod in self._server.of(PODS, name) if ours else ():
                count = sum(quotas.matches(quota, pod) for quota in ours)
                if count != 1 and not (count == 2 and moves):  # it counts for both while a level begins or ends to be divided
                    found.append(f"the pod {name}/{pod['metadata']['name']} counts for {count} quotas")
        return found

    def _class_of_lane(self, namespace: str, queue: str, quota: str) -> list[str]:
        """Compare the class that a further queue's status names, which users copy into pods of their own, with that of its quota's pods."""
        obj = self._server.get(THROUGHPUT_QUEUES, namespace, queue)
        if obj is None:
            return [f"{namespace} has a lane for {queue}, which does not exist"]
        shown = ((obj.get("status") or {}).get("podPriority") or {}).get("className")
        return [] if LANE_QUOTAS.get(LANE_OF_CLASS.get(shown, 0)) == quota else [f"{namespace}/{queue} shows {shown}, its quota is {quota}"]

    def _enforced(self) -> list[str]:
        found: list[str] = []
        for collection in QUEUES:
            for queue in self._server.of(collection):
                namespace, status = queue["metadata"]["namespace"], queue.get("status") or {}
                if status.get("observedGeneration") != queue["metadata"]["generation"]:
                    found.append(f"{namespace}'s status answers generation {status.get('observedGeneration')}")
                conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
                if "Ready" not in conditions:
                    found.append(f"{namespace} has no condition Ready")
                if queue["spec"].get("enforcement") == "Observe":
                    continue
                labels = (self._server.objects[NAMESPACES]["", namespace]["metadata"].get("labels")) or {}
                if labels.get(MANAGED_LABEL) != "true":
                    found.append(f"{namespace} is not labelled")
                if self._server.get(QUOTAS, namespace, QUOTA_NAME) is None:
                    found.append(f"{namespace} has no quota")
        return found

    def _repaired(self) -> list[str]:
        """Look for damage that is left."""
        found, unlimited = [f"not repaired: {loss}" for loss in self._accounts.unrepaired()], self._unlimited()
        for quota in self._server.of(QUOTAS):
            metadata, hard = quota["metadata"], quota["spec"].get("hard") or {}
            emptied = not hard and (metadata["namespace"], metadata["name"]) not in unlimited
            if metadata["name"] in OUR_QUOTAS and (FOREIGN_KEY in hard or emptied or POOL_LABEL not in (metadata.get("labels") or {})):
                found.append(f"the quota {metadata['namespace']}/{metadata['name']} is damaged: {hard}, {metadata.get('labels')}")
        memory = self._server.get(CONFIG_MAPS, OWN_NAMESPACE, memory_name("default"))
        if memory is None or not all(_is_memory(text) for text in memory["data"].values()):
            found.append(f"the memory is {'missing' if memory is None else 'damaged'}")
        return found

    def _unlimited(self) -> set[tuple[str, str]]:
        """Return the quotas of queues in Gate mode, by namespace and name: these have no limits."""
        found = set[tuple[str, str]]()
        for queue in (one for collection in QUEUES for one in self._server.of(collection)):
            if queue["spec"].get("enforcement") == "Gate":
                shown = ((queue.get("status") or {}).get("podPriority") or {}).get("className")
                found.add((queue["metadata"]["namespace"], LANE_QUOTAS.get(LANE_OF_CLASS.get(shown, 0), QUOTA_NAME)))
        return found


def _is_memory(text: str) -> bool:
    return text.startswith('{"version": 1, ')


def _scope(quota: Object) -> object:
    return quota["spec"].get("scopeSelector")
