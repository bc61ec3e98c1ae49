"""FIFO admission of whole units (pods, groups, Jobs) into the room that is left. Pure; callers define a unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Unit = TypeVar("Unit")
# Most units that are skipped in search of one that fits. It bounds the cost: 10,000 waiting pods took 10 ms.
LOOK_AHEAD = 1_000


def admit_in_order(
    waiting: Iterable[tuple[Unit, Sequence[int]]], level: Sequence[int], room: Sequence[int], smallest: Sequence[int] = ()
) -> list[Unit]:
    """Return the units of `waiting`, in its order, that fit into `room`.

    Needs and room by resource, in thousandths; no unit needs less than `smallest`.
    The first unit that does not fit keeps its place: later units get neither the resource that it lacks nor its share of the others. A unit
    that is larger than the whole level is skipped, also where there is more room than that.
    """
    left, chosen, misses = list(room), list[Unit](), 0
    units = iter(waiting)
    while misses <= LOOK_AHEAD and not _takes_none(left, smallest):  # before the next unit is built
        unit, need = next(units, (None, ()))
        if unit is None:
            break
        larger = any(amount > whole for amount, whole in zip(need, level, strict=True))
        if not larger and all(amount <= free for amount, free in zip(need, left, strict=True) if amount):
            chosen.append(unit)
            left = [free - amount for amount, free in zip(need, left, strict=True)]
            continue
        misses += 1
        if not larger:
            left = [free - amount if amount <= free else 0 for amount, free in zip(need, left, strict=True)]
    return chosen


def _takes_none(left: Sequence[int], smallest: Sequence[int]) -> bool:
    """Return whether no unit fits into what is left."""
    return any(free < least for free, least in zip(left, smallest, strict=False) if least)


@dataclass(frozen=True, slots=True)
class Oversize:
    """A unit that is to start whole and needs more of a resource than its queue's whole level, both in resource units."""

    name: str
    resource: str
    need: float
    level: float


def oversize(name: str, need: Mapping[str, float], resources: Sequence[str], level: Sequence[float]) -> Oversize | None:
    """Return the first resource of which the unit needs more than the level; None for a unit that fits the level."""
    for resource, whole in zip(resources, level, strict=True):
        amount = need.get(resource, 0.0)
        if amount > whole + 1e-3:  # levels are compared in whole thousandths, to ignore rounding
            return Oversize(name, resource, amount, whole)
    return None
