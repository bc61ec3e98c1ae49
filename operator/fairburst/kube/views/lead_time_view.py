"""What users see of lead time on a queue that asks for it: whether room is held for its next burst, and how the last forecast came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.lead_time import LeadTimeDecision
from fairburst.policy.model import ClusterSnapshot, EventKind, RoundResult


@dataclass(frozen=True, slots=True)
class LeadTimeView:
    """One queue's lead time: the decision for the next burst, None where no burst is expected within reach; and what the last burst found.

    expected_free, really_free: (K,) resource units, foretold in the round before the last burst opened, and found when it opened.
    pod_size: (K,) resource units, the largest pod of the burst that has been seen; zeros before the first.
    """

    decision: LeadTimeDecision | None
    learning: bool
    expected_free: FloatArray | None = None
    really_free: FloatArray | None = None
    pod_size: FloatArray | None = None

    @property
    def reason(self) -> str:
        """CamelCase."""
        if self.decision is not None:
            return self.decision.reason
        return "NoBurstExpected" if self.learning else "NotLearning"

    @property
    def message(self) -> str:
        """A sentence."""
        if self.decision is not None:
            return self.decision.message
        if self.learning:
            return "No burst is expected whose time is known and within reach."
        return "No room is held ahead of bursts: durations of tasks are learned only while the operator's smallJobs.enabled is true."


@dataclass(slots=True)
class LeadTimeBook:
    """Remembers the last forecast for each queue that asks for lead time, and compares it when the burst opens. Forgotten at a restart."""

    learning: bool
    _forecast: dict[str, FloatArray] = field(default_factory=dict)
    _found: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def views(self, snapshot: ClusterSnapshot, result: RoundResult) -> Mapping[str, LeadTimeView]:
        """By name, for every queue that asks for lead time; call it once a round."""
        asking = {spec.name: row for row, spec in enumerate(snapshot.queues) if spec.lead_time}
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
