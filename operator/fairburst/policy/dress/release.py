"""Estimated release (DRESS equations 1, 5 and 9): how much of each resource running jobs will return within a short time.

The paper mixes cumulative functions and amounts. Every result of this module is an amount released in (now, now + ahead].
"""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.learned import Outlook
from fairburst.policy.dress.phases import Phases
from fairburst.policy.dress.values import TaskTable


def released_fraction(phases: Phases, time: float) -> FloatArray:
    """Return (P,) the part of c that has been released by `time`: p(t)/c of equation 9.

    As printed, equation 9 falls back to 0 after γ + Δps although it is cumulative. Here it stays at 1. With Δps = 0 it is a step at γ.
    """
    since = time - phases.first_finish
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(phases.variation > 0, since / phases.variation, np.where(since >= 0, 1.0, 0.0))
    fraction: FloatArray = np.nan_to_num(np.clip(part, 0.0, 1.0), nan=0.0)
    return fraction


def phase_release(phases: Phases, now: float, ahead: float) -> FloatArray:
    """Return (P, R) the amounts that each phase releases in (now, now + ahead]: p(now + ahead) - p(now), at most what runs in it.

    The cap implements equation 5's "0 before α and after β": a job without running tasks releases nothing.
    """
    part = released_fraction(phases, now + ahead) - released_fraction(phases, now)
    return np.minimum(part[:, None] * phases.occupied, phases.running)


def by_phases(phases: Phases, now: float, ahead: float) -> tuple[FloatArray, FloatArray]:
    """Return (F_1, F_2), (R,) each: the paper's estimate for small and large jobs.

    Equation 1 puts A_c inside F and Algorithm 3 adds it again. Here F_1 and F_2 are sums of f only.
    """
    amounts = phase_release(phases, now, ahead)
    return amounts[phases.small].sum(axis=0), amounts[~phases.small].sum(axis=0)


def by_families(outlook: Outlook, ahead: float) -> tuple[FloatArray, FloatArray]:
    """Return (F_1, F_2), (R,) each: the learned estimate, as expected amounts."""
    expected = outlook.ending_chance(ahead)[:, None] * outlook.request
    small = expected[outlook.small].sum(axis=0)
    return small, expected.sum(axis=0) - small


def actual_release(tasks: TaskTable, since: float, until: float) -> FloatArray:
    """Return (R,) the amount that tasks running at `since` released in (since, until]. Tasks that started later, after the prediction, are
    excluded.
    """
    with np.errstate(invalid="ignore"):
        gone = (tasks.started < since) & (tasks.ended > since) & (tasks.ended <= until)
    amount: FloatArray = tasks.request[gone].sum(axis=0)
    return amount
