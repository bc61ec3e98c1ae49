"""Conversion of queue objects to and from the core's values: the declaration of a queue, and the promise in its status."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from fairburst.kube.queues.bursts import Arrival, Burst, Calendar, Periodic, Schedule, ScheduledBurst, Sporadic
from fairburst.kube.queues.calendar import part_at
from fairburst.kube.queues.objects import InvalidQueueError, Queue
from fairburst.kube.queues.specs import LatencyQueueSpec
from fairburst.kube.queues.statuses import Promise
from fairburst.kube.queues.uncertainty import AskedFor, asked_for
from fairburst.kube.times import from_epoch, to_epoch
from fairburst.policy import model as core
from fairburst.policy.schedule import BurstTable
from fairburst.quantity import charged_quantity, format_quantity
from fairburst.validation import problems_of


def to_queue_spec(queue: Queue, now: float | None = None, asked: AskedFor | None = None) -> core.QueueSpec:
    """Return the queue's declaration in the core's units: cores, bytes, devices; seconds, and seconds since the epoch.

    now: the time at which the arrivals of a calendar are listed; by default the queue's creation.
    asked: the amounts that a queue with uncertainty asks for; by default those that follow from its declaration alone.
    """
    name = f"{queue.metadata.namespace}/{queue.metadata.name}"
    spec = queue.spec
    latency = isinstance(spec, LatencyQueueSpec)
    created = to_epoch(queue.metadata.creation_timestamp)
    burst, arrival = None, None
    if isinstance(spec, LatencyQueueSpec):
        burst, arrival = _to_core_bursts(_burst_asked_for(spec, asked), spec.arrival, created if now is None else now)
    return core.QueueSpec(
        name=name,
        kind=core.QueueKind.LATENCY if latency else core.QueueKind.THROUGHPUT,
        order=(created, name),
        weight=float(spec.weight),
        burst=burst,
        arrival=arrival,
        limits=_to_units(spec.limits or {}),
        suspended=spec.suspended,
        lead_time=isinstance(spec, LatencyQueueSpec) and spec.lead_time != "Off" and spec.arrival.sporadic is None,
    )


def _burst_asked_for(spec: LatencyQueueSpec, asked: AskedFor | None) -> Burst | None:
    if spec.burst is None or spec.uncertainty is None:
        return spec.burst
    return (asked_for(spec.burst, spec.uncertainty, ()) if asked is None else asked).burst(spec.burst)


def listed_until(queue: Queue, now: float) -> float:
    """Return until when the arrivals of the queue's calendar that are listed at `now` hold; infinite without a calendar."""
    spec = queue.spec
    if not isinstance(spec, LatencyQueueSpec) or spec.burst is None or spec.arrival.calendar is None:
        return math.inf
    return part_at(spec.arrival.calendar.times, float(spec.burst.deadline), now).until


def promise_to_status(spec: core.QueueSpec) -> dict[str, Any]:
    """Return the accepted spec in the form of status.promise; the caller adds admissionOrder.

    Raises
    ------
    ValueError : a weight or a duration is not whole. Specs from `to_queue_spec` have whole ones.
    """
    burst, arrival = spec.burst, spec.arrival
    calendar_from = None
    if isinstance(arrival, core.Schedule) and arrival.calendar:
        burst, calendar_from = arrival.bursts[0].burst, from_epoch(arrival.since)
    promise = Promise(
        kind=spec.kind.value,
        name=spec.name,
        created=from_epoch(spec.order[0]),
        weight=_whole(spec.weight, "weight"),
        burst=_from_core_burst(burst) if burst else None,
        arrival=_from_core_arrival(arrival) if arrival else None,
        calendar_from=calendar_from,
        limits=to_amounts(spec.limits) or None,
        suspended=spec.suspended,
        lead_time="Auto" if spec.lead_time else None,
    )
    return promise.model_dump(mode="json", by_alias=True, exclude_none=True)


