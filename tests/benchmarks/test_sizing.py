"""The benchmark of the operator's own needs runs, in a small form: the operator starts, answers events and is measured."""

from __future__ import annotations

from benchmarks.sizing import measured, pod


def test_a_small_cluster_is_measured() -> None:
    found = {one.name.rpartition(": ")[2]: one.value for one in measured(queues=10, pods=30, events=30, settle=1.0, rest=1.0)}
    assert list(found) == ["start", "at rest", "an event", "memory", "memory at most", "dashboard", "dashboard at most"]
    assert 20 < found["memory"] <= found["memory at most"]
    assert 20 < found["dashboard"] <= found["dashboard at most"]
    assert found["an event"] > 0


def test_pods_are_those_of_throughput_queues_that_exist() -> None:
    namespaces = {pod(number, 20)["metadata"]["namespace"] for number in range(100)}
    assert namespaces == {f"ns-{number}" for number in range(20) if number % 10}
