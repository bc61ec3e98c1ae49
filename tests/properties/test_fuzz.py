"""The fuzz targets: anything a number or a shape can be, anywhere in a snapshot, a spec, a setting, the clock or a saved memory, in the
first round and in a later one, which skips what has been checked before. `make fuzz` runs them for a minute with fresh seeds.

In `make test` they run with the few fixed examples of the default profile, which takes a few seconds.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy import memory as saved
from fairburst.policy.decide import decide
from fairburst.policy.errors import MemoryFormatError, PolicyError
from fairburst.policy.model import Burst, ClusterSnapshot, Memory, Periodic, PolicyConfig, QueueSpec, Schedule, ScheduledBurst, Sporadic
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()
NASTY = st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300, 1e15, 1e24, 5e-324]) | st.floats()


ARRAYS = st.sampled_from(["live_capacity", "committed_capacity", "demand", "usage", "unit"])


def rounds_are_finite(
    value: ClusterSnapshot, memory: Memory | None = None, config: PolicyConfig = CONFIG, times: tuple[float, ...] = (0.0, 2.0, 30.0)
) -> None:
    memory = memory or Memory()
    for after in times:
        result, memory = decide(value, memory, config, START + after)
        for numbers in (result.allocation, result.guaranteed, result.level, result.charge_rate):
            assert np.isfinite(numbers).all()
        assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-7) + 1e-9).all()
        assert not math.isnan(result.next_boundary)
        for decision in result.decisions:
            assert np.isfinite([decision.ledger, decision.debt, decision.budget, decision.consumed, decision.share]).all()


def refusal(value: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> str:
    """Return the message of the named error, or an empty string if the round is decided."""
    try:
        decide(value, memory, config, now)
    except PolicyError as error:
        return str(error)
    return ""


def earlier_round(value: ClusterSnapshot, *, was_there: bool) -> Memory:
    """An empty memory, or that of a valid earlier round, with its compiled specs."""
    return decide(value, Memory(), CONFIG, START)[1] if was_there else Memory()


@given(snapshots(), ARRAYS, NASTY, st.booleans(), st.booleans(), st.data())
def test_any_number_in_a_snapshot_gives_a_named_error_or_finite_numbers(
    value: ClusterSnapshot, field: str, number: float, quiet: bool, later: bool, data: st.DataObject
) -> None:
    if quiet:
        value = dataclasses.replace(value, demand=value.demand * 0, usage=value.usage * 0)
    memory = earlier_round(value, was_there=later)
    array = getattr(value, field).copy()
    array.flat[data.draw(st.integers(0, array.size - 1))] = number
    changed = dataclasses.replace(value, **{field: array})
    if not ((array >= 0).all() and (array <= 1e24).all()):
        with pytest.raises(PolicyError, match="expected"):
            decide(changed, memory, CONFIG, START)
        return
    rounds_are_finite(changed, memory)


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one row less": lambda array: array[1:],
    "one row more": lambda array: np.concatenate([array, array[:1]]),
    "one column less": lambda array: array[..., 1:],
    "one column more": lambda array: np.concatenate([array, array[..., :1]], axis=-1),
    "flat": np.ravel,
    "transposed": np.transpose,
    "one axis more": lambda array: array[None],
    "a single number": lambda array: array.ravel()[0],
    "nothing": lambda array: array[:0],
}


@given(snapshots(), ARRAYS, st.sampled_from(sorted(SHAPES)), st.booleans(), st.booleans())
def test_shapes_that_disagree_are_a_named_error(value: ClusterSnapshot, field: str, shape: str, quiet: bool, later: bool) -> None:
    if quiet:
        value = dataclasses.replace(value, demand=value.demand * 0, usage=value.usage * 0)
    memory = earlier_round(value, was_there=later)
    array = SHAPES[shape](getattr(value, field))
    changed = dataclasses.replace(value, **{field: array})
    if array.shape == getattr(value, field).shape:
        return
    with pytest.raises(PolicyError, match=f"{field}: expected shape"):
        decide(changed, memory, CONFIG, START + 1)


SETTINGS = st.sampled_from(["expected_queues", "max_cycle_seconds", "level_dead_band", "max_profile_events"])


@given(snapshots(), SETTINGS, NASTY, st.booleans())
def test_any_number_in_a_setting_gives_a_named_error_or_finite_numbers(
    value: ClusterSnapshot, setting: str, number: float, later: bool
) -> None:
    memory = earlier_round(value, was_there=later)
    changed = dataclasses.replace(CONFIG, **{setting: number})
    refused = refusal(value, memory, changed, START)
    assert not refused or f"expected {setting}" in refused
    if not refused:
        rounds_are_finite(value, memory, changed)


@given(snapshots(), st.lists(NASTY | st.floats(-100, 100), min_size=1, max_size=3))
def test_any_clock_gives_a_named_error_or_finite_numbers(value: ClusterSnapshot, times: list[float]) -> None:
    """Also one that runs backwards; `START` is added, so that small numbers are the cluster's own time."""
    _, memory = decide(value, Memory(), CONFIG, START)
    for after in times:
        refused = refusal(value, memory, CONFIG, START + after)
        assert not refused or "now: expected" in refused
        if not refused:
            rounds_are_finite(value, memory, times=(after,))
            _, memory = decide(value, memory, CONFIG, START + after)
    rounds_are_finite(value, memory)


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
    "scheduled arrival": lambda spec, number: _with_schedule(spec, number, 1.0, 1.0, 1.0),
    "scheduled amount": lambda spec, number: _with_schedule(spec, START + 3, number, 1.0, 1.0),
    "scheduled duration": lambda spec, number: _with_schedule(spec, START + 3, 1.0, number, 5.0),
    "scheduled deadline": lambda spec, number: _with_schedule(spec, START + 3, 1.0, 1.0, number),
}


