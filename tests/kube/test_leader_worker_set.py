"""LeaderWorkerSets: groups count whole, before their StatefulSets exist and after."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Object
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.demand import NamespaceDemand, namespace_demand
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.registry import KINDS
from tests.support.leader_worker_set_crd import leader_worker_set, stateful_sets_of

RESOURCES = ("cpu", "memory")
POD = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}
LARGE_LEADER = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "8", "memory": "1Gi"}}}]}}


def demand(*things: dict[str, Any]) -> NamespaceDemand:
    pods, controllers = PodIndex(RESOURCES), ControllerIndex()
    for number, thing in enumerate(things):
        item: Object = msgspec.convert({**thing, "metadata": {**thing["metadata"], "uid": f"u{number}"}}, KINDS[thing["kind"]].item)
        controllers.update(thing["kind"], None, item)
    return namespace_demand(controllers.workloads("a"), pods.namespace("a"), pods.owners_in("a"), RESOURCES)


@pytest.mark.parametrize("leaders", [None, 0, 1, 3], ids=["no StatefulSet yet", "leaders only", "workers of one group", "all workers"])
def test_groups_demand_all_their_pods_whatever_their_controller_has_created(leaders: int | None) -> None:
    groups = leader_worker_set("a", "served", POD, 3, 4)
    made = [] if leaders is None else stateful_sets_of(groups, leaders)
    assert demand(groups, *made).demand["cpu"] == 3 * 4 * 2


def test_leaders_have_requests_of_their_own() -> None:
    groups = leader_worker_set("a", "served", POD, 2, 4)
    groups["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = LARGE_LEADER
    found = demand(groups)
    assert found.demand["cpu"] == 2 * 8 + 2 * 3 * 2
    assert found.unit["cpu"] == 8


def test_a_set_that_is_being_deleted_demands_what_its_stateful_sets_do() -> None:
    groups = leader_worker_set("a", "served", POD, 3, 4)
    groups["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert demand(groups).demand == {}
    assert demand(groups, *stateful_sets_of(groups, 0)).demand["cpu"] == 3 * 2


def test_sets_of_another_name_do_not_count_as_its_own() -> None:
    first, second = leader_worker_set("a", "one", POD, 1, 2), leader_worker_set("a", "two", POD, 1, 2)
    assert demand(first, second, *stateful_sets_of(second)).demand["cpu"] == 2 * 2 * 2


@pytest.mark.parametrize(("spec", "want"), [({}, 1), ({"replicas": 0}, 0), ({"replicas": 2**31 - 1, "size": 2**31 - 1}, None)])
def test_odd_numbers_are_bounded(spec: dict[str, int], want: int | None) -> None:
    groups = leader_worker_set("a", "served", POD, 1, 1)
    groups["spec"]["replicas"] = spec.get("replicas")
    groups["spec"]["leaderWorkerTemplate"]["size"] = spec.get("size")
    found = demand(groups).demand.get("cpu", 0.0)
    assert found == 2 * want if want is not None else found < 1e18
