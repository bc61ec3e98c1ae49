"""`fairburst explain`: the reasons for the allocation of a queue, a Job or a pod, and the smallest change that would raise it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairburst.cli.arguments import Form, OutputForm, readable_file
from fairburst.cli.cluster import (
    SYSTEM_NAMESPACE,
    Cluster,
    Context,
    Kubeconfig,
    Namespace,
    OperatorConfig,
    SystemNamespace,
    complete_queues,
    find_queue,
    queue_of_work,
)
from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError
from fairburst.cli.output import is_data, print_value, wrapped

if TYPE_CHECKING:
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.look import Look
    from fairburst.kube.queues.listing import Queues
    from fairburst.policy.arrays import FloatArray
    from fairburst.whatif.rounds import DecidedRound

ADVICE_SHOWN = 4
OBSTACLES = frozenset({"ForeignQuotaBelowPromise", "LimitRangeBelowPod"})  # they refuse pods that the level admits
KINDS = {"pod": "pod", "pods": "pod", "po": "pod", "job": "job", "jobs": "job"}


@dataclass(slots=True)
class Explanation:
    """The explanation of one queue. `facts`: label and sentence; `advice`: advice_text.as_data of each."""

    queue: str
    headline: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    goal: str = ""
    advice: list[dict[str, Any]] = field(default_factory=list)


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE|job/NAME|pod/NAME", autocompletion=complete_queues, help="A queue as for `get`, or a Job or a pod with -n."
        ),
    ],
    output: OutputForm = "table",
    recording: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", callback=readable_file, help="Ask the last round of a recording instead of a cluster."),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Say why a queue, a Job or a pod has what it has, and the smallest change that would give it more; each is decided again."""
    kind, _, name = what.partition("/")
    if kind in KINDS and name and namespace is None:
        raise typer.BadParameter(f"expected the namespace of {what} with -n, found none", param_hint="--namespace")
    if kind in KINDS and name and recording is not None:
        raise typer.BadParameter("expected a queue with --from, for recordings have no pods and Jobs", param_hint="--from")
    if recording is not None:
        _print(_of_recording(recording, what, namespace), [], output)
        return
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    findings, explanation = cluster.ask(lambda client: ask(client, cluster, what, namespace))
    _print(explanation, findings, output)


async def ask(client: ApiClient, cluster: Cluster, what: str, namespace: str | None) -> tuple[list[str], Explanation]:
    """Return sentences on a Job or pod, and the explanation of its queue. Raises CommandError and ApiError."""
    from fairburst.kube.api.errors import Forbidden  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.kube.names import QUEUE_LABEL  # noqa: PLC0415
    from fairburst.kube.queues.listing import read_queues  # noqa: PLC0415

    kind, _, name = what.partition("/")
    findings: list[str] = []
    asked, class_name = "", None
    if kind in KINDS and name and namespace is not None:
        findings, asked, class_name = await _work(client, KINDS[kind], namespace, name)
        what = namespace
    queues = await read_queues(client, namespace)
    if findings and len(queues) > 1:
        what = queue_of_work(queues, namespace or "", asked, class_name)
    if findings and not queues:
        return findings, Explanation(f"{namespace}", f"No queue governs namespace {namespace}; fairburst does not limit its work.")
    key = find_queue(queues, what, None if findings else namespace)
    if asked and all((within, short) != (namespace, asked) for _, within, short in queues):
        findings.append(
            f"Its pods ask for queue {asked} (label {QUEUE_LABEL}), and namespace {namespace} has none of that name, so they belong to "
            f"queue {key[1]}/{key[2]}. Correct the label in its template, or leave it out."
        )
    try:
        seen: Look | None = await cluster.look(client)
    except Forbidden as error:
        seen, refused = None, error.message
    if seen is None or key not in seen.queues:
        explanation = of_status(key, queues)
        if seen is None:
            explanation.facts.append(("Advice", f"none: it takes the right to read the whole cluster ({refused})"))
        return findings, explanation
    return findings, of_look(seen, key)


