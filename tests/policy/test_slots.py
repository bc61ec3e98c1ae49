"""Places for pods: hard queues keep theirs, the rest is divided by weight among queues that want pods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.slots import slot_limits

rows = st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10), st.integers(0, 10**7)), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("total", "promised", "weight", "wanted", "want_limits"),
    [
        pytest.param(220, [0.0], [1.0], [0], [220], id="a queue alone may have all"),
        pytest.param(220, [0.0, 0.25], [1.0, 1.0], [10**7, 0], [123, 96], id="the other keeps its reserve and half of its fair share"),
        pytest.param(220, [0.0, 0.0], [1.0, 3.0], [1000, 1000], [55, 165], id="by weight where both want more"),
        pytest.param(100, [0.0, 0.0], [1.0, 1.0], [60, 10], [67, 32], id="what no queue wants is divided by weight"),
        pytest.param(100, [0.9, 0.9, 0.0], [1.0, 1.0, 1.0], [0, 0, 1000], [33, 33, 33], id="reserves take half at most"),
        pytest.param(0, [0.5, 0.0], [1.0, 1.0], [5, 5], [0, 0], id="no places"),
    ],
)
def test_limits(total: float, promised: list[float], weight: list[float], wanted: list[float], want_limits: list[int]) -> None:
    assert slot_limits(total, np.array(promised), np.array(weight), np.array(wanted, dtype=float)).tolist() == want_limits


@given(st.integers(0, 100_000), rows)
def test_the_sum_is_within_the_total_and_no_queue_is_left_without_its_part(total: int, queues: list[tuple[float, float, int]]) -> None:
    promised, weight, wanted = (np.array(column, dtype=float) for column in zip(*queues, strict=True))
    limits = slot_limits(total, promised, weight, wanted)
    assert limits.sum() <= total + 1e-6
    assert (limits >= np.floor(total / 4 * weight / weight.sum())).all(), "half of a fair share of the half that is not reserved"


@given(st.integers(1, 100_000), rows)
def test_to_want_more_takes_nothing_from_a_hard_queues_reserve(total: int, queues: list[tuple[float, float, int]]) -> None:
    promised, weight, wanted = (np.array(column, dtype=float) for column in zip(*queues, strict=True))
    greedy = np.where(promised > 0, wanted, 1e9)
    reserved = total * promised * min(1.0, 0.5 / max(promised.sum(), 1e-9))
    assert (slot_limits(total, promised, weight, greedy) >= np.floor(reserved)).all()
