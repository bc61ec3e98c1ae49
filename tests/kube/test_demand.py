"""Demand of a namespace: existing pods, pods that controllers have yet to create, and a step for work that no controller announces."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fairburst.kube.api.objects import JOB_TRACKING, Pod
from fairburst.kube.names import HELD_ANNOTATION
from fairburst.kube.usage.controller_index import ControllerIndex
from fairburst.kube.usage.demand import NamespaceDemand, namespace_demand
from fairburst.kube.usage.owner_sums import COUNTED_SECONDS
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.waiting_pods import MOST_SIZES, waiting_lines, waiting_pods
from fairburst.kube.workloads.job import earlier_ends
from fairburst.kube.workloads.replicas import Deployment, ReplicaSet, StatefulSet
from fairburst.policy.arrays import FloatArray
from tests.support.objects import GI, WALL, job, pod, replicated, requesting

RESOURCES = ("cpu", "memory")


def demand(*things: Any, namespace: str = "batch", node_cpus: tuple[float, ...] | None = None) -> NamespaceDemand:
    """The demand of a namespace that holds these pods and controllers, on nodes of so many cpus (None: of any size)."""
    pods, controllers = PodIndex(RESOURCES), ControllerIndex()
    for thing in things:
        if isinstance(thing, Pod):
            pods.update(None, thing)
        else:
            controllers.update(type(thing).__name__, None, thing)
    workloads, usage = controllers.workloads(namespace), pods.namespace(namespace)
    if node_cpus is None:
        return namespace_demand(workloads, usage, pods.owners_in(namespace), RESOURCES)
    return namespace_demand(
        workloads, usage, pods.owners_in(namespace), RESOURCES, fitting=lambda charge: sum(cpu // charge["cpu"] for cpu in node_cpus)
    )


def test_waiting_pods_of_equal_requests_are_listed_together_and_few_sizes_of_them() -> None:
    """Each line costs every round something, and a tenant may create Jobs of as many sizes as it likes."""
    found = demand(*(job("batch", f"j{number}", 2, requesting(f"{1 + number % 3}")) for number in range(9)))
    requests, counts = waiting_lines(found, ("cpu",)) or (np.zeros((0, 1)), np.zeros(0))
    assert (requests.ravel().tolist(), counts.tolist()) == ([1.0, 2.0, 3.0], [6.0, 6.0, 6.0])
    found = demand(*(job("batch", f"j{number}", 1, requesting(f"{1 + number}m")) for number in range(MOST_SIZES + 50)))
    assert [len(each) for each in waiting_lines(found, ("cpu",)) or ()] == [MOST_SIZES, MOST_SIZES]


def pods_of(owner: str, count: int, *containers: Any, kind: str = "Job", **more: Any) -> list[Pod]:
    return [pod("batch", f"{owner}-{number}", *containers, owner=(kind, owner), **more) for number in range(count)]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"parallelism": 4}, 4, id="parallelism, one success ends it"),
        pytest.param({"parallelism": 4, "completions": 10}, 4, id="more completions than at once"),
        pytest.param({"parallelism": 4, "completions": 3}, 3, id="fewer completions than at once"),
        pytest.param({"parallelism": 4, "completions": 10, "status": {"succeeded": 8}}, 2, id="the last two"),
        pytest.param({"parallelism": 4, "completions": 10, "status": {"succeeded": 12}}, 0, id="more than asked for"),
        pytest.param({"parallelism": 4, "status": {"succeeded": 1}}, 0, id="one success has ended it"),
        pytest.param({"parallelism": 4, "status": {"uncountedTerminatedPods": {"succeeded": ["j-0"]}}}, 0, id="a success being counted"),
        pytest.param({"parallelism": 4, "status": {"failed": 3}}, 4, id="failures do not end it"),
        pytest.param(
            {"parallelism": 9, "completions": 10, "status": {"succeeded": 2, "failed": 5, "failedIndexes": "1,3-5,9"}},
            3,
            id="indexes that failed for good",
        ),
        pytest.param({"parallelism": 4, "completions": 10, "status": {"failedIndexes": "0-9"}}, 0, id="all indexes have failed"),
        pytest.param({"parallelism": None}, 1, id="one by default"),
        pytest.param({"parallelism": 0}, 0, id="paused by parallelism"),
        pytest.param({"parallelism": 4, "suspend": True}, 0, id="suspended"),
        pytest.param({"parallelism": 4, "managedBy": "example.com/elsewhere"}, 0, id="managed by another controller"),
        pytest.param({"parallelism": 4, "managedBy": "kubernetes.io/job-controller"}, 4, id="managed by its own controller"),
        pytest.param({"parallelism": 4, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}, 0, id="complete"),
        pytest.param({"parallelism": 4, "status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, 0, id="about to fail"),
    ],
)
def test_a_job_wants_what_it_may_still_run_at_once(given: dict[str, Any], want: int) -> None:
    result = demand(job("batch", "j", given.pop("parallelism"), requesting("2", "1Gi"), **given))
    assert result.demand.get("cpu", 0.0) == 2.0 * want
    assert result.demand.get("memory", 0.0) == GI * want
    assert [owner.wanted for owner in result.lacking] == ([want] if want else [])
    assert result.unit == {"cpu": 2.0 if want else 0.0, "memory": GI if want else 0.0}


def test_a_job_without_completions_wants_its_present_pods_once_one_has_succeeded() -> None:
    """The Job controller creates no more pods. 99 places of the pool were kept for a Job of 100 pods while the last of them ran."""
    result = demand(job("batch", "j", 100, status={"succeeded": 1}), *pods_of("j", 3))
    assert result.demand["cpu"] == 3
    assert result.lacking == []


def demand_after_ends(status: dict[str, Any], *, seen: int, seconds: float = 0.0, restarted: bool = False) -> float:
    """Cpu wanted by a Job of 10 completions, 7 at once, of which the operator has `seen` so many of its pods end, `seconds` ago.
    `restarted`: it has looked for earlier ends, as at its start."""
    pods, controllers = PodIndex(RESOURCES), ControllerIndex()
    made = job("batch", "j", 7, completions=10, status=status)
    controllers.update("Job", None, made)
    if restarted:
        owner = made.metadata.namespace, made.metadata.uid
        pods.note_earlier_ends(*owner, *earlier_ends(made, pods.owner(*owner)))
    for each in pods_of("j", seen, finalizers=[JOB_TRACKING]):
        pods.update(None, each)
        pods.update(each, None)  # the watch is of live pods: it reports an end as a deletion
    pods.expire(100.0)
    pods.expire(100.0 + seconds)
    usage = pods.namespace("batch")
    return namespace_demand(controllers.workloads("batch"), usage, pods.owners_in("batch"), RESOURCES).demand.get("cpu", 0.0)


@pytest.mark.parametrize(
    ("status", "seen", "want"),
    [
        pytest.param({}, 7, 3, id="seven have ended, none of them counted"),
        pytest.param({"uncountedTerminatedPods": {"succeeded": ["j-0", "j-1", "j-2"]}}, 7, 3, id="three are being counted"),
        pytest.param({"succeeded": 5, "uncountedTerminatedPods": {"succeeded": ["j-0"]}}, 7, 3, id="some are counted"),
        pytest.param({"succeeded": 7}, 7, 3, id="all are counted"),
        pytest.param({"succeeded": 5, "failed": 2}, 7, 5, id="two had failed"),
        pytest.param({"succeeded": 4, "uncountedTerminatedPods": {"failed": ["j-0", "j-1"]}}, 6, 6, id="failures are being counted"),
        pytest.param({"succeeded": 7}, 2, 3, id="most had ended before the operator started"),
        pytest.param({"succeeded": 10}, 10, 0, id="done"),
    ],
)
def test_a_pod_that_has_ended_is_wanted_no_more_before_the_job_controller_has_counted_it(
    status: dict[str, Any], seen: int, want: int
) -> None:
    assert demand_after_ends(status, seen=seen) == want


def test_an_end_that_the_job_controller_never_counts_is_forgotten() -> None:
    """A pod failure policy with the action Ignore counts neither a success nor a failure, and starts a successor."""
    assert demand_after_ends({"succeeded": 3}, seen=7, seconds=COUNTED_SECONDS - 1) == 3
    assert demand_after_ends({"succeeded": 3}, seen=7, seconds=COUNTED_SECONDS + 1) == 7


def test_an_end_is_not_forgotten_while_the_job_controller_has_not_looked_since() -> None:
    """3,000 Jobs of one pod, and a Job controller that is a minute behind: 818 of them were woken, since their ended pods seemed to lack
    successors."""
    assert demand_after_ends({"active": 7}, seen=7, seconds=60.0) == 3
    assert demand_after_ends({"active": 4, "succeeded": 3}, seen=7, seconds=60.0) == 3
    assert demand_after_ends({"active": 0, "failed": 7}, seen=7, seconds=60.0) == 7


def test_the_same_holds_for_ends_before_the_operator_started() -> None:
    assert demand_after_ends({"active": 7}, seen=0, restarted=True, seconds=60.0) == 3
    assert demand_after_ends({"active": 4, "succeeded": 3}, seen=0, restarted=True, seconds=60.0) == 3


def test_a_job_wants_its_pods_although_their_events_come_later_than_its_own() -> None:
    """Pods and Jobs have a watch each. A burst whose demand was gone for a moment would be taken as done."""
    assert demand_after_ends({"active": 7}, seen=0) == 7
    assert demand_after_ends({"active": 7, "succeeded": 3}, seen=3) == 7


def test_a_job_with_all_its_pods_lacks_none() -> None:
    result = demand(job("batch", "j", 3), *pods_of("j", 3))
    assert result.demand == {"cpu": 3.0, "memory": 3 * GI}
    assert result.lacking == []


def created(thing: Any, at: str) -> Any:
    """The object, created at this second."""
    metadata = msgspec.structs.replace(thing.metadata, creation_timestamp=f"2026-01-01T00:00:{at}Z")
    return msgspec.structs.replace(thing, metadata=metadata)


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([], None, id="no work"),
        pytest.param([created(job("batch", "j", 3), "07")], 7.0, id="a Job that lacks its pods"),
        pytest.param([created(job("batch", "j", 3), "07"), created(job("batch", "k", 3), "09")], 7.0, id="the older of two"),
        pytest.param(
            [created(job("batch", "j", 3, status={"conditions": [{"type": "Complete", "status": "True"}]}), "07"),
             created(job("batch", "k", 3), "09")], 9.0, id="a Job that is done does not count",
        ),
        pytest.param(
            [created(job("batch", "j", 1), "07"), *[created(one, "30") for one in pods_of("j", 1)]], 7.0, id="a pod that was made again",
        ),
        pytest.param([created(job("batch", "j", 3), "07"), created(pod("batch", "p"), "09")], None, id="a pod of no controller"),
        pytest.param([job("batch", "j", 3)], None, id="a controller of unknown age"),
        pytest.param(
            [created(job("batch", "j", 3, suspend=True), "07"), created(job("batch", "k", 3), "09")], 9.0,
            id="suspended by its owner: it is not wanted",
        ),
    ],
)  # fmt: skip
def test_the_age_of_the_oldest_work(things: list[Any], want: float | None) -> None:
    assert demand(*things).oldest == (None if want is None else WALL + want)


@pytest.mark.parametrize(
    ("nodes", "cpu", "want"),
    [
        pytest.param((4.0, 4.0), "3", 6.0, id="one on each, the rest of a node is a fragment"),
        pytest.param((4.0, 4.0), "2", 8.0, id="two on each"),
        pytest.param((4.0, 4.0), "5", 0.0, id="larger than any node"),
        pytest.param((64.0,), "3", 30.0, id="all of them"),
    ],
)
def test_what_no_node_can_hold_is_wanted_but_no_level_is_promised_for_it(nodes: tuple[float, ...], cpu: str, want: float) -> None:
    """The allocation contains no fragments that are too small for every pod of the queue."""
    found = demand(job("batch", "j", 10, requesting(cpu, "1Gi")), node_cpus=nodes)
    assert found.demand["cpu"] == 10 * float(cpu)
    assert found.placeable["cpu"] == want


def test_pods_that_exist_are_placed_whatever_the_nodes_are_now() -> None:
    found = demand(job("batch", "j", 3, requesting("3", "1Gi")), *pods_of("j", 2, requesting("3", "1Gi"), node="node-0"), node_cpus=())
    assert found.placeable["cpu"] == 6.0


@pytest.mark.parametrize(("pods", "want"), [(1, 2), (11, 12), (19, 20), (20, 22), (30, 33)])
def test_pods_that_nothing_announces_are_granted_a_tenth_more_in_whole_pods_and_at_least_one(pods: int, want: int) -> None:
    """Levels are whole pods: a demand with a part of one would never be met, and its queue would have no entitlement."""
    found = demand(*(pod("batch", f"p-{number}", requesting("300m", "1Gi"), node="node-0") for number in range(pods)))
    assert found.demand == {"cpu": pytest.approx(want * 0.3), "memory": want * GI}


LARGE, SMALL = requesting("9", "1Gi"), requesting("2", "1Gi")


@pytest.mark.parametrize(
    ("things", "want", "unit", "names"),
    [
        pytest.param([job("batch", "j", 2, LARGE), *pods_of("j", 2, LARGE)], 0, 0, ["Job j"], id="a Job's"),
        pytest.param(
            [job("batch", "j", 2, LARGE), *pods_of("j", 1, LARGE, node="gone")], 9, 0, ["Job j"],
            id="one that runs on a node that takes no pods now keeps its claim",
        ),
        pytest.param([pod("batch", "p", LARGE)], 0, 0, ["pods without a known controller"], id="a bare pod"),
        pytest.param(
            [pod("batch", "p", LARGE), pod("batch", "q", SMALL)], 4, 2,
            ["pods without a known controller"], id="beside one that fits, with a step more",
        ),
        pytest.param(
            [job("batch", "j", 2, LARGE), *pods_of("j", 2, LARGE), pod("batch", "q", SMALL)],
            4, 2, ["Job j"], id="a Job's beside a bare one that fits",
        ),
        pytest.param([job("batch", "j", 2, LARGE, suspend=True)], 0, 0, [], id="suspended by its owner"),
        pytest.param([job("batch", "j", 2, requesting("4", "1Gi")), *pods_of("j", 2, requesting("4", "1Gi"))], 8, 4, [], id="all fit"),
    ],
)  # fmt: skip
def test_a_waiting_pod_that_no_node_could_hold_claims_nothing(things: list[Any], want: float, unit: float, names: list[str]) -> None:
    found = demand(*things, node_cpus=(4.0, 4.0))
    assert found.placeable.get("cpu", 0.0) == want
    assert found.unit.get("cpu", 0.0) == unit
    assert [name for name, _ in found.no_node.values()] == names
    assert all(count <= 0 for requests, count in found.waiting if requests["cpu"] > 8), "nor is anything lent to it"


def test_a_pod_being_deleted_no_longer_counts_as_one_of_the_jobs() -> None:
    leaving = pods_of("j", 1, deletionTimestamp="2026-01-01T00:00:00Z")
    result = demand(job("batch", "j", 3), *leaving)
    assert [(owner.wanted, owner.existing) for owner in result.lacking] == [(3, 0)]
    assert result.demand["cpu"] == 4.0, "three to come, and one that still takes its place"


def test_a_job_is_reached_once_its_controller_has_noted_its_start() -> None:
    new, old = job("batch", "new", 3, status={"startTime": None}), job("batch", "old", 3)
    assert [(owner.name, owner.reached) for owner in demand(new, old).lacking] == [("new", False), ("old", True)]


@pytest.mark.parametrize(
    ("active", "things", "due"),
    [
        pytest.param(2, pods_of("j", 2), False, id="its status has the pods that there are"),
        pytest.param(3, pods_of("j", 2), True, id="one more: that one has ended since"),
        pytest.param(1, pods_of("j", 2), False, id="one less: that one is new"),
        pytest.param(2, pods_of("j", 2, deletionTimestamp="2026-01-01T00:00:00Z"), True, id="they are being deleted"),
    ],
)
def test_a_job_is_due_while_its_status_counts_pods_as_active_that_have_ended(active: int, things: list[Any], *, due: bool) -> None:
    (owner,) = demand(job("batch", "j", 5, status={"active": active}), *things).lacking
    assert owner.due is due


def test_a_deployment_wants_through_its_replica_sets() -> None:
    old = replicated(ReplicaSet, "batch", "old", 1, owner=("Deployment", "web"))
    new = replicated(ReplicaSet, "batch", "new", 3, owner=("Deployment", "web"))
    result = demand(replicated(Deployment, "batch", "web", 3), old, new, *pods_of("old", 1, kind="ReplicaSet"))
    assert result.demand["cpu"] == 4.0, "a rolling update's surge is in the sum of its replica sets"
    assert [owner.name for owner in result.lacking] == ["new"]


def test_a_deployment_without_a_replica_set_yet_wants_by_itself() -> None:
    result = demand(replicated(Deployment, "batch", "web", 3))
    assert result.demand["cpu"] == 3.0
    assert [owner.kind for owner in result.lacking] == ["Deployment"]


def test_a_stateful_set_wants_its_replicas_one_by_default() -> None:
    assert demand(replicated(StatefulSet, "batch", "db", 2)).demand["cpu"] == 2.0
    assert demand(replicated(StatefulSet, "batch", "db", None)).demand["cpu"] == 1.0


def test_a_controller_being_deleted_wants_nothing_more() -> None:
    going = replicated(StatefulSet, "batch", "db", 5, deletionTimestamp="2026-01-01T00:00:00Z")
    assert demand(going).demand.get("cpu", 0.0) == 0.0


def test_what_the_newest_pod_was_charged_counts_for_those_to_come() -> None:
    first = pod("batch", "j-0", requesting("1"), owner=("Job", "j"), creationTimestamp="2026-01-01T00:00:00Z")
    injected = pod("batch", "j-1", requesting("1"), requesting("500m"), owner=("Job", "j"), creationTimestamp="2026-01-01T00:00:01Z")
    result = demand(job("batch", "j", 4, requesting("1")), first, injected)
    assert result.demand["cpu"] == 4 * 1.5
    assert result.unit["cpu"] == 1.5


def test_bare_pods_want_a_pod_more_than_there_are() -> None:
    result = demand(*[pod("batch", f"p{number}", requesting("2")) for number in range(3)])
    assert result.demand["cpu"] == 6.0 + 2.0


def test_many_bare_pods_want_a_tenth_more() -> None:
    result = demand(*[pod("batch", f"p{number}") for number in range(50)])
    assert result.demand["cpu"] == pytest.approx(55.0)


def test_executors_that_a_bare_driver_owns_want_more_as_well() -> None:
    driver = pod("batch", "driver")
    result = demand(driver, *pods_of(driver.metadata.uid, 4, kind="Pod"))
    assert result.demand["cpu"] == 5.0 + 1.0


def test_left_over_pods_of_a_finished_job_want_what_they_have_and_no_more() -> None:
    finished = job("batch", "j", 2, status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert demand(finished, *pods_of("j", 2)).demand["cpu"] == 2.0


@pytest.mark.parametrize(
    ("containers", "want"),
    [
        pytest.param([requesting()], [], id="both requested"),
        pytest.param([requesting(memory=None)], ["Job j"], id="no memory"),
        pytest.param([requesting(), requesting(None, None)], ["Job j"], id="one container of two has none"),
        pytest.param([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}], [], id="limits, which become requests"),
    ],
)
def test_controllers_whose_pods_a_quota_would_refuse_are_named(containers: list[Any], want: list[str]) -> None:
    assert demand(job("batch", "j", 1, *containers)).unrequested == want


def test_a_template_without_requests_is_fine_where_admission_adds_them() -> None:
    bare_template = job("batch", "j", 3, requesting(None, None))
    assert demand(bare_template, *pods_of("j", 1, requesting("1", "1Gi"))).unrequested == []


def test_resources_that_are_not_counted_are_left_out() -> None:
    assert set(demand(job("batch", "j", 1, requesting(**{"nvidia.com/gpu": "1"}))).demand) == {"cpu", "memory"}


def test_other_namespaces_do_not_matter() -> None:
    assert demand(job("other", "j", 9), pod("other", "p")).demand == {}


def test_a_controller_that_is_gone_wants_nothing() -> None:
    controllers = ControllerIndex()
    controllers.update("Job", None, job("batch", "j", 4))
    controllers.update("Job", job("batch", "j", 4), None)
    assert list(controllers.workloads("batch").of("Job")) == []
    assert list(controllers.workloads("never-seen").of("Job")) == []


class TestWaitingPods:
    """Waiting pods, to which the core lends idle capacity: pods without a node, controller by controller."""

    def listed(self, *things: Any) -> list[tuple[int, list[float], float]]:
        """(row, request, count) of the waiting pods of a namespace, with an empty namespace as well."""
        found = waiting_pods(None, {1: lines} if (lines := waiting_lines(demand(*things), RESOURCES)) is not None else {})
        if found is None:
            return []
        assert not found.in_order
        return list(zip(found.row.tolist(), found.request.tolist(), found.count.tolist(), strict=True))

    def test_pods_to_come_and_pods_without_a_node_wait(self) -> None:
        bound, pending = pods_of("j", 2, node="n"), pod("batch", "j-9", owner=("Job", "j"))
        other = job("batch", "k", 2, requesting("2", "4Gi"))
        assert self.listed(job("batch", "j", 5), *bound, pending, other) == [(1, [1.0, GI], 3.0), (1, [2.0, 4 * GI], 2.0)]

    def test_a_controller_with_all_its_pods_bound_waits_for_nothing(self) -> None:
        assert self.listed(job("batch", "j", 2), *pods_of("j", 2, node="n")) == []

    def test_a_held_job_counts_as_one_that_starts_whole(self) -> None:
        held = job("batch", "j", 4, suspend=True)
        held.metadata.annotations = {HELD_ANNOTATION: "true"}
        assert self.listed(held) == [(1, [4.0, 4 * GI], 1.0)]

    def test_nothing_is_listed_where_bare_pods_may_wait_unseen(self) -> None:
        assert self.listed(job("batch", "j", 2), pod("batch", "bare", node="n")) == []


def test_pods_of_another_namespace_that_name_a_jobs_uid_take_nothing_from_its_demand() -> None:
    forged = [pod("elsewhere", f"forged-{number}", requesting("64"), owner=("Job", "j"), node="node") for number in range(4)]
    result = demand(job("batch", "j", 4, requesting("2")), *forged)
    assert result.demand["cpu"] == 8.0
    assert [(owner.existing, owner.wanted) for owner in result.lacking] == [(0, 4)]


def test_waiting_pods_that_follow_changes_equal_those_read_at_once() -> None:
    rng = np.random.default_rng(3)
    lines: dict[int, tuple[FloatArray, FloatArray]] = {}
    followed = None
    for _ in range(50):
        changed: dict[int, tuple[FloatArray, FloatArray] | None] = {}
        for row in rng.integers(0, 8, 3).tolist():
            count = int(rng.integers(0, 3))
            changed[row] = (rng.uniform(1, 9, (count, 2)), rng.uniform(1, 9, count)) if count else None
        followed = waiting_pods(followed, changed)
        lines = {row: now for row, now in {**lines, **changed}.items() if now is not None}
        at_once = waiting_pods(None, {row: lines[row] for row in sorted(lines)})
        if at_once is None or followed is None:
            assert followed is at_once
            continue
        for one, other in ((followed.row, at_once.row), (followed.request, at_once.request), (followed.count, at_once.count)):
            assert one.tolist() == other.tolist()
            assert one.dtype == other.dtype
