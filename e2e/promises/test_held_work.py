"""Gate and Suspend: work is created at once and starts in order when there is room; nothing remains after leaving the mode."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from e2e.objects import JsonObject
from e2e.promises.site import PATIENCE_SECONDS, Site, instant, job, pod, task_spec, times
from e2e.waiting import until
from fairburst.kube.names import GATE, HELD_ANNOTATION


def test_bare_pods_wait_behind_the_gate_and_go_in_order(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """A queue of two places and four pods, which a quota would refuse: the first two run, and each end releases the next."""
    site = fairburst
    (spark,) = namespaces("spark")
    site.admitted("ThroughputQueue", spark, {"enforcement": "Gate", "limits": {"cpu": times(site.slot, 2)["cpu"]}})
    until(lambda: site.gates_of(pod(spark, "probe", task_spec(site.slot, 1))) == [GATE], PATIENCE_SECONDS, "the policy to gate pods there")
    for number in range(4):
        site.create(pod(spark, f"executor-{number}", task_spec(site.slot, 600)))
    site.wait_running(spark, 2)
    assert names_running(site, spark) == ["executor-0", "executor-1"]
    gated = [one["metadata"]["name"] for one in site.list("pods", spark) if one["spec"].get("schedulingGates")]
    assert gated == ["executor-2", "executor-3"]
    site.cluster.kubectl("delete", "pod", "executor-0", "-n", spark)
    until(lambda: names_running(site, spark) == ["executor-1", "executor-2"], PATIENCE_SECONDS, "the next in line to run")
    site.patch("thrq", spark, spark, {"spec": {"enforcement": "Observe"}})
    until(lambda: len(names_running(site, spark)) == 3, PATIENCE_SECONDS, "the last to go when the queue holds nothing any more")


def test_a_held_job_starts_whole_or_not_at_all(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """A queue of four places and two Jobs of three pods: the one free place starts no part of the second, three start all of it."""
    site = fairburst
    (etl,) = namespaces("etl")
    site.admitted("ThroughputQueue", etl, {"enforcement": "Suspend", "limits": {"cpu": times(site.slot, 4)["cpu"]}})
    probe = job(etl, "probe", task_spec(site.slot, 1), 1)
    until(lambda: HELD_ANNOTATION in site.stored(probe)["metadata"].get("annotations", {}), PATIENCE_SECONDS, "the policy to hold Jobs")
    site.create(job(etl, "one", task_spec(site.slot, 10), 3))
    site.create(job(etl, "two", task_spec(site.slot, 2), 3))
    site.wait_running(etl, 3)
    assert site.get("job", "two", etl)["spec"]["suspend"] is True
    site.wait_done(etl, "one")
    site.wait_done(etl, "two")
    two_ended = sorted(ended_at(one) for one in site.list("pods", etl, "job-name=one"))[1]
    assert instant(site.get("job", "two", etl)["status"]["startTime"]) >= two_ended


def ended_at(one: JsonObject) -> dt.datetime:
    """Return when a pod's container ended, in whole seconds."""
    (status,) = one["status"]["containerStatuses"]
    return instant(status["state"]["terminated"]["finishedAt"])


def names_running(site: Site, namespace: str) -> list[str]:
    return sorted(one["metadata"]["name"] for one in site.running(namespace) if "deletionTimestamp" not in one["metadata"])
