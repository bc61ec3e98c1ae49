"""Objects of one tenant whose writes the API server refuses, on a real control plane: no other tenant waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import HELD_ANNOTATION
from tests.support.live_cluster import OperatedCluster
from tests.support.queues import queue
from tests.support.work import job, namespace

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
HOSTILE, OTHER = "hostile", "other"
MOST_ANNOTATIONS = 256 * 1024  # bytes of an object's annotations, keys and values together (TotalAnnotationSizeLimitB in apimachinery)
REFUSED_JOBS, AT_ONCE = 150, 10
BATCHES, BATCH = 6, 12
MOST_TIMES_AS_LONG = 6.0  # about the same on two busy cores; 20 times as long while refused writes slowed all others down


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[OperatedCluster]:
    """Two queues in Suspend mode."""
    cluster = fresh_cluster(nodes=2, node_cpu="64", node_memory="64Gi")
    with OperatorProcess(cluster, {}, "refused") as operator:
        made = OperatedCluster(cluster, operator)
        for where in (HOSTILE, OTHER):
            made.create(namespace(where), queue("ThroughputQueue", {"enforcement": "Suspend"}, where))
            made.until(lambda where=where: HELD_ANNOTATION in annotations(made, job(where, "probe", 1)), "new Jobs to be held")  # type: ignore[misc]
        yield made


def annotations(site: OperatedCluster, obj: JsonObject) -> dict[str, str]:
    """Return the annotations with which the API server would store an object."""
    found: dict[str, str] = site.stored(obj)["metadata"].get("annotations", {})
    return found


def test_a_tenant_whose_jobs_cannot_be_started_delays_no_other_tenants_jobs(site: OperatedCluster) -> None:
    """Such a Job has so many annotations that one more byte is too much. The note that it was released takes more than the one that it is
    held."""
    alone = seconds_to_start(site)
    noted = sum(len(key) + len(text) for key, text in annotations(site, job(HOSTILE, "probe", 1)).items())
    filler = {"filler": "x" * (MOST_ANNOTATIONS - noted - len("filler"))}
    for first in range(0, REFUSED_JOBS, AT_ONCE):
        numbers = range(first, first + AT_ONCE)
        site.create(*(job(HOSTILE, f"refused-{number}", 1, metadata={"annotations": filler}) for number in numbers))
    took = seconds_to_start(site)
    assert suspended(site, HOSTILE) == REFUSED_JOBS, "the API server refuses each start"
    assert took < MOST_TIMES_AS_LONG * alone


def seconds_to_start(site: OperatedCluster) -> float:
    """Create batches of Jobs, one after the other, and return how long their starts take in all."""
    took = 0.0
    for batch in range(BATCHES):
        time.sleep(5.0)
        site.create(*(job(OTHER, f"batch-{batch}-{number}", 1) for number in range(BATCH)))
        began = time.monotonic()
        until(lambda: not suspended(site, OTHER), PATIENCE_SECONDS, "the other tenant's Jobs to start")
        took += time.monotonic() - began
        site.delete_jobs(OTHER)
    return took


def suspended(site: OperatedCluster, where: str) -> int:
    return sum(one["spec"]["suspend"] for one in site.items("jobs", where))
