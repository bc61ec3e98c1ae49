"""Jobs as columns, carried from round to round: only the jobs that have changed are read again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from typing_extensions import override

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from fairburst.policy.dress.values import DemandCategory, Job
from fairburst.policy.errors import InvalidSnapshotError


class QueueNumbers:
    """Numbers of queues in the order of their first job. Columns that are joined share them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._row_of: Mapping[str, int] = {}
        self._rows: IntArray = np.zeros(0, dtype=np.int64)

    def of(self, jobs: Sequence[Job]) -> IntArray:
        """Return (n,) the numbers of the jobs' queues."""
        numbers = self._numbers
        return np.array([numbers.setdefault(job.queue, len(numbers)) for job in jobs], dtype=np.int64)

    def rows(self, row_of: Mapping[str, int]) -> IntArray:
        """Return the row of each numbered queue, -1 if it has none. `row_of` is read again only if it is another object."""
        if row_of is not self._row_of or len(self._rows) != len(self._numbers):
            self._row_of = row_of
            self._rows = np.array([row_of.get(name, -1) for name in self._numbers], dtype=np.int64)
        return self._rows


@dataclass(frozen=True, slots=True, eq=False)
class JobColumns(Sequence[Job]):
    """n jobs in a fixed order, and what a round reads of them.

    name: (n,) the jobs' names. queue: (n,) the number of each job's queue in `numbers`.
    submitted: (n,) seconds since the epoch.
    request, wanted, used: (n, K), the request where a job has no other amount. `reports`: (n,) whether it says what it uses.
    small: (n,) whether its fixed category is small; `fixed`: (n,) whether it has one.
    stands_for: (n,) the number of jobs that each one represents.
    """

    jobs: list[Job]
    numbers: QueueNumbers
    name: ObjectArray
    queue: IntArray
    submitted: FloatArray
    request: FloatArray
    wanted: FloatArray
    used: FloatArray
    reports: BoolArray
    fixed: BoolArray
    small: BoolArray
    stands_for: IntArray

    @classmethod
    def of(cls, jobs: Sequence[Job], width: int, numbers: QueueNumbers) -> JobColumns:
        """Return the columns of jobs that have `width` amounts.

        Raises InvalidSnapshotError if a job's amounts are not `width` finite numbers >= 0.
        """
        if isinstance(jobs, JobColumns) and jobs.numbers is numbers and jobs.request.shape[1] == width:
            return jobs
        return _read(jobs, width, numbers)

    def replaced(self, spans: Sequence[tuple[int, int, Sequence[Job]]]) -> JobColumns:
        """Return the columns with other jobs instead of those from `start` to before `stop`, for each of the ascending spans.

        Raises InvalidSnapshotError as `of` does.
        """
        fresh = _read([job for *_, jobs in spans for job in jobs], self.request.shape[1], self.numbers)
        pieces, at, taken = list[tuple[JobColumns, slice]](), 0, 0
        for start, stop, new in spans:
            pieces += [(self, slice(at, start)), (fresh, slice(taken, taken + len(new)))]
            at, taken = stop, taken + len(new)
        pieces.append((self, slice(at, len(self))))
        return _of_pieces(pieces)

    def where(self, which: BoolArray) -> JobColumns:
        """Return the jobs of an (n,) mask."""
        jobs = list(itertools.compress(self.jobs, which.tolist()))
        return JobColumns(jobs, self.numbers, *(getattr(self, name)[which] for name in _ARRAYS))

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


_ARRAYS = ("name", "queue", "submitted", "request", "wanted", "used", "reports", "fixed", "small", "stands_for")


def joined(*parts: JobColumns) -> JobColumns:
    """Return the jobs of all parts, one part after the other. All have the same numbers."""
    parts = tuple(part for part in parts if len(part)) or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return _of_pieces([(part, slice(None)) for part in parts])


def _of_pieces(pieces: Sequence[tuple[JobColumns, slice]]) -> JobColumns:
    """Return the jobs of these slices, one after the other."""
    jobs = list(itertools.chain.from_iterable(part.jobs[piece] for part, piece in pieces))
    arrays = (np.concatenate([getattr(part, name)[piece] for part, piece in pieces]) for name in _ARRAYS)
    return JobColumns(jobs, pieces[0][0].numbers, *arrays)


def _read(jobs: Sequence[Job], width: int, numbers: QueueNumbers) -> JobColumns:
    return JobColumns(
        list(jobs),
        numbers,
        np.array([job.name for job in jobs], dtype=np.object_),
        numbers.of(jobs),
        np.array([job.submitted for job in jobs], dtype=np.float64),
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