async def _work(client: ApiClient, kind: str, namespace: str, name: str) -> tuple[list[str], str, str | None]:
    """Return sentences on a Job or pod, the queue that its next pods ask for, if any, and the class of a pod; None for a Job."""
    from fairburst.cli.work_findings import job_findings, pod_findings, read_work  # noqa: PLC0415
    from fairburst.kube.api.errors import NotFound  # noqa: PLC0415
    from fairburst.kube.queues.lanes import asks_for  # noqa: PLC0415

    try:
        obj, events = await read_work(client, kind, namespace, name)
    except NotFound:
        raise CommandError(f"expected {kind} {name} in namespace {namespace}, found none", WRONG_ARGUMENTS) from None
    if kind == "pod":
        return pod_findings(obj, events), "", (obj.get("spec") or {}).get("priorityClassName", "")
    template = obj.get("spec", {}).get("template", {})
    return job_findings(obj, events), asks_for((template.get("metadata") or {}).get("labels")), None


def _of_recording(path: Path, name: str, namespace: str | None) -> Explanation:
    from fairburst.cli.snapshots import last_round, row_called  # noqa: PLC0415

    found = last_round(path)
    return of_round(found, row_called(found.snapshot, name, namespace))


def of_status(key: tuple[str, str, str], queues: Queues) -> Explanation:
    """Explain from the queue's own status, which the operator has written."""
    from fairburst.cli.queues import amounts_text, condition, trouble, waiting  # noqa: PLC0415

    kind, namespace, name = key
    status = queues[key].get("status") or {}
    why = trouble(status)
    if condition(status, "Ready").get("status") == "True":
        why = status.get("explanation") or why
    found = Explanation(f"{namespace}/{name}", f"{kind} {namespace}/{name}: {status.get('class', 'not decided yet')}")
    found.facts.append(("Why", why or "no operator has decided on it: is one running? Ask `fairburst doctor`"))
    admission = status.get("admission") or {}
    if admission.get("message") and admission["message"] != why:
        found.facts.append(("Admission", admission["message"]))
    if "demand" in status:
        found.facts += [(label, amounts_text(status.get(part))) for label, part in (("Wanted", "demand"), ("Running", "usage"))]
        found.facts += [("Given", amounts_text(status.get("allocation"))), ("Waiting", amounts_text(waiting(status)))]
    found.facts += [fact for fact in _false_conditions(status, {"Ready", "Admitted", "Guaranteed"}) if fact[1] != why]
    return found


def of_look(seen: Look, key: tuple[str, str, str]) -> Explanation:
    """Explain a queue of a cluster by a round decided now."""
    from fairburst.cli.queues import amounts_text, condition, waiting  # noqa: PLC0415
    from fairburst.kube.queues.queue_set import pool_name  # noqa: PLC0415

    entry = next((one for one in seen.plan.queue_set.entries if one.key == key), None)
    row = seen.round.row(f"{key[1]}/{key[2]}")
    status = seen.queues[key].get("status") or {}
    if entry is None:
        pool = pool_name(seen.queues[key])
        found = of_status(key, seen.queues)
        if pool == seen.config.pool.name:
            return found  # in Observe mode: the operator decides on it apart, and the status has the result
        found.facts.append(("Pool", f"{pool}; this is a look at pool {seen.config.pool.name}. Choose its operator with --system-namespace"))
        return found
    if row is None:
        found = of_status(key, seen.queues)
        if entry.problem is not None:
            found.facts = [("Why", entry.problem.message), *(fact for fact in found.facts if fact[0] != "Why")]
        return found
    too_large = without_node(seen, row) or _no_node_for_some(status)  # no part of what waits for the queue's share
    others_wait = seen.round.waits(row) and seen.round.snapshot.unit[row].any()  # without a size only those pods are wanted
    hindrance = without_port(seen, row) or _hindrance(status) or ("" if others_wait else too_large)
    found = of_round(seen.round, row, len(seen.view.nodes), seen.config.pool.capacity_window_seconds, hindrance)
    found.goal = found.goal or too_large
    if not found.goal and (left := waiting(status)):
        found.goal = (
            f"It uses what the nodes can hold of its pods; the rest, {amounts_text(left)}, waits for more nodes or for work to end."
        )
    if entry.problem is not None:
        found.facts.insert(0, ("Problem", entry.problem.message))
    if not condition(status, "Ready"):
        found.facts.append(("Status", "no operator has written one: is one running? Ask `fairburst doctor`"))
    found.facts += _false_conditions(status, {"Ready", "Admitted", "Guaranteed"})
    return found


