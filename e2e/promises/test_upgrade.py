"""`helm upgrade` while work runs: no pod of a user is changed, quotas stay in force, and the new configuration decides.

Values that the upgrade does not name are kept, and the CRDs are the chart's again.
"""

from __future__ import annotations

from collections.abc import Callable

from e2e.promises.site import HOME, PATIENCE_SECONDS, RELEASE, SUITE_CONFIG, Site, job, task_spec
from e2e.waiting import until

HEAD_ROOM_PERCENT = 20
CRD = "throughputqueues.fairburst.dev"


def test_an_upgrade_under_load_touches_nobody(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    site = fairburst
    (batch,) = namespaces("batch")
    promise = site.admitted("ThroughputQueue", batch, {})["promise"]
    places = site.places()
    site.create(job(batch, "long", task_spec(site.slot, 600), places // 2))
    site.create(job(batch, "short", task_spec(site.slot, 10), places, completions=100 * places))
    site.wait_running(batch, places)
    kept = {one["metadata"]["uid"] for one in site.list("pods", batch, "job-name=long")}
    quota = site.get("resourcequota", "fairburst", batch)["metadata"]["uid"]
    image = image_of(site)
    operators, capacity = site.operators(), site.capacity()["cpu"]

    # Imitates a release of a version whose queues had no short name.
    site.cluster.kubectl("patch", "crd", CRD, "--type=json", "-p", '[{"op": "remove", "path": "/spec/names/shortNames"}]')
    config = {**SUITE_CONFIG, "pool": {**SUITE_CONFIG["pool"], "headRoomPercent": HEAD_ROOM_PERCENT}}
    site.helm.on_chart("upgrade", RELEASE, "--reset-then-reuse-values", values={"config": config}, namespace=HOME)
    site.rolled_out()
    until(lambda: not set(site.operators()) & set(operators), PATIENCE_SECONDS, "the replicas of before to be gone")
    until(lambda: site.capacity()["cpu"] < 0.85 * capacity, PATIENCE_SECONDS, "the head-room to be kept free")
    until(lambda: site.quota_level(batch) < capacity, PATIENCE_SECONDS, "the level to follow")

    assert site.get("crd", CRD)["spec"]["names"]["shortNames"] == ["thrq"]
    assert image_of(site) == image, "the value that this upgrade does not name"
    pods = {one["metadata"]["uid"]: one for one in site.list("pods", batch, "job-name=long")}
    assert set(pods) == kept
    assert all(status["restartCount"] == 0 for one in pods.values() for status in one["status"]["containerStatuses"])
    assert site.get("resourcequota", "fairburst", batch)["metadata"]["uid"] == quota
    assert site.get("thrq", batch, batch)["status"]["promise"] == promise
    assert site.get("job", "short", batch)["status"].get("failed", 0) == 0


def image_of(site: Site) -> str:
    """Return the image of the replicas."""
    (container,) = site.get("deployment", RELEASE, HOME)["spec"]["template"]["spec"]["containers"]
    return str(container["image"])
