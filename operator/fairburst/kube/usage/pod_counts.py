"""Amounts in pods of one size. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping


def pods_in(amount: Mapping[str, float], unit: Mapping[str, float]) -> float:
    """Return the amount in pods of the size `unit`, by the scarcest resource; negative if one is overdrawn, 0 without a size."""
    found = min((amount.get(name, 0.0) / size for name, size in unit.items() if size > 0), default=0.0)
    return found if math.isfinite(found) else 0.0
