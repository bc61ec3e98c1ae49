"""The gated pods that are released: by level and order, groups whole, and all where no queue holds them. Pure, without a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.objects import Pod, Resources, SchedulingGate
from fairburst.kube.enforce.gate import RETRY_SECONDS, GateLevel, UngatePlanner, choose, milli_level, ungate_patch
from fairburst.kube.names import GATE
from fairburst.kube.usage.gated_pods import GROUP_LABEL, GROUP_SIZE, GatedPod, PodGroup, gated_pod
from fairburst.kube.usage.pod_index import PodIndex
from tests.support.fake_api import json_patch
from tests.support.objects import pod, requesting

OTHERS = "others.example/hold"
PLENTY = 1e15  # bytes of memory, in tests about cpu


def gated(
    name: str, cpu: str = "1", *, namespace: str = "batch", gates: tuple[str, ...] = (GATE,), created: int = 0, group: str = "",
    size: str = "", **more: Any,
) -> Pod:  # fmt: skip
    """A stored pod with these gates; `created` in minutes."""
    labels = ({GROUP_LABEL: group} if group else {}) | ({GROUP_SIZE: size} if size else {})
    made = pod(
        namespace, name, requesting(cpu, "1Gi", **more), labels=labels, creationTimestamp=f"2026-01-01T00:{created:02}:00Z",
        resourceVersion=f"{len(gates)}{created}",
    )  # fmt: skip
    made.spec.scheduling_gates = [SchedulingGate(gate) for gate in gates] or None
    return made


class Keeper:
    """An UngatePlanner with an index, fed as the process does it."""

    def __init__(self, *pods: Pod, resources: tuple[str, ...] = ("cpu", "memory")) -> None:
        self.index, self.gates, self.stored = PodIndex(resources), UngatePlanner(), dict[tuple[str, str], Pod]()
        for one in pods:
            self.put(one)

    def put(self, new: Pod) -> None:
        key = (new.metadata.namespace, new.metadata.name)
        old = self.stored.get(key)
        self.stored[key] = new
        self.index.update(old, new)
        self.gates.pod_changed(old, new)

    def remove(self, name: str, namespace: str = "batch") -> None:
        old = self.stored.pop((namespace, name))
        self.index.update(old, None)
        self.gates.pod_changed(old, None)

    def choice(self, now: float = 0.0, left_alone: tuple[str, ...] = (), **levels: float) -> list[str]:
        """Names of the pods released by levels of cpu by namespace, in the order in which the namespaces are named."""
        found = {
            namespace: GateLevel((2, rank), milli_level([cpu, *[PLENTY] * (len(self.index.resources) - 1)]))
            for rank, (namespace, cpu) in enumerate(levels.items())
        }
        return [one.key[1] for one in self.plan(found, left_alone, now)]

    def plan(self, levels: dict[str, GateLevel], left_alone: tuple[str, ...] = (), now: float = 0.0) -> list[GatedPod]:
        chosen, _ = self.gates.plan(levels, left_alone, self.index, now)
        self.gates.sent(chosen)
        return chosen

    def answered(self, *names: str, namespace: str = "batch") -> None:
        """Note that the server has removed our gate from these."""
        for name in names:
            old = self.stored[namespace, name]
            body = json_patch(msgspec.to_builtins(old), ungate_patch(gated_pod(old)))  # type: ignore[arg-type]
            self.put(msgspec.convert(body, Pod))


def test_the_oldest_go_first_and_as_many_as_fit_the_level() -> None:
    keeper = Keeper(gated("a", created=2), gated("b", created=1), gated("c", created=1), gated("d", created=0))
    assert keeper.choice(batch=3.0) == ["d", "b", "c"]


def test_what_is_let_go_counts_against_the_level_at_once_and_until_it_ends() -> None:
    keeper = Keeper(*(gated(name) for name in "abcd"))
    assert keeper.choice(batch=2.0) == ["a", "b"]
    assert keeper.choice(batch=2.0) == [], "they are on their way"
    keeper.answered("a", "b")
    assert keeper.choice(batch=2.0) == [], "they are there"
    keeper.remove("a")
    assert keeper.choice(batch=2.0) == ["c"]


def test_a_pod_that_arrives_waits_for_a_decision_unless_others_are_before_it() -> None:
    """Each arrival behind a long line made a round at once: rounds took half of the process's time where very many pods were created."""
    keeper = Keeper(gated("a", created=1))
    assert keeper.gates.next_has_arrived()
    assert keeper.choice(batch=0.5) == []
    assert not keeper.gates.next_has_arrived(), "no other has come"
    keeper.put(gated("b", created=2))
    assert not keeper.gates.next_has_arrived(), "it waits behind the first"
    keeper.put(gated("high", created=3, namespace="other"))
    assert keeper.gates.next_has_arrived(), "the first of its own queue"
    assert keeper.choice(batch=1.0, other=1.0) == ["a", "high"]
    keeper.put(gated("c", namespace="other", created=4))
    assert keeper.gates.next_has_arrived(), "the one before it is on its way"


