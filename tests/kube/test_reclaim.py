"""Reclaim in rounds: quotas first, then evictions, and none twice while it is in flight, refused or remembered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.ending import STUCK_SECONDS
from fairburst.kube.enforce.reclaim import MOST_REFUSED, REFUSED_SECONDS, PodEviction
from fairburst.kube.names import RECLAIMABLE_ANNOTATION
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.times import from_epoch
from fairburst.policy.reclaim.values import Ground, ReclaimMemory
from tests.support.objects import World, job, latency_spec, node, pod, requesting

EARLY = "2025-12-31T22:00:00Z"
IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
SMALL = requesting("1", "1Gi")
NODE_CPU = 8
DAY = 86_400


class Cluster(World):
    """Two nodes of eight cpu, full of pods of one Job in each batch namespace, and a queue whose burst of six may evict."""

    def __init__(
        self, *batches: str, config: str = "", burst: dict[str, Any] | None = None, mode: str = "Quota", weight: int = 1,
        node_cpu: int = NODE_CPU,
    ) -> None:  # fmt: skip
        super().__init__(config, nodes=0)
        for number in range(2):
            self.nodes["", f"node-{number}"] = node(f"node-{number}", cpu=str(node_cpu), memory="128Gi", pods="110")
        self.batches = batches or ("batch",)
        for where in self.batches:
            self.queue("ThroughputQueue", where, spec={"enforcement": mode, "weight": weight})
        self.queue("LatencyQueue", "burst", spec={**latency_spec("6", 120, 900), "reclaim": "Evict", **(burst or {})})
        self.round()
        self.after(5.0)
        each = 2 * node_cpu // len(self.batches)
        for where in self.batches:
            self.controller("Job", None, job(where, f"work-{where}", each, podFailurePolicy=IGNORE))
            for number in range(each):
                self.put(self.running(where, f"{where}-{number:02}", number))
        self.settle()

    def running(self, where: str, name: str, number: int) -> Pod:
        owner = ("Job", f"work-{where}")
        return pod(where, name, SMALL, owner=owner, node=f"node-{number % 2}", phase="Running", creationTimestamp=EARLY)

    def settle(self) -> None:
        for _ in range(3):
            self.after(12.0)
            self.round()

    def arrive(self, count: int = 6, where: str = "burst") -> None:
        self.after(2.0)
        for number in range(count):
            self.put(pod(where, f"{where}-u{number}", SMALL, creationTimestamp="2026-01-01T00:00:00Z"))

    def next(self, seconds: float = 0.1) -> RoundPlan:
        self.after(seconds)
        return self.round()

    def evict(self, evictions: tuple[PodEviction, ...]) -> None:
        """The API server takes the evictions; the pods are ending."""
        self.engine.reclaim.sent(evictions)
        for one in evictions:
            body = msgspec.to_builtins(self.pods[one.key])
            body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:10:00Z", "deletionGracePeriodSeconds": 600}
            body["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
            self.put(msgspec.convert(body, Pod))

    def deleted_by_owner(self, numbers: Iterable[int], *, grace_seconds: int) -> None:
        """Another client asks pods of the first batch queue to end, and they take their time."""
        for number in numbers:
            body = msgspec.to_builtins(self.pods[self.batches[0], f"{self.batches[0]}-{number:02}"])
            body["metadata"] |= {
                "deletionTimestamp": from_epoch(self.wall + grace_seconds).isoformat(),
                "deletionGracePeriodSeconds": grace_seconds,
            }
            self.put(msgspec.convert(body, Pod))

    def gone(self, evictions: tuple[PodEviction, ...]) -> list[str]:
        return [one.key[1] for one in evictions]


def evictions(plan: RoundPlan) -> tuple[PodEviction, ...]:
    return plan.reclaim.evictions


@pytest.fixture
def cluster() -> Cluster:
    """A cluster in which a burst waits, and in which quotas are low enough for evictions in the next round."""
    made = Cluster()
    made.arrive()
    made.next()
    return made


def test_the_quota_is_lowered_to_the_level_before_anybody_goes() -> None:
    cluster = Cluster(weight=4)  # the burst is beyond its queue's fair share: it has its rate and no more
    cluster.arrive()
    first = cluster.next()
    assert evictions(first) == (), "the quota still lets as many in as there are"
    assert cluster.hard("batch")["requests.cpu"] == "10", "the level, and no pod more"
    assert first.due <= cluster.now + 0.1
    second = cluster.next()
    assert len(evictions(second)) == 6
    assert {one.ground for one in evictions(second)} == {Ground.BURST}
    assert second.quota_writes == []


def test_a_quota_that_lets_in_a_few_more_keeps_as_many_from_going(cluster: Cluster) -> None:
    enforced = cluster.quotas["batch", "fairburst"]
    enforced.status.hard = {"requests.cpu": "13", "requests.memory": "13Gi"}
    assert len(evictions(cluster.plan())) == 3


def test_in_gate_mode_new_pods_are_gated_so_work_goes_at_once() -> None:
    cluster = Cluster(mode="Gate")
    cluster.arrive()
    assert len(evictions(cluster.next())) == 6


def test_a_queue_that_is_only_observed_neither_gives_nor_takes() -> None:
    cluster = Cluster(mode="Observe")
    cluster.arrive()
    assert [evictions(cluster.next(1.0)) for _ in range(3)] == [(), (), ()]
    taker = Cluster(burst={"enforcement": "Observe"})
    taker.arrive()
    assert [evictions(taker.next(1.0)) for _ in range(3)] == [(), (), ()]


def test_without_reclaim_nobody_goes() -> None:
    cluster = Cluster(burst={"reclaim": "Never"})
    cluster.arrive()
    assert [evictions(cluster.next(1.0)) for _ in range(3)] == [(), (), ()]


def test_what_is_on_its_way_or_ending_is_not_evicted_again_and_nobody_else_is(cluster: Cluster) -> None:
    chosen = evictions(cluster.next())
    cluster.engine.reclaim.sent(chosen)
    assert evictions(cluster.next()) == (), "requests under way"
    cluster.evict(chosen)
    assert [evictions(cluster.next(5.0)) for _ in range(3)] == [(), (), ()], "pods that take their time"
    for one in chosen:
        cluster.end(*one.key)
    assert evictions(cluster.next()) == (), "their places are free"


def test_pods_without_a_grace_period_that_end_a_little_late_still_come_free(cluster: Cluster) -> None:
    """A Job's pod waits for its finalizer to be taken off. Without that there were 216 evictions for 200 pods."""
    chosen = evictions(cluster.next())
    cluster.evict(chosen)
    for one in chosen:
        body = msgspec.to_builtins(cluster.pods[one.key])
        body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 0}
        cluster.put(msgspec.convert(body, Pod))
    assert cluster.next(5.0).reclaim.due > 1.0, "there is room for all, coming"