def without_node(seen: Look, row: int) -> str:
    """Return a sentence on a waiting pod of the queue that no node could hold; empty if there is none."""
    import numpy as np  # noqa: PLC0415

    resources, shapes = seen.round.snapshot.resources, seen.shapes()
    pods = seen.view.pods.namespace(seen.plan.queue_set.governing[row].space)
    for vector in sorted((one for one, count in pods.vectors.items() if count > pods.bound_vectors.get(one, 0)), reverse=True):
        requests = np.array(vector) / 1000
        if len(shapes.offers) and not seen.config.pool.autoscaled and shapes.fitting(requests) < 1:
            return f"No node can hold its largest pods: {_said(requests, resources)} each. Make them smaller, or add larger nodes."
    if missing := next(filter(None, (seen.lacking(dict.fromkeys(names, 1.0)) for _, names in sorted(pods.uncounted))), ""):
        return f"No node of the pool offers {missing}, which some of its pods ask for. Add nodes that do, or start their device plugin."
    return ""


def without_port(seen: Look, row: int) -> str:
    """Return a sentence on the queue's waiting pods if pods outside the queue have host ports of all of them on each node; empty if not."""
    from fairburst.kube.usage.demand import NamespaceDemand  # noqa: PLC0415
    from fairburst.kube.views.conditions import port_taken  # noqa: PLC0415

    demand = seen.demands.get(seen.plan.queue_set.governing[row].space, NamespaceDemand())
    return port_taken(list(demand.ports.taken.values())) if demand.waits_for_ports_alone else ""


def _hindrance(status: dict[str, Any]) -> str:
    """Return a sentence on what keeps the queue's waiting work from starting, whatever its level is; empty if nothing is known."""
    from fairburst.cli.queues import condition  # noqa: PLC0415

    if condition(status, "Enforced").get("reason") in OBSTACLES:
        return "The obstacle above (Not Enforced) keeps pods from being created, whatever the level is."
    if condition(status, "JobsFit").get("reason") == "LargerThanLevel":
        return "Its work starts whole and needs more than its level (Not JobsFit above); room for one more pod starts nothing."
    return ""


def _no_node_for_some(status: dict[str, Any]) -> str:
    from fairburst.cli.queues import condition  # noqa: PLC0415

    match condition(status, "JobsFit").get("reason"):
        case "LargerThanNodes":
            return "No node can hold some of its pods (Not JobsFit above), and no share lets them run."
        case "ResourceNotOffered":
            return "No node offers what some of its pods ask for (Not JobsFit above), and no share lets them run."
        case _:
            return ""


def _false_conditions(status: dict[str, Any], known: set[str]) -> list[tuple[str, str]]:
    conditions = status.get("conditions") or []
    return [(f"Not {one['type']}", one.get("message", "")) for one in conditions if one["status"] == "False" and one["type"] not in known]


def of_round(one: DecidedRound, row: int, nodes: int = 0, window_seconds: int = 0, hindrance: str = "") -> Explanation:
    """Explain a queue by a decided round, with advice that is checked by deciding again. `hindrance` replaces advice on its next pod."""
    from fairburst.cli import advice_text  # noqa: PLC0415
    from fairburst.whatif.advice import better_class, lacks_level, next_pod  # noqa: PLC0415

    spec, decision = one.snapshot.queues[row], one.decision(row)
    granted = decision.guarantee_class
    found = Explanation(spec.name, f"{spec.kind.value}Queue {spec.name}: {'not admitted' if granted is None else granted.value}")
    found.facts += [("Why", decision.message), ("Admission", decision.admission.message), *_numbers(one, row)]
    better = better_class(one, spec.name)
    more = [] if hindrance else next_pod(one, spec.name)
    best = "admitted" if spec.kind.value == "Throughput" else "Hard"
    found.advice = [advice_text.as_data(each, spec, nodes, window_seconds) for each in better[:ADVICE_SHOWN]]
    if better:
        found.goal = f"To be {best}, one of these is enough (decided again with each, no other queue loses its class):"
    elif hindrance and one.waits(row):
        found.goal = hindrance
    elif more:
        found.goal = "For its next pod, one of these is enough (decided again with each, no other queue loses its class):"
        found.advice = [advice_text.as_data(each, spec, nodes, window_seconds) for each in more[:ADVICE_SHOWN]]
    elif lacks_level(one, row):
        found.goal = "No change of this queue or of the capacity alone (up to 64 times) would admit its next pod without harm to others."
    elif one.waits(row):
        found.goal = room(one, row)
    return found


