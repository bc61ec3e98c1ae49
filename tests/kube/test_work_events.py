"""Events on waiting work: one for each cause on each object, only on the first objects of a queue, and only after a while."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.kube.api.objects import SchedulingGate
from fairburst.kube.names import GATE, HELD_ANNOTATION
from fairburst.kube.rounds.work_events import EVENTS_PER_SECOND, FIRST_OBJECTS, QUEUES_A_LOOK, WAITED_SECONDS, WorkEvent, WorkEvents
from fairburst.kube.views.forecast_view import StartForecast
from tests.support.objects import World, job, latency_spec, pod, requesting

TQ, LQ = "ThroughputQueue", "LatencyQueue"


class Told:
    """A world, and the Events on its waiting work."""

    def __init__(self, mode: str, world: World | None = None) -> None:
        self.world = world or World()  # 64 cpu
        self.world.queue(TQ, "batch", spec={"enforcement": mode})
        self.events = WorkEvents()

    def look(self) -> list[WorkEvent]:
        plan = self.world.round()
        engine = self.world.engine
        return self.events.due(plan, engine.demands, engine.gates.gated.of, self.world.now, obstacles=engine.managed.obstacles)

    def after(self, seconds: float) -> list[WorkEvent]:
        self.world.after(seconds)
        return self.look()


def work(told: Told, name: str, pods: int, *, created: int = 0, held: bool = False) -> None:
    made = job("batch", name, pods, requesting("1", "1Gi"), suspend=held)
    made.metadata.creation_timestamp = f"2026-01-01T00:{created:02}:00Z"
    made.metadata.annotations = {HELD_ANNOTATION: "true"} if held else None
    told.world.controller("Job", None, made)


def running(told: Told, name: str, pods: int, where: str = "batch") -> None:
    """Pods of a Job that fill its quota, so that the others wait for room."""
    for number in range(pods):
        told.world.put(pod(where, f"{name}-{number}", requesting("1", "1Gi"), owner=("Job", name), node="node-0", phase="Running"))


def gated(told: Told, pods: int) -> None:
    for number in range(pods):
        made = pod("batch", f"p{number:03}", requesting("1", "1Gi"), creationTimestamp="2026-01-01T00:00:00Z")
        made.spec.scheduling_gates = [SchedulingGate(GATE)]
        told.world.put(made)


def test_a_job_whose_pods_are_refused_is_told_once_it_has_waited() -> None:
    told = Told("Quota")
    told.world.queue(TQ, "other")
    told.world.controller("Job", None, job("other", "theirs", 60))
    work(told, "train", 60)
    assert told.look() == []
    assert told.after(WAITED_SECONDS - 0.1) == [], "most waits are shorter than this"
    (event,) = (one for one in told.after(0.1) if one.involved["namespace"] == "batch")
    assert (event.involved["kind"], event.involved["name"], event.involved["apiVersion"]) == ("Job", "train", "batch/v1")
    assert (event.reason, event.warning) == ("WaitsForFairShare", False)
    assert event.message == (
        "60 of 60 pods do not exist yet, each asks for 1 cpu, 1Gi memory, in queue batch/queue. "
        "In the queue, 60 cpu, 60Gi memory wait: the queue has 32 of 60 cpu, its fair share and what others leave."
    )
    running(told, "train", 40)
    running(told, "theirs", 40, "other")
    assert [told.after(60.0) for _ in range(5)] == [[]] * 5, "the same cause is told once"
    assert not told.events.pending


def test_a_job_that_its_controller_has_not_come_to_yet_is_told_nothing_of_the_queue() -> None:
    """It has no pods for a cause that the queue does not have, and thousands may come at once."""
    told = Told("Quota")
    new, processed = job("batch", "train", 60, status={"startTime": None}), job("batch", "train", 60)
    told.world.queue(TQ, "other")
    told.world.controller("Job", None, job("other", "theirs", 60))
    told.world.controller("Job", None, new)
    told.look()
    assert [one.involved["name"] for one in told.after(WAITED_SECONDS) + told.after(60.0)] == ["theirs"]
    told.world.controller("Job", new, processed)
    assert told.look() == []
    assert [one.involved["name"] for one in told.after(WAITED_SECONDS)] == ["train"]


def test_a_job_that_creates_no_pods_although_there_is_room_is_warned_and_gets_no_forecast() -> None:
    told = Told("Quota")
    work(told, "train", 60)
    start = foreseen(told, 46, 96)
    first, second = looks(told, {"train": start}, 90)
    assert first.reason == "WaitsForRoom"
    assert (second.reason, second.warning) == ("ControllerCreatesNoPods", True)
    assert "The queue has room for them, but the Job creates none" in second.message
    assert "the Job's event FailedCreate says why." in second.message
    assert "It starts" not in second.message


def test_work_beyond_the_pool_is_told_in_full_while_the_queue_uses_all_of_the_pool() -> None:
    """A queue's demand counts up to the pool only; what its owner waits for is more."""
    told = Told("Quota")
    work(told, "train", 100)
    for number in range(64):
        told.world.put(pod("batch", f"train-{number}", requesting("1", "1Gi"), node="node-0", owner=("Job", "train")))
    told.look()
    (event,) = told.after(WAITED_SECONDS)
    assert event.message == (
        "36 of 100 pods do not exist yet, each asks for 1 cpu, 1Gi memory, in queue batch/queue. "
        "In the queue, 36 cpu, 36Gi memory wait: the queue has 64 of 100 cpu, its fair share and what others leave."
    )


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside work that waits for its share"])
def test_a_job_without_requests_is_told_that_the_quota_refuses_its_pods_and_gets_no_forecast(beside: bool) -> None:
    told = Told("Quota")
    told.look()
    if beside:
        work(told, "train", 100)
    told.world.controller("Job", None, job("batch", "bare", 3, {}))
    told.look()
    events = told.events
    engine, world = told.world.engine, told.world
    world.after(WAITED_SECONDS)
    starts = {"bare": foreseen(told, 40, 90)}
    found = events.due(world.round(), engine.demands, engine.gates.gated.of, world.now, starts, world.wall, engine.managed.obstacles)
    (event,) = (one for one in found if one.involved["name"] == "bare")
    assert (event.reason, event.warning) == ("PodsWithoutRequests", True)
    assert event.message == (
        "3 of 3 pods do not exist yet, each asks for nothing that is counted, in queue batch/queue. The namespace's quota refuses them: "
        "each container needs requests for cpu and memory. Add requests, or a LimitRange with defaultRequest for both (type Container)."
    )
    world.after(200.0)
    later = events.due(world.round(), engine.demands, engine.gates.gated.of, world.now, starts, world.wall, engine.managed.obstacles)
    assert "bare" not in {one.involved["name"] for one in later}


