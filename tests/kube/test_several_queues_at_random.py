"""A namespace with queues of all modes that come and go, at random: every pod counts for one queue, every lane has its quota, and only
work of queues that hold it waits."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.kube.names import LANE_CLASSES, LANE_LABELS, LANE_QUOTAS, QUOTA_NAME
from fairburst.kube.queues.lanes import asks_for
from fairburst.kube.workloads.job import is_held
from tests.support.lanes import LQ, TQ, asking, column, gated, held, of_class
from tests.support.objects import World, job, latency_spec, node

QUEUES = ("nightly", "weekly", "hourly")
MODES = ("Quota", "Gate", "Suspend")
CLASSES = (*LANE_CLASSES.values(), "fairburst-hard", "")
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.sampled_from(QUEUES), st.sampled_from(MODES)),
        st.tuples(st.just("mode"), st.sampled_from(QUEUES), st.sampled_from(MODES)),
        st.tuples(st.just("job"), st.sampled_from((*QUEUES, "")), st.integers(0, 60)),
        st.tuples(st.just("held"), st.sampled_from((*QUEUES, "")), st.integers(1, 60)),
        st.tuples(st.just("pod"), st.sampled_from(CLASSES)),
        st.tuples(st.just("gated"), st.sampled_from(CLASSES)),
        st.tuples(st.just("end"), st.integers(0, 100)),
        st.tuples(st.just("rival"), st.integers(0, 60)),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 3.0, 11.0])),
    ),
    max_size=30,
)


class Team:
    """A namespace whose default queue stays, and a rival's namespace."""

    def __init__(self, places: str | None) -> None:
        self.world, self.modes, self.count = World(), dict[str, str](), 0
        if places is not None:
            self.world.nodes.update({("", name): node(name, pods=places) for _, name in self.world.nodes})
        self.world.queue(LQ, "team", "bursts", latency_spec(cpu="16"), created="2026-01-01T00:00:00Z")
        self.world.queue(TQ, "rival", "batch", created="2026-01-01T00:00:00Z")
        self.world.round()

    def happen(self, what: str, *more: Any) -> None:
        world = self.world
        self.count += 1
        match what, *more:
            case "queue", name, _ if name in self.modes:
                del self.modes[name], world.queues[TQ, "team", name]
            case "queue", name, mode:
                self.modes[name] = mode
                created, uid = f"2026-01-01T00:{self.count:02}:00Z", f"{name}-{self.count}"
                world.queue(TQ, "team", name, {"enforcement": mode}, created=created, uid=uid)
            case "mode", name, mode if name in self.modes:
                self.modes[name] = mode
                known = world.queues[TQ, "team", name]
                metadata = {**known["metadata"], "generation": self.count + 1}
                world.queues[TQ, "team", name] = known | {"metadata": metadata, "spec": {**known["spec"], "enforcement": mode}}
            case "job", queue, pods:
                world.controller("Job", None, asking(f"job-{queue}", pods, queue))
            case "held", queue, pods:
                world.controller("Job", None, held(asking(f"held-{self.count}", pods, queue)))
            case "pod", class_name:
                world.put(of_class(f"pod-{self.count}", class_name))
            case "gated", class_name:
                world.put(gated(of_class(f"pod-{self.count}", class_name)))
            case "end", number if world.pods:
                world.end(*sorted(world.pods)[number % len(world.pods)])
            case "rival", pods:
                world.controller("Job", None, job("rival", "work", pods))
            case "wait", seconds:
                world.after(seconds)

    def lanes(self) -> dict[int, str]:
        labels = self.world.namespaces["", "team"].metadata.labels or {}
        return {lane: labels[label] for lane, label in LANE_LABELS.items() if label in labels}


@settings(max_examples=15)
@given(events=EVENTS, places=st.sampled_from([None, "40"]))
def test_every_pod_counts_for_one_queue_and_every_lane_has_its_quota(events: list[tuple[Any, ...]], places: str | None) -> None:
    team = Team(places)
    for event in events:
        team.happen(*event)
        team.world.after(0.1)
        plan = team.world.round()
        lanes = team.lanes()
        assert set(lanes.values()) == team.modes.keys()
        quotas = {name for namespace, name in team.world.quotas if namespace == "team"}
        assert quotas == {QUOTA_NAME, *(LANE_QUOTAS[lane] for lane in lanes)}
        want = {"team/bursts": 0.0, "rival/batch": 0.0, **{f"team/{name}": 0.0 for name in lanes.values()}}
        queue_of = {LANE_CLASSES[lane]: name for lane, name in lanes.items()}
        for pod in team.world.pods.values():
            queue = queue_of.get(pod.spec.priority_class_name, "bursts")
            want[f"team/{queue}"] += bool(pod.spec.node_name)
            assert not pod.gated or team.modes.get(queue) == "Gate", "a gate of a queue that holds no pods"
        assert column(plan, "usage") == want
        for one in team.world.view.controllers.workloads("team").of("Job"):
            asked = asks_for(one.spec.template.metadata.labels)
            assert not is_held(one) or team.modes.get(asked) == "Suspend", "a Job that no queue holds"
        assert not team.world.engine.contained.failures
