"""From levels to quota writes: the arithmetic, the differences that are worth a write, and the times and order of writes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fairburst.kube.api.objects import OwnerReference
from fairburst.kube.api.quota_objects import ResourceQuota, ScopeSelector, ScopeSelectorTerm
from fairburst.kube.enforce.quota_plan import QuotaPlanner, QuotaTarget, QuotaWrite, WriteOrder, amounts, quota_key, resource_of
from fairburst.kube.names import QUOTA_NAME
from fairburst.kube.object_writes import quota_body
from tests.support.objects import GI, quota


def target(
    cpu: float, namespace: str = "batch", *, slack: float = 1.0, unit: float = 1.0, counted: float = 0.0, latency: bool = False
) -> QuotaTarget:
    """A quota on cpu alone."""
    return QuotaTarget(namespace, {"cpu": cpu}, {"cpu": unit}, {"cpu": counted}, latency, slack=slack)


def stored(cpu: str, namespace: str = "batch", pods: int | None = None, **more: Any) -> ResourceQuota:
    return quota(namespace, {"requests.cpu": cpu} | ({} if pods is None else {"pods": str(pods)}), **more)


def plan(targets: list[QuotaTarget], quotas: list[ResourceQuota], now: float = 100.0, planner: QuotaPlanner | None = None) -> Any:
    planner = planner or QuotaPlanner("default", 1.0)
    writes, dues = planner.plan(targets, {(one.metadata.namespace, one.metadata.name): one for one in quotas}, now)
    return writes, min(dues.values(), default=math.inf)


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"])
def test_a_key_is_read_back_as_the_resource_it_was_made_of(resource: str) -> None:
    assert resource_of(quota_key(resource)) == resource


@pytest.mark.parametrize("key", ["pods", "limits.cpu", "cpu", "requests.", "count/jobs.batch"])
def test_keys_of_others_are_no_resource_of_ours(key: str) -> None:
    assert resource_of(key) is None
    assert amounts({key: "1", "requests.cpu": "500m"}) == {"cpu": 0.5}


@pytest.mark.parametrize(
    ("level", "slack", "unit", "want"),
    [
        pytest.param(4.0, 1.0, 0.0, 4.0, id="a level, where no pod's size is known"),
        pytest.param(4.0, 5.0, 0.5, 6.5, id="level and slack"),
        pytest.param(4.0004, 0.0, 1.0, 4.0, id="rounded down to a millicore"),
        pytest.param(0.1 + 0.2, 0.0, 1.0, 0.3, id="noise is not rounded away"),
    ],
)
def test_hard_is_level_and_slack(level: float, slack: float, unit: float, want: float) -> None:
    assert target(level, slack=slack, unit=unit).hard("cpu") == want


def test_an_exact_quota_has_no_slack_and_sinks_with_its_level_pod_by_pod() -> None:
    """Design §5: from the start of a lead time no other queue gets freed capacity."""
    exact = replace(target(76.0, slack=5.0), exact=True)
    assert exact.hard("cpu") == 76.0
    (write,), _ = plan([exact], [stored("77500m")])
    assert write.hard == {"requests.cpu": "76"}
    assert plan([target(75.0)], [stored("77500m")])[0] == [], "otherwise a small surplus may stay for a while"


def test_bytes_and_devices_are_whole() -> None:
    whole = QuotaTarget("batch", {"memory": 1.9, "nvidia.com/gpu": 2.5}, {}, {}, False)
    assert (whole.hard("memory"), whole.hard("nvidia.com/gpu")) == (1.0, 2.0)


def test_a_missing_quota_is_created_with_what_its_pods_use() -> None:
    (write,), due = plan([target(7, counted=3.5)], [])
    assert (write.create, write.replace, write.hard, write.used) == (True, False, {"requests.cpu": "8"}, {"requests.cpu": "3500m"})
    assert due == math.inf
    body = quota_body(write, "default")
    assert "ownerReferences" not in body["metadata"], "the garbage collector would remove it with its queue"
    assert body["metadata"]["labels"] == {"fairburst.dev/pool": "default"}


def test_a_quota_that_an_earlier_version_gave_to_its_queue_is_taken_back() -> None:
    owned = stored("8")
    owned.metadata.owner_references = [OwnerReference(kind="ThroughputQueue", name="queue", uid="u")]
    (write,), _ = plan([target(7)], [owned])
    assert (write.create, write.hard) == (False, {"requests.cpu": "8"})


def test_a_quota_that_is_right_is_left_alone() -> None:
    assert plan([target(7)], [stored("8")]) == ([], math.inf)


@pytest.mark.parametrize(
    ("have", "level", "unit", "written"),
    [
        pytest.param("8", 8.0, 1.0, True, id="raised by a pod"),
        pytest.param("8", 7.2, 1.0, True, id="raised by 2.5 percent of the quota"),
        pytest.param("80", 80.0, 1.0, True, id="raised by a pod, which is little of a large quota"),
        pytest.param("80", 79.5, 1.0, False, id="raised by half a pod and less than 2 percent"),
        pytest.param("8", 8.0001, 0.0, False, id="raised by less than a millicore where no pod is known"),
        pytest.param("8", 6.0, 1.0, True, id="lowered by a pod of a small quota"),
        pytest.param("80", 77.0, 1.0, False, id="lowered by less than 5 percent"),
        pytest.param("80", 74.0, 1.0, True, id="lowered by more than 5 percent"),
        pytest.param("80", 60.0, 16.0, False, id="lowered by less than a pod"),
    ],
)
def test_small_changes_wait(have: str, level: float, unit: float, written: bool) -> None:
    writes, _ = plan([target(level, unit=unit)], [stored(have, used={"requests.cpu": have})])
    assert bool(writes) is written


@pytest.mark.parametrize(
    ("used", "level", "slack", "written"),
    [
        pytest.param("10", 40.0, 20.0, False, id="ten more pods of slack, where forty still fit"),
        pytest.param("29", 40.0, 20.0, False, id="ten more, where 21 still fit"),
        pytest.param("30", 40.0, 20.0, True, id="ten more, where twenty still fit"),
        pytest.param("50", 40.0, 11.0, True, id="one more, where none fits"),
        pytest.param("10", 44.0, 20.0, False, id="a higher level that the quota permits already"),
        pytest.param("10", 51.0, 1.0, True, id="a level above the quota"),
    ],
)
def test_slack_is_written_once_the_quota_is_about_to_refuse_pods(used: str, level: float, slack: float, *, written: bool) -> None:
    writes, _ = plan([target(level, slack=slack)], [stored("50", used={"requests.cpu": used})])
    assert bool(writes) is written


def test_slack_that_a_quota_does_not_need_is_written_after_a_minute() -> None:
    planner = QuotaPlanner("default", 1.0)
    assert plan([target(40.0, slack=20.0)], [stored("50")], 100.0, planner) == ([], 160.0)
    (write,), _ = plan([target(40.0, slack=20.0)], [stored("50")], 160.0, planner)
    assert write.hard == {"requests.cpu": "60"}


def test_a_small_surplus_is_written_at_once_where_head_room_is_used() -> None:
    (write,), _ = plan([replace(target(77), strict=True)], [stored("80")])
    assert write.hard == {"requests.cpu": "78"}
    assert plan([replace(target(78.5), strict=True)], [stored("80")])[0] == [], "less than a pod"


def test_a_small_surplus_is_written_once_it_has_lasted() -> None:
    planner = QuotaPlanner("default", 1.0)
    assert plan([target(77)], [stored("80")], 100.0, planner) == ([], 110.0)
    assert plan([target(77)], [stored("80")], 109.0, planner) == ([], 110.0)
    (write,), _ = plan([target(77)], [stored("80")], 110.0, planner)
    assert write.hard == {"requests.cpu": "78"}


def test_a_surplus_that_goes_and_comes_again_starts_anew() -> None:
    planner = QuotaPlanner("default", 1.0)
    plan([target(77)], [stored("80")], 100.0, planner)
    assert plan([target(79)], [stored("80")], 105.0, planner) == ([], math.inf)
    assert plan([target(77)], [stored("80")], 109.0, planner) == ([], 119.0)


def test_one_quota_is_written_at_most_once_an_interval() -> None:
    planner = QuotaPlanner("default", 1.0)
    planner.written(("batch", QUOTA_NAME), 100.0)
    assert plan([target(20)], [stored("8")], 100.5, planner) == ([], 101.0)
    assert len(plan([target(20)], [stored("8")], 101.0, planner)[0]) == 1


def test_a_deleted_quota_is_put_back_without_waiting() -> None:
    planner = QuotaPlanner("default", 1.0)
    planner.written(("batch", QUOTA_NAME), 100.0)
    (write,), _ = plan([target(7)], [], 100.1, planner)
    assert write.create


def test_a_quota_of_none_of_the_counted_resources_is_put_right() -> None:
    """After another choice of `pool.countedResources`, or an edit by hand. It was left as it was, with an internal error of its queue."""
    (write,), _ = plan([target(4.0, counted=2.0)], [quota("batch", {"requests.memory": "8Gi"})])
    assert write.hard == {"requests.cpu": "5"}
    assert write.used == {"requests.cpu": "2"}
    assert write.stale_keys == ("requests.memory",)


@pytest.mark.parametrize(
    ("edited", "want_stale"),
    [
        pytest.param({"requests.cpu": "1000"}, (), id="raised"),
        pytest.param({"requests.cpu": "1"}, (), id="lowered"),
        pytest.param({}, (), id="emptied"),
        pytest.param({"requests.cpu": "8", "pods": "3", "limits.cpu": "9"}, ("limits.cpu", "pods"), id="limits added"),
        pytest.param({"requests.cpu": "8", "requests.memory": "1Gi"}, ("requests.memory",), id="a resource that is not counted"),
    ],
)
def test_a_quota_edited_by_hand_is_put_back_at_once(edited: dict[str, str], want_stale: tuple[str, ...]) -> None:
    (write,), _ = plan([target(7)], [quota("batch", edited)])
    assert not write.create
    assert write.hard == {"requests.cpu": "8"}
    assert write.stale_keys == want_stale


def test_a_label_removed_by_hand_is_put_back_at_once() -> None:
    (write,), _ = plan([target(7)], [stored("8", pool=None)])
    assert not write.create


def _broaden(one: ResourceQuota) -> None:
    one.spec.scope_selector = None


def _narrow(one: ResourceQuota) -> None:
    one.spec.scope_selector = ScopeSelector([ScopeSelectorTerm("PriorityClass", "In", ["system-node-critical"])])


def _add_scope(one: ResourceQuota) -> None:
    one.spec.scopes = ["BestEffort"]


@pytest.mark.parametrize(("change", "replaced"), [(_broaden, False), (_narrow, False), (_add_scope, True)])
def test_a_quota_whose_scope_was_changed_by_hand_is_corrected_or_replaced(change: Any, *, replaced: bool) -> None:
    """The API server permits a change of scopeSelector and none of scopes."""
    found = stored("8")
    change(found)
    (write,), _ = plan([target(7, counted=3.5)], [found])
    assert (write.create, write.replace, write.rescope) == (replaced, replaced, not replaced)
    assert write.used == {"requests.cpu": "3500m"}, "it counted other pods"


def test_values_that_are_not_enforced_after_a_while_are_written_again() -> None:
    planner = QuotaPlanner("default", 1.0)
    behind = stored("8", enforced={"requests.cpu": "20"})
    assert plan([target(7)], [behind], 100.0, planner) == ([], 110.0)
    (write,), _ = plan([target(7)], [behind], 110.0, planner)
    assert write.hard == {"requests.cpu": "8"}


def test_bursts_are_raised_first_then_the_largest_shrinks_then_others_grow() -> None:
    names = ["grow-much", "grow-little", "shrink-little", "shrink-much", "burst-little", "burst-much"]
    levels = {"grow-much": 90, "grow-little": 20, "shrink-little": 8, "shrink-much": 2, "burst-little": 20, "burst-much": 90}
    targets = [target(levels[name], name, unit=0.0, latency=name.startswith("burst")) for name in names]
    writes, _ = plan(targets, [stored("10", name) for name in names])
    want = ["burst-much", "burst-little", "shrink-much", "shrink-little", "grow-much", "grow-little"]
    assert [write.namespace for write in writes] == want
    assert [write.order for write in writes] == sorted(write.order for write in writes)


def test_a_burst_that_ends_shrinks_with_the_others() -> None:
    (write,), _ = plan([target(1, latency=True, unit=0.0)], [stored("10")])
    assert write.order is WriteOrder.SHRINK


def test_a_resource_that_is_counted_anew_is_written_with_its_use() -> None:
    two = QuotaTarget("batch", {"cpu": 7, "nvidia.com/gpu": 4}, {"cpu": 1}, {"cpu": 3, "nvidia.com/gpu": 2}, False)
    write: QuotaWrite
    (write,), _ = plan([two], [stored("8")])
    assert write.hard == {"requests.cpu": "8", "requests.nvidia.com/gpu": "4"}
    assert write.used == {"requests.nvidia.com/gpu": "2"}


def test_a_forgotten_namespace_is_written_again_without_waiting() -> None:
    planner = QuotaPlanner("default", 1.0)
    planner.written(("batch", QUOTA_NAME), 100.0)
    planner.forget("batch")
    assert len(plan([target(20)], [stored("8")], 100.1, planner)[0]) == 1


def entitled(level: float, most: float, *, strict: bool = False) -> QuotaTarget:
    return replace(target(level), entitled={"cpu": most}, strict=strict)


def test_a_quota_admits_what_its_queue_would_be_given() -> None:
    assert entitled(4.0, 30.0).hard("cpu") == 30.0
    assert entitled(4.0, 3.0).hard("cpu") == 5.0


@pytest.mark.parametrize(
    ("have", "one", "written"),
    [
        pytest.param("30", entitled(4.0, 31.0), False, id="a little more"),
        pytest.param("30", entitled(4.0, 60.0), False, id="twice as much may wait for a moment"),
        pytest.param("30", entitled(4.0, 20.0), False, id="less"),
        pytest.param("30", entitled(4.0, 10.0), False, id="half of it may stay for a while"),
        pytest.param("30", entitled(40.0, 45.0), True, id="less than the level"),
        pytest.param("30", entitled(4.0, 20.0, strict=True), True, id="more than an armed burst leaves"),
        pytest.param("30", target(4.0), True, id="backlogged: its level holds"),
    ],
)
def test_an_entitlement_is_seldom_worth_a_write(have: str, one: QuotaTarget, *, written: bool) -> None:
    assert bool(plan([one], [stored(have)])[0]) is written


def test_an_entitlement_that_stays_twice_as_large_is_raised_after_a_minute() -> None:
    """Most bursts are shorter: the room that they do not use is lent to idle queues without a write."""
    planner = QuotaPlanner("default", 1.0)
    assert plan([entitled(4.0, 60.0)], [stored("30")], 100.0, planner) == ([], 160.0)
    assert plan([entitled(4.0, 40.0)], [stored("30")], 150.0, planner) == ([], math.inf)
    assert plan([entitled(4.0, 60.0)], [stored("30")], 160.0, planner) == ([], 220.0)
    (write,), _ = plan([entitled(4.0, 60.0)], [stored("30")], 220.0, planner)
    assert write.hard == {"requests.cpu": "60"}


def test_an_entitlement_lowered_for_an_armed_burst_is_lowered_by_more_so_that_the_next_pods_cost_no_write() -> None:
    planner = QuotaPlanner("default", 0.0)
    (write,), _ = plan([entitled(4.0, 24.0, strict=True)], [stored("30")], 100.0, planner)
    assert write.hard == {"requests.cpu": "18142m"}, "the level, and 20 divided by the root of 2"
    assert plan([entitled(4.0, 18.0, strict=True)], [stored("18142m")], 101.0, planner) == ([], math.inf)
    assert plan([entitled(4.0, 17.0, strict=True)], [stored("18142m")], 102.0, planner)[0]


def test_margins_tell_when_a_quota_will_be_a_pod_too_large() -> None:
    planner, quotas = QuotaPlanner("default", 0.0), {("batch", "fairburst"): stored("30")}
    assert planner.margins([entitled(4.0, 34.0)], quotas) == {"cpu": 5.0}
    assert planner.margins([entitled(4.0, 30.0)], quotas) == {"cpu": 1.0}
    assert planner.margins([entitled(30.0, 30.0)], quotas) == {"cpu": math.inf}, "all of it is needed"
    assert planner.margins([], quotas) == {}


def test_slack_for_a_burst_that_has_just_begun_is_written_when_its_first_pods_may_end() -> None:
    planner = QuotaPlanner("default", 1.0)
    begun = replace(target(40.0, latency=True), opening=True)
    assert plan([begun], [stored("40")], 100.0, planner) == ([], 110.0)
    (write,), _ = plan([replace(begun, opening=False)], [stored("40", used={"requests.cpu": "40"})], 110.0, planner)
    assert write.hard == {"requests.cpu": "41"}


def test_a_burst_that_has_just_begun_is_raised_to_a_higher_level_at_once() -> None:
    (write,), _ = plan([replace(target(60.0, latency=True), opening=True)], [stored("40")])
    assert write.hard == {"requests.cpu": "61"}


def test_an_entitlement_that_stays_too_large_is_lowered_after_a_while() -> None:
    planner = QuotaPlanner("default", 1.0)
    assert plan([entitled(4.0, 10.0)], [stored("30")], 100.0, planner) == ([], 160.0)
    assert plan([entitled(4.0, 20.0)], [stored("30")], 130.0, planner) == ([], math.inf)
    assert plan([entitled(4.0, 10.0)], [stored("30")], 140.0, planner) == ([], 200.0)
    (write,), _ = plan([entitled(4.0, 10.0)], [stored("30")], 200.0, planner)
    assert write.hard == {"requests.cpu": "10"}


def two(cpu: float, memory: float, *, entitled: tuple[float, float] | None = None, **more: bool) -> QuotaTarget:
    """A quota on cpu and GiB of memory, of a queue whose pods are of one cpu and one GiB."""
    most = {} if entitled is None else {"cpu": entitled[0], "memory": entitled[1] * GI}
    whole = QuotaTarget("batch", {"cpu": cpu, "memory": memory * GI}, {"cpu": 1.0, "memory": GI}, {}, False, slack=0.0, entitled=most)
    return replace(whole, **more)  # type: ignore[arg-type]


def stored_two(cpu: int, memory: int) -> ResourceQuota:
    return quota("batch", {"requests.cpu": str(cpu), "requests.memory": f"{memory}Gi"})


def test_an_entitlement_counts_in_pods_a_share_of_unused_memory_alone_is_worth_no_write() -> None:
    """An entitlement is a share of every resource; a queue that has its share of the processors cannot use more memory."""
    planner = QuotaPlanner("default", 1.0)
    assert plan([two(10, 10, entitled=(11, 80))], [stored_two(10, 10)], 100.0, planner) == ([], math.inf)
    assert plan([two(10, 10, entitled=(20, 80))], [stored_two(10, 10)], 100.0, planner) == ([], 160.0)


@pytest.mark.parametrize(
    ("one", "have", "written"),
    [
        pytest.param(two(10, 10), (10, 80), False, id="memory that its pods cannot use"),
        pytest.param(two(10, 10), (80, 80), True, id="room for its pods"),
        pytest.param(two(10, 10), (11, 80), True, id="room for one pod"),
        pytest.param(replace(two(10, 10), counted={"cpu": 2.0, "memory": 40 * GI}), (10, 80), True, id="memory that other pods of it use"),
        pytest.param(two(10, 10, exact=True), (10, 80), True, id="room is kept from it"),
        pytest.param(two(10, 10, entitled=(10, 10), strict=True), (10, 80), True, id="an armed burst relies on the room"),
    ],
)
def test_a_quota_is_lowered_at_once_by_what_pods_of_its_queue_can_use(one: QuotaTarget, have: tuple[int, int], *, written: bool) -> None:
    assert bool(plan([one], [stored_two(*have)])[0]) is written


def test_what_pods_of_the_queue_cannot_use_is_taken_back_after_a_while_or_once_they_can() -> None:
    planner = QuotaPlanner("default", 1.0)
    assert plan([two(10, 10)], [stored_two(10, 80)], 100.0, planner) == ([], 110.0)
    hungry = replace(two(10, 10), unit={"cpu": 0.1, "memory": GI})
    assert plan([hungry], [stored_two(10, 80)], 101.0, QuotaPlanner("default", 1.0))[0]
    (write,), _ = plan([two(10, 10)], [stored_two(10, 80)], 110.0, planner)
    assert write.hard == {"requests.cpu": "10", "requests.memory": "10Gi"}


def test_an_entitlement_changed_by_hand_is_put_back_at_once() -> None:
    planner = QuotaPlanner("default", 1.0)
    assert plan([entitled(4.0, 30.0)], [], 100.0, planner)[0]
    assert plan([entitled(4.0, 30.0)], [stored("30")], 102.0, planner)[0] == []
    (write,), _ = plan([entitled(4.0, 30.0)], [stored("45")], 104.0, planner)
    assert write.hard == {"requests.cpu": "30"}


@pytest.mark.parametrize(
    ("pods", "unit", "counted", "written"),
    [
        pytest.param(100, 1.0, 0, False, id="a higher one, where the amounts admit fewer pods than the present one"),
        pytest.param(100, 0.1, 0, True, id="a higher one for smaller pods"),
        pytest.param(100, 1.0, 19, True, id="a higher one, where the present one is nearly reached by pods of several sizes"),
        pytest.param(100, 0.0, 0, True, id="a higher one for pods that request nothing"),
        pytest.param(19, 1.0, 0, True, id="a lower one"),
    ],
)
def test_which_limits_on_pods_are_worth_a_write(pods: int, unit: float, counted: int, *, written: bool) -> None:
    """Of a quota of nine cores and twenty pods."""
    one = replace(target(9.0, unit=unit, slack=0.0), pods=pods, counted_pods=counted)
    writes, _ = plan([one], [stored("9", pods=20)])
    assert [write.hard["pods"] for write in writes] == ([str(pods)] if written else [])