def test_some_go_early_but_none_that_is_larger_than_the_level() -> None:
    keeper = Keeper(gated("large", "3", created=0), *(gated(name, created=1) for name in "abcd"))
    level = GateLevel((2, 0), milli_level([2.0, PLENTY]), early=milli_level([1.0, 0.0]))
    assert [one.key[1] for one in keeper.plan({"batch": level})] == ["a", "b", "c"]


def test_pods_that_never_had_the_gate_count_as_well() -> None:
    keeper = Keeper(gated("plain", gates=()), gated("a"), gated("b"))
    assert keeper.choice(batch=2.0) == ["a"]


def test_a_pod_that_no_node_could_hold_is_passed_over_with_its_group() -> None:
    """Released, it would wait on the scheduler and take the level from those behind it, for ever."""
    keeper = Keeper(gated("a", created=1), gated("b", created=2), gated("large", "7", created=0))
    keeper.gates.fits = lambda requests: requests[0] <= 4000
    assert keeper.choice(batch=8.0) == ["a", "b"]
    keeper.gates.fits = lambda requests: True
    assert keeper.choice(batch=9.0) == ["large"], "until one can"


def test_a_pod_that_names_no_requests_stays_behind_the_gate() -> None:
    """It would run for nothing. A policy refuses it, where the chart's `tenantPolicies` are installed."""
    unnamed, half = gated("none", created=0), gated("half", created=0)
    unnamed.spec.containers[0].resources = None
    half.spec.containers[0].resources = msgspec.convert({"requests": {"cpu": "1"}}, Resources)
    keeper = Keeper(unnamed, half, gated("a", created=1))
    assert keeper.choice(batch=8.0) == ["a"]
    assert Keeper(half, resources=("cpu",)).choice(batch=8.0) == ["half"], "memory is not counted"


def test_queues_go_in_the_order_of_their_urgency() -> None:
    keeper = Keeper(gated("p", namespace="calm"), gated("q", namespace="urgent"), gated("r", namespace="left"))
    levels = {"calm": GateLevel((2, 0), (9000, 10**18)), "urgent": GateLevel((0, 5), (9000, 10**18))}
    assert [one.key[0] for one in keeper.plan(levels)] == ["urgent", "calm", "left"]


def test_where_no_queue_holds_pods_all_of_them_go_but_not_where_others_decide() -> None:
    keeper = Keeper(gated("a"), gated("b"), gated("c", namespace="elsewhere"))
    assert keeper.choice(left_alone=("elsewhere",)) == ["a", "b"]


def test_a_refused_patch_is_tried_again_when_the_pod_has_changed_or_a_moment_later() -> None:
    keeper = Keeper(gated("a"), gated("b"))
    first, second = keeper.plan({"batch": GateLevel((2, 0), (1000, 10**18))}), keeper.gates.gated.of("batch")[0]
    assert first == [second]
    keeper.gates.failed(second, now=0.0)
    assert keeper.choice(batch=1.0, now=0.5) == ["b"], "no pod waits for it"
    keeper.gates.failed(keeper.gates.gated.of("batch")[1], now=0.5)
    keeper.put(gated("a", gates=(OTHERS, GATE)))
    assert keeper.choice(batch=1.0, now=0.6) == ["a"], "fresh state"
    keeper.answered("a")
    assert keeper.choice(batch=2.0, now=0.7) == []
    assert keeper.choice(batch=2.0, now=0.5 + RETRY_SECONDS + 0.01) == ["b"]