def test_a_job_whose_pods_no_node_can_hold_is_told_so_while_nothing_else_waits() -> None:
    """It is no part of the queue's demand."""
    told = Told("Quota")
    told.world.controller("Job", None, job("batch", "huge", 1, requesting("100", "1Gi")))
    told.look()
    (event,) = told.after(WAITED_SECONDS)
    assert (event.reason, event.involved["name"]) == ("LargerThanNodes", "huge")


def test_a_job_whose_pods_ask_for_a_resource_that_no_node_offers_is_told_which() -> None:
    told = Told("Quota")
    told.world.controller("Job", None, job("batch", "train", 1, requesting("1", "1Gi", **{"nvidia.com/gpu": "1"})))
    told.look()
    (event,) = told.after(WAITED_SECONDS)
    assert (event.reason, event.warning) == ("ResourceNotOffered", True)
    assert "No node of the pool offers nvidia.com/gpu, which its pods ask for" in event.message


def test_a_job_whose_host_port_other_pods_have_on_each_node_is_told_so() -> None:
    told = Told("Quota")
    listens = requesting("1", "1Gi") | {"ports": [{"hostPort": 8080}]}
    for number in range(2):
        told.world.put(pod("elsewhere", f"holder-{number}", listens, node=f"node-{number}", phase="Running"))
    told.world.controller("Job", None, job("batch", "train", 1, listens))
    told.look()
    (event,) = told.after(WAITED_SECONDS)
    assert (event.reason, event.warning) == ("HostPortTaken", True)
    assert "Its pods ask for host port 8080/TCP, and pods outside the queue have that on each node" in event.message