def test_what_reclaim_has_evicted_is_charged_to_no_queue_while_it_ends() -> None:
    cluster = Cluster(weight=4)
    cluster.arrive()
    cluster.next()
    cluster.evict(evictions(cluster.next()))
    plan = cluster.next()
    assert plan.snapshot.usage[:, 0].tolist() == [10.0, 0.0]
    assert plan.reclaim.holding == frozenset(), "the queue uses no more than its level"


def test_what_reclaim_has_evicted_is_charged_again_if_it_still_runs_a_minute_after_its_grace(cluster: Cluster) -> None:
    cluster.evict(evictions(cluster.next()))
    grace = cluster.engine.reclaim.rules.longest_grace_seconds
    assert cluster.next(grace + STUCK_SECONDS - 1.0).snapshot.usage[0, 0] == 10.0
    assert cluster.next(2.0).snapshot.usage[0, 0] == 16.0


def test_pods_that_their_owner_evicts_are_charged_until_they_are_gone() -> None:
    """Otherwise a tenant has free use: it evicts its own pods with a grace period of a day, and they ignore the request."""
    cluster = Cluster(burst={"reclaim": "Never"})
    cluster.arrive()
    cluster.deleted_by_owner(range(6), grace_seconds=DAY)
    assert [cluster.next(1.0).snapshot.usage[:, 0].tolist() for _ in range(3)] == [[16.0, 0.0]] * 3


def test_pods_that_end_in_time_for_the_burst_come_free_and_no_others_go() -> None:
    cluster = Cluster()
    cluster.arrive()
    cluster.deleted_by_owner(range(6), grace_seconds=20)
    assert [evictions(cluster.next(1.0)) for _ in range(3)] == [(), (), ()]


def test_pods_that_their_owner_deletes_with_a_long_grace_period_switch_reclaim_off_for_no_burst() -> None:
    """They do not come free in time. They may go as any other pod of their queue may: reclaim asks them to hurry."""
    cluster = Cluster()
    cluster.arrive()
    cluster.deleted_by_owner(range(16), grace_seconds=DAY)
    cluster.next()
    chosen = evictions(cluster.next())
    assert [one.grace_seconds for one in chosen] == [30] * 6
    cluster.evict(chosen)
    assert [evictions(cluster.next(5.0)) for _ in range(3)] == [(), (), ()], "those six come free now"
    late = evictions(cluster.next(30.0 + STUCK_SECONDS - 15.0 + 0.2)) + evictions(cluster.next())
    assert len(late) == 6, "they have not ended: others go"
    assert not {one.uid for one in late} & {one.uid for one in chosen}