def test_a_namesake_of_a_pod_on_its_way_is_another_pod() -> None:
    keeper = Keeper(gated("a"))
    assert keeper.choice(batch=1.0) == ["a"]
    keeper.remove("a")
    again = gated("a")
    again.metadata.uid = "another"
    keeper.put(again)
    assert keeper.choice(batch=1.0) == ["a"]


def test_a_gate_removed_by_hand_counts_as_released() -> None:
    keeper = Keeper(gated("a"), gated("b"))
    assert keeper.choice(batch=0.0) == []
    keeper.put(gated("b", gates=()))
    assert keeper.choice(batch=1.0) == [], "it runs although it was not its turn, so its place is taken"
    assert keeper.choice(batch=2.0) == ["a"]


def test_terminating_pods_keep_their_gate() -> None:
    keeper = Keeper()
    ending = gated("a")
    ending.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    keeper.put(ending)
    assert keeper.choice(batch=5.0) == []


# Between rounds --------------------------------------------------------------------------------------------------------------------


def test_between_rounds_only_namespaces_whose_level_is_known_are_looked_at() -> None:
    keeper = Keeper()
    assert keeper.choice(batch=2.0) == []
    for name in "abc":
        keeper.put(gated(name))
    keeper.put(gated("x", namespace="unknown"))
    assert [one.key[1] for one in keeper.gates.between_rounds({"batch", "unknown"}, keeper.index)] == ["a", "b"]


# Order and room ----------------------------------------------------------------------------------------------------------------------


def test_who_is_first_but_does_not_fit_keeps_its_place() -> None:
    keeper = Keeper(gated("running", "3", gates=()), gated("large", "4", created=1), gated("small", "1", created=2))
    assert keeper.choice(batch=5.0) == [], "else the small ones would always get in before it"
    keeper.remove("running")
    assert keeper.choice(batch=5.0) == ["large", "small"]


def test_who_lacks_another_resource_is_passed_by_those_who_leave_it_its_room() -> None:
    resources = ("cpu", "memory", "nvidia.com/gpu")
    keeper = Keeper(
        gated("trains", "1", gates=(), **{"nvidia.com/gpu": "2"}), gated("waits", "2", created=1, **{"nvidia.com/gpu": "1"}),
        *(gated(f"c{number}", created=2) for number in range(4)), resources=resources,
    )  # fmt: skip
    levels = {"batch": GateLevel((2, 0), milli_level([5.0, PLENTY, 2.0]))}
    assert [one.key[1] for one in keeper.plan(levels)] == ["c0", "c1"], "two of five cpus are kept for the pod that waits for a gpu"


def test_who_would_not_fit_into_the_whole_level_holds_up_nobody() -> None:
    keeper = Keeper(gated("absurd", "500"), gated("small", created=1))
    assert keeper.choice(batch=4.0) == ["small"]


def test_pods_that_others_hold_too_come_last() -> None:
    """They cannot run yet, but are released when there is room: otherwise two controllers that hold them would wait for each other."""
    keeper = Keeper(gated("held", gates=(OTHERS, GATE)), gated("free", created=5))
    assert keeper.choice(batch=1.0) == ["free"]
    assert keeper.choice(batch=2.0) == ["held"]


@given(
    st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 3)), max_size=30),
    st.tuples(st.integers(0, 9000), st.integers(0, 9)),
)
def test_what_is_chosen_fits_and_nobody_left_would(needs: list[tuple[int, int]], room: tuple[int, int]) -> None:
    """The slow, obvious reference: walk the FIFO order, and set room aside for the first that has to wait."""
    pods = [GatedPod(("n", f"{n:02}"), "n", "", "", "", 0, (False, 1, "", f"{n:02}"), None) for n in range(len(needs))]
    charge = {one.key: need for one, need in zip(pods, needs, strict=True)}
    least = tuple(min(column) for column in zip(*needs, strict=True)) if needs else ()
    level = (6000, 6)
    chosen = choose(pods, level, room, charge.__getitem__, lambda _: None, least)
    left, want = list(room), []
    for one in pods:
        cpu, gpu = charge[one.key]
        if cpu <= left[0] and (gpu == 0 or gpu <= left[1]):
            want.append(one)
            left = [left[0] - cpu, left[1] - gpu]
        elif cpu <= level[0] and gpu <= level[1]:
            left = [max(0, left[0] - cpu) if cpu <= left[0] else 0, max(0, left[1] - gpu) if gpu <= left[1] else 0]
    assert chosen == want


