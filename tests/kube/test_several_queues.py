"""Several queues in one namespace: the whole engine against what the API server would make of its plans."""

from __future__ import annotations

import pytest

from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.quota_plan import amounts
from tests.support.lanes import LQ, TQ, asking, column, of_class
from tests.support.objects import World, job, latency_spec, node, requesting

NIGHTLY = "fairburst-queue-1"
ASKING = {"fairburst.dev/queue": "nightly"}


def in_queue(name: str) -> Pod:
    """A running pod of the queue `nightly`, as the policy makes it."""
    return of_class(name, NIGHTLY, labels=ASKING)


@pytest.fixture
def world() -> World:
    """A namespace with a latency queue and a throughput queue, and another team's namespace. Two nodes."""
    found = World()
    found.queue(LQ, "team", "bursts", latency_spec(cpu="16"), created="2026-01-01T00:00:00Z")
    found.queue(TQ, "team", "nightly", created="2026-01-01T00:00:01Z")
    found.queue(TQ, "rival", "batch", created="2026-01-01T00:00:02Z")
    found.round()
    found.after(1.0)
    return found


def hard(world: World, name: str) -> float:
    return amounts(world.quotas["team", name].spec.hard)["cpu"]


def test_each_queue_of_a_namespace_has_a_quota_and_no_pod_counts_for_two(world: World) -> None:
    world.round()
    assert world.scope("team", "fairburst") == ("NotIn", {"system-node-critical", "system-cluster-critical", NIGHTLY})
    assert world.scope("team", "fairburst-queue-1") == ("In", {NIGHTLY})
    assert {name for namespace, name in world.quotas if namespace == "rival"} == {"fairburst"}


def test_the_namespace_says_which_queue_has_which_lane(world: World) -> None:
    labels = world.namespaces["", "team"].metadata.labels or {}
    assert labels["fairburst.dev/queue-1"] == "nightly"
    assert labels["fairburst.dev/pod-priority"].endswith("-or-queue")


def test_pods_are_charged_by_their_class_not_by_their_label(world: World) -> None:
    world.put(in_queue("nightly"))
    world.put(of_class("liar", "fairburst-hard", labels=ASKING))
    world.put(of_class("stray", "fairburst-queue-7", labels={"fairburst.dev/queue": "missing"}))
    plan = world.round()
    assert column(plan, "usage") == {"team/bursts": 2.0, "team/nightly": 1.0, "rival/batch": 0.0}


def test_demand_is_that_of_the_controllers_whose_pods_ask_for_the_queue(world: World) -> None:
    world.controller("Job", None, asking("night", 40, "nightly"))
    world.controller("Job", None, job("team", "day", 8))
    world.controller("Job", None, asking("lost", 4, "missing"))
    plan = world.round()
    assert column(plan, "demand") == {"team/bursts": 12.0, "team/nightly": 40.0, "rival/batch": 0.0}
    world.after(5.0)
    world.round()
    assert hard(world, "fairburst-queue-1") >= 40.0 - 1e-6


def test_pods_from_before_their_queue_count_once(world: World) -> None:
    """They have the class of the default queue until they end, and their Job asks for the further queue."""
    world.controller("Job", None, asking("night", 10, "nightly"))
    for number in range(4):
        world.put(of_class(f"night-{number}", "fairburst-large", owner=("Job", "night"), labels=ASKING))
    plan = world.round()
    demand = column(plan, "demand")
    assert demand["team/bursts"] == 4.0
    assert demand["team/nightly"] == 6.0


def test_work_that_asks_for_a_queue_is_its_demand_from_its_creation_to_its_deletion_and_otherwise_the_default_queues(world: World) -> None:
    """Nothing else changes in the namespace meanwhile."""
    world.controller("Job", None, asking("week", 10, "weekly"))
    world.settle(5.0)
    assert column(world.round(), "demand")["team/bursts"] == 10.0
    world.queue(TQ, "team", "weekly", created="2026-01-01T00:00:03Z")
    world.after(1.0)
    demand = column(world.round(), "demand")
    assert (demand["team/bursts"], demand["team/weekly"]) == (0.0, 10.0)
    del world.queues[TQ, "team", "weekly"]
    world.after(1.0)
    assert column(world.round(), "demand")["team/bursts"] == 10.0


def test_a_settled_namespace_with_several_queues_gets_no_writes(world: World) -> None:
    world.put(in_queue("nightly"))
    for _ in range(30):
        world.round()
        world.after(2.0)
    plan = world.round()
    assert not plan.quota_writes
    assert not plan.labels
    assert not plan.quota_deletions


