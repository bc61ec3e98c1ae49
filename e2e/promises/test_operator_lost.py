"""The operator is killed in the middle of a burst and its leader deleted: promises and windows stay, and another replica continues."""

from __future__ import annotations

from collections.abc import Callable

from e2e.objects import JsonObject
from e2e.promises.site import HOME, PATIENCE_SECONDS, RELEASE, Site, burst, job, task_spec
from e2e.waiting import until

BURST_SECONDS = 45  # the burst must still be open when the operators return


def promised(status: JsonObject) -> JsonObject:
    """Return class and promise, which no restart may change."""
    return {"class": status["class"], "promise": status["promise"]}


def test_a_burst_goes_on_while_every_operator_is_dead(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """All replicas are killed: the API server admits the rest of the burst by itself, and it counts as met."""
    site = fairburst
    bursts, batch = namespaces("bursts", "batch")
    assert site.admitted("LatencyQueue", bursts, burst(site.slot, 4, BURST_SECONDS, interarrival=300))["class"] == "Hard"
    site.admitted("ThroughputQueue", batch, {})
    places = site.places()
    site.create(job(batch, "work", task_spec(site.slot, 12), 2 * places, completions=100 * places))
    site.wait_running(batch, places)
    site.create(job(bursts, "first-half", task_spec(site.slot, 20), 2))
    open_ = until(lambda: opened(site, bursts), PATIENCE_SECONDS, "the window to open")

    site.cluster.kubectl("scale", f"deployment/{RELEASE}", "-n", HOME, "--replicas=0")
    site.cluster.kubectl("delete", "pods", "-n", HOME, "--all", "--grace-period=0", "--force")
    site.create(job(bursts, "second-half", task_spec(site.slot, 4), 2))
    site.wait_done(bursts, "second-half")
    assert not site.operators()

    site.cluster.kubectl("scale", f"deployment/{RELEASE}", "-n", HOME, "--replicas=2")
    site.rolled_out()
    until(lambda: site.leader() in site.operators(), PATIENCE_SECONDS, "a new operator to lead")
    seen: list[JsonObject] = []  # statuses since another operator leads
    judged = until(lambda: finished(site, bursts, seen), PATIENCE_SECONDS, "the burst to be judged")
    assert promised(judged) == promised(open_)
    assert {one["window"]["opened"] for one in seen if one["window"].get("opened")} == {open_["window"]["opened"]}
    assert judged["history"] == {"bursts": 1, "met": 1, "missed": 0}


def test_when_the_leader_is_deleted_the_other_replica_goes_on(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    site = fairburst
    (bursts,) = namespaces("bursts")
    site.admitted("LatencyQueue", bursts, burst(site.slot, 4, BURST_SECONDS, interarrival=300))
    site.create(job(bursts, "burst", task_spec(site.slot, 30), 4))
    before = until(lambda: opened(site, bursts), PATIENCE_SECONDS, "the window to open")
    former = site.leader()
    site.cluster.kubectl("delete", "pod", former, "-n", HOME, "--wait=false")
    until(lambda: site.leader() not in {former, ""}, PATIENCE_SECONDS, "another to lead")
    (other,) = namespaces("later")
    site.admitted("ThroughputQueue", other, {})
    after = site.get("latq", bursts, bursts)["status"]
    assert promised(after) == promised(before)
    assert after["window"]["opened"] == before["window"]["opened"]
    site.rolled_out()


def opened(site: Site, namespace: str) -> JsonObject | None:
    """Return the status of a queue whose window is open."""
    status: JsonObject = site.get("latq", namespace, namespace)["status"]
    return status if status["window"].get("opened") else None


def finished(site: Site, namespace: str, seen: list[JsonObject]) -> JsonObject | None:
    """Return the status of a queue that has had one burst. Every status read meanwhile is added to `seen`."""
    status: JsonObject = site.get("latq", namespace, namespace)["status"]
    seen.append(status)
    return status if status["history"]["bursts"] == 1 else None
