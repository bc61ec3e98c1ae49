"""Plan the evictions of a round for the amounts that queues are owed. Pure, apart from the reclaimer's memory."""

from __future__ import annotations

from fairburst.kube.enforce.reclaim import Cluster, Reclaimer
from fairburst.kube.rounds.cluster_state import ClusterState
from fairburst.kube.rounds.managed import ManagedNamespaces
from fairburst.kube.rounds.view import RoundContext, RoundPlan
from fairburst.policy.arrays import BoolArray


def plan_reclaim(
    round_: RoundContext, reclaimer: Reclaimer, state: ClusterState, managed: ManagedNamespaces, reclaiming: BoolArray, plan: RoundPlan
) -> None:
    """Add the evictions for queues that are `reclaiming`, (N,), to the plan.

    Queues that give are held exactly to their level until the waiting pods are placed.
    """
    view = round_.view
    cluster = Cluster(view.stored_pods, view.pods, view.controllers, view.quotas, state.nodes, state.shapes)
    plan.reclaim = reclaimer.plan(cluster, managed.all, round_.snapshot, round_.result, reclaiming, round_.wall, round_.now)
    managed.hold_back(round_, plan.reclaim.holding)
