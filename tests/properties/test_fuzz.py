"""The fuzz targets: anything a number can be, anywhere in a snapshot or a spec. `make fuzz` runs them for a minute with fresh seeds.

In `make test` they run with the few fixed examples of the default profile, which takes about a second.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.errors import PolicyError
from fairburst.policy.model import Burst, ClusterSnapshot, Memory, Periodic, PolicyConfig, QueueSpec, Schedule, ScheduledBurst, Sporadic
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()
NASTY = st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300, 1e15, 1e24, 5e-324]) | st.floats()


def rounds_are_finite(value: ClusterSnapshot) -> None:
    memory = Memory()
    for now in (START, START + 2, START + 30):
        result, memory = decide(value, memory, CONFIG, now)
        for numbers in (result.allocation, result.guaranteed, result.level, result.charge_rate):
            assert np.isfinite(numbers).all()
        assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-7) + 1e-9).all()
        for decision in result.decisions:
            assert np.isfinite([decision.ledger, decision.debt, decision.budget, decision.consumed, decision.share]).all()


@given(snapshots(), st.sampled_from(["live_capacity", "committed_capacity", "demand", "usage", "unit"]), NASTY, st.data())
def test_any_number_in_a_snapshot_gives_a_named_error_or_finite_numbers(
    value: ClusterSnapshot, field: str, number: float, data: st.DataObject
) -> None:
    array = getattr(value, field).copy()
    array.flat[data.draw(st.integers(0, array.size - 1))] = number
    changed = dataclasses.replace(value, **{field: array})
    if not ((array >= 0).all() and (array <= 1e24).all()):
        with pytest.raises(PolicyError, match="expected"):
            decide(changed, Memory(), CONFIG, START)
        return
    rounds_are_finite(changed)


SPOIL: dict[str, Callable[[QueueSpec, float], QueueSpec]] = {
    "weight": lambda spec, number: dataclasses.replace(spec, weight=number),
    "limit": lambda spec, number: dataclasses.replace(spec, limits={"cpu": number}),
    "amount": lambda spec, number: _with_burst(spec, number, 5.0, 5.0),
    "duration": lambda spec, number: _with_burst(spec, 1.0, number, 5.0),
    "deadline": lambda spec, number: _with_burst(spec, 1.0, 5.0, number),
    "period": lambda spec, number: dataclasses.replace(spec, arrival=Periodic(number, START)),
    "interarrival": lambda spec, number: dataclasses.replace(spec, arrival=Sporadic(number)),
    "jitter": lambda spec, number: dataclasses.replace(spec, arrival=Periodic(30.0, START, number)),
    "first arrival": lambda spec, number: dataclasses.replace(spec, arrival=Periodic(30.0, number)),
    "scheduled arrival": lambda spec, number: dataclasses.replace(
        spec, arrival=Schedule((ScheduledBurst(number, Burst({"cpu": 1.0}, 1.0, 1.0)),))
    ),
}


def _with_burst(spec: QueueSpec, amount: float, duration: float, deadline: float) -> QueueSpec:
    return dataclasses.replace(spec, burst=Burst({"cpu": amount}, duration, deadline), arrival=Periodic(30.0, START))


@given(snapshots(), st.sampled_from(sorted(SPOIL)), NASTY, st.data())
def test_any_number_in_a_spec_gives_a_named_error_or_finite_numbers(
    value: ClusterSnapshot, place: str, number: float, data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, len(value.queues) - 1))
    queues = list(value.queues)
    queues[row] = SPOIL[place](queues[row], number)
    changed = dataclasses.replace(value, queues=tuple(queues))
    try:
        decide(changed, Memory(), CONFIG, START)
    except PolicyError:
        with pytest.raises(PolicyError, match=f"{queues[row].name}|row {row}: expected"):
            decide(changed, Memory(), CONFIG, START)
        return
    rounds_are_finite(changed)
