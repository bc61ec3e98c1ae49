"""`fairburst status`: the whole pool on one screen."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairburst.cli.arguments import OutputForm
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, OperatorConfig, SystemNamespace
from fairburst.cli.output import Table, is_data, print_table, print_value, wrapped

if TYPE_CHECKING:
    from fairburst.config import Config
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.look import Look
    from fairburst.policy.model import ClusterSnapshot, QueueDecision

ROWS_SHOWN = 6
NAMED_OUTSIDE = 3  # namespaces
HELD_BY_NODES = "It has what the nodes hold of its pods; the rest waits for more nodes or for work to end."
IDLE_SHOWN = 0.005  # of the capacity
IDLE_BECAUSE = {
    "unbound": "beside pods without a node",
    "gated": "for pods whose gate is still there",
    "burst": "for a burst whose pods do not exist yet",
    "uncreated": "for pods that do not exist yet",
    "kept": "kept for a burst to come, for small jobs or by limits",
    "unwanted": "wanted by no queue",
}
WAITS_FOR_ROOM = "Its share covers all that it wants; its pods wait for work of others to end, or to be created."


def status(
    output: OutputForm = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Show the pool on one screen: capacity, queues, bursts, what waits, and whether the operator works."""
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    found = cluster.ask(lambda client: _ask(client, cluster))
    if is_data(output):
        print_value(found, output)
    else:
        show(found)


async def _ask(client: ApiClient, cluster: Cluster) -> dict[str, Any]:
    from fairburst.kube.look import look  # noqa: PLC0415  keeps `fairburst --help` quick

    settings = await cluster.settings(client)
    return summary(await look(client, settings), await leader(client, settings), time.time())


async def leader(client: ApiClient, config: Config) -> dict[str, Any]:
    """Return the Lease's holder and the time since its renewal, or `problem` if there is no holder."""
    from datetime import datetime  # noqa: PLC0415

    from fairburst.kube.api.errors import Forbidden, NotFound  # noqa: PLC0415

    path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases/{config.lease_name}"
    try:
        spec = (await client.get_json(path)).get("spec") or {}
    except NotFound:
        return {"problem": f"no Lease {config.namespace}/{config.lease_name}: no operator leads, and none has since the last uninstall"}
    except Forbidden as error:
        return {"problem": f"the Lease may not be read: {error.message}"}
    if not spec.get("holderIdentity"):
        return {"problem": "the Lease has no holder: no operator runs"}
    renewed = datetime.fromisoformat(spec["renewTime"]).timestamp()
    return {
        "holder": spec["holderIdentity"],
        "renewedSecondsAgo": round(max(0.0, time.time() - renewed), 1),
        "leaseSeconds": spec.get("leaseDurationSeconds"),
    }


def no_leader(leads: dict[str, Any]) -> str:
    """Return why no operator leads, from what `leader` returned; empty if one does."""
    ago, lease = leads.get("renewedSecondsAgo"), leads.get("leaseSeconds")
    if ago is not None and lease and ago > lease:
        return f"{leads['holder']} renewed its Lease {ago:.0f} s ago: it hangs or is gone"
    return str(leads.get("problem", ""))