def test_a_new_cause_is_told_and_one_that_returns_too_soon_is_not() -> None:
    told = Told("Quota")
    work(told, "train", 100)
    told.look()
    told.after(WAITED_SECONDS)
    told.world.queue(TQ, "batch", spec={"enforcement": "Quota", "suspended": True}, generation=2)
    assert told.look() == []
    (event,) = told.after(WAITED_SECONDS)
    assert event.reason == "Suspended"
    told.world.queue(TQ, "batch", spec={"enforcement": "Quota"}, generation=3)
    assert told.look() == []
    told.world.queue(TQ, "batch", spec={"enforcement": "Quota", "suspended": True}, generation=4)
    assert told.after(1.0) == []
    assert told.after(60.0) == [], "it was told so already"


def test_the_first_gated_pods_are_told_their_place() -> None:
    told = Told("Gate")
    gated(told, 100)
    told.look()
    told.after(1.0)  # 64 are released
    told.after(1.0)
    found = told.after(WAITED_SECONDS)
    assert len(found) == FIRST_OBJECTS
    assert {event.involved["kind"] for event in found} == {"Pod"}
    assert found[0].message.startswith("Behind the scheduling gate until it may start, place 1 of ")
    assert " in queue batch/queue. " in found[0].message


def test_a_held_job_larger_than_its_queues_level_is_warned_and_the_next_one_waits_for_its_share() -> None:
    told = Told("Suspend")
    work(told, "whole", 60, held=True)
    work(told, "huge", 100, created=1, held=True)
    work(told, "small", 10, created=2, held=True)
    told.look()
    told.after(2.0)
    found = {event.involved["name"]: event for event in told.after(WAITED_SECONDS)}
    assert found["huge"].warning
    assert found["huge"].reason == "LargerThanLevel"
    assert "It starts whole and asks for 100 cpu; the queue's level is 64 now." in found["huge"].message
    assert found["small"].message.startswith("Suspended until all of it fits: it asks for 10 cpu, 10Gi memory, place 2 of 3 in queue")
    assert found["whole"].message.startswith("60 of 60 pods do not exist yet")


def test_no_event_names_another_queue() -> None:
    """Issue on answers: "without naming other tenants' objects"."""
    world = World()
    world.queue(LQ, "secret", spec=latency_spec())
    world.controller("Job", None, job("secret", "hidden", 40))
    told = Told("Quota", world)
    work(told, "train", 100)
    told.look()
    found = told.after(WAITED_SECONDS)
    assert {event.involved["namespace"] for event in found} == {"batch", "secret"}
    for event in found:
        other = "secret" if event.involved["namespace"] == "batch" else "batch"
        assert other not in event.message


def test_ten_thousand_waiting_pods_cost_a_handful_of_events() -> None:
    told = Told("Gate")
    gated(told, 10_000)
    count = sum(len(told.after(5.0)) for _ in range(60))
    assert count <= 2 * FIRST_OBJECTS
    assert count >= FIRST_OBJECTS


def test_many_waiting_queues_take_turns_and_each_is_told() -> None:
    told = Told("Quota", World(nodes=4))
    names = [f"n{number:03}" for number in range(2 * QUEUES_A_LOOK + 50)]
    for name in names:
        told.world.queue(TQ, name)
        told.world.controller("Job", None, job(name, "train", 20))
    plan = told.world.round()
    found = []
    for _ in range(60):
        told.world.after(2.0)
        found += told.events.due(plan, told.world.engine.demands, told.world.engine.gates.gated.of, told.world.now)
    assert sorted(event.involved["namespace"] for event in found) == names
    assert not told.events.pending


def test_work_that_is_gone_is_forgotten() -> None:
    told = Told("Quota")
    work(told, "train", 100)
    told.look()
    told.world.controller("Job", next(iter(told.world.view.controllers.workloads("batch").of("Job"))), None)
    assert told.after(WAITED_SECONDS) == []
    assert not told.events.pending


STEPS = st.lists(
    st.tuples(st.sampled_from(["job", "end", "suspend", "resume", "nothing"]), st.integers(0, 19), st.floats(0.1, 30.0)), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(["Quota", "Suspend"]))
