"""The arrays of jobs' labels say the same as a dictionary, whatever came before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.jobs.job_labels import JobLabels

changes = st.tuples(st.integers(0, 200), st.booleans(), st.sampled_from(["", "a", "b", "long-running", "z"]))


def found(labels: JobLabels, number: int) -> tuple[bool, str]:
    names, family = labels.families()
    return bool(labels.small[number]), names[family[number]] if family[number] >= 0 else ""


@given(st.lists(changes, max_size=60))
def test_a_job_has_the_labels_that_were_set_last_and_no_family_is_listed_without_a_job(history: list[tuple[int, bool, str]]) -> None:
    labels, kept = JobLabels(), dict[int, tuple[bool, str]]()
    for number, small, family in history:
        labels.set(number, small=small, family=family)
        kept[number] = small, family
        assert found(labels, number) == (small, family)
    assert {number: found(labels, number) for number in kept} == kept
    assert labels.families()[0] == tuple(sorted({family for _, family in kept.values() if family}))


def test_families_that_come_and_go_take_no_more_and_more_memory() -> None:
    """A tenant may give each Job a family of its own."""
    labels = JobLabels()
    for number in range(1000):
        labels.set(0, small=False, family=f"family-{number}")
    assert len(labels.families()[0]) == 1
    assert len(labels._names) <= 2
