"""A hard queue's burst meets its deadline although batch work fills every node, and batch work continues around it."""

from __future__ import annotations

from collections.abc import Callable

from e2e.promises.site import PATIENCE_SECONDS, Site, burst, instant, job, started_at, task_spec
from e2e.waiting import until

# Most of the places: kube-scheduler prefers recent pods when it retries, so a few may start early by chance, but not this many.
BURST_PODS, BURST_TASK_SECONDS = 8, 4
BATCH_TASK_SECONDS = 10
BACKLOG = 3  # batch pods for each place
# The longest batch task (10 s) + the burst's own (4 s), and the rest to start its pods on a machine with other load.
DECLARED_SECONDS = 30


def test_a_burst_meets_its_deadline_and_starts_sooner_than_without_fairburst(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """The same work runs in the same cluster, first in namespaces without a queue, then with a latency and a throughput queue."""
    plain = namespaces("plain-bursts", "plain-batch")
    without = last_start_seconds(fairburst, *plain)
    fairburst.forget(*plain)
    bursts, batch = namespaces("bursts", "batch")
    fairburst.admitted("LatencyQueue", bursts, burst(fairburst.slot, BURST_PODS, DECLARED_SECONDS, interarrival=180))
    # Capacity that unmanaged pods have held is not promised for the seconds of the capacity window.
    until(lambda: fairburst.decided("LatencyQueue", bursts)["class"] == "Hard", PATIENCE_SECONDS, "the burst to be promised")
    fairburst.admitted("ThroughputQueue", batch, {})
    with_fairburst = last_start_seconds(fairburst, bursts, batch)
    print(f"burst of {BURST_PODS} pods on a full cluster, last container started: {without} s without, {with_fairburst} s with fairburst")
    assert with_fairburst < without
    until(lambda: fairburst.get("latq", bursts, bursts)["status"]["history"]["bursts"] == 1, PATIENCE_SECONDS, "its window to be judged")
    assert fairburst.get("latq", bursts, bursts)["status"]["history"] == {"bursts": 1, "met": 1, "missed": 0}


def last_start_seconds(site: Site, bursts: str, batch: str) -> float:
    """Fill the nodes with batch pods and send the burst. Return the time from its creation until its last container started."""
    places = site.places()
    site.create(job(batch, "batch", task_spec(site.slot, BATCH_TASK_SECONDS), BACKLOG * places))
    site.wait_running(batch, places)
    site.create(job(bursts, "burst", task_spec(site.slot, BURST_TASK_SECONDS), BURST_PODS))
    site.wait_done(bursts, "burst", 180)
    created = instant(site.get("job", "burst", bursts)["metadata"]["creationTimestamp"])
    last = max(instant(started_at(one)) for one in site.list("pods", bursts))
    site.cluster.kubectl("delete", "job", "batch", "-n", batch, "--wait=false")
    return (last - created).total_seconds()
