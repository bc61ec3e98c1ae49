"""Reclaim evicts running containers for a burst in its window, with their grace periods, and never against a disruption budget."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from e2e.objects import JsonObject
from e2e.promises.site import MINIMUM_RUN_SECONDS, PATIENCE_SECONDS, Site, burst, condition, instant, job, task_spec
from e2e.waiting import until

BURST_PODS, BURST_SECONDS = 4, 120
GRACE_SECONDS = 90  # longer than the victims need to leave, so that none is killed at its end
# Runs until /end exists, even after SIGTERM, which it logs. Its exit status shows whether it received SIGTERM.
STUBBORN = ["sh", "-c", "trap 'left=143; echo asked' TERM; until [ -e /end ]; do sleep 1; done; exit ${left:-0}"]


def test_victims_have_their_grace_period_and_the_burst_starts_in_their_places(
    fairburst: Site, namespaces: Callable[..., list[str]]
) -> None:
    site = fairburst
    bursts, batch = two_queues(site, namespaces)
    places = site.places()
    stubborn = task_spec(site.slot, 0, GRACE_SECONDS)
    stubborn["containers"][0]["command"] = STUBBORN
    site.create(job(batch, "stubborn", stubborn, places))
    site.wait_running(batch, places)
    site.create(job(bursts, "burst", task_spec(site.slot, 600), BURST_PODS))

    until(lambda: len(asked_to_end(site, batch)) == BURST_PODS, PATIENCE_SECONDS, "as many as the burst's pods to be asked to end")
    victims = asked_to_end(site, batch)
    names = sorted(one["metadata"]["name"] for one in victims)
    assert {one["metadata"]["deletionGracePeriodSeconds"] for one in victims} == {GRACE_SECONDS}
    assert {condition(one["status"], "DisruptionTarget")["reason"] for one in victims} == {"EvictionByEvictionAPI"}
    until(lambda: sorted(told(site, batch)) == names, PATIENCE_SECONDS, "an Event on each of them")
    assert all("a burst of another queue that came at" in why for why in told(site, batch).values())
    for name in names:  # the kubelet delivers it a moment later
        until(lambda name=name: "asked" in site.cluster.kubectl("logs", name, "-n", batch), PATIENCE_SECONDS, f"{name} to know")  # type: ignore[misc]
    assert (len(site.running(batch)), site.running(bursts)) == (places, []), "their containers run on, and no other pod has their places"

    end(site, batch, *names)
    site.wait_running(bursts, BURST_PODS)
    assert len(site.running(batch)) == places - BURST_PODS
    # An ended pod may still exist as an object for a moment.
    assert {one["metadata"]["name"] for one in asked_to_end(site, batch)} <= set(names), "no other pod was asked"
    site.cluster.kubectl("delete", "job", "burst", "-n", bursts)
    end(site, batch, site.running(batch)[0]["metadata"]["name"])  # until a pod succeeds the Job controller waits (docs/decisions/0063)
    site.wait_running(batch, places - 1)
    assert not site.get("job", "stubborn", batch)["status"].get("failed"), "an eviction is no failure of the Job"
    end(site, batch, *(one["metadata"]["name"] for one in site.running(batch)))


def test_a_disruption_budget_holds_and_others_go_instead(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """The younger of two Jobs would be evicted first, because less work is lost, but its budget permits no disruption."""
    site = fairburst
    bursts, batch = two_queues(site, namespaces)
    places = site.places()
    protected = job(batch, "protected", task_spec(site.slot, 600), places - BURST_PODS)
    label = {"app": "protected"}
    protected["spec"]["template"]["metadata"] = {"labels": label}
    site.create(budget(batch, label, places - BURST_PODS), job(batch, "open", task_spec(site.slot, 600), BURST_PODS))
    site.wait_running(batch, BURST_PODS)
    site.create(protected)
    site.wait_running(batch, places)
    kept = {one["metadata"]["uid"] for one in site.list("pods", batch, "app=protected")}
    until(lambda: site.get("pdb", "all", batch)["status"].get("currentHealthy") == len(kept), PATIENCE_SECONDS, "the budget to count")
    until(lambda: youngest_seconds(site, batch) > MINIMUM_RUN_SECONDS + 1, PATIENCE_SECONDS, "all to be old enough to be asked")
    refused = evictions(site, "refused")
    site.create(job(bursts, "burst", task_spec(site.slot, 600), BURST_PODS))
    site.wait_running(bursts, BURST_PODS)
    assert evictions(site, "refused") > refused, "those under the budget were asked first"
    assert {one["metadata"]["uid"] for one in site.running(batch)} == kept


def two_queues(site: Site, namespaces: Callable[..., list[str]]) -> tuple[str, str]:
    """Create a latency queue that may reclaim from others, and a throughput queue."""
    bursts, batch = namespaces("bursts", "batch")
    spec = burst(site.slot, BURST_PODS, BURST_SECONDS, interarrival=6 * BURST_SECONDS)
    assert site.admitted("LatencyQueue", bursts, spec | {"reclaim": "Evict"})["class"] == "Hard"
    site.admitted("ThroughputQueue", batch, {})
    return bursts, batch


def asked_to_end(site: Site, namespace: str) -> list[JsonObject]:
    return [one for one in site.list("pods", namespace) if "deletionTimestamp" in one["metadata"]]


def told(site: Site, namespace: str) -> dict[str, str]:
    """Return why pods of a namespace were evicted, by name. Their Jobs have such Events, too."""
    events = [one for one in site.list("events", namespace) if one["reason"] == "Reclaimed"]
    return {one["involvedObject"]["name"]: one["message"] for one in events if one["involvedObject"]["kind"] == "Pod"}


def end(site: Site, namespace: str, *stubborn: str) -> None:
    """Let pods that run STUBBORN end."""
    for name in stubborn:
        site.cluster.kubectl("exec", name, "-n", namespace, "--", "touch", "/end")


def youngest_seconds(site: Site, namespace: str) -> float:
    """Return how long the pod that started last has run, by this machine's clock."""
    last = max(instant(one["status"]["startTime"]) for one in site.list("pods", namespace))
    return (dt.datetime.now(dt.UTC) - last).total_seconds()


def evictions(site: Site, result: str) -> float:
    """Return the leader's count of evictions for bursts with this result."""
    return site.metrics(site.leader()).get(f'fairburst_evictions_total{{ground="Burst",result="{result}"}}', 0.0)


def budget(namespace: str, label: dict[str, str], least: int) -> JsonObject:
    spec = {"minAvailable": least, "selector": {"matchLabels": label}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": namespace}, "spec": spec}
