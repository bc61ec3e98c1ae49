"""The benchmark of the operator's own needs runs, in a small form: the operator starts, answers events and is measured."""

from __future__ import annotations

import pytest

from benchmarks.sizing import Work, measured


def test_a_small_cluster_is_measured() -> None:
    found = {one.name.rpartition(": ")[2]: one.value for one in measured(Work(queues=10, pods=30), events=30, settle=1.0, rest=1.0)}
    assert list(found) == ["start", "at rest", "an event", "memory", "memory at most", "dashboard", "dashboard at most"]
    assert 20 < found["memory"] <= found["memory at most"]
    assert 20 < found["dashboard"] <= found["dashboard at most"]
    assert found["an event"] > 0


@pytest.mark.parametrize("bare", [False, True])
def test_pods_are_those_of_throughput_queues_that_exist(bare: bool) -> None:
    work = Work(20, 100, bare=bare)
    numbers = [*range(100), *(work.successor(ended, turn) for turn, ended in enumerate(range(0, 100, 7)))]
    assert len(set(numbers)) == len(numbers)
    assert {work.pod(number)["metadata"]["namespace"] for number in numbers} == {f"ns-{number}" for number in range(20) if number % 10}


def test_pods_of_jobs_are_followed_by_pods_of_the_same_job() -> None:
    work = Work(20, 100)
    assert sum(job["spec"]["parallelism"] for job in work.jobs()) == 100
    assert work.pod(0)["status"]["startTime"], "a pod that no kubelet has started is work that waits"
    uids = {job["metadata"]["uid"] for job in work.jobs()}
    for turn, ended in enumerate(range(100)):
        new = work.pod(work.successor(ended, turn))["metadata"]["ownerReferences"][0]["uid"]
        assert new == work.pod(ended)["metadata"]["ownerReferences"][0]["uid"] in uids
