"""Columns of jobs that are carried from round to round, against columns that are read afresh."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.dress import job_columns
from fairburst.policy.dress.job_columns import JobColumns
from fairburst.policy.dress.values import DemandCategory, Job
from fairburst.policy.errors import InvalidSnapshotError

amounts = st.lists(st.integers(0, 9).map(float), min_size=2, max_size=2).map(np.array)
jobs = st.builds(
    Job,
    st.sampled_from("abcd"),
    st.sampled_from(["ns/a", "ns/b"]),
    st.integers(0, 5).map(float),
    amounts,
    st.sampled_from([None, *DemandCategory]),
    st.none() | amounts,
    st.none() | amounts,
    count=st.integers(1, 3),
)


def equal(one: JobColumns, other: JobColumns) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(JobColumns))


@given(st.lists(jobs, max_size=12), st.data())
def test_columns_carried_over_any_changes_are_those_read_afresh(listed: list[Job], data: st.DataObject) -> None:
    carried = JobColumns.of(listed, 2)
    for _ in range(4):
        at, gone, come = data.draw(st.integers(0, len(listed))), data.draw(st.integers(0, 3)), data.draw(st.lists(jobs, max_size=3))
        listed = [*listed[:at], *come, *listed[at + gone :]]
        carried = JobColumns.of(listed, 2, carried)
        assert equal(carried, JobColumns.of(listed, 2))


@given(st.lists(jobs, max_size=12), st.data())
def test_a_mask_keeps_the_columns_of_its_jobs(listed: list[Job], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(listed), max_size=len(listed)))
    masked = JobColumns.of(listed, 2).where(np.array(kept, dtype=np.bool_))
    assert equal(masked, JobColumns.of([job for job, keep in zip(listed, kept, strict=True) if keep], 2))


def test_only_the_jobs_that_have_changed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand jobs, one of which is another: a round must not pay for the others."""
    listed = [Job(f"job-{number}", "ns/a", 0.0, np.ones(2)) for number in range(10_000)]
    former, read = JobColumns.of(listed, 2), list[int]()
    whole = job_columns._read
    monkeypatch.setattr(job_columns, "_read", lambda found, width: read.append(len(found)) or whole(found, width))
    listed[7000] = Job("job-7000", "ns/a", 0.0, np.ones(2), used=np.ones(2))
    carried = JobColumns.of(listed, 2, former)
    assert read == [1]
    assert JobColumns.of(list(listed), 2, carried) is carried


@pytest.mark.parametrize("odd", [np.ones(3), np.array([1.0, np.nan]), np.array([-1.0, 0.0])], ids=["too many", "no number", "negative"])
def test_odd_amounts_are_refused_with_the_jobs_name(odd: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with pytest.raises(InvalidSnapshotError, match="job odd: expected"):
        JobColumns.of([Job("fine", "ns/a", 0.0, np.ones(2)), Job("odd", "ns/a", 0.0, odd)], 2)