# Groups ------------------------------------------------------------------------------------------------------------------------------


def team(*names: str, size: str = "3", group: str = "team") -> list[Pod]:
    return [gated(name, group=group, size=size) for name in names]


def test_a_group_goes_whole_or_not_at_all() -> None:
    keeper = Keeper(*team("a", "b", "c"))
    assert keeper.choice(batch=2.0) == []
    assert keeper.choice(batch=3.0) == ["a", "b", "c"]


def test_a_group_that_waits_for_room_keeps_its_place_and_one_that_can_never_fit_does_not() -> None:
    keeper = Keeper(gated("running", gates=()), *team("a", "b", "c"), gated("later", created=1))
    assert keeper.choice(batch=3.0) == []
    assert keeper.choice(batch=2.0) == ["later"]


def test_a_half_created_group_waits_for_its_members_and_holds_up_nobody() -> None:
    keeper = Keeper(*team("a", "b"), gated("later", created=1))
    assert keeper.choice(batch=9.0) == ["later"]
    keeper.put(team("c")[0])
    assert keeper.choice(batch=9.0) == ["a", "b", "c"]


def test_members_of_a_group_that_has_started_go_as_others_do() -> None:
    """A replacement for a failed member, a member whose patch was refused, one whose gate was removed by hand."""
    keeper = Keeper(*team("a", "b", "c"))
    assert keeper.choice(batch=3.0) == ["a", "b", "c"]
    keeper.answered("a", "b")
    keeper.gates.failed(keeper.gates.gated.of("batch")[0], now=0.0)
    keeper.remove("a")
    assert keeper.choice(batch=3.0, now=5.0) == ["c"]
    keeper.put(team("a2")[0])
    assert keeper.choice(batch=3.0, now=5.0) == ["a2"]


def test_members_that_disagree_wait_for_the_largest_size_that_one_of_them_names() -> None:
    keeper = Keeper(*team("a", "b", size="2"), *team("c", size="4"))
    assert keeper.choice(batch=9.0) == []
    keeper.put(team("d", size="2")[0])
    assert keeper.choice(batch=9.0) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("size", ["", "0", "-3", "three", "1e3", "٣", "9999999"])
def test_a_size_that_is_no_size_holds_nobody(size: str) -> None:
    assert Keeper(*team("a", "b", size=size)).choice(batch=9.0) == ["a", "b"]


def test_without_a_groups_name_the_pods_of_one_controller_are_the_group() -> None:
    def worker(name: str, uid: str) -> Pod:
        made = gated(name)
        made.metadata.annotations = {GROUP_SIZE: "2"}
        made.metadata.owner_references = pod("x", "x", owner=("Job", uid)).metadata.owner_references
        return made

    keeper = Keeper(worker("a", "one"), worker("b", "other"))
    assert keeper.choice(batch=9.0) == []
    keeper.put(worker("c", "other"))
    assert keeper.choice(batch=9.0) == ["b", "c"]


def test_what_is_forgotten_of_groups_and_pods_leaves_nothing_behind() -> None:
    keeper = Keeper(*team("a", "b", "c"), gated("d"))
    keeper.choice(batch=9.0)
    for name in "abcd":
        keeper.remove(name)
    held = keeper.gates.gated
    assert (held._pods, held._by_space, held._groups, held._group_of, keeper.gates._in_flight) == ({}, {}, {}, {}, {})


def test_a_group_is_complete_with_as_many_pods_as_it_says() -> None:
    assert not PodGroup({("n", "a"): 2}).complete
    assert PodGroup({("n", "a"): 2, ("n", "b"): 1}).complete


def test_the_patch_takes_off_our_gate_and_no_other() -> None:
    held = gated("a", gates=(OTHERS, GATE, "third.example/hold"))
    mine = gated_pod(held)
    assert mine is not None
    left = msgspec.convert(json_patch(msgspec.to_builtins(held), ungate_patch(mine)), Pod)
    assert [gate.name for gate in left.spec.scheduling_gates or ()] == [OTHERS, "third.example/hold"]
    moved = gated("a", gates=(GATE, OTHERS, "third.example/hold"))
    with pytest.raises(ValueError, match="expected"):
        json_patch(msgspec.to_builtins(moved), ungate_patch(mine))
