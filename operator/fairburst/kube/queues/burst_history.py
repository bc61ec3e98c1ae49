"""Measure which part of its declared demand each burst of a queue with spec.uncertainty uses, and keep the parts in the queue's status.

A burst is all that the queue uses from the opening of one window to the next, or to the time at which it uses and wants nothing more. One
that began before this process watched is left out. The parts are kept as thousandths of the declared resource-seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairburst.kube.queues.bursts import Burst, Uncertainty
from fairburst.kube.queues.objects import InvalidQueueError, LatencyQueue, ThroughputQueue, parse_status
from fairburst.kube.queues.specs import LatencyQueueSpec
from fairburst.kube.queues.uncertainty import AskedFor, asked_for
from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot
from fairburst.policy.table import OPEN, OVERDUE, Columns
from fairburst.quantity import charged_quantity

KEPT = 100  # bursts: at 95 % and three resources an order statistic needs 59
WATCHED_SECONDS = 5.0  # a burst that opened longer ago than this when it was first seen is not known from its beginning


@dataclass(slots=True)
class _Running:
    """A burst that is being watched. used: (K,) resource-seconds by `as_of`; usage: (K,) since then."""

    opened: float
    known: bool
    used: FloatArray
    usage: FloatArray
    as_of: float


@dataclass(slots=True)
class _Queue:
    declared: Burst
    uncertainty: Uncertainty
    samples: list[tuple[int, ...]]
    asked: AskedFor
    running: _Running | None = None

    @property
    def learns(self) -> bool:
        return bool(self.uncertainty.from_history) or self.uncertainty.correlation == "Measured"


@dataclass(slots=True)
class BurstHistory:
    """The measured bursts of each queue, by uid. `version` rises whenever the amounts that a queue asks for change."""

    version: int = 0
    _queues: dict[str, _Queue] = field(default_factory=dict)
    _resources: tuple[str, ...] = ()  # of the last `watch`

    def asked(self, uid: str, queue: LatencyQueue | ThroughputQueue, obj: Mapping[str, Any]) -> AskedFor | None:
        """Return the demand to request for a queue, None for one without uncertainty. Reads the status of a new queue for its samples."""
        spec = queue.spec
        if not isinstance(spec, LatencyQueueSpec) or spec.uncertainty is None or spec.burst is None:
            self._queues.pop(uid, None)
            return None
        known = self._queues.get(uid)
        if known is not None and known.declared == spec.burst and known.uncertainty == spec.uncertainty:
            return known.asked
        samples = _remembered(obj, spec.burst) if known is None else known.samples
        if known is not None and known.declared != spec.burst:
            samples = []  # parts of another burst say nothing about this one
        found = _Queue(spec.burst, spec.uncertainty, samples, _asked(spec.burst, spec.uncertainty, samples))
        self._queues[uid] = found
        return found.asked

    @property
    def learning(self) -> bool:
        """Whether any queue's bursts are watched."""
        return any(queue.learns for queue in self._queues.values())

    def keep(self, uids: Iterable[str]) -> None:
        """Drop queues that are gone."""
        for gone in self._queues.keys() - set(uids):
            del self._queues[gone]

    def watch(self, rows: Mapping[str, int], snapshot: ClusterSnapshot, columns: Columns | None, wall: float) -> None:
        """Add up the use of each burst. rows: those of the queues in force, by uid.

        A burst during which a resource begins or ceases to count is left out: its use of that resource is not known.
        """
        moved, self._resources = snapshot.resources != self._resources, snapshot.resources
        for uid, queue in self._queues.items():
            queue.running = None if moved else queue.running
            row = rows.get(uid)
            if columns is None or row is None or not queue.learns:
                queue.running = None
                continue
            usage = snapshot.usage[row]
            running = queue.running
            if running is not None:
                running.used = running.used + running.usage * max(0.0, wall - running.as_of)
                running.usage, running.as_of = usage.copy(), wall
            opened = float(columns.opened[row]) if columns.state[row] in {OPEN, OVERDUE} else None
            ended = running is not None and opened is None and not usage.any() and not snapshot.demand[row].any()
            if running is not None and (ended or (opened is not None and opened != running.opened)):
                self._learn(queue, running, snapshot.resources)
                queue.running = None
            if opened is not None and queue.running is None:
                queue.running = _Running(opened, wall - opened <= WATCHED_SECONDS, np.zeros(len(usage)), usage.copy(), wall)

    def _learn(self, queue: _Queue, running: _Running, resources: tuple[str, ...]) -> None:
        column_of = {name: column for column, name in enumerate(resources)}
        if not running.known or not running.used.any() or not column_of.keys() >= queue.declared.resources.keys():
            return
        demand = {name: charged_quantity(name, text) * queue.declared.duration_seconds for name, text in queue.declared.resources.items()}
        part = tuple(round(1000 * float(running.used[column_of[name]]) / most) for name, most in demand.items())
        queue.samples = [*queue.samples, part][-KEPT:]
        asked = _asked(queue.declared, queue.uncertainty, queue.samples)
        if asked.percent != queue.asked.percent:
            self.version += 1
        queue.asked = asked

    def status_part(self, uid: str) -> dict[str, Any] | None:
        """Return status.uncertainty of a queue; None for one without uncertainty."""
        queue = self._queues.get(uid)
        if queue is None:
            return None
        return {
            "confidencePercent": queue.uncertainty.confidence_percent,
            "correlation": queue.asked.correlation.value,
            "extraPercent": {name: percent - 100 for name, percent in queue.asked.percent.items()},
            "asked": dict(queue.asked.burst(queue.declared).resources),
            "bursts": len(queue.samples),
            "learned": queue.asked.bursts > 0,
        }

    def internal_part(self, uid: str) -> dict[str, Any] | None:
        """Return status.internal.burstsSeen of a queue; None before the first burst."""
        queue = self._queues.get(uid)
        if queue is None or not queue.samples:
            return None
        return {
            "of": {"resources": dict(queue.declared.resources), "durationSeconds": queue.declared.duration_seconds},
            "partsMilli": {name: [part[at] for part in queue.samples] for at, name in enumerate(queue.declared.resources)},
        }


def _asked(declared: Burst, uncertainty: Uncertainty, samples: Sequence[tuple[int, ...]]) -> AskedFor:
    return asked_for(declared, uncertainty, [[part / 1000 for part in sample] for sample in samples])


def _remembered(obj: Mapping[str, Any], declared: Burst) -> list[tuple[int, ...]]:
    """Return the parts in the object's status, if they are parts of the burst that is declared now."""
    try:
        internal = parse_status(obj).internal
    except InvalidQueueError:
        return []
    seen = internal.bursts_seen if internal is not None else None
    if seen is None or seen.of is None or seen.parts_milli is None:
        return []
    same = seen.of.resources == declared.resources and seen.of.duration_seconds == declared.duration_seconds
    columns = [seen.parts_milli.get(name, []) for name in declared.resources]
    if not same or len({len(column) for column in columns}) != 1:
        return []
    return list(zip(*columns, strict=True))[-KEPT:]