def test_statuses_name_the_class_of_each_queues_pods(world: World) -> None:
    assert world.status("team", "nightly")["podPriority"]["className"] == NIGHTLY
    assert world.condition(TQ, "team", "Ready", "nightly")[0] == "True"
    assert world.status("team", "bursts", kind=LQ)["podPriority"]["className"] != NIGHTLY


def test_a_queue_that_keeps_no_reserve_because_it_is_not_alone_says_so_and_what_to_do(world: World) -> None:
    for name, spec, want in (("nightly", {}, True), ("nightly", {"reserve": "Off"}, False)):
        world.queue(TQ, "team", name, spec, created="2026-01-01T00:00:01Z", generation=len(spec) + 1)
        for _ in range(3):
            world.round()
            world.after(1.0)
        assert ("keeps no reserve for small Jobs" in world.condition(TQ, "team", "Enforced", name)[2]) is want
    assert "use a namespace of its own" not in world.condition(LQ, "team", "Enforced", "bursts")[2]
    assert "reserve" not in world.condition(TQ, "rival", "Enforced", "batch")[2]


def test_without_reserves_no_queue_says_that_it_lacks_one() -> None:
    world = World("smallJobs: {enabled: false}")
    world.queue(LQ, "team", "bursts", latency_spec(cpu="16"), created="2026-01-01T00:00:00Z")
    world.queue(TQ, "team", "nightly", created="2026-01-01T00:00:01Z")
    world.round()
    assert "reserve" not in world.condition(TQ, "team", "Enforced", "nightly")[2]


def test_a_latency_queue_that_came_second_governs_once_its_remedy_was_followed() -> None:
    world = World()
    world.queue(TQ, "team", "nightly", created="2026-01-01T00:00:00Z")
    world.round()
    world.queue(LQ, "team", "bursts", latency_spec(cpu="16"), created="2026-01-01T00:00:01Z")
    world.after(1.0)
    world.round()
    assert "Delete ThroughputQueue nightly and create it again to have both" in world.condition(LQ, "team", "Ready", "bursts")[2]
    del world.queues[TQ, "team", "nightly"]
    world.after(1.0)
    world.round()
    world.queue(TQ, "team", "nightly", created="2026-01-01T00:00:03Z", uid="again")
    for _ in range(2):
        world.after(1.0)
        world.round()
    assert world.condition(LQ, "team", "Ready", "bursts")[0] == "True"
    assert world.status("team", "nightly")["podPriority"]["className"] == NIGHTLY


def test_a_deleted_queues_pods_fall_to_the_default_queue_and_its_quota_goes(world: World) -> None:
    world.put(in_queue("nightly"))
    world.round()
    del world.queues[TQ, "team", "nightly"]
    for _ in range(2):
        world.after(1.0)
        plan = world.round()
    assert column(plan, "usage") == {"team/bursts": 1.0, "rival/batch": 0.0}
    assert {name for namespace, name in world.quotas if namespace == "team"} == {"fairburst"}
    assert world.scope("team", "fairburst")[1] == {"system-node-critical", "system-cluster-critical"}
    labels = world.namespaces["", "team"].metadata.labels or {}
    assert "fairburst.dev/queue-1" not in labels
    assert not labels["fairburst.dev/pod-priority"].endswith("-or-queue")


def test_a_deleted_queues_quota_stays_until_the_namespace_quota_counts_its_pods(world: World) -> None:
    """The namespace quota waits, because it was written a moment ago."""
    world.put(in_queue("nightly"))
    assert any(write.rescope for write in world.round().quota_writes)
    del world.queues[TQ, "team", "nightly"]
    world.after(0.1)
    assert not world.round().quota_deletions
    for _ in range(2):
        assert world.scope("team", NIGHTLY) == ("In", {NIGHTLY})
        world.after(1.0)
        world.round()
    assert {name for namespace, name in world.quotas if namespace == "team"} == {"fairburst"}


def test_the_namespace_quota_counts_a_new_queues_pods_until_its_own_quota_is_enforced(world: World) -> None:
    """Its first pods may come before its quota, and the write of its quota may fail."""
    world.round()
    world.queue(TQ, "team", "hourly", created="2026-01-01T00:01:00Z")
    for _ in range(2):
        world.after(1.0)
        plan = world.plan()
        assert [write.name for write in plan.quota_writes if write.create or write.rescope] == ["fairburst-queue-2"]
    world.take(plan)
    world.after(1.0)
    assert [write.name for write in world.round().quota_writes if write.rescope] == ["fairburst"]
    assert "fairburst-queue-2" in world.scope("team", "fairburst")[1]


