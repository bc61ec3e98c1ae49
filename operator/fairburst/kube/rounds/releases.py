"""Plan the releases of held work: gated pods and suspended Jobs of the touched namespaces. Pure, apart from the last levels."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fairburst.kube.enforce.gate import GateLevel, UngatePlanner
from fairburst.kube.enforce.holds import gate_level, job_starts
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.rounds.differences import PATIENCE_SECONDS, Agenda
from fairburst.kube.rounds.managed import ManagedNamespaces
from fairburst.kube.rounds.view import RoundContext, RoundPlan


class ReleaseRounds:
    """Releases held work by its queue's level, or all of it where no queue holds work."""

    def __init__(self, gates: UngatePlanner, reserve: Reserve | None, agenda: Agenda) -> None:
        self._gates = gates
        self._reserve = reserve
        self._agenda = agenda
        self._levels: dict[str, GateLevel] = {}

    def plan(
        self,
        round_: RoundContext,
        managed: ManagedNamespaces,
        items: Sequence[ManagedNamespace],
        plan: RoundPlan,
        *,
        suspending: Collection[str],
    ) -> None:
        """Add the releases to the plan. `suspending`: the spaces of all queues that hold Jobs."""
        waiting, resources = self._gates.gated.waiting(), round_.snapshot.resources
        for namespace in round_.touched:
            self._levels.pop(namespace, None)
        for item in (*items, *managed.of(waiting)):
            if item.row is not None and item.mode.holds == "Pods":
                self._levels[item.namespace] = gate_level(item, round_.result, resources, waiting=item.namespace in waiting)
        plan.ungates, due = self._gates.plan(self._levels, round_.left_alone, round_.view.pods, round_.now)
        plan.due = min(plan.due, due)
        for item in items:
            if self._reserve is not None and item.entry is not None and item.row is not None and item.mode.holds == "Jobs":
                item.parts = self._reserve.level_parts(item.entry, item.row, item.level, round_.result, round_.now)
                if item.parts is not None:
                    self._agenda.put(item.namespace, self._reserve.divided_until(item.namespace), PATIENCE_SECONDS)
        controllers = round_.view.controllers
        plan.starts = job_starts(
            items,
            lambda job: controllers.space_of(job) in suspending,
            round_.result,
            resources,
            controllers.noted_jobs(),
            round_.left_alone,
        )
