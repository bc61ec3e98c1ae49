"""A queue's elastic jobs in its status and its condition. Pure. Bounded: a few jobs are named, the others are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fairburst.kube.enforce.enforceability import NAMED_AT_MOST
from fairburst.kube.jobs.elastic_jobs import JobProblem
from fairburst.kube.jobs.elasticity import JobView, QueueView
from fairburst.kube.queues.core_values import to_amounts
from fairburst.kube.queues.job_annotations import parallelism_of
from fairburst.kube.views.conditions import ConditionValue
from fairburst.policy.paf.jobs import SlotReason
from fairburst.telemetry.metrics import ElasticFigures

MILLI = 1000


def status_part(view: QueueView, resources: tuple[str, ...], named_at_most: int) -> dict[str, Any]:
    """Return `status.elasticity`: sums over all of the queue's jobs, and by name the jobs whose slots differ most from the fair ones."""
    ranked = sorted(view.jobs, key=lambda one: (-abs(one.decision.given - one.decision.fair), -one.decision.fair, one.decision.job))
    part: dict[str, Any] = {
        "mode": view.elasticity.mode,
        "fairnessPercent": round(view.fairness_knob * 100),
        "jobs": len(view.jobs),
        "fair": sum(one.decision.fair for one in view.jobs),
        "given": sum(one.decision.given for one in view.jobs),
        "byReason": dict(sorted(Counter(one.decision.reason for one in view.jobs).items())),
        "mostAffected": [_job(one) for one in ranked[:named_at_most]],
    }
    if view.moved is not None:
        part["moved"] = to_amounts({name: float(amount) for name, amount in zip(resources, view.moved, strict=True)})
    return part


def _job(one: JobView) -> dict[str, Any]:
    decision = one.decision
    rates = {"predictedFairMilli": decision.predicted_fair, "predictedMilli": decision.predicted, "measuredMilli": one.measured}
    return {
        "name": one.candidate.job.metadata.name,
        "fair": decision.fair,
        "given": decision.given,
        "parallelism": parallelism_of(one.candidate.job),
        **{name: round(rate * MILLI) for name, rate in rates.items() if rate is not None},
        "reason": decision.reason,
    }


def condition(view: QueueView) -> ConditionValue:
    """Return `Elastic`: False while the queue's curve, a job's annotations or its curve are unusable, with the first few jobs by name."""
    wrong = [problem for problem in view.problems if problem.reason != "ForeignManager"]
    if view.curve_problem is not None or wrong:
        return _what_is_wrong(view.curve_problem, wrong)
    alone = len(view.problems) - len(wrong)
    left = f" {alone} sized by another client stay as they are." if alone else ""
    said = f"slots are divided by what they are worth, with mode: {view.elasticity.mode}.{left}"
    return ConditionValue("Elastic", "True", "Divided", said)


def _what_is_wrong(curve_problem: str | None, problems: Sequence[JobProblem]) -> ConditionValue:
    reasons, said = [problem.reason for problem in problems], []
    if curve_problem is not None:
        reasons.insert(0, SlotReason.CURVE_REFUSED.value)
        said.append(f"spec.elasticity.curve: {curve_problem}. Jobs without a curve of their own keep their fair share.")
    said += [f"Job {problem.name}: {problem.message}" for problem in problems[:NAMED_AT_MOST]]
    if len(problems) > NAMED_AT_MOST:
        said.append(f"And {len(problems) - NAMED_AT_MOST} more.")
    if problems:
        said.append("Each keeps its fair share.")
    return ConditionValue("Elastic", "False", reasons[0], " ".join(said))


def figures(view: QueueView) -> ElasticFigures:
    """Return the queue's figures for the metrics."""
    return ElasticFigures(
        sum(one.decision.fair for one in view.jobs),
        sum(one.decision.given for one in view.jobs),
        _mean([one.decision.predicted_fair for one in view.jobs]),
        _mean([one.decision.predicted for one in view.jobs]),
        Counter(one.decision.reason for one in view.jobs),
    )


def _mean(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if known else None
