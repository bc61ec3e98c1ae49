"""Lead time in the status of a queue that requests it: whether room is held for its next burst, and the accuracy of the last forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.lead_time_record import LeadTimeDecision
from fairburst.policy.model import ClusterSnapshot, EventKind, Memory, RoundResult


@dataclass(frozen=True, slots=True)
class LeadTimeView:
    """One queue's lead time: the decision for the next burst, None if none is expected within reach, and the outcome of the last burst.

    expected_free, really_free: (K,) resource units, predicted in the round before the last burst opened, and measured when it opened.
    pod_size: (K,) resource units, the largest observed pod of the burst; zeros before the first.
    """

    decision: LeadTimeDecision | None
    learning: bool
    expected_free: FloatArray | None = None
    really_free: FloatArray | None = None
    pod_size: FloatArray | None = None

    @property
    def reason(self) -> str:
        """The CamelCase reason."""
        if self.decision is not None:
            return self.decision.reason
        return "NoBurstExpected" if self.learning else "NotLearning"

    @property
    def message(self) -> str:
        """The message, one sentence."""
        if self.decision is not None:
            return self.decision.message
        if self.learning:
            return "No burst is expected whose time is known and within reach."
        return "No room is held ahead of bursts: durations of tasks are learned only while the operator's smallJobs.enabled is true."


@dataclass(slots=True)
class LeadTimeForecasts:
    """Keeps the last forecast for each queue that requests lead time, and compares it when the burst opens. Lost at a restart."""

    learning: bool
    _forecast: dict[str, FloatArray] = field(default_factory=dict)
    _found: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def views(self, snapshot: ClusterSnapshot, result: RoundResult, memory: Memory) -> Mapping[str, LeadTimeView]:
        """Return the view by name for every queue that requests lead time. `memory`: the round's. Call it once a round."""
        columns = memory.columns
        asking = {snapshot.queues[row].name: row for row in (() if columns is None else columns.declared.lead_time_rows)}
        if not asking:
            return {}
        for event in result.events:
            if event.kind is EventKind.BURST_OPENED and event.queue in self._forecast and event.queue in asking:
                others = snapshot.usage.sum(axis=0) - snapshot.usage[asking[event.queue]]
                self._found[event.queue] = self._forecast.pop(event.queue), np.maximum(snapshot.live_capacity - others, 0.0)
        decisions = {decision.queue: decision for decision in result.lead_time}
        for queue, decision in decisions.items():
            self._forecast[queue] = decision.free + decision.expected_release
        for gone in (self._forecast.keys() | self._found.keys()) - asking.keys():
            self._forecast.pop(gone, None)
            self._found.pop(gone, None)
        return {name: LeadTimeView(decisions.get(name), self.learning, *self._found.get(name, (None, None))) for name in asking}
