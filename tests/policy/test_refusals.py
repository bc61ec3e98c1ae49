"""Snapshots and specs that `decide` refuses, with the field and its owner in the message; unusual ones that it accepts."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.errors import InvalidSnapshotError, InvalidSpecError
from fairburst.policy.model import Burst, Memory, Periodic, PolicyConfig, QueueKind, QueueSpec, Sporadic
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

CONFIG = PolicyConfig()


def bad_arrays() -> list[object]:
    return [np.full((1, 1), math.nan), np.full((1, 1), math.inf), np.full((1, 1), -1.0), np.zeros((2, 1))]


class TestAmounts:
    @pytest.mark.parametrize("field", ["demand", "usage", "unit"])
    @pytest.mark.parametrize("value", bad_arrays())
    def test_impossible_amounts_are_refused_by_name(self, field: str, value: np.ndarray) -> None:
        given_snapshot = dataclasses.replace(snapshot((throughput("t/q"),), [1.0], [[1.0]]), **{field: value})
        with pytest.raises(InvalidSnapshotError, match=field):
            decide(given_snapshot, Memory(), CONFIG, START)

    @pytest.mark.parametrize(
        ("field", "value", "want"),
        [
            pytest.param("demand", [[0.5, 0.0], [0.0, -1.0]], "demand of b/q", id="a negative amount"),
            pytest.param("usage", [[0.5, 0.0], [0.0, 1e25]], "usage of b/q", id="more than there can be"),
            pytest.param("live_capacity", [0.5, float("nan")], "live_capacity of memory", id="no number"),
        ],
    )
    def test_an_amount_is_refused_by_field_and_owner(self, field: str, value: object, want: str) -> None:
        given = snapshot((throughput("a/q"), throughput("b/q", 1.0)), [10.0, 10.0], np.zeros((2, 2)))
        with pytest.raises(InvalidSnapshotError, match=want):
            decide(dataclasses.replace(given, **{field: np.array(value)}), Memory(), CONFIG, START)

    def test_a_resource_named_twice_is_refused(self) -> None:
        given = snapshot((throughput("a/q"),), [10.0, 10.0], np.zeros((1, 2)))
        with pytest.raises(InvalidSnapshotError, match="expected distinct resources"):
            decide(dataclasses.replace(given, resources=("cpu", "cpu")), Memory(), CONFIG, START)

    @pytest.mark.parametrize("field", ["demand", "usage"])
    def test_a_quiet_round_refuses_an_amount_below_nothing(self, field: str) -> None:
        value = snapshot((throughput("t/q"),), [10.0], [[0.0]])
        _, memory = decide(value, Memory(), CONFIG, START)
        with pytest.raises(InvalidSnapshotError, match=f"{field} of t/q"):
            decide(dataclasses.replace(value, **{field: np.array([[-1.0]])}), memory, CONFIG, START + 1)

    @pytest.mark.parametrize("field", ["live_capacity", "committed_capacity", "demand", "usage", "unit"])
    def test_a_quiet_round_too_refuses_a_shape_that_disagrees(self, field: str) -> None:
        """A quiet round checks little, and an array with one axis more has the same bytes."""
        value = snapshot((throughput("t/q"),), [4.0], [[0.0]])
        _, memory = decide(value, Memory(), CONFIG, START)
        assert memory.columns is not None
        assert memory.columns.quiet is not None
        with pytest.raises(InvalidSnapshotError, match=f"{field}: expected shape"):
            decide(dataclasses.replace(value, **{field: getattr(value, field)[None]}), memory, CONFIG, START + 1)

    @pytest.mark.parametrize("oldest", [{1: START}, {-1: START}, {0: float("nan")}, {0: float("inf")}], ids=str)
    def test_the_age_of_work_of_no_queue_and_an_age_that_is_no_time_are_refused(self, oldest: dict[int, float]) -> None:
        value = dataclasses.replace(snapshot((throughput("t/q"),), [4.0], [[1.0]]), oldest_work=oldest)
        with pytest.raises(InvalidSnapshotError, match="oldest_work: expected rows of 1 queues"):
            decide(value, Memory(), CONFIG, START)

    @pytest.mark.parametrize(
        "unseen", [{1: (START,)}, {-1: ()}, {0: (float("nan"),)}, {0: (START, float("inf"))}, {0: (START, START - 1.0)}], ids=str
    )
    def test_unseen_work_of_no_queue_and_times_that_are_none_or_descend_are_refused(self, unseen: dict[int, tuple[float, ...]]) -> None:
        value = dataclasses.replace(snapshot((throughput("t/q"),), [4.0], [[1.0]]), unseen_work=unseen)
        with pytest.raises(InvalidSnapshotError, match="unseen_work: expected rows of 1 queues"):
            decide(value, Memory(), CONFIG, START)


class TestSpecs:
    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param(throughput("t/q", 0.0, 0.0), id="zero weight"),
            pytest.param(throughput("t/q", 0.0, math.nan), id="weight NaN"),
            pytest.param(latency("t/q", 0.0, [1.0], 5, Periodic(0.0)), id="period of 0"),
            pytest.param(latency("t/q", 0.0, [1.0], 5, Periodic(4.0)), id="period below duration"),
            pytest.param(latency("t/q", 0.0, [1.0], 0, Sporadic(4.0)), id="no duration"),
            pytest.param(latency("t/q", 0.0, [-1.0], 1, Sporadic(4.0)), id="negative demand"),
            pytest.param(latency("t/q", 0.0, [math.inf], 1, Sporadic(4.0)), id="infinite demand"),
            pytest.param(QueueSpec("t/q", QueueKind.LATENCY, (0.0, "t/q")), id="latency queue without burst"),
        ],
    )
    def test_impossible_specs_are_refused_by_name(self, spec: QueueSpec) -> None:
        with pytest.raises(InvalidSpecError, match="t/q"):
            decide(snapshot((spec,), [1.0], [[1.0]]), Memory(), CONFIG, START)

    @pytest.mark.parametrize(
        "second",
        [
            pytest.param(throughput("b/q", 1.0, 0.0), id="no weight"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Periodic(100, 1e13)), id="a first arrival beyond time"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Periodic(100, START, 60)), id="more jitter than half a period"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Periodic(100, START, -1)), id="less jitter than none"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Sporadic(1e13)), id="a period beyond time"),
            pytest.param(latency("b/q", 1.0, [1.0], 101, Sporadic(100)), id="a deadline after the next arrival"),
            pytest.param(dataclasses.replace(latency("b/q", 1.0, [1.0], 1, Sporadic(100)), burst=None), id="no burst"),
            pytest.param(throughput("b/q", 1.0, cpu=-1.0), id="a limit below nothing"),
        ],
    )
    def test_a_spec_is_refused_by_the_name_of_its_queue(self, second: QueueSpec) -> None:
        first = latency("a/q", 0.0, [1.0], 1, Periodic(100, START, 50))
        with pytest.raises(InvalidSpecError, match="queue b/q: "):
            decide(snapshot((first, second), [10.0], np.zeros((2, 1))), Memory(), CONFIG, START)


class TestUnusualInputs:
    def test_minus_zero_is_zero(self) -> None:
        queues = (throughput("a/q"), throughput("b/q", 1.0))
        result, _ = decide(snapshot(queues, [10.0], [[-0.0], [4.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[0.0], [4.0]]

    def test_a_petabyte_and_a_byte_live_in_one_pool(self) -> None:
        queues = (
            throughput("a/q"),
            QueueSpec("b/q", QueueKind.LATENCY, (1.0, "b/q"), 1.0, Burst({"cpu": 1.0, "memory": 1.0}, 1, 1), Sporadic(9)),
        )
        result, _ = decide(snapshot(queues, [4.0, 1e15], [[4.0, 1e15], [1.0, 1.0]]), Memory(), CONFIG, START)
        assert np.isfinite(result.allocation).all()
        assert (result.allocation.sum(axis=0) <= np.array([4.0, 1e15]) * (1 + 1e-9)).all()

    def test_an_empty_cluster_is_a_round_too(self) -> None:
        result, memory = decide(snapshot((), [0.0], []), Memory(), CONFIG, START)
        assert (result.allocation.shape, len(memory.queues), len(result.decisions)) == ((0, 1), 0, 0)
