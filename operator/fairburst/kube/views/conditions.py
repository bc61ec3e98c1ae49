"""The conditions on a queue, derived from a decision. Pure. A False condition says what was expected, what was found and where."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairburst.kube.enforce.enforceability import NAMED_AT_MOST, Obstacle
from fairburst.kube.enforce.fifo_admission import Oversize
from fairburst.kube.modes import observe
from fairburst.kube.queues.queue_set import INTERNAL_ERROR, QueueEntry
from fairburst.kube.usage.host_ports import HostPorts, ports_text
from fairburst.policy.attainability import Attainability, Verdict
from fairburst.policy.model import GuaranteeClass, QueueDecision, QueueKind
from fairburst.quantity import format_quantity

ATTAINABLE = "Attainable"  # a forecast
NEVER_FITS = "NeverFits"  # the job runs in parts, so nothing waits for an action
LARGER_THAN_NODES, NOT_OFFERED, PORT_TAKEN = "LargerThanNodes", "ResourceNotOffered", "HostPortTaken"
NO_RESERVE = "It keeps no reserve for small Jobs, as only the default queue of a namespace does: give them a queue of their own there."
_ATTAINABLE = {
    Verdict.IN_TIME: "True", Verdict.TOO_LATE: "False", Verdict.DOES_NOT_FIT: "False", Verdict.PORTS: "False",
    Verdict.NOT_MEASURED: "Unknown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """One condition without its times. `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str


def conditions_of(
    entry: QueueEntry,
    decision: QueueDecision | None,
    attainable: Attainability | None,
    obstacles: Sequence[Obstacle],
    *,
    observed_only: bool,
    too_large: Sequence[str] | None = None,
    never_start: Sequence[Oversize] | None = None,
    no_node: Mapping[str, tuple[str, Mapping[str, float]]] | None = None,
    not_offered: Mapping[str, tuple[str, str]] | None = None,
    ports_taken: Mapping[str, tuple[str, HostPorts]] | None = None,
    contained: str | None = None,
    lacks_reserve: bool = False,
) -> list[ConditionValue]:
    """Return Admitted, Guaranteed, Attainable (latency queues only), Enforced, JobsFit (queues with a reserve, that start whole jobs, or
    with pods that no node could hold) and Ready.

    decision: None for a queue that governs no namespace.
    too_large: a sentence for each job whose request exceeds the pool.
    never_start: work that starts whole or not at all, and needs more than the queue's level.
    no_node, not_offered: as in NamespaceDemand. ports_taken: as PortDemand.taken.
    contained: the step that an internal error prevented for this queue.
    lacks_reserve: whether the queue keeps no reserve for small jobs because it is not the default queue of its namespace.

    Each fact is stated once: Guaranteed and Ready name the condition that states it.
    """
    if decision is None:
        return _not_governing(entry)
    found = [_admitted(decision)]
    if decision.kind is QueueKind.LATENCY:
        found += [_guaranteed(decision, attainable), _attainable(attainable)]
    found.append(_enforced(entry, decision, obstacles, observed_only=observed_only, lacks_reserve=lacks_reserve))
    if too_large is not None or never_start is not None or no_node or not_offered or ports_taken:
        limits = entry.spec.limits if entry.spec is not None else {}
        found.append(_jobs_fit(too_large or (), never_start or (), limits, no_node or {}, not_offered or {}, ports_taken or {}))
    if contained is not None:
        found.append(ConditionValue("Ready", "False", INTERNAL_ERROR, contained))
    else:
        found.append(_ready(entry, found, observed_only=observed_only))
    return found


def _not_governing(entry: QueueEntry) -> list[ConditionValue]:
    problem = entry.problem
    reason, message = (problem.reason, problem.message) if problem else ("NotGoverning", "the queue does not govern its namespace")
    return [
        ConditionValue("Admitted", "False", "NotGoverning", "not decided on; Ready says why."),
        ConditionValue(
            "Enforced",
            "False",
            "NotGoverning",
            "nothing of this queue is in force; its namespace runs at the floor or under another queue.",
        ),
        ConditionValue("Ready", "False", reason, message),
    ]


def _admitted(decision: QueueDecision) -> ConditionValue:
    admission = decision.admission
    return ConditionValue("Admitted", "False" if decision.guarantee_class is None else "True", admission.reason, admission.message)


def _guaranteed(decision: QueueDecision, attainable: Attainability | None) -> ConditionValue:
    match decision.guarantee_class:
        case GuaranteeClass.HARD if attainable is not None and _ATTAINABLE[attainable.verdict] == "False":
            return ConditionValue("Guaranteed", "False", "NotAttainable", "the rate is promised; Attainable says why the deadline is not.")
        case GuaranteeClass.HARD:
            return ConditionValue("Guaranteed", "True", "HardGuarantee", "the rate is promised in every window.")
        case GuaranteeClass.SOFT:
            return ConditionValue("Guaranteed", "False", "SoftGuarantee", "served by its deadline if hard queues leave room; see Admitted.")
        case GuaranteeClass.ELASTIC:
            return ConditionValue("Guaranteed", "False", "FairShareOnly", "served by its fair share, without a deadline; see Admitted.")
        case None:
            return ConditionValue("Guaranteed", "False", "Rejected", "nothing is promised; Admitted says why.")


def _attainable(attainable: Attainability | None) -> ConditionValue:
    if attainable is None:
        return ConditionValue(ATTAINABLE, "Unknown", "NoBurstPromised", "no burst is promised, so there is no deadline to meet")
    return ConditionValue(ATTAINABLE, _ATTAINABLE[attainable.verdict], attainable.verdict.value, attainable.message)


def was_observed(obj: Mapping[str, Any]) -> bool:
    """Return whether the object's status was written in Observe mode: it says what would be, and promises nothing."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Enforced" and one.get("reason") == "Observe" for one in conditions)


def _enforced(
    entry: QueueEntry, decision: QueueDecision, obstacles: Sequence[Obstacle], *, observed_only: bool, lacks_reserve: bool
) -> ConditionValue:
    if observed_only:
        return ConditionValue("Enforced", "False", observe.MODE.name, observe.MODE.sentence)
    if obstacles:
        worst = min(obstacles, key=lambda obstacle: not obstacle.blocks)
        return ConditionValue("Enforced", "False", worst.reason, " ".join(obstacle.message for obstacle in obstacles))
    if decision.guarantee_class is None:
        return ConditionValue("Enforced", "True", "Floor", "rejected: the namespace has its floor and idle capacity, in the lowest class.")
    return ConditionValue(
        "Enforced", "True", entry.mode.name, f"{entry.mode.sentence} {NO_RESERVE}" if lacks_reserve else entry.mode.sentence
    )


def _jobs_fit(
    too_large: Sequence[str], never_start: Sequence[Oversize], limits: Mapping[str, float],
    no_node: Mapping[str, tuple[str, Mapping[str, float]]], not_offered: Mapping[str, tuple[str, str]],
    ports_taken: Mapping[str, tuple[str, HostPorts]],
) -> ConditionValue:  # fmt: skip
    # Each has a remedy of its own. The level comes first: its owner can change that without new nodes.
    found = [("LargerThanLevel", _never_start(never_start, limits))] if never_start else []
    found += [(LARGER_THAN_NODES, _no_node(list(no_node.values())))] if no_node else []
    found += [(NOT_OFFERED, _not_offered(list(not_offered.values())))] if not_offered else []
    found += [(PORT_TAKEN, port_taken(list(ports_taken.values())))] if ports_taken else []
    if found:
        return ConditionValue("JobsFit", "False", found[0][0], " ".join(message for _, message in found))
    if not too_large:
        return ConditionValue("JobsFit", "True", "Fit", "every job asks for no more at once than the pool has.")
    what = "It can never run whole at one time; it runs in parts, and its size says nothing about its wait."
    return ConditionValue("JobsFit", "False", NEVER_FITS, f"{_first(too_large)} {what}")


def _never_start(oversizes: Sequence[Oversize], limits: Mapping[str, float]) -> str:
    named = [
        f"{one.name} starts whole and needs {format_quantity(one.resource, one.need)} {one.resource}, the queue's level is "
        f"{format_quantity(one.resource, one.level)}."
        for one in sorted(oversizes, key=lambda one: one.name)
    ]
    waits, it = ("It waits", "it") if len(named) == 1 else ("They wait", "them")
    limited = [one.need > limits.get(one.resource, math.inf) for one in oversizes]  # no weight helps against a limit
    larger = ["the queue's spec.limits"] * any(limited) + ["the queue's weight or the pool"] * (not all(limited))
    what = f"{waits} until the level reaches that: make {it} smaller, or {' or '.join(larger)} larger, or let {it} start in parts."
    return f"{_first(named)} {what}"


def _no_node(found: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    named = [
        f"{name}: a pod asks for {', '.join(f'{format_quantity(resource, amount)} {resource}' for resource, amount in requests.items())}."
        for name, requests in sorted(found, key=lambda one: one[0])
    ]
    it, waits = ("it", "it waits and gets") if len(named) == 1 else ("them", "they wait and get")
    what = f"No node of the pool could hold {it}, so {waits} no part of the pool: make {it} smaller, or add larger nodes."
    return f"{_first(named)} {what}"


def _not_offered(found: Sequence[tuple[str, str]]) -> str:
    named = [f"{name}: a pod asks for {resource}." for name, resource in sorted(found)]
    waits = "it waits and gets" if len(named) == 1 else "they wait and get"
    what = f"No node of the pool offers that, so {waits} no part of the pool: add nodes that do, or start their device plugin."
    return f"{_first(named)} {what}"


def port_taken(found: Sequence[tuple[str, HostPorts]]) -> str:
    """Return why these controllers' pods wait, each with its name and the ports, and what to do."""
    named = [f"{name}: a pod asks for {ports_text(ports)}." for name, ports in sorted(found)]
    it = "it" if len(found) == len(found[0][1]) == 1 else "one of them" if len(found) == 1 else "them"
    waits, port = ("it waits", "use another port") if len(found) == 1 else ("they wait", "use other ports")
    what = (
        f"Pods outside the queue have {it} on each node of the pool that could hold the pod, so {waits} until one of them ends: leave "
        f"hostPort out, {port}, or have those pods moved."
    )
    return f"{_first(named)} {what}"


def _first(sentences: Sequence[str]) -> str:
    more = f" And {len(sentences) - NAMED_AT_MOST} more." if len(sentences) > NAMED_AT_MOST else ""
    return " ".join(sentences[:NAMED_AT_MOST]) + more


def _ready(entry: QueueEntry, found: Sequence[ConditionValue], *, observed_only: bool) -> ConditionValue:
    """Return Ready: False where work of the queue cannot start, or not in time, until its owner or an administrator acts."""
    if entry.problem is not None:
        return ConditionValue("Ready", "False", entry.problem.reason, entry.problem.message)
    needed = {"Admitted", "JobsFit", ATTAINABLE} | (set() if observed_only else {"Enforced"})
    wrong = [one for one in found if one.type in needed and one.status == "False" and one.reason != NEVER_FITS]
    if wrong:
        said = " and ".join(condition.type for condition in wrong)
        return ConditionValue("Ready", "False", wrong[0].reason, f"{said} {'says' if len(wrong) == 1 else 'say'} what to do.")
    if observed_only:
        return ConditionValue("Ready", "True", "Observed", "the queue is decided on; enforcement: Observe writes nothing.")
    return ConditionValue("Ready", "True", "Ready", "the queue is admitted and served.")
