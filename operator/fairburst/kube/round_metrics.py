"""Metrics of a round that has ended: views of its decisions."""

from __future__ import annotations

import time

from fairburst.kube.caches import Caches
from fairburst.kube.engine import Engine
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.views.elastic_view import figures
from fairburst.telemetry.metrics import Metrics


def show_round(metrics: Metrics, plan: RoundPlan, engine: Engine, caches: Caches, *, job_runs_unreadable: bool) -> None:
    """Count the errors that were contained. Where statuses were computed, publish their queues, the jobs and the watches too."""
    for step, count in engine.contained.failures.items():
        metrics.contained_failures.labels(step).inc(count)
    engine.contained.failures.clear()
    if not plan.statuses_planned:
        return
    _show_queues(metrics, plan, engine)
    if plan.result.dress is not None:
        metrics.show_reserve(plan.result.dress)
    metrics.show_elasticity({name: figures(view) for name, view in plan.elastic.queues.items()})
    learned = engine.slots.learned
    metrics.show_families(len(learned.curves), len(learned.refusals), unreadable=job_runs_unreadable)
    metrics.show_watches(caches.queues.restarts, {informer.path: informer.lists for informer in caches.informers()})


def _show_queues(metrics: Metrics, plan: RoundPlan, engine: Engine) -> None:
    shares = plan.dominant_shares([row for row, _ in plan.shown]).tolist()
    for (_, decision), (allocated, used, pending) in zip(plan.shown, shares, strict=True):
        remembered = engine.memory.entry(decision.queue)
        metrics.queues.show(
            decision,
            allocated=allocated,
            used=used,
            pending=pending,
            met=remembered.met,
            missed=remembered.missed,
            false_conditions=plan.false_conditions.get(decision.queue, set()),
            wall=time.time(),
        )
    if plan.shows_all:
        names = ((*spec.name.partition("/"), spec.kind.value) for spec in plan.queue_set.specs)
        metrics.queues.forget({(namespace, name, kind) for namespace, _, name, kind in names})
