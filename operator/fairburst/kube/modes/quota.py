"""Quota, the default: the API server refuses pods above the level, and their controllers try again."""

from __future__ import annotations

from fairburst.kube.modes.mode import Mode

MODE = Mode(
    "Quota", "a ResourceQuota in its namespace.", "the namespace's ResourceQuota follows the allocation.", entitled=True, divided=True
)
