"""The input from which a status is written, for a queue that remembers something."""

from __future__ import annotations

import math

import numpy as np

from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.views.conditions import ConditionValue
from fairburst.kube.views.status import StatusInput
from fairburst.policy.model import (
    AdmissionDecision,
    Burst,
    GuaranteeClass,
    QueueDecision,
    QueueKind,
    QueueMemory,
    QueueSpec,
    Sporadic,
    Window,
    WindowState,
)
from tests.support.objects import WALL, stored_queue

RESOURCES = ("cpu", "memory")
NAME = "burst/queue"
PRIORITY = {"className": "fairburst-hard", "value": 2000, "preemptionPolicy": "Never"}


def latency_memory() -> QueueMemory:
    """An armed sporadic queue that has received nothing."""
    spec = QueueSpec(NAME, QueueKind.LATENCY, (WALL, NAME), 1.0, Burst({"cpu": 4.0}, 10.0, 10.0), Sporadic(60.0))
    decision = AdmissionDecision(NAME, GuaranteeClass.HARD, "Fits", "all fits.", None, None, None)
    return QueueMemory(
        promise=spec,
        guarantee_class=GuaranteeClass.HARD,
        admission_order=0,
        decision=decision,
        window=Window(WindowState.ARMED, 0, WALL, math.inf, None, None),
        period_started=WALL,
        last_opened=WALL,
        ledger_as_of=WALL,
        fair_rate=0.5,
        fair_as_of=WALL,
    )


def status_input(memory: QueueMemory, reason: str = "Ready") -> StatusInput:
    obj = stored_queue("LatencyQueue", "burst", "queue")
    entry = QueueEntry(("LatencyQueue", "burst", "queue"), "uid", 3, obj, None, memory.promise, None, governs=True)
    zeros = np.zeros(2)
    assert memory.decision is not None
    decision = QueueDecision(
        queue=NAME,
        kind=memory.promise.kind,
        guarantee_class=memory.guarantee_class,
        admission=memory.decision,
        allocation=np.array([1.5, 2.0**30]),
        guaranteed=zeros,
        spare=zeros,
        level=zeros,
        window=memory.window,
        share=0.25,
        ledger=0.0,
        charge_rate=0.0,
        debt=memory.debt,
        budget=3.0,
        consumed=1.0,
        fair_share_of_period=9.0,
        reason="x",
        message="y",
    )
    conditions = [ConditionValue("Ready", "True", reason, "the queue is served.")]
    return StatusInput(entry, conditions, decision, memory, zeros, zeros, PRIORITY)
