"""Which differences between a quota and its target are worth a write at once. Pure.

Amounts by resource, in resource units. `unit`: the requests of the queue's largest pod; 0, or no entry, where its size is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

RAISE_FRACTION = 0.02  # raises below this part of the quota wait for the next one
LOWER_FRACTION = 0.05
ENTITLED_FACTOR = 2.0  # by which an entitlement is larger or smaller than the quota before that is written


def usable_part(amount: Mapping[str, float], unit: Mapping[str, float]) -> dict[str, float]:
    """Return the part of the amounts that pods of the size `unit` can use. A resource that they do not request is left as it is."""
    pods = min((amount[resource] / each for resource, each in unit.items() if each > 0 and resource in amount), default=0.0)
    return {resource: pods * unit[resource] if unit.get(resource, 0.0) > 0 else amount[resource] for resource in amount}


def permits_twice(want: Mapping[str, float], have: Mapping[str, float], unit: Mapping[str, float]) -> bool:
    """Return whether `want` permits twice as many pods of the size `unit` as `have`; twice as much of a resource if no size is known.

    An entitlement is a share of every resource. A queue that has its share of the processors would otherwise be raised for memory alone.
    """
    more, present = usable_part(want, unit), usable_part(have, unit)
    sized = {resource for resource in want if unit.get(resource, 0.0) > 0} or want.keys()
    return any(more[resource] >= ENTITLED_FACTOR * present[resource] > 0 for resource in sized)


def same_amount(left: float, right: float) -> bool:
    """Return whether both amounts are the same, apart from rounding."""
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)


def worth_raising(want: float, have: float, unit: float) -> bool:
    """Return whether the difference is a pod, or a visible part of the quota; any difference if no pod's size is known."""
    return want - have > max(1e-6, min(0.999 * unit, RAISE_FRACTION * want) if unit > 0 else 1e-9 * want)


def worth_lowering(want: float, have: float, unit: float, *, exact: bool) -> bool:
    """Return whether the difference is a pod, and a visible part of the quota unless that has to be `exact`."""
    return have - want > max(1e-6, 0.999 * unit, 0.0 if exact else LOWER_FRACTION * have)