def promise_from_status(promise: Mapping[str, Any]) -> core.QueueSpec:
    """Invert `promise_to_status`. Raises InvalidQueueError if the promise is not one that the operator wrote."""
    try:
        read = Promise.model_validate(dict(promise), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidQueueError(problems_of(error, (), prefix="status.promise.")) from error
    listed = read.created if read.calendar_from is None else read.calendar_from
    burst, arrival = _to_core_bursts(read.burst, read.arrival, to_epoch(listed))
    return core.QueueSpec(
        name=read.name,
        kind=core.QueueKind(read.kind),
        order=(to_epoch(read.created), read.name),
        weight=float(read.weight),
        burst=burst,
        arrival=arrival,
        limits=_to_units(read.limits or {}),
        suspended=read.suspended,
        lead_time=read.lead_time == "Auto",
    )


def to_amounts(amounts: Mapping[str, float]) -> dict[str, str]:
    """Return natural units by resource as quantities."""
    return {resource: format_quantity(resource, amount) for resource, amount in amounts.items()}


def _to_units(quantities: Mapping[str, str]) -> dict[str, float]:
    return {resource: charged_quantity(resource, text) for resource, text in quantities.items()}


def _whole(value: float, what: str) -> int:
    if value != int(value):
        raise ValueError(f"expected a whole number as {what}, found {value!r}")
    return int(value)


def _to_core_burst(burst: Burst) -> core.Burst:
    return core.Burst(
        resources=_to_units(burst.resources), duration_seconds=float(burst.duration_seconds), deadline_seconds=float(burst.deadline)
    )


def _from_core_burst(burst: core.Burst) -> Burst:
    written = to_amounts(burst.resources)
    return Burst(
        resources={resource: text for resource, text in written.items() if text != "0"},  # pods that ask for a part of a byte add nothing
        duration_seconds=_whole(burst.duration_seconds, "durationSeconds"),
        deadline_seconds=_whole(burst.deadline_seconds, "deadlineSeconds"),
    )


def _to_core_bursts(burst: Burst | None, arrival: Arrival | None, now: float) -> tuple[core.Burst | None, core.Arrival | None]:
    """Return burst and arrival. The bursts of a calendar are in the core's schedule, like those of a schedule."""
    if burst is not None and arrival is not None and arrival.calendar is not None:
        return None, _to_core_calendar(arrival.calendar, _to_core_burst(burst), now)
    return _to_core_burst(burst) if burst else None, _to_core_arrival(arrival) if arrival else None


def _to_core_calendar(calendar: Calendar, burst: core.Burst, now: float) -> core.Schedule:
    part = part_at(calendar.times, burst.deadline_seconds, now)
    count = len(part.arrivals)
    table = BurstTable(
        resources=tuple(burst.resources),
        arrival=np.array(part.arrivals, dtype=np.float64),
        duration=np.full(count, burst.duration_seconds),
        deadline=np.full(count, burst.deadline_seconds),
        amounts=np.tile(np.array(list(burst.resources.values()), dtype=np.float64), (count, 1)),
    )
    return core.Schedule(table, json.dumps(calendar.model_dump(mode="json", by_alias=True)), part.since)


def _to_core_arrival(arrival: Arrival) -> core.Arrival:
    if arrival.periodic:
        first = arrival.periodic.first_arrival
        return core.Periodic(
            period_seconds=float(arrival.periodic.period_seconds),
            first_arrival=None if first is None else to_epoch(first),
            jitter_seconds=float(arrival.periodic.jitter_seconds),
        )
    if arrival.sporadic:
        return core.Sporadic(min_interarrival_seconds=float(arrival.sporadic.min_interarrival_seconds))
    bursts = arrival.schedule.bursts if arrival.schedule else []
    return core.Schedule(bursts=tuple(core.ScheduledBurst(to_epoch(burst.arrival), _to_core_burst(burst)) for burst in bursts))


def _from_core_arrival(arrival: core.Arrival) -> Arrival:
    match arrival:
        case core.Periodic(period, first, jitter):
            return Arrival(
                periodic=Periodic(
                    period_seconds=_whole(period, "periodSeconds"),
                    first_arrival=None if first is None else from_epoch(first),
                    jitter_seconds=_whole(jitter, "jitterSeconds"),
                )
            )
        case core.Sporadic(interarrival):
            return Arrival(sporadic=Sporadic(min_interarrival_seconds=_whole(interarrival, "minInterarrivalSeconds")))
        case core.Schedule(_, calendar) if calendar:
            return Arrival(calendar=Calendar.model_validate_json(calendar))
        case core.Schedule(bursts):
            scheduled = [ScheduledBurst(arrival=from_epoch(one.arrival), **dict(_from_core_burst(one.burst))) for one in bursts]
            return Arrival(schedule=Schedule(bursts=scheduled))
