"""Suspend: new Jobs are suspended, and `enforce/suspend.py` starts them whole. The quota is at the level, for all other work."""

from __future__ import annotations

from fairburst.kube.modes.mode import Mode

MODE = Mode(
    "Suspend",
    "as Quota, and its Jobs wait suspended until they fit whole.",
    "new Jobs wait suspended until they fit the allocation whole; the namespace's ResourceQuota follows it.",
    holds="Jobs",
)
