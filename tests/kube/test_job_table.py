"""A table whose jobs change namespace by namespace lists the same jobs as a new table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.jobs.job_part import NamespaceJobs
from fairburst.kube.jobs.job_table import FEW, JobTable
from fairburst.policy.dress.values import Job

NAMESPACES = ["a", "b", "c", "d"]

several = st.lists(st.builds(Job, st.sampled_from("xyz"), st.just("ns/queue"), st.just(0.0), st.just(np.ones(2))), max_size=3).map(tuple)
of_one = st.builds(NamespaceJobs, several, several, several)


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
        assert [*map(id, table.pending)] == [*map(id, new.pending)]
        assert [*map(id, table.running)] == [*map(id, new.running)]


def test_it_follows_no_change_of_an_unknown_namespace_or_of_very_many() -> None:
    table = JobTable({f"ns-{number}": NamespaceJobs() for number in range(2 * FEW)}, 2)
    assert not table.follows(["elsewhere"])
    assert not table.follows([f"ns-{number}" for number in range(FEW + 1)])
    assert table.follows([])
