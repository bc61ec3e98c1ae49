"""The held Jobs of a namespace in the order in which they start. Pure.

A round whose level has changed asks which of them fit, and ten thousand may wait: they are put in order once each time the namespace's work
is read, not in each round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.kube.queues.steps import step_of
from fairburst.kube.workloads.kind import Suspendable
from fairburst.policy.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class HeldJob:
    """Work that is suspended until fairburst starts it, and the requests of all its pods at once, by resource, in resource units.

    has_node: whether some node could hold each of its pods.
    """

    job: Suspendable
    need: Mapping[str, float]
    has_node: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class OrderedJobs:
    """Held Jobs, the next to start first.

    needs: requests of each Job in whole thousandths, rounded up, and as an array (M, K), infinite for a Job that no node could hold.
    total: (K,) requests of all of them, in resource units.
    """

    jobs: tuple[HeldJob, ...]
    needs: tuple[list[int], ...]
    array: FloatArray  # no integers: what a tenant asks for may be beyond 64 bits
    total: FloatArray

    @classmethod
    def of(cls, held: Sequence[HeldJob], resources: Sequence[str]) -> OrderedJobs:
        """Put held Jobs in order."""
        jobs = tuple(sorted(held, key=start_order))
        needs = tuple(milli(one.need, resources) for one in jobs)
        array = np.array(needs, dtype=np.float64).reshape(len(jobs), len(resources))
        array[np.array([not one.has_node for one in jobs], dtype=bool)] = np.inf
        total = np.array([sum(one.need.get(name, 0.0) for one in held) for name in resources], dtype=np.float64)
        return cls(jobs, needs, array, total)

    def within(self, most: Sequence[int]) -> Iterator[tuple[HeldJob, list[int]]]:
        """Yield the Jobs that some node could hold and that need at most so much, with their needs, in order. Thousandths by resource."""
        for at in np.flatnonzero((self.array <= np.array(most, dtype=np.float64)).all(axis=1)).tolist():
            yield self.jobs[at], self.needs[at]


def start_order(one: HeldJob) -> tuple[int, str, str]:
    """Return the sort key of the order in which held Jobs start: by their step of priority, then the oldest first."""
    metadata = one.job.metadata
    return step_of(metadata.labels, one.job.first_template.metadata.labels), metadata.creation_timestamp or "", metadata.name


def milli(amounts: Mapping[str, float], resources: Sequence[str]) -> list[int]:
    """Return whole thousandths, rounded up, so that an amount that fits in part does not fit."""
    return [math.ceil(amounts.get(resource, 0.0) * 1000 - 1e-3) for resource in resources]
