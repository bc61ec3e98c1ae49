"""Decisions do not depend on the units or the types in which amounts are written."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from fairburst.policy.decide import decide
from fairburst.policy.explain import amount
from fairburst.policy.model import Burst, ClusterSnapshot, Memory, PolicyConfig, QueueSpec, Schedule, ScheduledBurst
from tests.support.policy import snapshot, throughput
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()


def scaled(value: ClusterSnapshot, factor: float) -> ClusterSnapshot:
    """The same cluster with every amount written in a unit `1 / factor` times as large."""

    def burst(one: Burst | None) -> Burst | None:
        return one and dataclasses.replace(one, resources={name: amount * factor for name, amount in one.resources.items()})

    def arrival(spec: QueueSpec) -> object:
        if not isinstance(spec.arrival, Schedule):
            return spec.arrival
        return Schedule(tuple(ScheduledBurst(item.arrival, burst(item.burst) or item.burst) for item in spec.arrival.bursts))

    queues = tuple(
        dataclasses.replace(
            spec, burst=burst(spec.burst), arrival=arrival(spec), limits={name: amount * factor for name, amount in spec.limits.items()}
        )
        for spec in value.queues
    )
    arrays = {name: getattr(value, name) * factor for name in ("live_capacity", "committed_capacity", "demand", "usage", "unit")}
    return dataclasses.replace(value, queues=queues, **arrays)


class TestUnitsOfMeasureDoNotMatter:
    """Cores or millicores, bytes or gigabytes: decisions are the same. The factors are powers of two, so that nothing is rounded."""

    @given(snapshots())
    def test_a_pool_of_small_numbers_is_divided_like_one_of_large_numbers(self, value: ClusterSnapshot) -> None:
        for factor in (2.0**-12, 2.0**30):
            other, plain, memory, other_memory = scaled(value, factor), value, Memory(), Memory()
            for seconds in (0, 1, 4, 9, 31):
                result, memory = decide(plain, memory, CONFIG, START + seconds)
                same, other_memory = decide(other, other_memory, CONFIG, START + seconds)
                assert same.classes == result.classes
                assert same.allocation / factor == pytest.approx(result.allocation, rel=1e-6, abs=1e-6)
                assert same.charge_rate == pytest.approx(result.charge_rate, rel=1e-6, abs=1e-9)
                plain = dataclasses.replace(plain, usage=result.allocation.copy())
                other = dataclasses.replace(other, usage=result.allocation * factor)


def test_whole_numbers_decide_as_floating_point_ones_do() -> None:
    queues = (throughput("t/q"), throughput("u/q", 1.0, 2.0))
    value = snapshot(queues, [10.0], [[20.0], [20.0]], [[1.0], [2.0]], [[2.0], [1.0]])
    whole = dataclasses.replace(value, **{name: getattr(value, name).astype(np.int64) for name in ("demand", "usage", "unit")})
    results = [decide(one, Memory(), CONFIG, START)[0] for one in (value, whole)]
    assert results[0].allocation.tobytes() == results[1].allocation.tobytes()


@pytest.mark.parametrize(
    ("value", "resource", "want"),
    [
        (1.5, "cpu", "1.5 cores"),
        (800 * 2**30, "memory", "800 GiB"),
        (4.0, "nvidia.com/gpu", "4 nvidia.com/gpu"),
        (16200.0, "cpu", "16,200 cores"),
    ],
)
def test_amounts_are_said_in_human_units(value: float, resource: str, want: str) -> None:
    assert amount(value, resource) == want
