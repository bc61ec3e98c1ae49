"""Enforcement matches decisions: levels by weight while all have work, priorities by class, quotas that the API server checks."""

from __future__ import annotations

from collections.abc import Callable

from e2e.promises.site import PATIENCE_SECONDS, Site, burst, job, task_spec, times
from e2e.waiting import until


def test_levels_follow_the_weights_and_idle_room_is_lent(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """Two backlogged queues of weights 1 and 2 have thirds, less a pod. When the heavy one has no work, the other has the whole cluster."""
    site = fairburst
    light, heavy = namespaces("light", "heavy")
    places = site.places()
    for name, weight in ((light, 1), (heavy, 2)):
        site.admitted("ThroughputQueue", name, {"weight": weight, "reserve": "Off"})
        site.create(job(name, "work", task_spec(site.slot, 10), places, completions=100 * places))

    def thirds() -> bool:
        return abs(site.held(light) - places / 3) <= 1 and abs(site.held(heavy) - places * 2 / 3) <= 1

    until(thirds, PATIENCE_SECONDS, f"a third and two thirds of {places} places to be held")
    site.cluster.kubectl("delete", "job", "work", "-n", heavy)
    until(lambda: site.held(light) >= places - 1, PATIENCE_SECONDS, "the other to have the whole cluster")
    assert {one["spec"]["priorityClassName"] for one in site.list("pods", light)} <= {"fairburst-large", "fairburst-small"}


def test_a_pod_beyond_the_level_is_refused_by_the_api_server(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """A queue at its limit: its Job has as many pods as the limit permits, and reports why there are no more."""
    site = fairburst
    (limited,) = namespaces("limited")
    site.admitted("ThroughputQueue", limited, {"limits": {"cpu": times(site.slot, 5)["cpu"]}, "reserve": "Off"})
    site.create(job(limited, "work", task_spec(site.slot, 600), 10))
    site.wait_running(limited, 5)
    until(lambda: "exceeded quota: fairburst" in events(site, limited), PATIENCE_SECONDS, "the Job to be told of the quota")
    assert len(site.list("pods", limited)) <= 6, "the limit, and one pod for who comes first when another ends"


def test_priorities_order_what_waits_for_room(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """Waiting pods of a hard queue are bound before waiting batch pods, and no running pod is preempted for them."""
    site = fairburst
    bursts, batch = namespaces("bursts", "batch")
    assert site.admitted("LatencyQueue", bursts, burst(site.slot, 4, 30, interarrival=180))["class"] == "Hard"
    site.admitted("ThroughputQueue", batch, {})
    places = site.places()
    site.create(job(batch, "work", task_spec(site.slot, 10), 2 * places))
    site.wait_running(batch, places)
    ran_before = {one["metadata"]["uid"] for one in site.running(batch)}
    site.create(job(bursts, "burst", task_spec(site.slot, 4), 4))
    site.wait_done(bursts, "burst")
    assert {one["spec"]["priority"] for one in site.list("pods", bursts)} == {2000}
    assert {one["spec"]["preemptionPolicy"] for one in site.list("pods", bursts)} == {"Never"}
    ended = {one["metadata"]["uid"]: one["status"]["phase"] for one in site.list("pods", batch)}
    assert {ended.get(uid) for uid in ran_before} <= {"Running", "Succeeded"}


def events(site: Site, namespace: str) -> str:
    return "\n".join(one.get("message", "") for one in site.list("events", namespace))
