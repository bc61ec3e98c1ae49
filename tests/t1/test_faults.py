"""Faults of etcd on a real control plane while the operator runs: rows of the fault matrix in docs/reliability.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from tests.support.attacks import Arena, bursty

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECOVERS_SECONDS = 45.0  # including the start of etcd and of the API server


@pytest.fixture(scope="module")
def arena(fresh_cluster: Callable[..., Cluster]) -> Iterator[Arena]:
    cluster = fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi")
    with OperatorProcess(cluster, name="faults") as operator:
        yield Arena(cluster, operator)


def test_an_etcd_that_is_killed_and_comes_back_costs_no_promise(arena: Arena) -> None:
    hard, pid = arena.tenant("LatencyQueue", **bursty(4)), arena.operator.pid
    before, next_one = arena.status(hard.name), arena.outsider()
    assert before["class"] == "Hard"
    arena.cluster.stop("etcd", kill=True)
    time.sleep(10.0)
    arena.cluster.start_component("etcd")
    print(f"a new queue was served {arena.seconds_to_serve(next_one, RECOVERS_SECONDS):.1f} s after etcd served again")
    after = arena.status(hard.name)
    assert (after["class"], after["promise"]) == (before["class"], before["promise"])
    assert arena.operator.pid == pid
    assert arena.operator.running
