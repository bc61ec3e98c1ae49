"""First come, first served, in whole units: who in a line fits into what is left, and who into none of it. Pure; what a unit is, its
caller knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Unit = TypeVar("Unit")
# So many that don't fit are looked past in search of one that needs other resources: 10,000 waiting pods shall not cost a round 10 ms.
LOOK_AHEAD = 1_000


def served(
    line: Iterable[tuple[Unit, Sequence[int]]], level: Sequence[int], room: Sequence[int], smallest: Sequence[int] = ()
) -> list[Unit]:
    """The units of `line`, each with its need, that fit into `room`. All by resource, in thousandths; no unit needs less than `smallest`.

    Who is first but does not fit keeps its place: nobody behind takes what it lacks, nor what it will need of the rest. Who would not fit
    into the whole level is passed over.
    """
    left, chosen, misses = list(room), list[Unit](), 0
    for unit, need in line:
        if any(free < least for free, least in zip(left, smallest, strict=False) if least) or misses > LOOK_AHEAD:
            break
        if all(amount <= free for amount, free in zip(need, left, strict=True) if amount):
            chosen.append(unit)
            left = [free - amount for amount, free in zip(need, left, strict=True)]
            continue
        misses += 1
        if all(amount <= whole for amount, whole in zip(need, level, strict=True)):
            left = [free - amount if amount <= free else 0 for amount, free in zip(need, left, strict=True)]
    return chosen


@dataclass(frozen=True, slots=True)
class Oversize:
    """A unit that is to start whole and needs more of a resource than its queue's whole level, both in resource units."""

    name: str
    resource: str
    need: float
    level: float


def oversize(name: str, need: Mapping[str, float], resources: Sequence[str], level: Sequence[float]) -> Oversize | None:
    """The first resource of which the unit needs more than the level; None for a unit that the level can hold."""
    for resource, whole in zip(resources, level, strict=True):
        amount = need.get(resource, 0.0)
        if amount > whole + 1e-3:  # a millionth of a pod is no reason; a level is compared in whole thousandths
            return Oversize(name, resource, amount, whole)
    return None
