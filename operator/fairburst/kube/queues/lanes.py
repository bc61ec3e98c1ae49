"""The lanes of further queues: which queues of a namespace, besides its default one, govern work of their own, and their numbers. Pure,
apart from the lanes given before.

A lane names the priority class of its queue's pods and the quota that counts them. Labels of the namespace say which queue has which lane;
the admission policy reads them, and so does a new operator (docs/decisions/0250-several-queues-in-a-namespace.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fairburst.kube.modes.mode import Mode
from fairburst.kube.names import LANE_LABELS, LANE_OF_CLASS, LANES, LANES_HOLD_LABEL, QUEUE_LABEL
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces

LONGEST_LABEL = 63  # characters of a label's value


class Lanes:
    """The lanes by namespace and queue. A queue keeps its lane while it is a further queue.

    `spaces`: the spaces of these queues.
    """

    def __init__(self) -> None:
        self._assigns = True
        self._busy: Callable[[str], Collection[int]] = lambda _: ()
        self._known: dict[str, dict[str, int]] = {}
        self._by_labels: dict[str, dict[str, int]] = {}  # of namespaces without a known lane, until `recall` has compared the statuses
        self.spaces = UNDIVIDED

    def prepare(
        self, present: Spaces, labels: Mapping[str, Mapping[str, str]], busy: Callable[[str], Collection[int]], *, assigns: bool
    ) -> None:
        """Read the lanes that were given before.

        `assigns`: further queues get lanes. Those that an earlier process gave are in the `labels` of the namespaces and in the statuses
        of the queues, which `recall` reads; known ones win.
        `busy` returns the lanes of a namespace in which pods still live. Without `assigns` exactly the `present` lanes hold: another
        decision gives them.
        """
        self._assigns, self._busy = assigns, busy
        if not assigns:
            self._known = {namespace: dict(lanes) for namespace, lanes in present.lanes.items()}
            return
        for namespace, present_labels in labels.items():
            if namespace not in self._known:
                found = {queue: lane for lane, label in LANE_LABELS.items() if (queue := present_labels.get(label))}
                if found:
                    self._by_labels[namespace] = found

    def recall(self, queues: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Compare the lanes that labels tell with the statuses of the `queues` (namespace, name, object), which name their pods' classes.

        Labels may have been edited by hand while no operator ran. With another lane, a queue's running pods would count for another
        queue. So a status wins over a label that disagrees with it. Where the two agree, no other status takes the lane: that one was
        not written again yet.
        """
        if not self._assigns:
            return
        classes: dict[str, dict[str, str]] = {}
        for namespace, name, obj in sorted(queues, key=lambda one: one[:2]):
            if (class_name := _class_of_status(obj)) is not None:
                classes.setdefault(namespace, {})[name] = class_name
        for namespace in self._by_labels.keys() | classes.keys():
            named, labelled = classes.get(namespace, {}), self._by_labels.get(namespace, {})
            told = {queue: LANE_OF_CLASS[class_name] for queue, class_name in named.items() if class_name in LANE_OF_CLASS}
            agreed = {queue: lane for queue, lane in labelled.items() if told.get(queue) == lane}
            unsaid = {queue: lane for queue, lane in labelled.items() if queue not in named}
            if found := _united(self._known.get(namespace, {}), agreed, told, unsaid):
                self._known[namespace] = found
        self._by_labels = {}

    def has(self, namespace: str, queue: str) -> bool:
        """Return whether the queue has a lane, so that it is not the default queue."""
        return queue in self._known.get(namespace, {})

    def give(self, namespace: str, queues: Iterable[str]) -> Mapping[str, int]:
        """Return the lanes of the namespace's further queues, which are given in their order."""
        known = self._known.get(namespace, {})
        return lanes_for(queues, known, self._busy(namespace)) if self._assigns else {one: known[one] for one in queues if one in known}

    def keep(self, given: Mapping[str, Mapping[str, int]]) -> None:
        """Forget every other lane."""
        self._known = {namespace: dict(lanes) for namespace, lanes in given.items()}
        if self._known != self.spaces.lanes:
            self.spaces = Spaces(self._known) if self._known else UNDIVIDED


