"""Choose the held Jobs to start: whole, in order, when their full demand fits the queue's level. Pure; `apply.py` sends.

The admission policy holds a Job at its creation by `spec.suspend` and a note of ours. A Job that its user suspends later has no note and
is left alone. All held Jobs start in a namespace whose queue has left Suspend mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairburst.kube.enforce.fifo_admission import Oversize, admit_in_order, oversize
from fairburst.kube.enforce.gate import milli_level
from fairburst.kube.names import HELD_ANNOTATION, RELEASED_ANNOTATION
from fairburst.kube.times import from_epoch
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.start_order import HeldJob, milli
from fairburst.kube.workloads.job import is_held
from fairburst.kube.workloads.kind import Suspendable


@dataclass(frozen=True, slots=True)
class JobStart:
    """A Job or JobSet (`kind`) to start, or one that another client has started: either way our note is removed. Valid for one version."""

    kind: str
    namespace: str
    name: str
    resource_version: str

    def patch(self, wall: float) -> dict[str, Any]:
        """Return the merge patch. `wall`: seconds since the epoch."""
        noted = {HELD_ANNOTATION: None, RELEASED_ANNOTATION: from_epoch(wall).isoformat().replace("+00:00", "Z")}
        return {"metadata": {"annotations": noted, "resourceVersion": self.resource_version}, "spec": {"suspend": False}}


@dataclass(frozen=True, slots=True)
class LevelParts:
    """Division of a level between small and large Jobs.

    small, large: the parts by resource, in resource units. small_owners: uids of the controllers whose pods are small.
    """

    small: Sequence[float]
    large: Sequence[float]
    small_owners: frozenset[str]


def starts(
    demand: NamespaceDemand, resources: Sequence[str], level: Sequence[float], early: Sequence[float], parts: LevelParts | None = None
) -> list[JobStart]:
    """Return the held Jobs of one queue in Suspend mode that fit in addition to everything else that its namespace wants.

    Small Jobs start first, up to their part; a part always has room for the first Job that waits for it. `early`: how far the started
    Jobs together may exceed the level, because some of their pods wait for the last pods of earlier Jobs. A Job that is larger than the
    level does not start, nor does one with a pod that no node could hold. Amounts in resource units.
    """
    most_of_one, whole, ordered = milli_level(level), _raised(level, early), demand.jobs_in_order()
    claimed = {name: demand.demand.get(name, 0.0) - held for name, held in zip(resources, ordered.total.tolist(), strict=True)}
    room = [free - taken for free, taken in zip(whole, milli(claimed, resources), strict=True)]
    if parts is None:
        return [_start(one.job) for one in admit_in_order(ordered.within(most_of_one), whole, room)]
    small_claim = milli(_claimed_by(demand, parts.small_owners), resources)
    large_claim = [total - small for total, small in zip(milli(claimed, resources), small_claim, strict=True)]
    fitting, chosen = list(ordered.within(most_of_one)), list[HeldJob]()
    for is_small, part, claim in ((True, parts.small, small_claim), (False, parts.large, large_claim)):
        waiting = [(one, need) for one, need in fitting if (one.job.metadata.uid in parts.small_owners) is is_small]
        if not waiting:
            continue
        most = [min(max(own, first), all_) for own, first, all_ in zip(_raised(part, early), waiting[0][1], whole, strict=True)]
        found = admit_in_order(waiting, most, [min(free, own - taken) for free, own, taken in zip(room, most, claim, strict=True)])
        chosen += found
        room = [free - sum(column) for free, *column in zip(room, *(milli(one.need, resources) for one in found), strict=True)]
    return [_start(one.job) for one in chosen]


def _claimed_by(demand: NamespaceDemand, owners: frozenset[str]) -> dict[str, float]:
    """Return the demand of these controllers, apart from held Jobs, by resource."""
    total, held = dict[str, float](), {one.job.metadata.uid for one in demand.held}
    for desired in demand.desired_pods:
        owner = desired.owner
        if owner.uid in owners and owner.uid not in held:
            for name, amount in owner.requests.items():
                total[name] = total.get(name, 0.0) + max(owner.wanted, owner.existing) * amount
    return total


def too_large(demand: NamespaceDemand, resources: Sequence[str], level: Iterable[float]) -> list[Oversize]:
    """Return the held Jobs that are larger than the queue's level: they are skipped until it has grown. `level` in resource units."""
    whole = list(level)
    found = [oversize(_name(one.job), one.need, resources, whole) for one in demand.held if one.has_node]
    return [one for one in found if one is not None]


def unheld_starts(noted: Iterable[Suspendable], is_holding: Callable[[Suspendable], bool], left_alone: Iterable[str]) -> list[JobStart]:
    """Return the starts of noted Jobs and JobSets that are no longer held: their queue has left Suspend mode, or they run already.

    `noted`: all of them with the note; `is_holding`: whether the queue of one is in Suspend mode; `left_alone`: where others decide.
    """
    skip = set(left_alone)
    free = [job for job in noted if job.metadata.namespace not in skip and not (is_held(job) and is_holding(job))]
    return [_start(job) for job in free if job.metadata.deletion_timestamp is None and not job.finished]


def _start(job: Suspendable) -> JobStart:
    return JobStart(kind_of(job), job.metadata.namespace, job.metadata.name, job.metadata.resource_version)


def _name(job: Suspendable) -> str:
    return f"{kind_of(job)} {job.metadata.namespace}/{job.metadata.name}"


def kind_of(job: Suspendable) -> str:
    """Return the Kubernetes kind of an object that Suspend mode holds."""
    return type(job).__name__  # an item's class is named as its kind


def _raised(level: Sequence[float], early: Sequence[float]) -> tuple[int, ...]:
    return milli_level(amount + more for amount, more in zip(level, early, strict=True))