def test_whatever_happens_each_object_is_told_each_cause_after_a_wait_and_within_the_rate(steps: list[Any], mode: str) -> None:
    """Issue on answers: "at most one an object and change [...], none for work that waits under 5 s"."""
    told, created, last, began = Told(mode), dict[str, float](), dict[str, str](), 0.0
    began, count, generation = told.world.now, 0, 1
    for what, number, seconds in steps:
        name, jobs = f"j{number}", {one.metadata.name: one for one in told.world.view.controllers.workloads("batch").of("Job")}
        if what == "job" and name not in jobs:
            work(told, name, 30, created=number, held=mode == "Suspend")
            created[name] = told.world.now
            last.pop(name, None)
        elif what == "end" and name in jobs:
            told.world.controller("Job", jobs[name], None)
        elif what in {"suspend", "resume"}:
            generation += 1
            told.world.queue(TQ, "batch", spec={"enforcement": mode, "suspended": what == "suspend"}, generation=generation)
        told.look()
        for event in told.after(seconds):
            count += 1
            name = event.involved["name"]
            assert told.world.now - created[name] >= WAITED_SECONDS - 1e-6
            assert last.get(name) != event.reason or event.reason.startswith("Waits"), "the same cause is told once"
            last[name] = event.reason
    assert count <= EVENTS_PER_SECOND * (told.world.now - began + WAITED_SECONDS)


@pytest.mark.parametrize("mode", ["Quota", "Gate", "Suspend"])
def test_nothing_is_told_where_nothing_waits(mode: str) -> None:
    told = Told(mode)
    told.look()
    assert [told.after(10.0) for _ in range(3)] == [[]] * 3


def foreseen(told: Told, low: float, high: float) -> StartForecast:
    """A forecast made now."""
    middle = told.world.wall + (low + high) / 2
    return StartForecast(told.world.wall, middle, {50: (middle, middle), 90: (told.world.wall + low, told.world.wall + high)})


def looks(told: Told, starts: dict[str, StartForecast], seconds: float) -> list[WorkEvent]:
    """Run a round each second."""
    found = []
    for _ in range(round(seconds)):
        told.world.after(1.0)
        world = told.world
        found += told.events.due(world.round(), world.engine.demands, world.engine.gates.gated.of, world.now, starts, world.wall)
    return found


def test_the_event_says_when_the_object_starts_where_that_is_forecast_and_no_second_one_repeats_it() -> None:
    told = Told("Quota")
    work(told, "train", 100)
    running(told, "train", 70)
    (event,) = looks(told, {"train": foreseen(told, 46, 96)}, 60)
    assert event.reason == "WaitsForFairShare", "64 of the 100 fit"
    assert event.message.endswith(". It starts in 40 to 90 s with 90 % confidence, in about 65 s with 50 %.")


def test_an_object_that_was_told_without_a_forecast_gets_one_event_with_the_first() -> None:
    told = Told("Quota")
    work(told, "train", 100)
    running(told, "train", 70)
    (event,) = looks(told, {}, 60)
    assert "It starts in" not in event.message
    start = foreseen(told, 41, 91)
    (event,) = looks(told, {"train": start}, 30)
    assert (event.reason, event.warning, event.involved["name"]) == ("StartForecast", False, "train")
    assert event.message == "It starts in 40 to 90 s with 90 % confidence, in about 65 s with 50 %."


def test_another_forecast_is_told_once_the_told_time_has_passed_and_not_before() -> None:
    told = Told("Quota")
    work(told, "train", 100)
    running(told, "train", 70)
    looks(told, {"train": foreseen(told, 46, 96)}, 10)
    assert looks(told, {"train": foreseen(told, 400, 900)}, 80) == [], "the first interval has not passed yet"
    (event,) = looks(told, {"train": foreseen(told, 400, 900)}, 60)
    assert event.reason == "StartForecast"


def test_an_object_that_could_start_at_any_moment_is_told_so_ever_more_rarely() -> None:
    """A Job whose forecasts are wrong is forecast to start now, again and again."""
    told = Told("Quota")
    work(told, "train", 100)
    running(told, "train", 70)
    found = []
    for _ in range(50):
        told.world.after(20.0)
        found += looks(told, {"train": foreseen(told, 0, 0.5)}, 1)
    assert 4 <= len(found) <= 6


def test_forecasts_for_all_objects_of_a_queue_cost_one_event_each_at_most() -> None:
    told = Told("Gate")
    gated(told, 200)
    starts = {f"batch/p{number:03}": foreseen(told, 600, 900) for number in range(200)}
    looks(told, {}, 30)
    found = looks(told, starts, 120)
    assert 0 < len(found) <= FIRST_OBJECTS
    assert {one.reason for one in found} == {"StartForecast"}
