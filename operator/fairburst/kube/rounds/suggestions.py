"""Suggested declarations for queues in Observe mode: from the history of their work, with the class that they would have.

Each round of the shadow decision looks at one queue: one whose work has ended since its last look, at most once in `SUGGEST_SECONDS`. The
class comes from deciding again, with the suggestion as a new queue in the place of the observed one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairburst.kube.queues.core_values import promise_to_status
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.usage.work_history import WorkHistories
from fairburst.policy.baselines import Policy
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, Periodic, PolicyConfig, QueueKind, QueueSpec
from fairburst.policy.tolerance import SMALLEST
from fairburst.suggestion.bursts import bursts_of
from fairburst.suggestion.suggest import Suggestion, suggest
from fairburst.whatif.rounds import with_queue, without_queue

SUGGEST_SECONDS = 60.0
_MEBIBYTE = 2.0**20


class Suggestions:
    """The latest suggestion of each observed queue, in the form of status.suggestion."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.histories = WorkHistories()
        self.of: dict[str, Mapping[str, Any]] = {}
        self._looked_at: dict[str, float] = {}

    def watch(self, namespaces: frozenset[str], wall: float) -> None:
        """Keep the history of these namespaces and of no other."""
        self.histories.watch(namespaces, wall)
        self.of = {name: suggestion for name, suggestion in self.of.items() if name.partition("/")[0] in namespaces}
        self._looked_at = {name: at for name, at in self._looked_at.items() if name in namespaces}

    def look(self, plan: RoundPlan, memory: Memory, config: PolicyConfig, wall: float, now: float) -> str | None:
        """Look at one queue that is due. Return its namespace if its suggestion has changed."""
        rows = {entry.namespace: row for row, entry in enumerate(plan.queue_set.governing) if entry.observed_only}
        due = [name for name in self.histories.changed() if name in rows and now - self._at(name) >= SUGGEST_SECONDS]
        if not due:
            return None
        namespace = min(due, key=self._at)
        self._looked_at[namespace] = now
        snapshot, row = plan.snapshot, rows[namespace]
        history = self.histories.read(namespace, snapshot.resources, wall)
        found = suggest(bursts_of(history, snapshot.committed_capacity.clip(min=SMALLEST)), snapshot.resources)
        suggestion: Mapping[str, Any] = {"message": f"No declaration is suggested: {found}."}
        if isinstance(found, Suggestion):
            suggestion = self._suggested(found, snapshot, row, memory, config, wall)
        name = snapshot.queues[row].name
        if self.of.get(name) == suggestion:
            return None
        self.of[name] = suggestion
        return namespace

    def _at(self, namespace: str) -> float:
        return self._looked_at.get(namespace, -math.inf)

    def _suggested(
        self, found: Suggestion, snapshot: ClusterSnapshot, row: int, memory: Memory, config: PolicyConfig, wall: float
    ) -> dict[str, Any]:
        observed = snapshot.queues[row]
        spec = suggested_queue(found, f"{observed.name}-suggested", observed.weight, wall)
        result, _ = self._policy(with_queue(without_queue(snapshot, row), spec), memory, config, wall)
        return suggestion_to_status(found, spec, result.classes[-1])


def suggested_queue(found: Suggestion, name: str, weight: float, wall: float) -> QueueSpec:
    """Return the suggestion as a queue created at `wall`, its amounts rounded up to sizes that people write."""
    burst = replace(found.burst, resources={name: _rounded_up(name, amount) for name, amount in found.burst.resources.items()})
    return QueueSpec(name, QueueKind.LATENCY, (wall, name), weight, burst, found.arrival)


def suggestion_to_status(found: Suggestion, spec: QueueSpec, granted: GuaranteeClass | None) -> dict[str, Any]:
    """Return status.suggestion: burst, arrival, class and a message. granted: the class; None: rejected."""
    verdict = "would be rejected" if granted is None else f"would be {granted.value}"
    written = promise_to_status(spec)
    return {
        "bursts": found.seen,
        "class": "Rejected" if granted is None else granted.value,
        "burst": written["burst"],
        "arrival": written["arrival"],
        "message": f"{sentence(found)} A LatencyQueue with this burst and arrival, which hold a margin, {verdict}.",
    }


def _rounded_up(resource: str, amount: float) -> float:
    """Round up to a size that people write: tenths of a core, whole mebibytes, whole devices."""
    if resource == "cpu":
        return math.ceil(amount * 10 - 1e-6) / 10
    if amount >= _MEBIBYTE:
        return math.ceil(amount / _MEBIBYTE - 1e-6) * _MEBIBYTE
    return math.ceil(amount - 1e-6)


def sentence(found: Suggestion) -> str:
    """Return the observation in one sentence: "7 bursts were seen: 4 cpu for 30 s, every 300 ± 5 s."."""
    amounts = ", ".join(f"{_amount(name, amount)} {name}" for name, amount in found.typical.items())
    often = f"every {found.every:.0f} ± {found.varies:.0f} s" if isinstance(found.arrival, Periodic) else f"about every {found.every:.0f} s"
    return f"{found.seen} bursts were seen: {amounts} for {found.burst.duration_seconds:.0f} s, {often}."


def _amount(resource: str, amount: float) -> str:
    if resource == "memory":
        return f"{amount / 2**30:.3g}Gi"
    return f"{amount:.3g}"
