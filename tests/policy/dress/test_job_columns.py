"""Columns of jobs that are carried from round to round, against columns that are read afresh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.dress import job_columns
from fairburst.policy.dress.job_columns import JobColumns, QueueNumbers, joined
from fairburst.policy.dress.values import DemandCategory, Job
from fairburst.policy.errors import InvalidSnapshotError

QUEUES = ["ns/a", "ns/b", "ns/c"]
ROW_OF = {"ns/b": 0, "ns/a": 1}

amounts = st.lists(st.integers(0, 9).map(float), min_size=2, max_size=2).map(np.array)
jobs = st.builds(
    Job,
    st.sampled_from("abcd"),
    st.sampled_from(QUEUES),
    st.integers(0, 5).map(float),
    amounts,
    st.sampled_from([None, *DemandCategory]),
    st.none() | amounts,
    st.none() | amounts,
    count=st.integers(1, 3),
)


def read(listed: list[Job]) -> JobColumns:
    return JobColumns.of(listed, 2, QueueNumbers())


def equal(one: JobColumns, other: JobColumns) -> bool:
    """Whether all columns are equal; those of queues by the rows that they lead to."""
    rows = [columns.numbers.rows(ROW_OF)[columns.queue] for columns in (one, other)]
    names = [name for name in job_columns._ARRAYS if name != "queue"]
    same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    return same and one.jobs == other.jobs and np.array_equal(*rows)


@given(st.lists(jobs, max_size=12), st.data())
def test_columns_carried_over_any_changes_are_those_read_afresh(listed: list[Job], data: st.DataObject) -> None:
    carried = read(listed)
    for _ in range(4):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(listed)), min_size=4, max_size=4)))
        spans = [(cuts[at], cuts[at + 1], data.draw(st.lists(jobs, max_size=3))) for at in (0, 2)]
        carried = carried.replaced(spans)
        listed = [*listed[: cuts[0]], *spans[0][2], *listed[cuts[1] : cuts[2]], *spans[1][2], *listed[cuts[3] :]]
        assert equal(carried, read(listed))


@given(st.lists(jobs, max_size=12), st.data())
def test_a_mask_keeps_the_columns_of_its_jobs(listed: list[Job], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(listed), max_size=len(listed)))
    masked = read(listed).where(np.array(kept, dtype=np.bool_))
    assert equal(masked, read([job for job, keep in zip(listed, kept, strict=True) if keep]))


def test_each_job_has_the_row_of_its_queue_and_none_if_the_queue_does_not_exist() -> None:
    numbers = QueueNumbers()
    first, second = (JobColumns.of([Job("job", queue, 0.0, np.ones(2))], 2, numbers) for queue in ("ns/a", "ns/gone"))
    columns = joined(first, second)
    assert numbers.rows({"ns/a": 3})[columns.queue].tolist() == [3, -1]
    assert numbers.rows({"ns/gone": 0})[columns.queue].tolist() == [-1, 0]


def test_only_the_jobs_that_have_changed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand jobs, one of which is another: a round must not pay for the others."""
    former = read([Job(f"job-{number}", "ns/a", 0.0, np.ones(2)) for number in range(10_000)])
    read_again, whole = list[int](), job_columns._read
    monkeypatch.setattr(job_columns, "_read", lambda found, *rest: read_again.append(len(found)) or whole(found, *rest))
    former.replaced([(7000, 7001, [Job("job-7000", "ns/a", 0.0, np.ones(2), used=np.ones(2))])])
    assert read_again == [1]


@pytest.mark.parametrize("odd", [np.ones(3), np.array([1.0, np.nan]), np.array([-1.0, 0.0])], ids=["too many", "no number", "negative"])
def test_odd_amounts_are_refused_with_the_jobs_name(odd: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with pytest.raises(InvalidSnapshotError, match="job odd: expected"):
        read([Job("fine", "ns/a", 0.0, np.ones(2)), Job("odd", "ns/a", 0.0, odd)])
