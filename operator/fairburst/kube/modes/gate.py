"""Gate: new pods wait behind a scheduling gate, which `enforce/gate.py` removes by the level. The quota has no limits."""

from __future__ import annotations

from fairburst.kube.modes.mode import Mode

MODE = Mode(
    "Gate",
    "its pods wait behind a scheduling gate.",
    "new pods wait behind a scheduling gate, which the operator removes as the allocation permits; the ResourceQuota has no limits.",
    holds="Pods",
)