def test_victims_are_given_no_longer_than_until_the_deadline_of_the_burst() -> None:
    cluster = Cluster(burst=latency_spec("6", 20, 900))
    cluster.arrive()
    cluster.next()
    given = [one.grace_seconds for one in evictions(cluster.next())]
    assert len(given) == 6
    assert all(seconds is not None and 1 <= seconds <= 20 for seconds in given), given


def test_a_pod_of_a_long_grace_period_is_given_a_bounded_time_to_end() -> None:
    cluster = Cluster()
    for number in range(16):
        body = msgspec.to_builtins(cluster.running("batch", f"batch-{number:02}", number))
        body["spec"]["terminationGracePeriodSeconds"] = 86_400
        cluster.put(msgspec.convert(body, Pod))
    cluster.arrive()
    cluster.next()
    assert {one.grace_seconds for one in evictions(cluster.next())} == {30}
    assert len(cluster.engine.reclaim.memory.asked) == 6
    assert max(cluster.engine.reclaim.memory.asked.values()) == cluster.wall + 30 + STUCK_SECONDS


def test_a_restart_in_between_evicts_nobody_more() -> None:
    """The new process knows only the cluster, and the memory that was saved before the evictions were sent."""
    before = Cluster()
    before.arrive()
    before.next()
    chosen = evictions(before.next())
    before.evict(chosen[:4])  # the last two were lost with the process
    after = Cluster()
    after.engine.reclaim.memory = before.engine.reclaim.memory
    after.arrive()
    after.evict(chosen[:4])
    after.next()
    assert evictions(after.next()) == (), "room has been made for those pods, as far as is known"
    late = after.next(61.0)
    assert len(evictions(late)) == 2, "a minute later it is seen that two found none"


def test_evictions_on_their_way_are_no_longer_their_queues_to_give() -> None:
    """Two queues of eight that keep five each. Without that 58 and 62 pods were left instead of 60 and 60."""
    cluster = Cluster("first", "second")
    cluster.arrive(3)
    cluster.next()
    begun = evictions(cluster.next())
    cluster.engine.reclaim.sent(begun)
    for number in range(3, 6):
        cluster.put(pod("burst", f"burst-u{number}", SMALL, creationTimestamp="2026-01-01T00:00:00Z"))
    chosen = begun
    for _ in range(4):
        now = evictions(cluster.next(1.0))
        cluster.engine.reclaim.sent(now)
        chosen += now
    assert sorted(one.key[0] for one in chosen) == ["first"] * 3 + ["second"] * 3


def test_where_one_is_refused_others_go_until_its_time_is_over() -> None:
    cluster = Cluster("held", "open")
    cluster.arrive(2)
    cluster.next()
    first, second = evictions(cluster.next())
    assert {first.key[0], second.key[0]} == {"held", "open"}, "queues of equal weight give alike"
    refused = first if first.key[0] == "held" else second
    cluster.evict(tuple(one for one in (first, second) if one is not refused))
    cluster.engine.reclaim.sent([refused])
    cluster.engine.reclaim.refused(refused, 1.0, cluster.now)
    [other] = evictions(cluster.next())
    assert (other.key[0], other.waiting) == ("open", refused.waiting)
    cluster.engine.reclaim.refused(other, 1.0, cluster.now)
    assert evictions(cluster.next(REFUSED_SECONDS - 1.0)) == ()
    assert len(evictions(cluster.next(2.0))) == 1


