"""Faults of etcd on a real control plane while the operator runs: rows of the fault matrix in docs/reliability.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.attacks import API, Arena, Tenant, bursty

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECOVERS_SECONDS = 45.0  # of which etcd and the API server take some themselves


class Site(Arena):
    """An arena that measures how long a new queue waits."""

    def queue(self, tenant: Tenant, **spec: Any) -> None:
        body = {"apiVersion": API, "kind": "ThroughputQueue", "metadata": {"name": "queue", "namespace": tenant.name}, "spec": spec}
        self.admin("apply", "-f", "-", body=body)

    def seconds_to_serve(self, tenant: Tenant) -> float:
        """From now until a queue that is created now has its quota."""
        began = time.monotonic()
        self.queue(tenant)
        until(lambda: self.quota(tenant), RECOVERS_SECONDS, f"the quota of {tenant.name}")
        return time.monotonic() - began


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Site]:
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi")
    with OperatorProcess(cluster, name="faults") as operator:
        yield Site(cluster, operator)


def test_an_etcd_that_is_killed_and_comes_back_costs_no_promise(site: Site) -> None:
    hard, pid = site.tenant("LatencyQueue", **bursty(4)), site.operator.pid
    before, next_one = site.status(hard), site.outsider()
    assert before["class"] == "Hard"
    site.cluster.stop("etcd", kill=True)
    time.sleep(10.0)
    site.cluster.start_component("etcd")
    print(f"a new queue was served {site.seconds_to_serve(next_one):.1f} s after etcd served again")
    after = site.status(hard)
    assert (after["class"], after["promise"]) == (before["class"], before["promise"])
    assert site.operator.pid == pid
    assert site.operator.running