def summary(seen: Look, leads: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the screen as data."""
    from fairburst.cli.explain import without_port  # noqa: PLC0415
    from fairburst.cli.queues import condition, summaries, trouble  # noqa: PLC0415
    from fairburst.kube.queues.queue_set import pool_name  # noqa: PLC0415
    from fairburst.quantity import format_quantity, parse_quantity  # noqa: PLC0415

    pool = seen.config.pool.name
    snapshot, result = seen.round.snapshot, seen.round.result
    queues = {key: obj for key, obj in seen.queues.items() if pool_name(obj) == pool}
    listed = summaries(queues, now)
    capacity = [
        {
            "resource": name,
            "capacity": format_quantity(name, float(snapshot.live_capacity[at])),
            "committed": format_quantity(name, float(snapshot.committed_capacity[at])),
            "used": format_quantity(name, float(snapshot.usage[:, at].sum())),
            "wanted": format_quantity(name, sum(parse_quantity(one["wanted"].get(name, "0")) for one in listed)),
            "idleParts": {cause.value: float(parts[at]) for cause, parts in seen.plan.idle.items()},
            "usedPart": float(snapshot.usage[:, at].sum() / snapshot.live_capacity[at]) if snapshot.live_capacity[at] > 0 else 0.0,
        }
        for at, name in enumerate(snapshot.resources)
    ]
    outside, observed = _outside(seen), seen.plan.queue_set.observed
    reasons = {
        one.queue: without_port(seen, row) or _why(one, snapshot, row)
        for row, one in enumerate(result.decisions)
        if snapshot.demand[row].any() and snapshot.unit[row].any()  # without a size only pods wait that no node could hold
    }
    return {
        "pool": pool,
        "nodes": len(seen.view.nodes),
        "operator": leads,
        "capacity": capacity,
        "outside": {name: amounts for name, amounts in outside.items() if name not in observed},
        "observed": {name: amounts for name, amounts in outside.items() if name in observed},
        "classes": dict(Counter(one["class"] or "Undecided" for one in listed)),
        "queues": listed,
        "bursts": [one for one in listed if one["kind"] == "LatencyQueue"],
        "waiting": [{**one, "why": reasons.get(_name(one)) or _said_by_status(seen, one)} for one in listed if one["waiting"]],
        "problems": [
            {"queue": f"{key[1]}/{key[2]}", "reason": found.get("reason", ""), "message": trouble(obj["status"])}
            for key, obj in sorted(queues.items())
            if (found := condition(obj.get("status") or {}, "Ready")).get("status") == "False"
        ],
    }


def _outside(seen: Look) -> dict[str, dict[str, str]]:
    """Return what pods outside the queues request on the pool's nodes, which is no part of the capacity, by namespace, most cpu first."""
    from fairburst.kube.usage.effective_requests import effective_requests  # noqa: PLC0415
    from fairburst.quantity import format_quantity  # noqa: PLC0415

    governed = {entry.namespace for entry in seen.plan.queue_set.governing}
    nodes = seen.pool_nodes()
    found: dict[str, Counter[str]] = {}
    for pod in seen.view.stored_pods.values():
        namespace = pod.metadata.namespace
        if pod.bound and pod.spec.node_name in nodes and (pod.unmanaged or namespace not in governed):
            found.setdefault(namespace, Counter()).update({name: amount for name, amount in effective_requests(pod).items() if amount > 0})
    most_first = sorted(found.items(), key=lambda item: (-item[1]["cpu"], item[0]))
    return {name: {one: format_quantity(one, amount) for one, amount in sums.items()} for name, sums in most_first if sums}


def _said_by_status(seen: Look, one: dict[str, Any]) -> str:
    """Return why work waits that this look decides nothing about: no node could hold it, or its queue is in Observe mode."""
    from fairburst.cli.explain import without_node  # noqa: PLC0415
    from fairburst.cli.queues import condition  # noqa: PLC0415

    status = seen.queues[one["kind"], one["namespace"], one["name"]].get("status") or {}
    fit, row = condition(status, "JobsFit"), seen.round.row(_name(one))
    if fit.get("status") == "False":
        return str(fit.get("message", ""))
    return (without_node(seen, row) if row is not None else "") or str(status.get("explanation", ""))


def _why(decision: QueueDecision, snapshot: ClusterSnapshot, row: int) -> str:
    """Return why work of the queue waits, if some does."""
    from fairburst.policy.tolerance import exceeds  # noqa: PLC0415

    if decision.reason != "DemandMet":
        return decision.message
    return WAITS_FOR_ROOM if exceeds(snapshot.demand[row], snapshot.usage[row]).any() else HELD_BY_NODES


def show(found: dict[str, Any]) -> None:
    """Print the screen."""
    from fairburst.cli.queues import first_amount  # noqa: PLC0415

    leads = found["operator"]
    healthy = no_leader(leads) or f"{leads['holder']} leads, renewed {leads['renewedSecondsAgo']:.0f} s ago"
    size = f"{found['nodes']} nodes, {len(found['queues'])} queues"
    sys.stdout.write(wrapped("", f"Pool {found['pool']}: {size}. Operator: {healthy}.") + "\n")
    head = ("RESOURCE", "CAPACITY", "COMMITTED", "USED", "WANTED", "USE")
    rows = [
        (one["resource"], one["capacity"], one["committed"], one["used"], one["wanted"], f"{one['usedPart']:.0%}")
        for one in found["capacity"]
    ]
    print_table(Table(head, list(rows), right=frozenset(head[1:])))
    idle = "; ".join(filter(None, (_idle(one["resource"], one["idleParts"]) for one in found["capacity"])))
    if idle:
        sys.stdout.write("\n" + wrapped("", f"Idle: {idle}."))
    for whose, key in (("Outside the queues", "outside"), ("Of queues in Observe mode", "observed")):
        if found[key]:
            sys.stdout.write("\n" + wrapped("", f"{whose}, and no part of the capacity: {_named(found[key])}."))
    classes = ", ".join(f"{count} {name}" for name, count in sorted(found["classes"].items())) or "none"
    sys.stdout.write(f"\nQueues: {classes}.\n")
    bursts = sorted(found["bursts"], key=lambda one: (not one["nextBurst"].startswith(("open", "overdue")), -one["missed"]))
    _part("Bursts", ("QUEUE", "CLASS", "NEXT BURST", "MET", "MISSED"), [
        (_name(one), one["class"] or "-", one["nextBurst"], str(one["met"]), str(one["missed"])) for one in bursts
    ])  # fmt: skip
    _part("Waiting", ("QUEUE", "WAITING", "WHY"), [(_name(one), first_amount(one["waiting"]), one["why"]) for one in found["waiting"]])
    _part("Not ready", ("QUEUE", "REASON", "MESSAGE"), [(one["queue"], one["reason"], one["message"]) for one in found["problems"]])


def _idle(resource: str, parts: dict[str, float]) -> str:
    """Return why a resource is idle; empty if it is not, or no queue wants it."""
    shown = {cause: part for cause, part in parts.items() if part >= IDLE_SHOWN}
    said = ", ".join(f"{part:.0%} {IDLE_BECAUSE[cause]}" for cause, part in shown.items())
    return f"{resource} {said}" if shown.keys() - {"unwanted"} else ""


def _named(requests: dict[str, dict[str, str]]) -> str:
    from fairburst.cli.queues import amounts_text  # noqa: PLC0415

    named = ", ".join(f"{name} ({amounts_text(amounts)})" for name, amounts in itertools.islice(requests.items(), NAMED_OUTSIDE))
    return named + (f" and {len(requests) - NAMED_OUTSIDE} more namespaces" if len(requests) > NAMED_OUTSIDE else "")


def _name(one: dict[str, Any]) -> str:
    return f"{one['namespace']}/{one['name']}"


def _part(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    more = len(rows) - ROWS_SHOWN
    sys.stdout.write(f"\n{title}:\n")
    print_table(Table(head, list(rows[:ROWS_SHOWN]), right=frozenset({"MET", "MISSED"})))
    if more > 0:
        sys.stdout.write(f"and {more} more: fairburst get\n")