def room(one: DecidedRound, row: int) -> str:
    """Return a sentence on whether the pool has room for everything that the level admits. The scheduler chooses the nodes."""
    from fairburst.policy.explain import amount  # noqa: PLC0415
    from fairburst.policy.tolerance import TOLERANCE  # noqa: PLC0415

    snapshot = one.snapshot
    free = snapshot.live_capacity - snapshot.usage.sum(axis=0)
    unit = snapshot.unit[row]
    short = [at for at in range(len(unit)) if unit[at] > 0 and free[at] < unit[at]]
    if not short:
        return "Its level admits its next pod. A pod that still waits does so for its controller, or for one node with room for all of it."
    name = snapshot.resources[short[0]]
    left, needed = amount(max(0.0, float(free[short[0]])), name), amount(float(unit[short[0]]), name)
    waits = f"Its level admits its next pod, and the pool has no room: {left} are free, the pod needs {needed}. It starts when running work"
    if all(free[at] + _above_their_shares(one, row)[at] >= unit[at] * (1 - TOLERANCE) for at in short):
        return f"{waits} ends; `reclaim: Evict` in its spec would take the room where work runs above its share."
    return (
        f"{waits} ends. `reclaim: Evict` in its spec would take none of it: no other queue runs a pod's worth above its share, and work of "
        "queues in Observe mode and outside the queues is not evicted."
    )


def _above_their_shares(one: DecidedRound, row: int) -> FloatArray:
    """Return (K,) the use of the other queues above their fair shares and levels, which is all that reclaim takes."""
    import numpy as np  # noqa: PLC0415

    above = np.maximum(one.snapshot.usage - np.minimum(one.result.guaranteed, one.result.level), 0.0)
    found: FloatArray = np.delete(above, row, axis=0).sum(axis=0)
    return found


def _said(amounts: FloatArray, resources: Sequence[str]) -> str:
    from fairburst.policy.explain import amount  # noqa: PLC0415

    return ", ".join(amount(value, name) for value, name in zip(amounts.tolist(), resources, strict=True) if value > 0) or "nothing"


def _numbers(one: DecidedRound, row: int) -> list[tuple[str, str]]:
    snapshot, decision = one.snapshot, one.decision(row)

    def said(amounts: FloatArray) -> str:
        return _said(amounts, snapshot.resources)

    found = [
        ("Wanted", said(snapshot.demand[row])),
        ("Running", said(snapshot.usage[row])),
        ("Given", f"{said(decision.allocation)}; guaranteed of it {said(decision.guaranteed)}"),
        ("Level", f"{said(one.entitled()[row])} (what may run at once)"),
        ("Share", f"{decision.share:.3g} of the pool of {said(snapshot.live_capacity)}"),
    ]
    if decision.window is not None:
        remembered = one.following.entry(decision.queue)
        found.append(("Bursts", f"window {decision.window.state.value}; {remembered.met} met, {remembered.missed} missed"))
    return found


def as_data(findings: Sequence[str], found: Explanation) -> dict[str, Any]:
    """Return an explanation as it is printed with -o json."""
    facts = dict(found.facts)
    value = {"queue": found.queue, "headline": found.headline, "facts": facts, "goal": found.goal, "advice": found.advice}
    return {"work": list(findings), **value} if findings else value


def _print(found: Explanation, findings: Sequence[str], form: Form) -> None:
    if is_data(form):
        print_value(as_data(findings, found), form)
        return
    for line in findings:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{chr(10) if findings else ''}{found.headline}\n\n")
    width = max((len(label) for label, _ in found.facts), default=0)
    for label, text in found.facts:
        sys.stdout.write(wrapped(f"{label:<{width}}  ", text))
    if found.goal:
        sys.stdout.write("\n" + wrapped("", found.goal))
    for one in found.advice:
        sys.stdout.write(wrapped("  - ", one["change"]))
        if one["command"]:
            sys.stdout.write(f"    {one['command']}\n")
