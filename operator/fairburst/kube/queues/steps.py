"""Steps of priority within a queue: a label says whose work starts first where the operator orders work, in Gate and Suspend mode. Pure.

A step orders the work of one queue only. The queue's share, and the order between queues, do not depend on it.
docs/decisions/0270-steps-of-priority-within-a-queue.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairburst.kube.names import STEP_LABEL

STEPS = ("high", "normal", "low")
NORMAL = STEPS.index("normal")


def step_of(*labels: Mapping[str, str] | None) -> int:
    """Return the place of an object's step, 0 for the first. The first of its labels that names a step counts; it is normal without one."""
    named = (one[STEP_LABEL] for one in labels if one and one.get(STEP_LABEL) in STEPS)
    return STEPS.index(next(named, STEPS[NORMAL]))