def _class_of_status(queue: Mapping[str, Any]) -> str | None:
    """Return the class of a queue's pods that its status names; None if it names none."""
    status = queue.get("status")
    priority = status.get("podPriority") if isinstance(status, Mapping) else None
    name = priority.get("className") if isinstance(priority, Mapping) else None
    return name if isinstance(name, str) else None


def _united(*sources: Mapping[str, int]) -> dict[str, int]:
    """Return the lanes of all sources. Of two that contradict each other the first one counts."""
    found = dict[str, int]()
    for lanes in sources:
        for queue, lane in lanes.items():
            if queue not in found and lane not in found.values():
                found[queue] = lane
    return found


def lanes_for(queues: Iterable[str], known: Mapping[str, int], busy: Collection[int]) -> dict[str, int]:
    """Return a lane for each queue, the first of them if there are more queues than lanes.

    A queue keeps its `known` lane. Others get the lowest free one. A `busy` lane, in which pods of a former queue still live, is given
    last, because these pods would count for the new queue.
    """
    wanted = list(queues)
    found = {queue: known[queue] for queue in wanted if queue in known}
    free = sorted(set(LANES) - set(found.values()), key=lambda lane: (lane in busy, lane))
    found |= dict(zip([queue for queue in wanted if queue not in found], free, strict=False))
    return {queue: found[queue] for queue in sorted(found)}


def obstacle(kind: str, name: str, mode: Mode, default_key: tuple[str, str, str], default_mode: Mode) -> str | None:
    """Return why a queue cannot govern work in addition to the namespace's default queue, as a sentence with the remedy; None if it can."""
    default = f"{default_key[0]} {default_key[2]}"
    if kind != "ThroughputQueue":
        both = f" Delete {default} and create it again to have both." if default_key[0] == "ThroughputQueue" else " Delete one of the two."
        return (
            f"{default} already governs namespace {default_key[1]}; besides it, only ThroughputQueues can govern work of their own there."
            + both
        )
    if name == default_key[2]:
        return f"{default} already governs namespace {default_key[1]} under this name; create the queue again under another one."
    if len(name) > LONGEST_LABEL:
        return f"expected a name of at most {LONGEST_LABEL} characters for a further queue, found {len(name)}: pods name it in a label."
    for whose, found in (("a further queue of a namespace", mode), (f"{default}, whose namespace has a further queue,", default_mode)):
        if not found.enforced:
            return f"expected {whose} to be enforced, found enforcement: {found.name}. Change it, or use a namespace for each queue."
    return None


def no_lane(default_key: tuple[str, str, str]) -> str:
    """Return the sentence for a further queue for which no lane is left."""
    default = f"{default_key[0]} {default_key[2]}"
    return f"expected at most {len(LANES)} queues besides {default}. Delete one of them, or use another namespace."


def asks_for(labels: Mapping[str, str] | None) -> str:
    """Return the queue that a pod with these labels asks for; empty if it asks for none."""
    return (labels or {}).get(QUEUE_LABEL, "")


def lane_labels(lanes: Mapping[str, int], holds: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Return the labels of a namespace with these further queues. `holds`: by queue the kind of its new objects that wait for a release."""
    names = {lane: queue for queue, lane in lanes.items()}
    held = sorted(holds_entry(lanes[queue], kind) for queue, kind in (holds or {}).items())
    return {LANES_HOLD_LABEL: ".".join(held) or None, **{label: names.get(lane) for lane, label in LANE_LABELS.items()}}


def holds_entry(lane: int | str, kind: str) -> str:
    """Return the part of the label LANES_HOLD_LABEL that says which new objects of a lane wait; its parts are joined by dots."""
    return f"{lane}-{kind}"


def kind_held(label: str, lane: int) -> str | None:
    """Return the kind of new objects that a lane holds by LANES_HOLD_LABEL; the inverse of `holds_entry`."""
    kinds = dict(part.partition("-")[::2] for part in label.split("."))
    return kinds.get(str(lane))
