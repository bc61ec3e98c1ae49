"""Jobs as columns, carried from round to round: only the jobs between the first and the last one that has changed are read again."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from typing_extensions import override

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.dress.values import DemandCategory, Job
from fairburst.policy.errors import InvalidSnapshotError


@dataclass(frozen=True, slots=True, eq=False)
class JobColumns(Sequence[Job]):
    """n jobs in a fixed order, and what a round reads of them.

    service: (submitted, name), the order of service.
    queue: the name of each job's queue.
    request, wanted, used: (n, K), the request where a job has no other amount. `reports`: (n,) whether it says what it uses.
    small: (n,) whether its fixed category is small; `fixed`: (n,) whether it has one.
    stands_for: (n,) the number of jobs that each one represents.
    """

    jobs: list[Job]
    service: list[tuple[float, str]]
    queue: list[str]
    request: FloatArray
    wanted: FloatArray
    used: FloatArray
    reports: BoolArray
    fixed: BoolArray
    small: BoolArray
    stands_for: IntArray

    @classmethod
    def of(cls, jobs: Sequence[Job], width: int, former: JobColumns | None = None) -> JobColumns:
        """Return the columns of jobs that have `width` amounts. `former`: columns of another time; what has not moved is copied from them.

        Raises InvalidSnapshotError if a job's amounts are not `width` finite numbers >= 0.
        """
        if isinstance(jobs, JobColumns) and jobs.request.shape[1] == width:
            return jobs
        if former is None or former.request.shape[1] != width:
            return _read(jobs, width)
        longest = min(len(jobs), len(former))
        first = _same(jobs, former.jobs, longest)
        last = _same(reversed(jobs), reversed(former.jobs), longest - first)
        if first == len(jobs) == len(former):
            return former
        return joined(former.part(0, first), _read(jobs[first : len(jobs) - last], width), former.part(len(former) - last, len(former)))

    def part(self, start: int, stop: int) -> JobColumns:
        """Return the jobs from `start` to before `stop`."""
        return JobColumns(**{name: getattr(self, name)[start:stop] for name in (*_LISTS, *_ARRAYS)})

    def where(self, which: BoolArray) -> JobColumns:
        """Return the jobs of an (n,) mask."""
        kept = which.tolist()
        columns: dict[str, Any] = {name: list(itertools.compress(getattr(self, name), kept)) for name in _LISTS}
        columns |= {name: getattr(self, name)[which] for name in _ARRAYS}
        return JobColumns(**columns)

    @override
    def __len__(self) -> int:
        return len(self.jobs)

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Job]: ...
    @override
    def __getitem__(self, index: int | slice) -> Job | Sequence[Job]:
        return self.jobs[index]

    @override
    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)


_LISTS = ("jobs", "service", "queue")
_ARRAYS = ("request", "wanted", "used", "reports", "fixed", "small", "stands_for")


def joined(*parts: JobColumns) -> JobColumns:
    """Return the jobs of all parts, one part after the other."""
    columns: dict[str, Any] = {name: list(itertools.chain.from_iterable(getattr(part, name) for part in parts)) for name in _LISTS}
    columns |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    return JobColumns(**columns)


def _same(jobs: Iterable[Job], former: Iterable[Job], longest: int) -> int:
    """Return the number of jobs, at most `longest`, that begin both sequences."""
    return next(itertools.compress(range(longest), map(operator.is_not, jobs, former)), longest)


def _read(jobs: Sequence[Job], width: int) -> JobColumns:
    return JobColumns(
        list(jobs),
        [(job.submitted, job.name) for job in jobs],
        [job.queue for job in jobs],
        _stacked(jobs, [job.request for job in jobs], width),
        _stacked(jobs, [job.request if job.wanted is None else job.wanted for job in jobs], width),
        _stacked(jobs, [job.request if job.used is None else job.used for job in jobs], width),
        np.array([job.used is not None for job in jobs], dtype=np.bool_),
        np.array([job.category is not None for job in jobs], dtype=np.bool_),
        np.array([job.category is DemandCategory.SMALL for job in jobs], dtype=np.bool_),
        np.array([job.count for job in jobs], dtype=np.int64),
    )


def _stacked(jobs: Sequence[Job], amounts: Sequence[FloatArray], width: int) -> FloatArray:
    """Stack n vectors into (n, K)."""
    if {amount.shape for amount in amounts} - {(width,)}:
        job, found = next((job.name, amount) for job, amount in zip(jobs, amounts, strict=True) if amount.shape != (width,))
        raise InvalidSnapshotError(f"job {job}: expected {width} amounts, found {found}")
    result: FloatArray = np.concatenate([np.zeros(0), *amounts]).reshape(len(amounts), width)
    odd = np.flatnonzero(~((result >= 0) & (result < np.inf)).all(axis=1))
    if odd.size:
        raise InvalidSnapshotError(f"job {jobs[odd[0]].name}: expected finite amounts >= 0, found {result[odd[0]]}")
    return result
