"""The fixtures on which the other T1 tests rely."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.cluster import Cluster


def test_shared_cluster_has_twenty_ready_nodes(cluster: Cluster) -> None:
    assert cluster.kubectl("get", "nodes", "--no-headers").count(" Ready ") == 20


def test_namespaces_are_new_and_labelled(cluster: Cluster, namespace: Callable[..., str]) -> None:
    names = {namespace(), namespace(), namespace("burst", labels={"kind": "burst"})}
    assert len(names) == 3
    labelled = cluster.kubectl("get", "namespace", "-l", "kind=burst", "-o", "name").strip()
    assert labelled.removeprefix("namespace/") in names


def test_fresh_cluster_is_another_one_with_its_own_options(cluster: Cluster, fresh_cluster: Callable[..., Cluster]) -> None:
    own = fresh_cluster(nodes=1, audit=True)
    assert own.server != cluster.server
    assert own.kubectl("get", "nodes", "-o", "name") == "node/node-000\n"
    assert own.audit_log is not None


def test_everything_here_is_marked_t1(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("t1") is not None
