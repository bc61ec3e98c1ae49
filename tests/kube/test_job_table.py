"""A table whose jobs change namespace by namespace lists the same jobs as a new table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.jobs.job_part import NamespaceJobs
from fairburst.kube.jobs.job_table import FEW, JobTable
from fairburst.policy.dress.job_columns import JobColumns
from fairburst.policy.dress.values import Job

NAMESPACES = ["a", "b", "c", "d"]

amounts = st.sampled_from([np.ones(2), np.array([0.5, 2.0])])
one_job = st.builds(Job, st.sampled_from("xyz"), st.sampled_from(["ns/queue", "ns/other"]), st.sampled_from([0.0, 9.0]), amounts)
several = st.lists(one_job, max_size=3).map(tuple)
of_one = st.builds(NamespaceJobs, several, several, several)


def named(columns: JobColumns) -> list[str]:
    """The queues that a table's numbers stand for."""
    rows = columns.numbers.rows({"ns/queue": 0, "ns/other": 1})[columns.queue]
    return [("ns/queue", "ns/other")[row] for row in rows.tolist()]


@given(st.fixed_dictionaries(dict.fromkeys(NAMESPACES, of_one)), st.lists(st.dictionaries(st.sampled_from(NAMESPACES), of_one), max_size=4))
def test_after_any_changes_it_lists_the_jobs_of_a_new_table(
    jobs: dict[str, NamespaceJobs], changes: list[dict[str, NamespaceJobs]]
) -> None:
    table = JobTable(jobs, 2)
    for changed in changes:
        assert table.follows(changed)
        table.update(changed)
        jobs = {**jobs, **changed}
        new = JobTable(jobs, 2)
        for carried, read in ((table.pending, new.pending), (table.running, new.running)):
            assert [*map(id, carried)] == [*map(id, read)]
            assert carried.name.tolist() == [one.name for one in read]
            assert carried.submitted.tolist() == read.submitted.tolist()
            assert carried.request.tolist() == read.request.tolist()
            assert named(carried) == [one.queue for one in read]


def test_it_follows_no_change_of_an_unknown_namespace_or_of_very_many() -> None:
    table = JobTable({f"ns-{number}": NamespaceJobs() for number in range(2 * FEW)}, 2)
    assert not table.follows(["elsewhere"])
    assert not table.follows([f"ns-{number}" for number in range(FEW + 1)])
    assert table.follows([])
