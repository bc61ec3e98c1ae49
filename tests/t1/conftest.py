"""The control plane of the T1 tests: one that they share, fresh ones for measurements.

`FAIRBURST_KUBECONFIG=FILE` runs the tests against that cluster instead. Binaries that are missing are built; where that is
impossible the tests fail, they are never skipped.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from tests.support import work

HERE = Path(__file__).parent
NODES = 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.t1)


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """The shared cluster: 20 nodes of 32 cpu and 64 Gi, started on first use. It ends with the T1 tests: at rest it takes 5 % of a core."""
    given = os.environ.get("FAIRBURST_KUBECONFIG")
    if given:
        yield Cluster.existing(given)
        return
    with Cluster.start(unique_name("t1"), nodes=NODES, node_cpu="32", node_memory="64Gi") as started:
        yield started


@pytest.fixture(scope="module")
def fresh_cluster() -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster of the test module's own, with `Cluster.start`'s arguments (20 nodes unless told); all end with the module."""
    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        own = Cluster.start(unique_name("fresh"), **({"nodes": NODES} | options))
        started.append(own)
        return own

    yield start
    for own in started:
        own.down()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Callable[..., str]]:
    """Makes a new namespace, `namespace("burst", labels={...})`, and deletes it after the test without waiting for its end."""
    made: list[str] = []
    numbers = itertools.count()

    def make(prefix: str = "test", labels: dict[str, str] | None = None) -> str:
        name = f"{unique_name(prefix)}-{next(numbers)}"
        work.create(cluster, work.namespace(name, **(labels or {})))
        made.append(name)
        return name

    yield make
    if made:
        cluster.kubectl("delete", "namespace", *made, "--wait=false", "--ignore-not-found")


def unique_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"
