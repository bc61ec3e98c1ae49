"""Decide on queues in Observe mode as if they were enforced: a separate decision that the enforced one does not see.

Adding, changing or removing a queue in Observe mode changes no class, level, quota or ledger of an enforced queue
(docs/decisions/0124-observe-is-a-decision-of-its-own.md). A second engine with a memory of its own decides on all queues; of its plan only
the statuses and events of observed queues are used. Without such queues it does not exist and costs nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

from typing_extensions import override

from fairburst.config import Config
from fairburst.kube.api.objects import Pod
from fairburst.kube.engine import Engine
from fairburst.kube.queues.queue_set import ObjectKey
from fairburst.kube.rounds.suggestions import Suggestions
from fairburst.kube.rounds.view import ClusterView, RoundPlan
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.views.status_plan import StatusWrite
from fairburst.policy.baselines import Policy
from fairburst.policy.decide import decide

SHADOW_SECONDS = 5.0  # between two decisions, unless an observed queue has changed
SHADOW_FACTOR = 50.0  # and at most a fiftieth of the time is spent on them


class ObservingEngine(Engine):
    """The engine of enforced queues, with a second one while there are queues in Observe mode."""

    def __init__(self, config: Config, own_namespace: str, policy: Policy = decide) -> None:
        super().__init__(config, own_namespace, policy)
        self._shadow_of = config, own_namespace
        self._shadow: Engine | None = None
        self._missed: set[str] = set()  # namespaces that have changed since the shadow's last round
        self._last_observed: Mapping[ObjectKey, object] = {}
        self._look_at = -math.inf
        self._suggestions = Suggestions(policy)

    @override
    def pod_changed(self, old: Pod | None, new: Pod | None, pods: PodIndex, wall: float, now: float) -> None:
        """Apply one change of a pod that `pods` has seen."""
        super().pod_changed(old, new, pods, wall, now)
        if self._shadow is not None:
            self._shadow.pod_changed(old, new, pods, wall, now)
            self._suggestions.histories.pod_changed(old, new, wall)

    @override
    def status_sent(self, write: StatusWrite, now: float) -> None:
        """Note a status write in flight."""
        if self._shadow is not None and write.entry.observed_only:
            self._shadow.status_sent(write, now)
        else:
            super().status_sent(write, now)

    @override
    def status_written(self, write: StatusWrite, now: float, took_seconds: float = 0.0, stored: Mapping[str, object] | None = None) -> None:
        """Note the answer to a status write, successful or not. `stored`: the queue, if it is known to have that status."""
        if self._shadow is not None and write.entry.observed_only:
            self._shadow.status_written(write, now, took_seconds, stored)
        else:
            super().status_written(write, now, took_seconds, stored)

    @override
    def round(self, view: ClusterView, wall: float, now: float) -> RoundPlan:
        """Compute one round of the enforced queues, and in some rounds one of all queues for those that are observed."""
        try:
            plan = super().round(view, wall, now)
        finally:
            self._missed |= self.changed_namespaces
        with self.contained.object("observe", ""):
            self._observe(view, wall, now, plan)
        return plan

    def _observe(self, view: ClusterView, wall: float, now: float, plan: RoundPlan) -> None:
        """Add the statuses and events of observed queues to the plan, if they are due."""
        observed = self.queues.observed
        if not observed:
            self._shadow, self._last_observed, self.slots.observed = None, {}, frozenset()
            self._missed.clear()
            return
        if self._shadow is None:
            config, own_namespace = self._shadow_of
            self._shadow = Engine(config, own_namespace, observing=True)
            self.slots.teach(self._shadow.slots)
        elif now < self._look_at and observed == self._last_observed:
            plan.due = min(plan.due, self._look_at)
            return
        started = time.perf_counter()
        if observed != self._last_observed:
            self._suggestions.watch(frozenset(namespace for _, namespace, _ in observed), wall)
            # The counts from the time when these queues were enforced stay.
            self._shadow.queues.forget(observed.keys() - self._last_observed.keys())
        # the round takes out of `_missed` what it reads
        shadow = self._shadow.round(replace(view, changed_namespaces=self._missed), wall, now)
        self.slots.observed = self._shadow.slots.namespaces
        self._shadow.suggest(self._suggestions, shadow, wall, now)
        self._last_observed = observed
        plan.statuses += shadow.statuses
        plan.events += [(entry, event) for entry, event in shadow.events if entry.observed_only]
        plan.false_conditions |= shadow.false_conditions
        self._look_at = now + max(SHADOW_SECONDS, SHADOW_FACTOR * (time.perf_counter() - started))
        plan.due = min(plan.due, self._look_at)
