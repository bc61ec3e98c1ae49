"""Components under test, with their metrics and the failures that they report."""

from __future__ import annotations

from typing import Any

from fairburst.telemetry.metrics import Metrics


def value(metrics: Any, name: str, **labels: str) -> float:
    """Return a sample of metrics by its name and labels; 0 if there is none."""
    return metrics.registry.get_sample_value(name, labels) or 0.0


class Measured:
    """Metrics for one component, and how often it has asked for a round after a failure."""

    def __init__(self) -> None:
        self.metrics, self.failures = Metrics(), 0

    def fail(self) -> None:
        self.failures += 1

    def writes(self, kind: str, result: str) -> float:
        return value(self.metrics, "fairburst_writes_total", kind=kind, result=result)
