"""Observe: decisions are reported in the queue's status, and nothing else is written (`shadow.py`)."""

from __future__ import annotations

from fairburst.kube.modes.mode import Mode

MODE = Mode(
    "Observe",
    "not at all, decisions are only reported.",
    "enforcement: Observe; decisions are reported, nothing is written.",
    enforced=False,
)
