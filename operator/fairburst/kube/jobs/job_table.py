"""The jobs of all namespaces as columns, carried from round to round. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairburst.kube.jobs.job_part import NamespaceJobs
from fairburst.policy.arrays import IntArray
from fairburst.policy.dress.job_columns import JobColumns, QueueNumbers
from fairburst.policy.dress.values import Job

FEW = 100  # namespaces: to read as many one by one takes as long as to read ten thousand at once


class JobTable:
    """The jobs that wait and those that run, namespace after namespace. `jobs` by namespace; each has `width` amounts."""

    def __init__(self, jobs: Mapping[str, NamespaceJobs], width: int) -> None:
        numbers = QueueNumbers()
        self._place = {namespace: place for place, namespace in enumerate(jobs)}
        self._pending = _Part.of([one.pending for one in jobs.values()], width, numbers)
        self._running = _Part.of([_started(one) for one in jobs.values()], width, numbers)

    @property
    def pending(self) -> JobColumns:
        """The jobs that wait."""
        return self._pending.columns

    @property
    def running(self) -> JobColumns:
        """The jobs that run, bare pods included."""
        return self._running.columns

    def follows(self, changed: Collection[str]) -> bool:
        """Return whether `update` can apply changes of these namespaces, and costs less than a new table."""
        return len(changed) <= FEW and self._place.keys() >= set(changed)

    def update(self, changed: Mapping[str, NamespaceJobs]) -> None:
        """Replace the jobs of these namespaces. O(n) copies of numbers; the jobs of other namespaces are not read."""
        places = sorted(((self._place[namespace], jobs) for namespace, jobs in changed.items()), key=lambda placed: placed[0])
        self._pending = self._pending.replaced([(place, jobs.pending) for place, jobs in places])
        self._running = self._running.replaced([(place, _started(jobs)) for place, jobs in places])


@dataclass(frozen=True, slots=True)
class _Part:
    """The waiting or the running jobs. counts: their number by namespace."""

    columns: JobColumns
    counts: IntArray

    @classmethod
    def of(cls, jobs: Sequence[Sequence[Job]], width: int, numbers: QueueNumbers) -> _Part:
        counts = np.array([len(each) for each in jobs], dtype=np.int64)
        return cls(JobColumns.of(list(itertools.chain.from_iterable(jobs)), width, numbers), counts)

    def replaced(self, changed: Sequence[tuple[int, Sequence[Job]]]) -> _Part:
        """Return the part with other jobs at some places, in ascending order."""
        ends = np.cumsum(self.counts)
        counts = self.counts.copy()
        spans = []
        for place, jobs in changed:
            spans.append((int(ends[place] - counts[place]), int(ends[place]), jobs))
            counts[place] = len(jobs)
        return _Part(self.columns.replaced(spans), counts)


def _started(jobs: NamespaceJobs) -> tuple[Job, ...]:
    return jobs.running + jobs.bare_running