def _with_burst(spec: QueueSpec, amount: float, duration: float, deadline: float) -> QueueSpec:
    return dataclasses.replace(spec, burst=Burst({"cpu": amount}, duration, deadline), arrival=Periodic(30.0, START))


def _with_schedule(spec: QueueSpec, arrival: float, amount: float, duration: float, deadline: float) -> QueueSpec:
    """Two bursts, of which the second is spoilt."""
    bursts = (ScheduledBurst(START, Burst({"cpu": 1.0}, 1.0, 2.0)), ScheduledBurst(arrival, Burst({"cpu": amount}, duration, deadline)))
    return dataclasses.replace(spec, burst=None, arrival=Schedule(bursts))


@given(snapshots(), st.sampled_from(sorted(SPOIL)), NASTY, st.booleans(), st.data())
def test_any_number_in_a_spec_gives_a_named_error_or_finite_numbers(
    value: ClusterSnapshot, place: str, number: float, later: bool, data: st.DataObject
) -> None:
    memory = earlier_round(value, was_there=later)
    row = data.draw(st.integers(0, len(value.queues) - 1))
    queues = list(value.queues)
    queues[row] = SPOIL[place](queues[row], number)
    changed = dataclasses.replace(value, queues=tuple(queues))
    refused = refusal(changed, memory, CONFIG, START)
    assert not refused or f"queue {queues[row].name}: " in refused
    if not refused:
        rounds_are_finite(changed, memory)


def numbers_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place (container, key) of a JSON value that holds a number."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if isinstance(item, int | float) and not isinstance(item, bool):
            yield value, key
        yield from numbers_in(item)


@given(snapshots(), NASTY | st.sampled_from([None, "x", [], {}, True, -1, 10**30]), st.data())
def test_any_number_in_a_saved_memory_gives_a_named_error_or_finite_numbers(
    value: ClusterSnapshot, thing: Any, data: st.DataObject
) -> None:
    _, memory = decide(value, Memory(), CONFIG, START)
    written = json.loads(saved.dump(memory))
    container, key = data.draw(st.sampled_from(list(numbers_in(written))))
    container[key] = thing
    try:
        read = saved.load(json.dumps(written))
    except MemoryFormatError:
        return
    refused = refusal(value, read, CONFIG, START + 1)
    assert not refused or "expected" in refused
    if not refused:
        rounds_are_finite(value, read)
