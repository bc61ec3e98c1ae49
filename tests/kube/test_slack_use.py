"""The use of a namespace's level, and which full quota counts as the one that stops its work."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fairburst.kube.api.quota_objects import ResourceQuota, ScopeSelector
from fairburst.kube.enforce.division import without_small
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.quota_scope import SCOPES
from fairburst.kube.enforce.slack_use import use_of
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.pod_index import PodIndex
from tests.support.objects import World, job, pod, quota, requesting

LEVEL = {"cpu": 20.0}


def namespace() -> tuple[ManagedNamespace, PodIndex]:
    """A queue with a level of 20 cpu that wants 40: 12 large pods of a cpu and 2 small ones of half a cpu run."""
    world = World()
    world.queue("ThroughputQueue", "batch")
    world.round()
    pods = PodIndex(("cpu",), by_class=True)
    for size, cpu, count in (("large", "1", 12), ("small", "500m", 2)):
        for number in range(count):
            one = pod("batch", f"{size}-{number}", requesting(cpu, "1Gi"), node="node-0", phase="Running")
            one.spec.priority_class_name = f"fairburst-{size}"
            pods.update(None, one)
    entry: QueueEntry = world.plan().queue_set.governing[0]
    return ManagedNamespace("batch", entry, 0, NamespaceDemand(demand={"cpu": 40.0}), {"cpu": 1.0}, np.array([20.0]), []), pods


def of(cpu: float, used: float, name: str = "fairburst") -> ResourceQuota:
    return quota("batch", {"requests.cpu": str(cpu)}, {"requests.cpu": str(used)}, name)


def others(cpu: float, used: float) -> ResourceQuota:
    """Return the namespace quota where small jobs have their own."""
    made = of(cpu, used)
    made.spec.scope_selector = msgspec.convert(without_small(SCOPES["fairburst"]).body(), ScopeSelector)
    return made


@pytest.mark.parametrize(
    ("quotas", "full"),
    [
        pytest.param([of(21, 13)], False, id="room for more"),
        pytest.param([of(21, 20.5)], True, id="no room for the largest pod"),
        pytest.param([others(18, 12), of(2, 1, "fairburst-small")], False, id="room in either part"),
        pytest.param([others(18, 12), of(1.2, 1, "fairburst-small")], True, id="small jobs are refused"),
        pytest.param([others(18, 12), of(1.5, 1, "fairburst-small")], False, id="one more small pod fits"),
        pytest.param([others(12.5, 12), of(2, 1, "fairburst-small")], True, id="large jobs are refused"),
    ],
)
def test_a_full_part_stops_work_as_a_full_namespace_does(quotas: list[ResourceQuota], *, full: bool) -> None:
    item, pods = namespace()
    use = use_of(item, LEVEL, pods.namespace("batch"), quotas, {"cpu": 20.0}, {})
    assert use is not None
    assert (use.short, use.full) == (7.0, full)


@pytest.mark.parametrize("head_room", [10, 0])
def test_a_quota_sinks_by_a_few_pods_at_once_where_they_take_head_room(head_room: int) -> None:
    """Without head-room no other work waits for these places, so the write can wait."""
    world = World(f"pool: {{headRoomPercent: {head_room}}}")
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, job("batch", "work", 200, requesting("1", "1Gi")))
    for number in range(60):
        world.put(pod("batch", f"work-{number}", requesting("1", "1Gi"), node="node-0", phase="Running", owner=("Job", "work")))
    world.settle()
    right = world.quotas["batch", "fairburst"]
    level = float(world.hard("batch")["requests.cpu"])
    larger = quota("batch", {**world.hard("batch"), "requests.cpu": f"{level + 2.5:g}"}, {"requests.cpu": "60"})
    larger.metadata = right.metadata
    world.quotas["batch", "fairburst"] = larger
    world.view.changed_namespaces.add("batch")
    written = {write.hard["requests.cpu"] for write in world.plan().quota_writes}
    assert written == ({f"{level:g}"} if head_room else set())


@pytest.mark.parametrize(
    ("limits", "cpu", "permitted"),
    [
        pytest.param({"cpu": "10"}, "1", "11", id="of the resource that the work lacks first"),
        pytest.param({"cpu": "10"}, "700m", "10700m", id="that no number of pods fills"),
        pytest.param({"cpu": "10", "memory": "1000Gi"}, "1", "11", id="of several resources"),
    ],
)
def test_a_quota_permits_at_most_a_pod_more_than_the_queues_limits(limits: dict[str, str], cpu: str, permitted: str) -> None:
    """Where pods end all the time and starts take seconds, feedback permitted 24 cores where the limit was 10."""
    world = World()
    world.queue("ThroughputQueue", "batch", spec={"limits": limits})
    world.controller("Job", None, job("batch", "work", 200, requesting(cpu, "1Gi")))
    for second in range(60):
        name = f"work-{second}"
        world.put(pod("batch", name, requesting(cpu, "1Gi"), node="node-0", phase="Running", owner=("Job", "work")))
        world.settle(0.5)
        world.end("batch", name)
        world.settle(0.5)
        full = world.quotas["batch", "fairburst"]
        full.status.used = dict(full.spec.hard or {})
    assert world.hard("batch")["requests.cpu"] == permitted
