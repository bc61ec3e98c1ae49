"""The remembered sizes of bursts."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.kube.usage.burst_sizes import BURSTS, BurstSizes, pods_of

RATE = np.array([160.0, 320.0])


def test_before_the_first_burst_nothing_is_known() -> None:
    assert BurstSizes().fraction("a/b") is None


def test_the_largest_of_the_recent_bursts_counts() -> None:
    sizes = BurstSizes()
    for delivered in (3.0, 2.0, 1.0):
        sizes.ended("a/b", delivered, 10.0)
    assert sizes.fraction("a/b") == pytest.approx(0.3)


def test_old_bursts_are_forgotten() -> None:
    sizes = BurstSizes()
    sizes.ended("a/b", 9.0, 10.0)
    for _ in range(BURSTS):
        sizes.ended("a/b", 1.0, 10.0)
    assert sizes.fraction("a/b") == pytest.approx(0.1)


def test_a_burst_that_overran_counts_as_the_whole_demand() -> None:
    sizes = BurstSizes()
    sizes.ended("a/b", 12.0, 10.0)
    assert sizes.fraction("a/b") == 1.0


def test_the_size_of_a_pod_is_remembered_while_the_queue_has_none() -> None:
    sizes = BurstSizes()
    assert sizes.unit("a/b", np.zeros(2)).tolist() == [0.0, 0.0]
    assert sizes.unit("a/b", np.array([2.0, 2.0])).tolist() == [2.0, 2.0]
    assert sizes.unit("a/b", np.zeros(2)).tolist() == [2.0, 2.0]
    assert sizes.unit("a/b", np.zeros(3)).tolist() == [0.0, 0.0, 0.0], "other resources are counted now"


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param([2.0, 2.0], 80.0, id="as many as the scarcer resource lets run"),
        pytest.param([0.0, 0.0], 0.0, id="no pod has been seen"),
        pytest.param([3.0, 0.0], 53.0, id="a part of a pod is none"),
        pytest.param([0.1, 0.0], 1600.0, id="noise loses no pod"),
        pytest.param([999.0, 0.0], 1.0, id="larger than the rate"),
    ],
)
def test_a_rate_is_so_many_pods(unit: list[float], want: float) -> None:
    assert pods_of(RATE, np.array(unit)) == want


def test_queues_that_are_gone_are_dropped() -> None:
    sizes = BurstSizes()
    sizes.ended("a/b", 1.0, 10.0)
    sizes.keep(set())
    assert sizes.fraction("a/b") is None
