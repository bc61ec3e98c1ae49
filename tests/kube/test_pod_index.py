"""The incremental sums against the same sums computed from scratch."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.kube.api.objects import JOB_TRACKING, Pod, controller_of
from fairburst.kube.usage import owner_sums
from fairburst.kube.usage.effective_requests import containers_without_requests, effective_requests
from fairburst.kube.usage.outside import NodeOffer, OutsideUse
from fairburst.kube.usage.pod_index import PodIndex

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")


def pod(name: str, namespace: str = "a", *, cpu: Any = "1", owner: tuple[str, str] | None = None, node: str = "", **more: Any) -> Pod:
    owners = [{"kind": owner[0], "uid": owner[1], "name": owner[1], "controller": True}] if owner else []
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "ownerReferences": owners}
    requests = {} if cpu is None else {"cpu": cpu, "memory": "100Mi"}
    return msgspec.convert(
        {
            "metadata": {**metadata, **more.get("metadata", {})},
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], "nodeName": node, **more.get("spec", {})},
            "status": {"phase": more.get("phase", "Pending")},
        },
        Pod,
    )


def test_a_pod_counts_as_stored_at_once_and_as_bound_from_binding_to_its_end() -> None:
    index = PodIndex(RESOURCES)
    pending, running, ended = pod("p"), pod("p", node="n", phase="Running"), pod("p", node="n", phase="Succeeded")
    want = {"cpu": 1.0, "memory": 100.0 * 2**20, "nvidia.com/gpu": 0.0}
    nothing = dict.fromkeys(RESOURCES, 0.0)
    index.update(None, pending)
    assert (index.namespace("a").stored, index.namespace("a").bound) == (want, nothing)
    index.update(pending, running)
    assert (index.namespace("a").stored, index.namespace("a").bound) == (want, want)
    assert index.on_node("n").by_namespace == {"a": want}
    index.update(running, ended)
    assert (index.namespace("a").stored, index.namespace("a").bound) == (nothing, nothing)
    index.update(ended, None)
    assert not index.namespaces()


def offer(cpu: float, memory: float, places: float = math.inf) -> NodeOffer:
    return NodeOffer((round(1000 * cpu), round(1000 * memory), 0), places)


def outside(index: PodIndex, inside: set[str], **offers: NodeOffer) -> tuple[float, float]:
    """The cpu of pods outside these spaces on these nodes, and their number."""
    amounts, pods = OutsideUse().read(index, frozenset(inside), offers)
    return float(amounts[0]), pods


def test_use_outside_beyond_64_bits_is_numbers_all_the_same() -> None:
    """Found by fuzzed objects: 9.2 PB of foreign pods made the capacity an array of objects, and no queue had a standing entitlement."""
    index = PodIndex(RESOURCES)
    for number in range(2):
        index.update(None, pod(f"p{number}", node=f"n{number}", cpu="1", spec={"overhead": {"memory": "5E"}}))
    vast = NodeOffer((16_000, 2**63, 0), math.inf)
    amounts, _ = OutsideUse().read(index, frozenset(), {"n0": vast, "n1": vast})
    assert amounts.dtype == np.float64
    assert amounts.tolist() == [2.0, 2.0**64 / 1000, 0.0]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "n", "m"]), st.integers(0, 5)), max_size=40
    )
)
def test_use_outside_that_is_kept_up_is_that_of_a_first_look(changes: list[tuple[int, str, str, int]]) -> None:
    """Pods come, move and go; now and then other spaces are managed, or a node offers something else."""
    index, kept, stored = PodIndex(RESOURCES), OutsideUse(), dict[int, Pod]()
    spaces = [frozenset({"a"}), frozenset({"a", "b"})]
    nodes = [{"n": offer(4.0, 2.0**30), "m": offer(9.0, 2.0**40, 2.0)}, {"n": offer(2.0, 2.0**30, 1.0)}]
    for step, (number, namespace, node, what) in enumerate(changes):
        old, new = stored.pop(number, None), None
        if what:
            new = stored[number] = pod(f"p{number}", old.metadata.namespace if old is not None else namespace, cpu=f"{what}", node=node)
        index.update(old, new)
        inside, offers = spaces[step // 7 % 2], nodes[step // 11 % 2]
        amounts, pods = kept.read(index, inside, offers)
        first_amounts, first_pods = OutsideUse().read(index, inside, offers)
        assert (amounts.tolist(), pods) == (first_amounts.tolist(), first_pods)


def test_system_and_daemon_pods_take_capacity_but_are_not_the_queues() -> None:
    index = PodIndex(RESOURCES)
    index.update(None, pod("daemon", node="n", owner=("DaemonSet", "d")))
    index.update(None, pod("critical", node="n", spec={"priorityClassName": "system-node-critical"}))
    index.update(None, pod("work", node="n", owner=("Job", "j")))
    usage = index.namespace("a")
    assert (usage.bound["cpu"], usage.unmanaged_stored["cpu"], usage.pods) == (1.0, 2.0, 1)
    assert index.on_node("n").unmanaged["cpu"] == 2.0
    large = offer(8.0, 64.0 * 2**30)
    assert outside(index, {"a"}, n=large) == (2.0, 2)
    assert outside(index, set(), n=large) == (3.0, 3)
    assert outside(index, set(), other=large) == (0.0, 0)
    assert outside(index, set(), n=offer(8.0, 64.0 * 2**30, places=1.0)) == (3.0, 1.0)


def test_a_claim_counts_at_most_its_nodes_allocatable_and_nothing_on_a_node_that_does_not_exist() -> None:
    index = PodIndex(RESOURCES)
    index.update(None, pod("phantom", "theirs", cpu="1000000", node="n"))
    index.update(None, pod("second", "theirs", cpu="1000000", node="n"))
    index.update(None, pod("lost", "mine", cpu="3", node="gone"))
    offers = {"n": offer(8.0, 50.0 * 2**20), "m": offer(8.0, 64.0 * 2**30)}
    assert OutsideUse().read(index, frozenset({"mine"}), offers)[0].tolist() == [8.0, 50.0 * 2**20, 0.0]
    assert index.bound_nowhere({"n", "m"}) == {"mine": {"cpu": 3.0, "memory": 100.0 * 2**20, "nvidia.com/gpu": 0.0}}
    assert index.bound_nowhere({"n", "m", "gone"}) == {}


def test_the_newest_pods_charge_outlives_the_pod_until_its_owner_is_forgotten() -> None:
    index = PodIndex(RESOURCES)
    older = pod("x", cpu="1", owner=("Job", "j"), metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    newer = pod("y", cpu="3", owner=("Job", "j"), metadata={"creationTimestamp": "2026-01-01T00:00:01Z"})
    for each in (newer, older):
        index.update(None, each)
    assert (index.owner("a", "j").active, index.owner("a", "j").newest_requests["cpu"]) == (2, 3.0)
    for each in (newer, older):
        index.update(each, None)
    assert (index.owner("a", "j").active, index.owner("a", "j").newest_requests["cpu"]) == (0, 3.0)
    index.forget_owner("a", "j")
    assert index.owner("a", "j").newest_requests == {}


def test_an_owner_with_pods_is_not_forgotten() -> None:
    index = PodIndex(RESOURCES)
    index.update(None, pod("x", owner=("Job", "j")))
    index.forget_owner("a", "j")
    assert index.owner("a", "j").active == 1


def test_only_so_many_owners_without_pods_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr(owner_sums, "REMEMBERED_OWNERS", 2)
    index = PodIndex(RESOURCES)
    for uid in ("j1", "j2", "j3"):
        each = pod(uid, owner=("Job", uid))
        index.update(None, each)
        index.update(each, None)
    assert [bool(index.owner("a", uid).newest_requests) for uid in ("j1", "j2", "j3")] == [False, True, True]


def test_a_bare_pod_is_its_own_owner_and_named() -> None:
    index = PodIndex(RESOURCES)
    bare = pod("bare", cpu=None)
    index.update(None, bare)
    assert index.owner("a", bare.metadata.uid).active == 1
    assert index.namespace("a").unannounced == {"bare"}
    assert index.namespace("a").pods_without_requests == {"bare"}
    index.update(bare, None)
    assert index.namespace("a").unannounced == frozenset()
    assert index.owner("a", bare.metadata.uid).active == 0


def test_a_pod_stuck_in_termination_stops_counting_when_quota_stops_counting_it() -> None:
    index = PodIndex(RESOURCES)
    stuck = pod("p", node="n", metadata={"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30})
    index.update(None, stuck)
    half_a_minute_after = 1767225630.0 + 30
    assert not index.expire(half_a_minute_after)
    assert index.namespace("a").stored["cpu"] == 1.0
    assert index.expire(half_a_minute_after + 0.1)
    assert index.namespace("a").stored["cpu"] == 0.0
    assert index.namespace("a").bound["cpu"] == 1.0, "its node may still run it"
    index.update(stuck, None)
    assert not index.namespaces()


def test_the_largest_pod_shrinks_when_it_leaves() -> None:
    index = PodIndex(RESOURCES)
    small, large = pod("small", cpu="1"), pod("large", cpu="8")
    index.update(None, small)
    index.update(None, large)
    assert index.namespace("a").largest["cpu"] == 8.0
    index.update(large, None)
    assert index.namespace("a").largest["cpu"] == 1.0


pods = st.builds(
    lambda number, namespace, cpu, owner, node, phase, system, at, deleted, tracked: pod(
        f"p{number}",
        namespace,
        cpu=cpu,
        owner=owner,
        node=node,
        phase=phase,
        spec={"priorityClassName": "system-node-critical"} if system else {},
        metadata={
            "creationTimestamp": f"2026-01-01T00:00:0{at}Z",
            "deletionTimestamp": "2026-01-01T00:00:09Z" if deleted else None,
            "finalizers": [JOB_TRACKING] if tracked else [],
        },
    ),
    st.integers(0, 5),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, "100m", "300m", "1", "2.5"]),
    st.sampled_from([None, ("Job", "j1"), ("Job", "j2"), ("DaemonSet", "d")]),
    st.sampled_from(["", "n1", "n2"]),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    st.booleans(),
    st.integers(0, 9),
    st.booleans(),
    st.booleans(),
)


class TestIncrementalEqualsFromScratch:
    """After any sequence of changes every sum is the one computed from the pods that are left, to the last bit."""

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.tuples(pods, st.booleans()), max_size=40))
    def test_sums(self, changes: list[tuple[Pod, bool]]) -> None:
        index, store = PodIndex(RESOURCES), dict[tuple[str, str], Pod]()
        for new, removed in changes:
            key = (new.metadata.namespace, new.metadata.name)
            old = store.pop(key, None)
            if not removed:
                store[key] = new
            index.update(old, store.get(key))
        again = PodIndex.rebuilt(RESOURCES, store.values())
        for namespace in ("a", "b"):
            assert index.namespace(namespace) == again.namespace(namespace)
            self.check_against_definition(index, namespace, [each for each in store.values() if each.metadata.namespace == namespace])
        for node in ("n1", "n2"):
            assert index.on_node(node) == again.on_node(node)
        for uid in ("j1", "j2", "d", *{each.metadata.uid for each in store.values()}):
            # The newest charge and the number of ended pods may be remembered from pods that have gone.
            for namespace in ("a", "b"):
                mine, other = (
                    dataclasses.replace(each.owner(namespace, uid), newest_requests={}, ended=0, lately=0) for each in (index, again)
                )
                assert mine == other
        assert set(index.namespaces()) == {each.metadata.namespace for each in store.values()}

    def check_against_definition(self, index: PodIndex, namespace: str, pods: list[Pod]) -> None:
        """The same once more from the definitions, in case both ways share a mistake."""
        usage = index.namespace(namespace)
        ours = [each for each in pods if not each.unmanaged]
        live = [each for each in ours if each.status.phase in {"Pending", "Running"}]
        bound = [each for each in live if each.spec.node_name]
        assert usage.stored["cpu"] * 1000 == round(sum(effective_requests(each).get("cpu", 0.0) for each in live) * 1000)
        assert usage.bound["cpu"] * 1000 == round(sum(effective_requests(each).get("cpu", 0.0) for each in bound) * 1000)
        assert usage.largest["cpu"] == max((effective_requests(each).get("cpu", 0.0) for each in live), default=0.0)
        announced = {"Job", "ReplicaSet", "StatefulSet"}
        owners = {each.metadata.name: controller_of(each.metadata) for each in live}
        assert usage.unannounced == {name for name, owner in owners.items() if owner is None or owner.kind not in announced}
        assert usage.pods_without_requests == {each.metadata.name for each in live if containers_without_requests(each, RESOURCES)}
        assert usage.pods == len(live)
