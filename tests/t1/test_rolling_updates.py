"""Rolling updates in a full queue: what goes through, and which setting lets the rest through (docs/workloads.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from tests.support.live_cluster import OperatedCluster
from tests.support.work import deployment

pytestmark = pytest.mark.slow

LEVEL = 4
UPDATE = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}


class Services(OperatedCluster):
    def serve(self, mode: str, replicas: int, unavailable: int) -> str:
        """Create a queue with a level of LEVEL pods, and a Deployment that fills it; return the namespace."""
        where = self.new_namespace(f"update-{mode.lower()}")
        self.govern(where, "ThroughputQueue", {"enforcement": mode, "limits": {"cpu": str(LEVEL)}})
        made = deployment(where, "served", replicas)
        made["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": unavailable}}
        self.create(made)
        self.until(lambda: len(self.running(where)) >= LEVEL, f"{LEVEL} running pods in {where}")
        self.patch("deployment", "served", where, UPDATE)
        return where

    def updated(self, where: str) -> int:
        """Return how many pods of the new version run."""
        new = {one["metadata"]["name"] for one in self.items("pods", where, "version=2")}
        return len(new.intersection(self.running(where)))

    def waits_gated(self, where: str) -> bool:
        """Return whether a pod of the new version waits behind our gate, and none runs."""
        new = self.items("pods", where, "version=2")
        return any(one["spec"].get("schedulingGates") for one in new) and not self.updated(where)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Services]:
    cluster = fresh_cluster(nodes=2, node_cpu="16", node_memory="64Gi")
    with OperatorProcess(cluster, {}, "updates") as operator:
        yield Services(cluster, operator)


def test_a_deployment_that_fills_its_level_is_updated_in_quota_mode(site: Services) -> None:
    where = site.serve("Quota", LEVEL, 0)
    site.until(lambda: site.updated(where) == LEVEL, "the update by the quota's additional pod")
    site.clear()


def test_a_deployment_that_fills_its_level_is_updated_in_gate_mode_once_a_pod_may_be_missing(site: Services) -> None:
    where = site.serve("Gate", LEVEL, 0)
    site.until(lambda: site.waits_gated(where), "a new pod behind the gate")
    site.rounds(3)
    assert site.waits_gated(where), "no old pod may go before a new one runs"
    site.patch("deployment", "served", where, {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}})
    site.until(lambda: site.updated(where) == LEVEL, "the update")
    site.clear()


@pytest.mark.parametrize("mode", ["Quota", "Gate"])
def test_a_deployment_larger_than_its_level_is_updated_where_more_pods_may_be_missing_than_the_level_lacks(
    site: Services, mode: str
) -> None:
    where = site.serve(mode, LEVEL + 2, 3)
    site.until(lambda: site.updated(where) >= LEVEL, "the update")
    site.clear()
