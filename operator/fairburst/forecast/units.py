"""Units in which the simulator can count amounts. It holds millionths in 64 bits, which the bytes of a large cluster would exceed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fairburst.forecast.state import JobState, State
from fairburst.policy.model import Burst, Memory, QueueMemory, QueueSpec, Schedule
from fairburst.sim.cluster import Cluster

MOST = 1e9  # of a resource in the whole cluster: a thousandth of the simulator's limit, because demands exceed the capacity


def in_countable_units(state: State) -> State:
    """Return the state with each resource in a unit of which the cluster has at most `MOST`. Shares and decisions stay the same."""
    capacity = state.cluster.capacity.tolist()
    factors = {name: MOST / amount for name, amount in zip(state.cluster.resources, capacity, strict=True) if amount > MOST}
    if not factors:
        return state
    row = tuple(factors.get(name, 1.0) for name in state.cluster.resources)
    memory = Memory(
        {name: _entry(entry, factors) for name, entry in state.memory.queues.items()},
        state.memory.next_admission_order,
        dress=state.memory.dress,
    )
    return replace(
        state,
        cluster=Cluster(state.cluster.resources, tuple(scaled(node, row) for node in state.cluster.nodes)),
        queues=tuple(_spec(spec, factors) for spec in state.queues),
        memory=memory,
        jobs=tuple(_job(job, row) for job in state.jobs),
        factors=row,
    )


def scaled(amounts: tuple[float, ...], row: tuple[float, ...]) -> tuple[float, ...]:
    """Return the amounts in other units. `row`: factors by resource, empty to leave them."""
    if not row:
        return amounts
    return tuple(amount * factor for amount, factor in zip(amounts, row, strict=True))


def _job(job: JobState, row: tuple[float, ...]) -> JobState:
    return replace(job, stages=tuple(replace(stage, demand=scaled(stage.demand, row)) for stage in job.stages))


def _entry(entry: QueueMemory, factors: Mapping[str, float]) -> QueueMemory:
    refused = None if entry.refused is None else _spec(entry.refused, factors)
    return replace(entry, promise=_spec(entry.promise, factors), refused=refused)


def _spec(spec: QueueSpec, factors: Mapping[str, float]) -> QueueSpec:
    arrival = spec.arrival
    if isinstance(arrival, Schedule):
        arrival = replace(arrival, bursts=tuple(replace(one, burst=_burst(one.burst, factors)) for one in arrival.bursts))
    burst = None if spec.burst is None else _burst(spec.burst, factors)
    return replace(spec, burst=burst, arrival=arrival, limits=_amounts(spec.limits, factors))


def _burst(burst: Burst, factors: Mapping[str, float]) -> Burst:
    return replace(burst, resources=_amounts(burst.resources, factors))


def _amounts(amounts: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    return {name: amount * factors.get(name, 1.0) for name, amount in amounts.items()}
