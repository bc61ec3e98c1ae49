"""The resources of a cluster that a workload can use."""

from __future__ import annotations

from collections.abc import Mapping

from e2e.workload.metrics import Amounts
from fairburst.kube.api.client import ApiClient
from fairburst.quantity import parse_quantity


async def cluster_capacity(client: ApiClient) -> Amounts:
    """Return the allocatable of all ready, schedulable, untainted nodes, less the present requests of their pods."""
    total, counted = Amounts(), set()
    for node in (await client.get_json("/api/v1/nodes"))["items"]:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        if ready and not node["spec"].get("unschedulable") and not node["spec"].get("taints"):
            counted.add(node["metadata"]["name"])
            total += _amounts(node["status"]["allocatable"])
    unfinished = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    for pod in (await client.get_json("/api/v1/pods", unfinished))["items"]:
        if pod["spec"].get("nodeName") in counted:
            for container in pod["spec"]["containers"]:
                total += _amounts(container.get("resources", {}).get("requests", {})).times(-1)
    return total


def _amounts(quantities: Mapping[str, str]) -> Amounts:
    return Amounts(float(parse_quantity(quantities.get("cpu", "0"))), float(parse_quantity(quantities.get("memory", "0"))))
