"""Which nodes are kept for a burst, and how nodes are scored: against a slow, obvious search, and by table."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.placement import BEST, kept_nodes, packing_scores, spreading_scores, whole_pods


def kept(pods: list[int], running: list[float], wanted: int, before: list[int] | None = None) -> list[int]:
    mask = np.zeros(len(pods), dtype=np.bool_)
    mask[before or []] = True
    return np.flatnonzero(kept_nodes(np.array(pods, dtype=np.int64), np.array(running), wanted, mask)).tolist()


@pytest.mark.parametrize(
    ("pods", "running", "wanted", "before", "want_kept"),
    [
        pytest.param([4, 4, 4], [0.9, 0.0, 0.5], 4, [], [1], id="the node with the least running work"),
        pytest.param([4, 4, 4], [0.9, 0.0, 0.5], 5, [], [1, 2], id="as many nodes as whole pods need"),
        pytest.param([4, 4, 4], [0.9, 0.0, 0.5], 4, [0], [0], id="one that was kept before is not given up for an emptier one"),
        pytest.param([4, 4, 4], [0.9, 0.0, 0.5], 4, [0, 2], [2], id="of those kept before, the emptier stay when fewer are needed"),
        pytest.param([0, 4, 0], [0.0, 0.9, 0.0], 4, [], [1], id="nodes that no pod of the burst fits are left alone, however empty"),
        pytest.param([2, 2], [0.5, 0.5], 1, [], [0], id="among equals the first"),
        pytest.param([2, 2], [0.5, 0.5], 99, [], [0, 1], id="every node that helps where they are too few"),
        pytest.param([2, 2], [0.5, 0.5], 0, [], [], id="none where no pod is expected"),
        pytest.param([], [], 3, [], [], id="no nodes"),
    ],
)
def test_nodes_are_kept(pods: list[int], running: list[float], wanted: int, before: list[int], want_kept: list[int]) -> None:
    assert kept(pods, running, wanted, before) == want_kept


NODES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=6)


@given(NODES, st.integers(0, 12))
def test_kept_nodes_hold_whole_burst_pods_and_none_of_them_is_idle_for_nothing(nodes: list[tuple[int, int, bool]], wanted: int) -> None:
    """Design §6: keeps nodes that are being drained for a burst free of batch work. No proper subset of those kept would do, unless a later
    one of the order holds more pods than needed; and as many places are kept as any choice of nodes can have."""
    pods, running, before = ([one[column] for one in nodes] for column in range(3))
    chosen = kept(pods, [float(each) for each in running], wanted, [row for row, was in enumerate(before) if was])
    most = max(sum(pods[row] for row in some) for size in range(len(nodes) + 1) for some in combinations(range(len(nodes)), size))
    assert sum(pods[row] for row in chosen) >= min(wanted, most)
    assert all(pods[row] > 0 for row in chosen)
    order = sorted(chosen, key=lambda row: (not before[row], running[row], row))
    assert wanted > sum(pods[row] for row in order[:-1]) or not chosen, "the last of them is needed"
    worst = max(((not before[row], running[row], row) for row in chosen), default=None)
    passed_over = [row for row in range(len(nodes)) if pods[row] > 0 and row not in chosen]
    assert worst is None or all((not before[row], running[row], row) > worst for row in passed_over)


def test_whole_pods_count_every_resource_and_only_whole_ones() -> None:
    room = np.array([[8.0, 16.0], [8.0, 3.0], [0.9, 16.0], [-1.0, 16.0], [0.3, 16.0]])
    assert whole_pods(room, np.array([1.0, 2.0])).tolist() == [8, 1, 0, 0, 0]
    assert whole_pods(room, np.array([0.1, 0.0])).tolist() == [80, 80, 9, 0, 3]


@pytest.mark.parametrize(
    ("used", "kept_too", "want"),
    [
        pytest.param([0.0, 0.5, 0.55, 0.99], [], [0, 5, 5, 10], id="the fullest is best, the others by how full they are"),
        pytest.param([0.95, 0.99], [], [9, 10], id="one step apart at least"),
        pytest.param([0.2, 0.5, 0.5], [], [2, 10, 5], id="of equals one, or those that come together would be scattered"),
        pytest.param([0.2, 0.9], [0, 1], [0, 0], id="all of them kept for bursts"),
        pytest.param([0.2, 0.3, 0.9], [2], [2, 10, 0], id="kept for a burst: last of all"),
        pytest.param([1.2, 0.9], [], [10, 9], id="overcommitted"),
        pytest.param([], [], [], id="no nodes"),
    ],
)
def test_batch_work_is_packed(used: list[float], kept_too: list[int], want: list[int]) -> None:
    mask = np.zeros(len(used), dtype=np.bool_)
    mask[kept_too] = True
    assert packing_scores(np.array(used), mask).tolist() == want


@pytest.mark.parametrize(
    ("own", "want"),
    [
        pytest.param([0.0, 0.0, 0.0], [10, 10, 10], id="nothing anywhere: kube-scheduler decides"),
        pytest.param([0.25, 0.0, 0.5], [5, 10, 0], id="the least is best, the others by how much is there"),
        pytest.param([0.25, 0.25], [10, 10], id="equals are equal"),
        pytest.param([], [], id="no nodes"),
    ],
)
def test_a_burst_is_spread(own: list[float], want: list[int]) -> None:
    assert spreading_scores(np.array(own)).tolist() == want


@given(st.lists(st.floats(0, 2), min_size=1, max_size=20))
def test_scores_are_what_kube_scheduler_takes_and_the_best_node_has_the_best_score(shares: list[float]) -> None:
    for scores, best in (
        (packing_scores(np.array(shares), np.zeros(len(shares), dtype=np.bool_)), int(np.argmax(shares))),
        (spreading_scores(np.array(shares)), int(np.argmin(shares))),
    ):
        assert scores[best] == BEST
        assert ((scores >= 0) & (scores <= BEST)).all()
