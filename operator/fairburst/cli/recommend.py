"""`fairburst recommend`: the queue that fits the work of a namespace, from the pods that the API server still has."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairburst.cli.arguments import OutputForm, namespace_name
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, OperatorConfig, SystemNamespace
from fairburst.cli.errors import FAILED, CommandError
from fairburst.cli.output import is_data, print_value
from fairburst.kube.names import USERS_API_VERSION

if TYPE_CHECKING:
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.look import Look
    from fairburst.policy.model import GuaranteeClass, QueueSpec
    from fairburst.suggestion.bursts import WorkHistory

NAME = "bursts"
ENDED_ARE_FORGOTTEN = (
    "the API server forgets pods that end with a Job's ttlSecondsAfterFinished; a queue with `enforcement: Observe` remembers its work "
    "and says in status.suggestion what would fit"
)


def recommend(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", callback=namespace_name, help="The namespace whose work is looked at.")],
    output: OutputForm = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Say which LatencyQueue fits the bursts of a namespace, and its class, as a manifest to apply. Needs no queue and no operator."""
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    found = cluster.ask(lambda client: _ask(client, cluster, namespace))
    if is_data(output):
        print_value(found, output)
        return
    import yaml  # noqa: PLC0415  keeps `fairburst --help` quick

    sys.stdout.write(f"# {found['message']}\n{yaml.safe_dump(found['manifest'], sort_keys=False)}")


async def _ask(client: ApiClient, cluster: Cluster, namespace: str) -> dict[str, Any]:
    from fairburst.kube.api.errors import Forbidden, NotFound  # noqa: PLC0415  keeps `fairburst --help` quick

    try:
        seen = await cluster.look(client)
    except (Forbidden, NotFound):  # fairburst is not installed, or this user sees one namespace only
        seen = None
    pods = (await client.get_json(f"/api/v1/namespaces/{namespace}/pods")).get("items") or []
    return recommendation(namespace, pods, seen, time.time())


def recommendation(namespace: str, pods: Sequence[Mapping[str, Any]], seen: Look | None, wall: float) -> dict[str, Any]:
    """Return `bursts`, `class`, `message` and `manifest`; no class without `seen`. Raises CommandError if no queue fits."""
    from fairburst.kube.rounds.suggestions import sentence, suggested_queue, suggestion_to_status  # noqa: PLC0415
    from fairburst.policy.tolerance import SMALLEST  # noqa: PLC0415
    from fairburst.suggestion.bursts import bursts_of  # noqa: PLC0415
    from fairburst.suggestion.suggest import suggest  # noqa: PLC0415

    resources = ("cpu", "memory") if seen is None else seen.round.snapshot.resources
    history = _history(pods, resources, wall)
    # Without the pool's capacity, resources are compared relative to the namespace's total use of each.
    capacity = history.amounts.sum(axis=0) if seen is None else seen.round.snapshot.committed_capacity
    found = suggest(bursts_of(history, capacity.clip(min=SMALLEST)), resources)
    if isinstance(found, str):
        text = f"no LatencyQueue fits namespace {namespace}, of which {len(pods)} pods are known: {found}; {ENDED_ARE_FORGOTTEN}"
        raise CommandError(text, FAILED)
    spec = suggested_queue(found, f"{namespace}/{NAME}", 1.0, wall)
    fields = suggestion_to_status(found, spec, None if seen is None else _class_of(spec, seen))
    if seen is None:
        fields |= {
            "class": None,
            "message": f"{sentence(found)} Its class is known where fairburst is installed and you may read the cluster.",
        }
    manifest = {
        "apiVersion": USERS_API_VERSION,
        "kind": "LatencyQueue",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"burst": fields.pop("burst"), "arrival": fields.pop("arrival")},
    }
    return {"namespace": namespace, **fields, "manifest": manifest}


def _class_of(spec: QueueSpec, seen: Look) -> GuaranteeClass | None:
    """Return the class that the queue would get now, in place of the one that governs its namespace."""
    from fairburst.whatif.rounds import with_queue, without_queue  # noqa: PLC0415

    snapshot = seen.round.snapshot
    namespace = spec.name.partition("/")[0]
    for row, other in enumerate(snapshot.queues):
        if other.name.partition("/")[0] == namespace:
            snapshot = without_queue(snapshot, row)
    return seen.round.again(with_queue(snapshot, spec)).result.classes[-1]


def _history(pods: Sequence[Mapping[str, Any]], resources: Sequence[str], wall: float) -> WorkHistory:
    """Return the pods as work from start to end. The first burst may be incomplete and is left out."""
    import msgspec  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    from fairburst.kube.api.objects import Pod  # noqa: PLC0415
    from fairburst.kube.usage.effective_requests import template_requests  # noqa: PLC0415
    from fairburst.suggestion.bursts import WorkHistory  # noqa: PLC0415

    spans = [(pod, span) for pod in pods if (span := _span(pod, wall)) is not None]
    requests = [template_requests(msgspec.convert(pod, Pod).spec) for pod, _ in spans]  # ended pods have no effective ones
    begin = np.array([span[0] for _, span in spans])
    amounts = np.array([[one.get(name, 0.0) for name in resources] for one in requests], dtype=np.float64)
    since = float(begin.min()) if spans else wall
    return WorkHistory(begin, np.array([span[1] for _, span in spans]), amounts.reshape(len(spans), len(resources)), since, wall)


def _span(pod: Mapping[str, Any], wall: float) -> tuple[float, float] | None:
    """Return the start and end of a pod, seconds since the epoch; `wall` while it runs. None if it never ran or its end is unknown."""
    status = pod.get("status") or {}
    if not status.get("startTime"):
        return None
    begin = datetime.fromisoformat(status["startTime"]).timestamp()
    if status.get("phase") not in {"Succeeded", "Failed"}:
        return begin, wall
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in status.get("containerStatuses") or []]
    end = max((datetime.fromisoformat(one).timestamp() for one in ends if one), default=None)
    return None if end is None else (begin, end)
