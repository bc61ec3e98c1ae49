"""The Job controller notes a Job's start as it first processes the Job, also if a quota refuses all of its pods then: from that the
operator knows that a Job without pods was refused, and does not wait in the controller's queue."""

from __future__ import annotations

from collections.abc import Callable

from e2e.cluster import Cluster
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.live_cluster import LiveCluster
from tests.support.work import job


def test_a_job_has_a_start_time_although_a_quota_refuses_all_of_its_pods(cluster: Cluster, namespace: Callable[..., str]) -> None:
    site, where = LiveCluster(cluster), namespace("refused")
    cluster.kubectl("create", "quota", "none", "-n", where, "--hard=pods=0")
    until(lambda: site.get("resourcequota", "none", where).get("status", {}).get("hard"), PATIENCE_SECONDS, "the quota to be enforced")
    site.create(job(where, "work", 3))
    until(lambda: site.get("job", "work", where).get("status", {}).get("startTime"), PATIENCE_SECONDS, "the Job to be processed")
    assert site.items("pods", where) == []
    until(
        lambda: any("exceeded quota" in one.get("message", "") for one in site.items("events", where)),
        PATIENCE_SECONDS,
        "the Job controller to have been refused",
    )
