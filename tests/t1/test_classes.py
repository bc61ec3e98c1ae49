"""Classes on the cluster: BoPF §5.2.5, and a queue that would break an earlier promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.work import namespace

HEAD_ROOM_PERCENT = 10
CPU, MEMORY_GI = 640 * 0.9, 1280 * 0.9  # capacity after head-room, to which the declared rates relate
ON_SECONDS = 27


@pytest.fixture(scope="module")
def cluster_with_operator(fresh_cluster: Callable[..., Cluster]) -> Iterator[LiveCluster]:
    cluster = fresh_cluster()
    with OperatorProcess(cluster, {"pool": {"headRoomPercent": HEAD_ROOM_PERCENT}}, "classes"):
        yield LiveCluster(cluster)


def admit(cluster: LiveCluster, kind: str, where: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Create a queue in a namespace of its own, and return its status once it has a class."""
    cluster.create(namespace(where), queue(kind, spec, where))
    cluster.wait_class(where)
    return cluster.status(where)


def burst_of(rate_fraction: float, period_seconds: int) -> dict[str, Any]:
    resources = {"cpu": f"{round(CPU * rate_fraction * 1000)}m", "memory": f"{round(MEMORY_GI * rate_fraction * 1024)}Mi"}
    return {
        "burst": {"resources": resources, "durationSeconds": ON_SECONDS},
        "arrival": {"periodic": {"periodSeconds": period_seconds}},
    }


def test_a_calendar_has_its_class_and_its_window_at_once(cluster_with_operator: LiveCluster) -> None:
    """A burst at every full minute with a deadline of one: whenever the queue is created, a window is open.

    It comes first: the queues of the next tests leave no room for a fifth.
    """
    cluster = cluster_with_operator
    spec = {
        "burst": {"resources": {"cpu": "12"}, "durationSeconds": 10, "deadlineSeconds": 60},
        "arrival": {"calendar": {"cron": ["* * * * *"], "timeZone": "Europe/Berlin"}},
    }
    assert admit(cluster, "LatencyQueue", "calendar", spec)["class"] == "Hard"
    until(lambda: cluster.status("calendar").get("window", {}).get("state") == "Open", PATIENCE_SECONDS, "the window of the present burst")
    status = cluster.status("calendar")
    assert status["window"]["deadline"].endswith(":00Z")
    assert status["promise"]["arrival"]["calendar"]["cron"] == ["* * * * *"]
    wrong = spec | {"arrival": {"calendar": {"cron": ["61 0 * * *"]}}}
    cluster.create(namespace("no-calendar"), queue("LatencyQueue", wrong, "no-calendar"))
    until(lambda: cluster.condition("no-calendar", "Ready").get("status") == "False", PATIENCE_SECONDS, "the queue's condition")
    assert "Bad minute" in cluster.condition("no-calendar", "Ready")["message"]
    cluster.admin("delete", "latencyqueue", "queue", "-n", "calendar")
    cluster.admin("delete", "latencyqueue", "queue", "-n", "no-calendar")


@pytest.fixture(scope="module")
def of_the_paper(cluster_with_operator: LiveCluster) -> list[dict[str, Any]]:
    """The statuses of three latency queues that are admitted after a throughput queue, in turn."""
    cluster = cluster_with_operator
    assert admit(cluster, "ThroughputQueue", "tq-0", {})["class"] == "Elastic"
    return [admit(cluster, "LatencyQueue", f"lq-{number}", burst_of(0.92, period)) for number, period in enumerate((150, 110, 60))]


@pytest.fixture(scope="module")
def fifth(cluster_with_operator: LiveCluster, of_the_paper: list[dict[str, Any]]) -> dict[str, Any]:
    """The status of a fifth queue, whose weight leaves the hard queue less than it was promised."""
    assert [one["class"] for one in of_the_paper] == ["Hard", "Soft", "Elastic"]
    return admit(cluster_with_operator, "ThroughputQueue", "tq-1", {"weight": 40})


def test_the_multi_queue_scenario_of_the_paper_comes_out_hard_soft_elastic(of_the_paper: list[dict[str, Any]]) -> None:
    """BoPF §5.2.5: identical demand, periods 150, 110, 60 s, one throughput queue admitted first.

    A demand of 92 % of capacity for 27 s is within a quarter of 110 s and of 150 s, not within a quarter of 60 s; two
    such rates do not fit side by side.
    """
    assert [one["class"] for one in of_the_paper] == ["Hard", "Soft", "Elastic"]
    _, soft, elastic = of_the_paper
    assert soft["admission"]["resource"]["holds"] is False
    assert float(soft["admission"]["resource"]["left"]) > float(soft["admission"]["resource"]["right"])
    assert elastic["admission"]["fairness"]["holds"] is False
    priorities = [one["podPriority"]["className"] for one in of_the_paper]
    assert priorities == ["fairburst-hard", "fairburst-soft", "fairburst-large"]


def test_a_queue_that_would_break_a_promise_is_rejected_without_names_of_others(fifth: dict[str, Any]) -> None:
    """BoPF condition (1): a fifth queue would leave the hard queue less than it was promised."""
    assert fifth["class"] == "Rejected"
    admitted = next(condition for condition in fifth["conditions"] if condition["type"] == "Admitted")
    assert admitted["status"] == "False"
    safety = fifth["admission"]["safety"]
    assert safety["holds"] is False
    assert float(safety["left"]) > float(safety["right"])
    assert safety["queue"] == "another queue"
    assert "lq-" not in str(fifth), "the owner of one queue learns no names of others"
    assert fifth["podPriority"]["className"] == "fairburst-large", "a rejected queue runs in the lowest class, at the floor"


def test_a_rejected_queue_is_admitted_once_there_is_room(cluster_with_operator: LiveCluster, fifth: dict[str, Any]) -> None:
    assert fifth["class"] == "Rejected"
    cluster = cluster_with_operator
    for number in range(3):  # all three: the elastic one would be promoted as soon as it is alone with tq-0
        cluster.admin("delete", "latencyqueue", "queue", "-n", f"lq-{number}")
    until(
        lambda: cluster.status("tq-1")["class"] == "Elastic",
        PATIENCE_SECONDS,
        "the rejected queue to be admitted after the queues that it would have hurt are gone",
    )


def test_the_operator_survives_an_api_server_restart(cluster_with_operator: LiveCluster) -> None:
    cluster = cluster_with_operator
    cluster.cluster.stop("kube-apiserver", kill=True)
    cluster.cluster.start_component("kube-apiserver")
    assert admit(cluster, "ThroughputQueue", "after-restart", {})["class"] == "Elastic"