def test_a_quota_that_was_to_be_deleted_is_not_believed_to_be_there_while_the_watch_is_down(world: World) -> None:
    """The answer to the deletion, or the event, may be lost; its pods would count for no quota until the next list."""
    key = "team", "fairburst-queue-1"
    queue = world.queues[TQ, "team", "nightly"]
    world.round()
    stale = world.quotas[key]
    del world.queues[TQ, "team", "nightly"]
    for _ in range(2):
        world.after(1.0)
        plan = world.round()
    assert plan.quota_deletions == [key]
    world.quotas[key], world.queues[TQ, "team", "nightly"] = stale, queue
    for _ in range(3):
        world.after(1.0)
        world.round()
        assert world.scope("team", "fairburst")[1] == {"system-node-critical", "system-cluster-critical"}
        world.quotas[key] = stale
    del world.quotas[key]
    for _ in range(2):
        world.after(1.0)
        world.round()
    assert "fairburst-queue-1" in world.scope("team", "fairburst")[1]


def test_a_new_queue_gets_no_lane_with_another_ones_pods(world: World) -> None:
    world.put(in_queue("nightly"))
    world.round()
    del world.queues[TQ, "team", "nightly"]
    world.after(1.0)
    world.round()
    world.queue(TQ, "team", "hourly", created="2026-01-01T00:01:00Z", uid="new")
    world.after(1.0)
    plan = world.round()
    assert (world.namespaces["", "team"].metadata.labels or {})["fairburst.dev/queue-2"] == "hourly"
    usage = column(plan, "usage")
    assert usage["team/hourly"] == 0.0
    assert usage["team/bursts"] == 1.0


def test_an_observed_queue_beside_several_changes_none_of_them(world: World) -> None:
    world.put(in_queue("nightly"))
    before = world.round()
    world.queue(TQ, "watched", "shadow", {"enforcement": "Observe"}, created="2026-01-01T00:00:03Z")
    world.queue(TQ, "team", "shadow", {"enforcement": "Observe"}, created="2025-12-31T00:00:00Z", uid="shadow")
    world.after(1.0)
    after = world.round()
    assert [spec.name for spec in after.snapshot.queues] == [spec.name for spec in before.snapshot.queues]
    assert (after.snapshot.usage == before.snapshot.usage).all()
    assert not world.engine.contained.failures


def test_another_engine_takes_over_with_the_same_lanes(world: World) -> None:
    world.put(in_queue("nightly"))
    world.round()
    other = World()
    other.queues, other.wall, other.now = world.queues, world.wall, world.now
    other.namespaces.update(world.namespaces)
    other.quotas.update(world.quotas)
    other.put(in_queue("nightly"))
    plan = other.round()
    usage = column(plan, "usage")
    assert usage["team/nightly"] == 1.0
    assert not plan.labels
    assert not plan.quota_writes


def test_a_change_of_one_queues_places_leaves_the_quotas_of_the_others(world: World) -> None:
    """Only the rival's Job grows, so only places for pods move, those of one queue of the team and not those of the other."""
    world.nodes.update({("", name): node(name, pods="30") for _, name in world.nodes})
    world.controller("Job", None, job("team", "day", 20, requesting("100m", "1Mi")))
    world.round()
    before = places(world)
    for pods in range(1, 60, 3):
        world.controller("Job", None, job("rival", "work", pods, requesting("100m", "1Mi")))
        world.after(0.1)
        assert not world.round().quota_deletions
    world.after(5.0)
    world.round()
    assert places(world) != before


def places(world: World) -> list[str | None]:
    return [(world.quotas["team", name].spec.hard or {}).get("pods") for name in ("fairburst", NIGHTLY)]


def test_quotas_of_lanes_go_with_the_namespace_although_they_have_lost_their_label(world: World) -> None:
    """The labels go last: without them no round would know these quotas as an operator's."""
    world.round()
    world.quotas["team", NIGHTLY].metadata.labels = None
    for kind, name in ((LQ, "bursts"), (TQ, "nightly")):
        world.queues[kind, "team", name]["spec"]["enforcement"] = "Observe"
        world.queues[kind, "team", name]["metadata"]["generation"] = 2
    plan = world.round()
    assert (plan.releases, plan.quota_deletions) == (["team"], [("team", "fairburst"), ("team", NIGHTLY)])


def test_a_queue_in_observe_mode_learns_that_enforced_ones_have_taken_its_place(world: World) -> None:
    """Its decision would be for a place that it does not get back when it is enforced again."""
    world.round()
    world.queues[LQ, "team", "bursts"]["spec"]["enforcement"] = "Observe"
    world.queues[LQ, "team", "bursts"]["metadata"]["generation"] = 2
    world.settle()
    status, reason, message = world.condition(LQ, "team", "Ready", "bursts")
    assert (status, reason) == ("False", "SecondQueue")
    assert "ThroughputQueue nightly already governs namespace team" in message
