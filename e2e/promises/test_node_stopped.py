"""The leader's node stops: another replica leads, less capacity is divided until the node returns, and other work fills what is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.promises.site import HOME, PATIENCE_SECONDS, PLACES_OF_A_NODE, Site, cores, job, task_spec
from e2e.waiting import until


def test_a_node_stops_and_comes_back(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    site = fairburst
    if site.nodes is None:
        pytest.skip("NODES OF E2E_KUBECONFIG'S CLUSTER ARE NOT OURS TO STOP")
    (batch,) = namespaces("batch")
    site.admitted("ThroughputQueue", batch, {})
    places, capacity, former = site.places(), site.capacity()["cpu"], site.leader()
    site.create(job(batch, "work", task_spec(site.slot, 10), places, completions=100 * places))
    site.wait_running(batch, places)
    node = site.get("pod", former, HOME)["spec"]["nodeName"]
    site.nodes.stop_node(node)
    try:
        until(lambda: site.leader() not in {former, ""}, PATIENCE_SECONDS, "another replica to lead")
        # The control plane takes up to a minute to consider the node lost.
        until(lambda: site.capacity()["cpu"] < 0.6 * capacity, PATIENCE_SECONDS, "the node not to be shared out any more")
        until(lambda: used_cores(site, batch) < 0.6 * capacity, PATIENCE_SECONDS, "what is on the lost node not to count any more")
        # The quota still counts the pods of the lost node. A level without them would let nothing new start on the other node.
        earlier = {one["metadata"]["uid"] for one in site.list("pods", batch)}

        def started_since() -> int:
            return sum(one["metadata"]["uid"] not in earlier for one in site.running(batch))

        until(lambda: started_since() >= PLACES_OF_A_NODE, PATIENCE_SECONDS, "new work to fill the other node")
    finally:
        site.nodes.start_node(node)
    until(lambda: site.capacity()["cpu"] > 0.9 * capacity, PATIENCE_SECONDS, "the node to be shared out again")
    until(lambda: used_cores(site, batch) > 0.8 * capacity, PATIENCE_SECONDS, "work to fill both nodes again")
    site.rolled_out()


def used_cores(site: Site, queue: str) -> float:
    """Return the use that a ThroughputQueue's status shows."""
    usage = site.get("throughputqueue", queue, queue)["status"]["usage"]
    return cores(usage["cpu"])
