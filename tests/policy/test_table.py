"""Queues as columns: the values in a row, refused specs with the names of their queues, and the effect of limits."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fairburst.policy.declared import compile_queues
from fairburst.policy.errors import InvalidSpecError
from fairburst.policy.model import Burst, Periodic, QueueKind, QueueMemory, QueueSpec, Sporadic
from fairburst.policy.table import blank_columns, put_queue_memory, queue_memory
from fairburst.policy.tolerance import LARGEST, LONGEST_SECONDS, SMALLEST, TIME_STEP_SECONDS
from tests.policy.test_saved_memory import FULL, PLAIN, SCHEDULED
from tests.support.policy import latency, throughput

CPU = ("cpu", "memory")


class TestARow:
    @pytest.mark.parametrize("value", [FULL, SCHEDULED, PLAIN], ids=["full", "bare", "batch"])
    def test_keeps_everything_that_is_remembered_of_a_queue(self, value: QueueMemory) -> None:
        """Nothing that survives a restart is lost on the way through the arrays."""
        specs = (throughput("first/q"), value.promise, throughput("last/q"))
        columns = blank_columns(compile_queues(specs, CPU, 3600.0), specs)
        put_queue_memory(columns, 1, value)
        if value.refused is not None:
            columns = dataclasses.replace(columns, refused={1: value.refused})
        assert queue_memory(columns, 1, value.decision) == value
        for row in (0, 2):
            assert queue_memory(columns, row, None) == QueueMemory(specs[row], None, -1)

    def test_of_a_queue_nothing_is_known_of_is_not_admitted_and_has_no_window(self) -> None:
        specs = (latency("a/q", 0.0, [1.0], 1, Sporadic(9)),)
        columns = blank_columns(compile_queues(specs, CPU, 3600.0), specs)
        assert (columns.seen, columns.classes, columns.admitted_for, columns.refused) == (specs, (None,), (), {})
        assert queue_memory(columns, 0, None) == QueueMemory(specs[0], None, -1)


class TestLimits:
    def test_bind_where_they_are_given_and_nowhere_else(self) -> None:
        specs = (throughput("a/q"), throughput("b/q", cpu=0.5), throughput("c/q", memory=0.0, tpu=3.0))
        declared = compile_queues(specs, CPU, 3600.0)
        assert declared.limit is not None
        assert declared.limit.tolist() == [[math.inf, math.inf], [0.5, math.inf], [math.inf, 0.0]]

    def test_are_none_where_nobody_has_any(self) -> None:
        assert compile_queues((throughput("a/q"),), CPU, 3600.0).limit is None

    @pytest.mark.parametrize("amount", [-1.0, math.nan])
    def test_below_nothing_are_refused_by_queue_and_resource(self, amount: float) -> None:
        with pytest.raises(InvalidSpecError, match=f"^queue a/q: expected a limit >= 0 for cpu, found {amount}$"):
            compile_queues((throughput("a/q", cpu=amount),), CPU, 3600.0)


def bursting(name: str = "a/q", amount: float = 1.0, duration: float = 1.0, deadline: float | None = None, gap: float = 9.0) -> QueueSpec:
    return latency(name, 0.0, [amount], duration, Sporadic(gap), deadline)


def periodic(first: float = 0.0, jitter: float = 0.0) -> QueueSpec:
    return latency("b/q", 0.0, [1.0], 1, Periodic(9.0, first, jitter))


class TestTheLargestAndTheLeast:
    """Messages give ranges with both ends included."""

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param(throughput("a/q", weight=SMALLEST), id="least weight"),
            pytest.param(throughput("a/q", weight=LARGEST), id="largest weight"),
            pytest.param(bursting(amount=LARGEST), id="largest amount"),
            pytest.param(bursting(duration=TIME_STEP_SECONDS), id="shortest burst"),
            pytest.param(bursting(duration=1.0, deadline=LONGEST_SECONDS, gap=LONGEST_SECONDS), id="longest deadline and gap"),
            pytest.param(latency("a/q", 0.0, [1.0], 1, Periodic(9.0, LONGEST_SECONDS)), id="latest first arrival"),
            pytest.param(latency("a/q", 0.0, [1.0], 1, Periodic(9.0, -LONGEST_SECONDS)), id="earliest first arrival"),
            pytest.param(latency("a/q", 0.0, [1.0], 1, Periodic(9.0, 0.0, 4.5)), id="jitter of half a period"),
        ],
    )
    def test_are_allowed(self, spec: QueueSpec) -> None:
        assert compile_queues((spec,), CPU, 3600.0).names == ("a/q",)

    @pytest.mark.parametrize(
        ("spec", "want"),
        [
            pytest.param(throughput("b/q", weight=LARGEST * 2), r"expected a weight between 1e-09 and 1e\+24, found 2e\+24", id="weight"),
            pytest.param(periodic(first=2e12), r"expected the first arrival within 1e\+12 s of the epoch, found 2", id="far"),
            pytest.param(periodic(jitter=5.0), "a jitter of at most half of it, found 9.0 s and 5.0 s", id="jitter"),
            pytest.param(bursting("b/q", duration=0.5, deadline=1.0, gap=0.0), "expected a period .*, found 0.0 s and 0.0 s", id="no gap"),
            pytest.param(bursting("b/q", gap=2e12), "found 2000000000000.0 s and 0.0 s", id="a gap without end"),
            pytest.param(bursting("b/q", duration=9.5), "expected the deadline within .*, found 9.5 s and 9.0 s", id="late deadline"),
            pytest.param(dataclasses.replace(bursting("b/q"), arrival=None), "needs a burst and an arrival, found", id="no arrival"),
        ],
    )
    def test_beyond_are_refused_with_what_is_wrong_and_whose_it_is(self, spec: QueueSpec, want: str) -> None:
        """Beside others that are right, before and after it."""
        others = (bursting("a/q"), bursting("c/q"))
        with pytest.raises(InvalidSpecError, match=f"^queue b/q: .*{want}"):
            compile_queues((others[0], spec, others[1]), CPU, 3600.0)


def test_a_burst_that_needs_nothing_of_a_resource_nobody_counts_is_a_burst() -> None:
    spec = QueueSpec("a/q", QueueKind.LATENCY, (0.0, "a/q"), burst=Burst({"cpu": 1.0, "tpu": 0.0}, 1, 1), arrival=Sporadic(9))
    assert compile_queues((spec,), CPU, 3600.0).unknown == {}


def test_a_fair_share_grows_from_the_moment_it_was_noted() -> None:
    specs = (bursting(),)
    columns = blank_columns(compile_queues(specs, CPU, 3600.0), specs)
    columns.fair_value[:], columns.fair_rate[:], columns.fair_as_of[:] = 2.0, 0.5, 10.0
    assert [columns.fair(now).tolist() for now in (9.0, 10.0, 10.5, np.array([14.0]))] == [[2.0], [2.0], [2.25], [4.0]]
