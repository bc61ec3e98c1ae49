"""Values that no reasonable object has, on a real control plane while the operator runs: the next queue is served as quickly as before.

The unit tests of the same values are `tests/kube/test_poison.py` and `tests/kube/test_containment.py`.
"""

from __future__ import annotations

import itertools
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.objects import objects_of
from e2e.waiting import until
from fairburst.kube.queues.edit_limit import EDIT_SECONDS
from tests.support.attacks import Arena, job, pod
from tests.support.queues import queue

SERVED_SECONDS = 2.0
QUOTA_SECONDS = 30.0
INTERVAL_SECONDS = 3  # more than SERVED_SECONDS: a queue that only the next round by interval serves is not served in time
JsonObject = dict[str, Any]


class TimedArena(Arena):
    """An arena that knows how long a new queue waits for its quota while nothing is wrong."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        super().__init__(cluster, operator)
        self.pid = operator.pid
        self.usual = self.seconds_until_served()

    def seconds_until_served(self) -> float:
        """Return the median over three new queues: one alone may be late because the machine stood still."""
        return statistics.median(self.seconds_to_serve(self.outsider(), QUOTA_SECONDS) for _ in range(3))

    def check(self) -> None:
        """The operator runs on, no round fails, and another queue is served in time."""
        seconds = self.seconds_until_served()
        print(f"another queue was served in {seconds:.2f} s, {self.usual:.2f} s without poison")
        figures = self.operator.metrics()
        assert seconds <= max(SERVED_SECONDS, 4 * self.usual), f"{seconds:.2f} s, without poison {self.usual:.2f} s"
        assert self.operator.running
        assert self.operator.pid == self.pid
        assert figures["fairburst_round_failures_total"] == 0
        assert figures["fairburst_rounds_failed_in_a_row"] == 0


@pytest.fixture(scope="module")
def arena(fresh_cluster: Callable[..., Cluster]) -> Iterator[TimedArena]:
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi")
    with OperatorProcess(cluster, {"rounds": {"intervalSeconds": INTERVAL_SECONDS}}, "poison") as operator:
        yield TimedArena(cluster, operator)


def burst(**resources: str) -> JsonObject:
    return {"burst": {"resources": resources, "durationSeconds": 10}, "arrival": {"sporadic": {"minInterarrivalSeconds": 60}}}


def scheduled(arrival: str) -> JsonObject:
    return {"arrival": {"schedule": {"bursts": [{"arrival": arrival, "resources": {"cpu": "1", "memory": "1Gi"}, "durationSeconds": 1}]}}}


def periodic(first: str, jitter: int = 0) -> JsonObject:
    arrival = {"periodic": {"periodSeconds": 300, "firstArrival": first, "jitterSeconds": jitter}}
    return burst(cpu="1", memory="1Gi") | {"arrival": arrival}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("ThroughputQueue", {"limits": {"memory": "8Ei"}}, id="a limit of 8Ei"),
        pytest.param("LatencyQueue", burst(cpu="1", memory="8Ei"), id="a burst of 8Ei"),
        pytest.param("LatencyQueue", periodic("9999-12-31T23:59:59Z", 1), id="the last second of the calendar, with jitter"),
        pytest.param("LatencyQueue", periodic("9999-12-31T23:59:59-23:59"), id="a second after the end of the calendar"),
        pytest.param("LatencyQueue", scheduled("2026-01-01T00:00:00-23:59"), id="an arrival with the offset -23:59"),
    ],
)
def test_one_field_of_one_queue_delays_no_other(arena: TimedArena, kind: str, spec: JsonObject) -> None:
    arena.create(queue(kind, spec, arena.outsider().name))
    arena.rounds(2)
    arena.check()


def test_a_schedule_of_which_the_last_burst_passes_delays_no_other(arena: TimedArena) -> None:
    arrival = datetime.now(UTC) + timedelta(seconds=3)
    spec = scheduled(arrival.isoformat(timespec="seconds").replace("+00:00", "Z"))
    arena.create(queue("LatencyQueue", spec, arena.outsider().name))
    time.sleep(6.0)
    arena.rounds(2)
    arena.check()


@pytest.mark.parametrize("work", [job("held", 1, memory="8Ei"), job("held", 2_147_483_647)], ids=["memory 8Ei", "2^31-1 pods"])
def test_a_held_job_of_absurd_size_delays_no_other(arena: TimedArena, work: JsonObject) -> None:
    tenant = arena.tenant(enforcement="Suspend")
    tenant.create(work | {"spec": work["spec"] | {"suspend": True}})
    arena.rounds(2)
    arena.check()


def test_a_pod_that_is_deleted_with_a_grace_of_a_million_million_seconds_delays_no_other(arena: TimedArena) -> None:
    """In a namespace that fairburst does not manage. Such a pod once ended the informer of pods, and with it every replica."""
    tenant = arena.outsider()
    stays = {"name": "eternal", "annotations": {"stop-seconds": "86400s"}}  # its containers ignore the request to end
    tenant.create(pod("eternal", terminationGracePeriodSeconds=10**12) | {"metadata": stays})
    arena.wait_running(tenant.name, 1, "the pod to run")
    tenant("delete", "pod", "eternal", "--wait=false")
    [found] = json.loads(tenant("get", "pods", "-o", "json"))["items"]
    assert found["metadata"]["deletionGracePeriodSeconds"] == 10**12
    arena.rounds(2)
    arena.check()


def test_a_queue_that_is_edited_all_the_time_delays_no_other_and_ends_with_its_newest_spec(arena: TimedArena) -> None:
    """Each edit that counts makes a round look at every namespace."""
    name, objects, stop = arena.tenant().name, objects_of(arena.cluster.kubeconfig), threading.Event()

    def edit() -> None:
        for number in itertools.count(1):
            if stop.wait(0.05):
                return
            objects.patch("thrq", "queue", name, {"spec": {"limits": {"cpu": f"{1000 + number}m"}}})

    def seen() -> tuple[int, int]:
        """Return the newest generation, and the one that counts by the queue's status."""
        found = objects.get("thrq", "queue", name)
        return found["metadata"]["generation"], max(one["observedGeneration"] for one in found["status"]["conditions"])

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        time.sleep(3.0)
        began, newest, counting = time.monotonic(), seen()[0], set[int]()
        arena.check()
        while time.monotonic() < began + 5.0:
            counting.add(seen()[1])
            time.sleep(0.1)
        spent, edits = time.monotonic() - began, seen()[0] - newest
        print(f"{edits} edits in {spent:.1f} s, of which {len(counting) - 1} counted")
        assert edits > 20
        assert len(counting) <= 2 + spent / EDIT_SECONDS
    finally:
        stop.set()
        editor.join()
    until(lambda: (found := seen())[0] == found[1], EDIT_SECONDS + 10.0, "the newest spec to count")


def test_the_operator_starts_again_with_all_of_it_present(arena: TimedArena) -> None:
    arena.operator.stop()
    arena.operator.start()
    arena.pid = arena.operator.pid
    arena.check()
