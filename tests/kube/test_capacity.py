"""The capacity of nodes, and its low-water mark, on which admission relies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairburst.kube.api.objects import Taint
from fairburst.kube.usage.capacity import LowWaterMark, NodeShapes, counts
from tests.support.objects import GI, node

CPU = ("cpu",)


@pytest.mark.parametrize(
    ("change", "selector", "want"),
    [
        pytest.param({}, {}, True, id="ready"),
        pytest.param({"ready": False}, {}, False, id="not ready"),
        pytest.param({"labels": {"pool": "a"}}, {"pool": "a"}, True, id="selected"),
        pytest.param({"labels": {"pool": "b"}}, {"pool": "a"}, False, id="of another pool"),
    ],
)
def test_a_node_counts_where_it_is_ready_and_selected(change: dict[str, object], selector: dict[str, str], want: bool) -> None:
    assert counts(node("n", **change), selector) is want  # type: ignore[arg-type]


def test_a_cordoned_node_counts_for_nothing() -> None:
    cordoned = node("n")
    cordoned.spec.unschedulable = True
    assert not counts(cordoned, {})


@pytest.mark.parametrize(
    ("key", "effect", "want"),
    [
        pytest.param("node-role.kubernetes.io/control-plane", "NoSchedule", False, id="control plane"),
        pytest.param("node-role.kubernetes.io/master", "NoExecute", False, id="control plane, by its old name"),
        pytest.param("node-role.kubernetes.io/control-plane", "PreferNoSchedule", True, id="control plane that takes pods if need be"),
        pytest.param("node.kubernetes.io/disk-pressure", "NoSchedule", False, id="full disk"),
        pytest.param("node.kubernetes.io/out-of-service", "NoExecute", False, id="out of service"),
        pytest.param("ToBeDeletedByClusterAutoscaler", "NoSchedule", False, id="about to go"),
        pytest.param("node.kubernetes.io/memory-pressure", "NoSchedule", True, id="a taint that pods with requests tolerate"),
        pytest.param("nvidia.com/gpu", "NoSchedule", True, id="a node whose pods tolerate its taint"),
    ],
)
def test_a_node_whose_taint_keeps_all_pods_off_counts_for_nothing(key: str, effect: str, want: bool) -> None:
    tainted = node("n")
    tainted.spec.taints = [Taint(key, effect=effect)]
    assert counts(tainted, {}) is want


def test_allocatable_is_added_up_in_natural_units() -> None:
    nodes = [node("a", cpu="1500m", memory="1Gi"), node("b", cpu="2", _gpu="4")]
    shapes = NodeShapes.of(nodes, ("cpu", "memory", "nvidia.com/gpu"))
    assert shapes.total().tolist() == [3.5, GI, 4.0]
    assert shapes.largest().tolist() == [2.0, GI, 4.0]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param([2.0, GI], 9.0, id="two on each of 4 cpu, five on that of 10"),
        pytest.param([3.0, 0.0], 5.0, id="a fragment of 1 cpu on each holds nothing"),
        pytest.param([6.0, GI], 1.0, id="only the large one"),
        pytest.param([11.0, GI], 0.0, id="larger than any"),
        pytest.param([0.001, 0.0], 3000.0 + 7.0, id="no more than a node takes pods"),
        pytest.param([0.0, 0.0], math.inf, id="asks for nothing"),
    ],
)
def test_pods_fit_node_by_node(pod: list[float], want: float) -> None:
    nodes = [node("a", cpu="4", memory="64Gi"), node("b", cpu="4", memory="64Gi"), node("c", cpu="10", memory="64Gi", pods="7")]
    for one in nodes[:2]:
        (one.status.allocatable or {})["pods"] = "1500"
    assert NodeShapes.of(nodes, ("cpu", "memory")).fitting(np.array(pod)) == want


def test_without_nodes_nothing_fits_and_no_pod_is_too_large() -> None:
    shapes = NodeShapes.of([], ("cpu",))
    assert (shapes.fitting(np.array([1.0])), shapes.largest().tolist()) == (0.0, [math.inf])


def test_the_mark_keeps_the_lowest_sample_of_the_window_and_then_rises() -> None:
    mark = LowWaterMark(100.0)
    assert mark.observe(CPU, np.array([64.0]), 0.0).tolist() == [64.0]
    assert mark.observe(CPU, np.array([32.0]), 25.0).tolist() == [32.0]
    assert mark.observe(CPU, np.array([64.0]), 60.0).tolist() == [32.0]
    assert mark.observe(CPU, np.array([64.0]), 124.9).tolist() == [32.0], "a low of 25 s counts until 125 s at least"
    assert mark.observe(CPU, np.array([64.0]), 136.0).tolist() == [64.0], "and no longer than a tenth of the window beyond"


def test_the_mark_says_when_it_may_rise() -> None:
    mark = LowWaterMark(100.0)
    assert mark.next_expiry() == math.inf
    mark.observe(CPU, np.array([32.0]), 5.0)
    assert mark.next_expiry() == math.inf, "one sample cannot rise by itself"
    mark.observe(CPU, np.array([64.0]), 50.0)
    due = mark.next_expiry()
    assert 105.0 <= due <= 115.0
    assert mark.observe(CPU, np.array([64.0]), due - 0.1).tolist() == [32.0]
    assert mark.observe(CPU, np.array([64.0]), due + 0.1).tolist() == [64.0]
    assert mark.next_expiry() > due + 0.1, "or the loop would turn without end"


def test_a_resource_counted_anew_starts_with_its_first_sample() -> None:
    mark = LowWaterMark(100.0)
    mark.observe(CPU, np.array([32.0]), 0.0)
    assert mark.observe(("cpu", "nvidia.com/gpu"), np.array([64.0, 8.0]), 10.0).tolist() == [32.0, 8.0]
    assert mark.observe(("nvidia.com/gpu",), np.array([9.0]), 20.0).tolist() == [8.0]


def test_without_a_window_the_mark_is_the_present() -> None:
    mark = LowWaterMark(0.0)
    assert mark.observe(CPU, np.array([32.0]), 5000.0).tolist() == [32.0]
    assert mark.observe(CPU, np.array([64.0]), 5000.5).tolist() == [64.0]


def test_a_mark_of_an_earlier_process_holds_for_the_rest_of_its_window() -> None:
    mark = LowWaterMark(100.0)
    mark.observe(CPU, np.array([32.0]), -60.0)  # monotonic time of a machine that has just started
    assert mark.observe(CPU, np.array([64.0]), 10.0).tolist() == [32.0]
    assert mark.observe(CPU, np.array([64.0]), 60.0).tolist() == [64.0]
