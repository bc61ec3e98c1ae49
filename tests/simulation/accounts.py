"""What queues' statuses remember: promises, classes and counts stay, also where a status was damaged, while one of both sources is left.

The sources are the status and the memory of the process that leads. A status that was damaged may lose what it remembered only if another
term of leadership read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from fairburst.kube.queues.queue_set import SECOND_QUEUE
from fairburst.kube.views.conditions import was_observed
from tests.simulation import promises
from tests.simulation.api_server import ApiServer, Write
from tests.simulation.damage import is_damage
from tests.simulation.quotas import Amounts
from tests.simulation.replica import Replica
from tests.simulation.resources import NAMESPACES, NODES, PODS, QUEUES, Object
from tests.simulation.scenario import Scenario
from tests.simulation.virtual_time import EPOCH

PROMISED = ("Hard", "Soft")
COUNTS = ("bursts", "met", "missed")


@dataclass(frozen=True)
class _Kept:
    """A queue as the operator last wrote it, before its status was damaged, and the term of leadership in which that was."""

    queue: Object
    term: object


class Accounts:
    """Judges each write of a status. `note` is told of each loss."""

    def __init__(self, server: ApiServer, replicas: Sequence[Replica], scenario: Scenario, note: Callable[[str], None]) -> None:
        self._server, self._replicas, self._scenario, self._note = server, replicas, scenario, note
        self.bounds = promises.Bounds(server, scenario.config.admission.expected_queues)
        self._terms: dict[str, object] = {}  # by uid, of the operator's last write
        self._damaged: dict[str, _Kept] = {}  # by uid
        self._lost: set[str] = set()  # by uid: both sources were

    def observe(self, write: Write) -> None:
        """Note a write of anybody."""
        if not self._scenario.declared:
            self._note_bounds(write)
        if write.old is not None and write.new is not None and is_damage(write.who, write.collection):
            uid = write.new["metadata"]["uid"]
            self._damaged.setdefault(uid, _Kept(write.old, self._terms.get(uid)))

    def judge(self, write: Write) -> None:
        """Judge the operator's write to a queue."""
        if write.old is None or write.new is None:
            return
        uid, term = write.new["metadata"]["uid"], self._term(write.who)
        kept = self._damaged.get(uid)
        if kept is None:
            self._report(write.old, write.new)
        elif kept.term != term:
            self._lost.add(uid)
            del self._damaged[uid]
        elif not self._losses(kept.queue, write.new):
            del self._damaged[uid]
        self._terms[uid] = term
        if uid not in self._damaged and uid not in self._lost:
            self._counts_are_its_own(write.namespace, write.new)

    def unrepaired(self) -> list[str]:
        """Return a sentence for each loss by damage that the leader of that time, if it still leads, has not repaired."""
        terms = [self._term(replica.identity) for replica in self._replicas if replica.operator is not None and replica.operator._leading]
        queues = {queue["metadata"]["uid"]: queue for collection in QUEUES for queue in self._server.of(collection)}
        left = [(kept.queue, queues[uid]) for uid, kept in self._damaged.items() if uid in queues and kept.term in terms]
        return [loss for was, now in left for loss in self._losses(was, now)]

    def statuses(self) -> dict[str, Object]:
        """Return the statuses of the latency queues by uid, as they were before any damage."""
        known = promises.statuses_of(self._server)
        return known | {uid: kept.queue.get("status") or {} for uid, kept in self._damaged.items() if uid in known}

    def _term(self, who: str) -> object:
        began = [one.operator._term_began for one in self._replicas if one.identity == who and one.operator is not None]
        return (who, *began)

    def _report(self, old: Object, new: Object) -> None:
        for loss in self._losses(old, new):
            self._note(loss)

    def _losses(self, old: Object, new: Object) -> list[str]:
        """Return what was lost: a promise stays until its spec is edited, its class while the capacity permits, and no count goes down."""
        found, was, now, namespace = [], old.get("status") or {}, new.get("status") or {}, new["metadata"]["namespace"]
        if _is_displaced(new):
            return found
        if not self._is_edited(new):
            if was.get("class") in PROMISED and not was_observed(new):  # the class of an observed queue falls where another takes the place
                least = self._least_class(new["metadata"]["uid"], was)
                if promises.is_weaker(now.get("class"), least):
                    found.append(f"a promise lost: {namespace} went from {was['class']} to {now.get('class')}, {least} could be kept")
            if was.get("promise") and was.get("class") != "Rejected" and was["promise"] != now.get("promise"):
                found.append(f"a promise lost: that of {namespace} was {was['promise']}, is {now.get('promise')}")
        if was_observed(old) and not was_observed(new):
            return found  # an enforced queue starts its counts again (docs/decisions/0124)
        for count in COUNTS:
            if (now.get("history") or {}).get(count, 0) < (was.get("history") or {}).get(count, 0):
                found.append(f"accounting lost: history.{count} of {namespace} went down")
        return found

    def _is_edited(self, queue: Object) -> bool:
        place = queue["metadata"]["namespace"], queue["metadata"]["name"]
        return any(one.edited for one in self._scenario.tenants if (one.namespace, one.queue) == place)

    def _least_class(self, uid: str, was: Object) -> str:
        """Return the weakest class that may follow: the same, unless the capacity is measured and could not keep it."""
        if self._scenario.declared:
            return str(was["class"])
        return self.bounds.least_class(was, promises.hard_rates(self.statuses() | {uid: was}))

    def _counts_are_its_own(self, namespace: str, queue: Object) -> None:
        """Check that a queue has no more bursts than its life had room for: it begins without those of an earlier queue of its name."""
        arrival = queue["spec"].get("arrival") or {}
        seconds = arrival.get("periodic", {}).get("periodSeconds") or arrival.get("sporadic", {}).get("minInterarrivalSeconds")
        bursts = ((queue.get("status") or {}).get("history") or {}).get("bursts", 0)
        age = EPOCH + self._server.loop.now - datetime.fromisoformat(queue["metadata"]["creationTimestamp"]).timestamp()
        if seconds and bursts > 2 + age / seconds:
            self._note(f"{namespace} counts {bursts} bursts in {age:.0f} s, one may come in {seconds} s")

    # Capacity --------------------------------------------------------------------------------------------------------

    def _note_bounds(self, write: Write) -> None:
        if write.collection == NODES:
            self.bounds.note_nodes()
        if write.collection in {PODS, NAMESPACES, *QUEUES}:
            self.bounds.note_pods()
        if write.collection in QUEUES:
            self.bounds.note_weights()

    def promises_fit(self) -> None:
        """Check that the rates of all hard queues together fit the declared capacity, or the most that the nodes have had."""
        declared = {name: promises.exact(text) for name, text in self._scenario.config.pool.declared_capacity.items()}
        self._fit(declared or self.bounds.most)

    def converged(self) -> None:
        """Check that they fit the nodes as they are at the end."""
        if not self._scenario.declared:
            self._fit(promises.offered(self._server))

    def _fit(self, capacity: Amounts) -> None:
        rates = promises.hard_rates(self.statuses())
        name = promises.excess(rates, capacity)
        if name is not None:
            have = float(capacity.get(name, 0))
            self._note(f"guarantees exceed the capacity: {float(rates[name]):g} of {have:g} {name} are promised")


def _is_displaced(queue: Object) -> bool:
    """Return whether a queue in Observe mode has neither promise nor counts because another queue took its place in the namespace
    (docs/queues.md, "Several queues in a namespace")."""
    conditions = (queue.get("status") or {}).get("conditions") or ()
    reasons = {one["type"]: one["reason"] for one in conditions}
    return queue["spec"].get("enforcement") == "Observe" and reasons.get("Ready") == SECOND_QUEUE
