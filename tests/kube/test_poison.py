"""Values that no reasonable object has: each concerns its own object alone, and every other queue is served in the same round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairburst.kube.names import HELD_ANNOTATION
from fairburst.policy.model import QueueKind
from tests.support.objects import World, job, latency_spec, node, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"
BIGGEST_COUNT = 2_147_483_647


def served(world: World, name: str = "bystander") -> None:
    """Check that a queue that comes after the poison is admitted, has a quota and says Ready."""
    world.queue(TQ, name)
    world.controller("Job", None, job(name, f"{name}-job", 4))
    for _ in range(3):
        world.round()
        world.after(1.0)
    assert world.condition(TQ, name, "Ready")[:2] == ("True", "Ready")
    assert world.hard(name)["requests.cpu"]


def burst(**resources: str) -> dict[str, Any]:
    return {"burst": {"resources": resources, "durationSeconds": 10}, "arrival": {"sporadic": {"minInterarrivalSeconds": 60}}}


def scheduled(arrival: str) -> dict[str, Any]:
    return {"arrival": {"schedule": {"bursts": [{"arrival": arrival, "resources": {"cpu": "1", "memory": "1Gi"}, "durationSeconds": 10}]}}}


def periodic(first: str, jitter: int = 0) -> dict[str, Any]:
    arrival = {"periodSeconds": 300, "firstArrival": first, "jitterSeconds": jitter}
    return latency_spec() | {"arrival": {"periodic": arrival}}


POISON = [
    pytest.param(TQ, {"limits": {"memory": "8Ei"}}, id="a limit of 8Ei"),
    pytest.param(TQ, {"limits": {"memory": "9223372036854775807"}}, id="the largest quantity as a limit"),
    pytest.param(LQ, burst(cpu="1", memory="8Ei"), id="a burst of 8Ei"),
    pytest.param(LQ, burst(cpu="9e18", memory="1Gi"), id="a burst of more cores than there are grains of sand"),
    pytest.param(LQ, periodic("9999-12-31T23:59:59Z", 1), id="the last second of the calendar, with jitter"),
    pytest.param(LQ, periodic("9999-12-31T23:59:59-23:59"), id="a second after the end of the calendar"),
    pytest.param(LQ, periodic("0001-01-01T00:00:00+23:59"), id="a second before the beginning of the calendar"),
    pytest.param(LQ, scheduled("9999-12-31T23:59:59Z"), id="a scheduled burst at the end of the calendar"),
    pytest.param(LQ, scheduled("2026-01-01T00:00:00-23:59"), id="an arrival with the offset -23:59"),
    pytest.param(LQ, scheduled("2020-01-01T00:00:00Z"), id="a schedule that has passed"),
    pytest.param(LQ, scheduled("2026-01-01T00:00:05Z"), id="a schedule that passes while it is looked at"),
]


@pytest.mark.parametrize(("kind", "spec"), POISON)
def test_one_field_of_one_queue_stops_no_other_queue(kind: str, spec: dict[str, Any]) -> None:
    world = World()
    world.queue(kind, "poison", spec=spec)
    for _ in range(4):
        world.round()
        world.after(10.0)
    served(world)
    assert world.status("poison", kind=kind)["conditions"], "the queue itself is answered, too"


@pytest.mark.parametrize("spec", [periodic("9999-12-31T23:59:59Z"), periodic("0001-01-01T00:00:00Z"), scheduled("9999-12-31T23:59:59Z")])
def test_a_time_beyond_the_bounds_is_a_problem_of_its_queue_that_says_what_was_expected(spec: dict[str, Any]) -> None:
    world = World()
    world.queue(LQ, "poison", spec=spec)
    world.round()
    status, reason, message = world.condition(LQ, "poison", "Ready")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "expected a time between 1970 and 3000, found" in message


def test_a_schedule_that_is_over_keeps_its_queue_served_by_fair_share() -> None:
    world = World()
    world.queue(LQ, "over", spec=scheduled("2026-01-01T00:00:30Z"))
    for _ in range(30):
        world.round()
        world.after(10.0)
    assert world.condition(LQ, "over", "Ready")[0] == "True"
    assert "armsAt" not in world.status("over", kind=LQ)["window"], "nothing comes any more"
    again = World()
    again.queue(LQ, "over", spec=scheduled("2026-01-01T00:00:30Z"), status=world.status("over", kind=LQ))
    again.wall = world.wall
    again.round()
    assert again.status("over", kind=LQ)["history"] == world.status("over", kind=LQ)["history"]
    assert again.engine.memory.queues["over/queue"].window == world.engine.memory.queues["over/queue"].window


def held(parallelism: int, *containers: Any) -> Callable[[World], None]:
    """A held Job in Suspend mode."""

    def put(world: World) -> None:
        world.queue(TQ, "poison", spec={"enforcement": "Suspend"})
        body = job("poison", "held", parallelism, *containers, suspend=True)
        body.metadata.annotations = {HELD_ANNOTATION: "true"}
        world.controller("Job", None, body)

    return put


def deleted(seconds: int) -> Callable[[World], None]:
    """A pod of no queue that is being deleted with this grace period."""

    def put(world: World) -> None:
        world.namespace("elsewhere")
        times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds}
        world.put(pod("elsewhere", "p", node="node-0", phase="Running", **times))

    return put


def huge_pods(world: World) -> None:
    world.queue(TQ, "poison")
    for number in range(3):
        world.put(pod("poison", f"p{number}", requesting("9e18", "8Ei"), node=f"node-{number % 2}", phase="Running"))


def pod_of_huge_containers(world: World) -> None:
    """Each of its amounts is a quantity, their sum is not. No node could hold it."""
    world.queue("ThroughputQueue", "poison")
    world.put(pod("poison", "p", *[requesting("9e18", "8Ei")] * 5))


def huge_node(world: World) -> None:
    world.nodes["", "huge"] = node("huge", cpu="9e18", memory="8Ei", pods="9223372036854775807")


def negative_node(world: World) -> None:
    world.nodes["", "odd"] = node("odd", cpu="-5", memory="nonsense")


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(held(1, requesting("1", "8Ei")), id="a held Job with memory 8Ei"),
        pytest.param(held(BIGGEST_COUNT), id="a held Job of two billion pods"),
        pytest.param(held(BIGGEST_COUNT, requesting("9e18", "8Ei")), id="a held Job of two billion huge pods"),
        pytest.param(deleted(10**12), id="a grace period of 30,000 years"),
        pytest.param(deleted(2**63 - 1), id="the longest grace period"),
        pytest.param(deleted(-1), id="a negative grace period"),
        pytest.param(huge_pods, id="running pods that request more than there is"),
        pytest.param(pod_of_huge_containers, id="a waiting pod whose containers request more than a quantity can say"),
        pytest.param(huge_node, id="a node that offers more than there is"),
        pytest.param(negative_node, id="a node that offers nonsense"),
    ],
)
def test_one_object_of_the_cluster_stops_no_queue(put: Callable[[World], None]) -> None:
    world = World()
    put(world)
    for _ in range(3):
        world.round()
        world.after(10.0)
    served(world)


def test_every_poison_at_once_stops_no_queue() -> None:
    world = World()
    for number, parameters in enumerate(POISON):
        kind, spec = parameters.values
        world.queue(str(kind), f"poison-{number}", spec=spec)
    for put in (deleted(10**12), huge_pods, negative_node):
        put(world)
    for _ in range(5):
        world.round()
        world.after(7.0)
    served(world)
    assert world.engine.queues.kind_of("bystander") is QueueKind.THROUGHPUT


def test_pods_that_together_use_more_than_a_quantity_can_say_leave_their_queue_a_status() -> None:
    """The API server accepts each, but not their sum."""
    world = World()
    world.queue("ThroughputQueue", "absurd")
    for number in range(5):
        world.put(pod("absurd", f"p{number}", requesting("1", "2Ei"), node="node-0", phase="Running"))
    world.round()
    assert "usage" in world.status("absurd")
    assert world.engine.contained.problems == {}