def test_a_tenant_whose_budgets_protect_very_many_controllers_keeps_no_other_queue_from_giving() -> None:
    """Each refusal is about one controller, and costs one of the evictions of a second. The queue furthest above its share had all of its
    controllers asked before another queue gave anything, and could be asked again by then if it had enough of them."""
    cluster = Cluster("held", "open", node_cpu=100, burst=latency_spec("100", 120, 900), config="reclaim: {evictionsPerSecond: 10}")
    for number in range(140):
        alone = pod("held", f"held-{number:02}", SMALL, node=f"node-{number % 2}", phase="Running", creationTimestamp=EARLY)
        alone.metadata.annotations = {RECLAIMABLE_ANNOTATION: "true"}
        cluster.put(alone)
    for number in range(60, 100):
        cluster.end("open", f"open-{number:02}")
    cluster.settle()
    cluster.arrive(100)
    refused, gone = 0, 0
    for _ in range(80):
        chosen = evictions(cluster.next())
        cluster.evict(tuple(one for one in chosen if one.key[0] == "open"))
        for one in chosen:
            if one.key[0] == "held":
                cluster.engine.reclaim.sent([one])
                cluster.engine.reclaim.refused(one, 1.0, cluster.now)
        refused, gone = refused + sum(one.key[0] == "held" for one in chosen), gone + sum(one.key[0] == "open" for one in chosen)
    assert gone == 5, "all that the queue has above its share"
    assert refused > 2 * MOST_REFUSED, "then others of the protected queue are asked again"


def test_evictions_that_could_not_be_remembered_are_chosen_again(cluster: Cluster) -> None:
    chosen = evictions(cluster.next())
    cluster.engine.reclaim.not_done(chosen)
    assert cluster.gone(evictions(cluster.next())) == cluster.gone(chosen)


def test_a_throughput_queue_gets_its_share_once_it_has_been_short_for_the_grace_time() -> None:
    cluster = Cluster(config="reclaim: {graceSeconds: 100}")
    cluster.queue("ThroughputQueue", "second", spec={"reclaim": "Evict"}, created="2026-01-01T00:00:05Z")
    cluster.round()
    cluster.controller("Job", None, job("second", "later", 16, podFailurePolicy=IGNORE))
    cluster.arrive(8, where="second")
    found = [evictions(cluster.next(10.0)) for _ in range(9)]
    assert not any(found)
    chosen = tuple[PodEviction, ...]()
    for _ in range(15):
        now = evictions(cluster.next(2.0))
        cluster.evict(now)
        chosen += now
    assert len(chosen) == 8
    assert {(one.ground, one.key[0]) for one in chosen} == {(Ground.FAIR_SHARE, "batch")}
    assert all("for the fair share of another queue, which has been owed cpu since" in one.message for one in chosen)
    assert not [one.message for one in chosen if "second" in one.message]


def test_a_queue_that_evicts_again_after_a_time_in_which_none_did_waits_for_the_whole_grace_time() -> None:
    """The beginning of the former shortage was kept, across restarts too, and the grace time counted as over."""
    cluster = Cluster(config="reclaim: {graceSeconds: 100}", burst={"reclaim": "Never"})
    second = cluster.queue("ThroughputQueue", "second", spec={"reclaim": "Evict"}, created="2026-01-01T00:00:05Z")
    cluster.round()
    cluster.controller("Job", None, job("second", "later", 16, podFailurePolicy=IGNORE))
    cluster.arrive(8, where="second")
    assert not any(evictions(cluster.next(10.0)) for _ in range(5))
    for reclaim, generation in (("Never", 2), ("Evict", 3)):
        second["spec"]["reclaim"], second["metadata"]["generation"] = reclaim, generation
        assert not any(evictions(cluster.next(10.0)) for _ in range(9)), reclaim
    assert any(evictions(cluster.next(2.0)) for _ in range(15))


def test_an_eviction_says_for_which_burst(cluster: Cluster) -> None:
    [message] = {one.message for one in evictions(cluster.next())}
    opened = "2026-01-01T00:00:43Z"
    assert message == (
        f"Evicted for a burst of another queue that came at {opened} and is owed cpu. Its own queue uses more than its level."
    )


@pytest.mark.parametrize(
    "spec", [{"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, {"schedulingGates": [{"name": "x"}]}]
)
def test_for_a_pod_that_the_scheduler_may_not_place_there_nobody_goes(spec: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.arrive(0)
    body = msgspec.to_builtins(pod("burst", "u0", requesting("6", "6Gi")))
    body["spec"] |= spec
    cluster.put(msgspec.convert(body, Pod))
    assert [evictions(cluster.next(1.0)) for _ in range(3)] == [(), (), ()]


def test_nothing_is_remembered_for_longer_than_it_matters(cluster: Cluster) -> None:
    chosen = evictions(cluster.next())
    assert len(cluster.engine.reclaim.memory.made_room) == 6
    cluster.evict(chosen)
    for one in chosen:
        cluster.end(*one.key)
    for number in range(6):
        cluster.end("burst", f"burst-u{number}")
    cluster.next(61.0)
    assert cluster.engine.reclaim.memory == ReclaimMemory(allowance=94.0, allowance_as_of=cluster.engine.reclaim.memory.allowance_as_of)
