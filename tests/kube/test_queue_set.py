"""The governing queue of each namespace, and its spec in force."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.queues.queue_set import ObjectKey, QueueEntry, QueueSet, QueueSetBuilder
from fairburst.policy.model import Memory, QueueMemory
from tests.support.objects import World, latency_spec, stored_queue

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
INVALID = {"weight": 0}


def objects(*given: dict[str, Any]) -> dict[ObjectKey, dict[str, Any]]:
    return {(one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]): one for one in given}


def build(*given: dict[str, Any], memory: Memory | None = None, ending: frozenset[str] = frozenset(), pool: str = "default") -> QueueSet:
    return QueueSetBuilder(pool, "fairburst-system").build(objects(*given), memory or Memory(), ending)


def remembering(*members: QueueEntry) -> Memory:
    """The memory of these members after a round."""
    return Memory({m.qualified_name: QueueMemory(m.spec, None, number) for number, m in enumerate(members) if m.spec is not None})


def entry(queue_set: QueueSet, name: str, kind: str = "ThroughputQueue") -> QueueEntry:
    return next(one for one in queue_set.entries if one.key[2] == name and one.key[0] == kind)


def queue(name: str = "a", namespace: str = "n", spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return stored_queue(more.pop("kind", "ThroughputQueue"), namespace, name, spec, **more)


def test_a_queue_governs_its_namespace() -> None:
    queue_set = build(queue())
    assert [one.qualified_name for one in queue_set.governing] == ["n/a"]
    assert [spec.name for spec in queue_set.specs] == ["n/a"]


def test_the_first_created_of_two_governs_and_the_second_is_told_which() -> None:
    queue_set = build(queue("a", kind="LatencyQueue", spec=latency_spec(), created=LATE), queue("b", created=EARLY))
    assert [one.key[2] for one in queue_set.governing] == ["b"]
    problem = entry(queue_set, "a", "LatencyQueue").problem
    assert problem is not None
    assert problem.reason == "SecondQueue"
    assert "ThroughputQueue b already governs namespace n; besides it, only ThroughputQueues can govern work" in problem.message


def test_the_queue_that_already_governs_goes_on_though_an_older_one_becomes_valid() -> None:
    older = queue("a", spec=INVALID, created=EARLY)
    first = build(older, queue("b", created=LATE))
    assert [one.key[2] for one in first.governing] == ["b"]
    second = build(queue("a", created=EARLY), queue("b", created=LATE), memory=remembering(*first.governing))
    assert [one.key[2] for one in second.governing if one.lane is None] == ["b"]


def test_the_second_takes_over_when_the_first_is_deleted() -> None:
    both = build(queue("a", created=EARLY), queue("b", created=LATE))
    assert [one.key[2] for one in build(queue("b", created=LATE), memory=remembering(*both.governing)).governing] == ["b"]


def test_a_queue_being_deleted_governs_no_more() -> None:
    going = queue("a", created=EARLY)
    going["metadata"]["deletionTimestamp"] = LATE
    assert [one.key[2] for one in build(going, queue("b", created=LATE)).governing] == ["b"]


def test_a_queue_that_a_finalizer_keeps_after_its_deletion_says_so() -> None:
    """Its status said Hard, Guaranteed and Ready for as long as it stayed, while its namespace ran at the floor."""
    world = World()
    world.queue("LatencyQueue", "n", spec=latency_spec())
    world.settle(5.0)
    assert world.status("n", kind="LatencyQueue")["class"] == "Hard"
    world.queues["LatencyQueue", "n", "queue"]["metadata"] |= {"deletionTimestamp": LATE, "finalizers": ["other.tool/keeps"]}
    world.settle(5.0)
    status = world.status("n", kind="LatencyQueue")
    assert "class" not in status
    assert "promise" not in status
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert conditions == {
        "Admitted": ("False", "NotGoverning"),
        "Enforced": ("False", "NotGoverning"),
        "Ready": ("False", "BeingDeleted"),
    }
    assert "other.tool/keeps" in world.condition("LatencyQueue", "n", "Ready")[2]
    world.queue("ThroughputQueue", "n")
    world.settle(5.0)
    assert world.status("n")["class"] == "Elastic", "another queue governs the namespace"
    assert world.condition("LatencyQueue", "n", "Ready")[1] == "BeingDeleted"


def test_queues_of_an_ending_namespace_are_no_members() -> None:
    assert build(queue(), ending=frozenset({"n"})).entries == ()


def test_an_invalid_queue_that_was_never_valid_governs_nothing() -> None:
    queue_set = build(queue(spec=INVALID))
    problem = queue_set.entries[0].problem
    assert queue_set.governing == ()
    assert problem is not None
    assert problem.reason == "InvalidSpec"
    assert "spec.weight" in problem.message


def test_an_invalid_edit_keeps_the_last_valid_spec() -> None:
    valid = build(queue(spec={"weight": 3}))
    queue_set = build(queue(spec=INVALID, generation=2), memory=remembering(*valid.governing))
    assert [spec.weight for spec in queue_set.specs] == [3.0]
    problem = queue_set.governing[0].problem
    assert problem is not None
    assert problem.message.endswith("The last valid spec stays in force.")


def test_an_invalid_queue_does_not_inherit_from_one_of_the_other_kind_under_its_name() -> None:
    latency = queue("a", kind="LatencyQueue", spec=latency_spec(), created=LATE)
    memory = remembering(*build(latency).governing)
    queue_set = build(queue("a", spec=INVALID, created=EARLY), latency, memory=memory)
    assert [one.key[0] for one in queue_set.governing] == ["LatencyQueue"]


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "kube-node-lease", "fairburst-system"])
def test_namespaces_of_the_system_and_the_operator_cannot_be_managed(namespace: str) -> None:
    queue_set = build(queue(namespace=namespace))
    problem = queue_set.entries[0].problem
    assert queue_set.governing == ()
    assert problem is not None
    assert (problem.reason, namespace in problem.message) == ("NamespaceForbidden", True)


def test_queues_of_another_pool_are_not_ours() -> None:
    queue_set = build(queue(spec={"pool": "gpu"}))
    assert (queue_set.entries, queue_set.elsewhere) == ((), {"n"})


@pytest.mark.parametrize(
    ("ours", "theirs", "governs"),
    [
        pytest.param({"created": EARLY}, {"created": LATE}, True, id="ours came first"),
        pytest.param({"created": LATE}, {"created": EARLY}, False, id="theirs came first"),
        pytest.param({"created": EARLY}, {"created": LATE, "status": {"promise": {"name": "n/b"}}}, False, id="theirs already governs"),
    ],
)
def test_two_pools_in_one_namespace_agree_on_who_governs_it(ours: dict[str, Any], theirs: dict[str, Any], governs: bool) -> None:
    both = [queue("a", **ours), queue("b", spec={"pool": "gpu"}, **theirs)]
    queue_set = build(*both)
    assert bool(queue_set.governing) is governs
    their_memory = remembering(*build(both[1], pool="gpu").governing) if "status" in theirs else Memory()
    assert bool(build(*both, pool="gpu", memory=their_memory).governing) is not governs
    if not governs:
        problem = queue_set.entries[0].problem
        assert problem is not None
        assert "ThroughputQueue b of pool gpu already governs namespace n" in problem.message


def test_queues_are_ordered_by_creation() -> None:
    queue_set = build(queue("a", "late", created=LATE), queue("z", "early", created=EARLY))
    assert [spec.name for spec in queue_set.specs] == ["early/z", "late/a"]


def test_specs_are_the_same_object_as_long_as_none_changes() -> None:
    builder = QueueSetBuilder("default", "fairburst-system")
    first = builder.build(objects(queue(spec={"weight": 1})), Memory(), frozenset())
    again = builder.build(objects(queue(spec={"weight": 1}, generation=2)), Memory(), frozenset())
    changed = builder.build(objects(queue(spec={"weight": 2}, generation=3)), Memory(), frozenset())
    assert again.specs is first.specs
    assert changed.specs is not first.specs


def test_a_queue_created_anew_under_an_old_name_is_read_anew() -> None:
    builder = QueueSetBuilder("default", "fairburst-system")
    builder.build(objects(queue(spec={"weight": 1}, uid="one")), Memory(), frozenset())
    queue_set = builder.build(objects(queue(spec={"weight": 2}, uid="two")), Memory(), frozenset())
    assert queue_set.specs[0].weight == 2.0
