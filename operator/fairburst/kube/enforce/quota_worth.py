"""Which differences between a quota and its target are worth a write at once. Pure.

Amounts by resource, in resource units. `unit`: the requests of the queue's largest pod; 0, or no entry, where its size is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fairburst.kube.usage.pod_counts import pods_in

RAISE_FRACTION = 0.02  # raises below this part of the quota wait for the next one
LOWER_FRACTION = 0.05
WAITING_FRACTION = 0.5  # of what a quota still admits: less slack than this is added only later
ENTITLED_FACTOR = 2.0  # by which an entitlement is larger or smaller than the quota before that is written


def usable_part(amount: Mapping[str, float], unit: Mapping[str, float], used: Mapping[str, float]) -> dict[str, float]:
    """Return the part of the amounts that pods of the size `unit` can use. A resource that they do not request is left as it is.

    What is `used`, and a pod more, is usable in any case: pods may be of several sizes, and `unit` has the largest of each resource.
    """
    pods = pods_in(amount, unit)
    return {
        resource: most if (each := unit.get(resource, 0.0)) <= 0 else max(pods * each, min(most, used.get(resource, 0.0) + each))
        for resource, most in amount.items()
    }


def permits_twice(want: Mapping[str, float], have: Mapping[str, float], unit: Mapping[str, float]) -> bool:
    """Return whether `want` permits twice as many pods of the size `unit` as `have`; twice as much of a resource if no size is known.

    An entitlement is a share of every resource. A queue that has its share of the processors would otherwise be raised for memory alone.
    """
    if not any(each > 0 for each in unit.values()):
        return any(want[resource] >= ENTITLED_FACTOR * have[resource] > 0 for resource in want)
    return pods_in(want, unit) >= ENTITLED_FACTOR * pods_in(have, unit) > 0


def same_amount(left: float, right: float) -> bool:
    """Return whether both amounts are the same, apart from rounding."""
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)


def worth_raising(want: float, have: float, unit: float) -> bool:
    """Return whether the difference is a pod, or a visible part of the quota; any difference if no pod's size is known."""
    return want - have > max(1e-6, min(0.999 * unit, RAISE_FRACTION * want) if unit > 0 else 1e-9 * want)


def raises(want: Mapping[str, float], have: Mapping[str, float], unit: Mapping[str, float]) -> bool:
    """Return whether `want` is worth raising a quota of `have` to, for any resource."""
    return any(worth_raising(amount, have.get(name, 0.0), unit.get(name, 0.0)) for name, amount in want.items())


def raise_is_due(
    want: Mapping[str, float], have: Mapping[str, float], used: Mapping[str, float], unit: Mapping[str, float],
    level: Mapping[str, float], *, opening: bool,
) -> bool:  # fmt: skip
    """Return whether a quota should be raised now: to a level above it always, for slack alone once that matters beside what the quota
    still admits. Further pods take that first. `opening`: its burst has just begun, and nothing is raised for slack alone.
    """
    if raises(level, have, unit):
        return True
    return not opening and any(
        worth_raising(most, have[name], unit.get(name, 0.0))
        and most - have[name] >= WAITING_FRACTION * (have[name] - used.get(name, 0.0)) - 1e-9
        for name, most in want.items()
    )


def worth_lowering(want: float, have: float, unit: float, *, exact: bool) -> bool:
    """Return whether the difference is a pod, and a visible part of the quota unless that has to be `exact`."""
    return have - want > max(1e-6, 0.999 * unit, 0.0 if exact else LOWER_FRACTION * have)
