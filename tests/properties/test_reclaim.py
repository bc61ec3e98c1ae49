"""Reclaim, for any cluster and any arrivals: the victims, their number, and no repetition."""

from __future__ import annotations

import copy
import functools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.model import Sporadic
from fairburst.policy.reclaim.values import Claim, GiverState, Ground, Owed, ReclaimMemory, ReclaimRules, RunningPod, WaitingPod
from fairburst.policy.reclaim.victims import make_room, room_for_all
from tests.support.policy import latency, throughput
from tests.support.reclaim import NOW, VirtualCluster, givers, obvious

RULES = ReclaimRules(minimum_run_seconds=60.0, evictions_per_second=1e6)
Case = tuple[list[Claim], np.ndarray, list[RunningPod], GiverState]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two bursting queues (rows 0 and 1) and three others (2 to 4) on up to four nodes; pods of up to four cpu, some of them in groups."""
    nodes = draw(st.integers(1, 4))
    pods = []
    for number in range(draw(st.integers(0, 12))):
        row, node = draw(st.integers(2, 4)), draw(st.integers(0, nodes - 1))
        cpu, age = float(draw(st.integers(1, 4))), float(draw(st.sampled_from([10, 60, 61, 300, 301, 302, 900])))
        group = draw(st.sampled_from(["", "", "", f"team-{row}"]))
        pods.append(RunningPod(f"p{number:02}", row, node, (cpu, 1.0), NOW - age, group, draw(st.integers(0, 9)) > 0))
    free = np.array([[draw(st.integers(0, 3)), draw(st.integers(0, 5))] for _ in range(nodes)], dtype=np.float64)
    claims = []
    for row in range(draw(st.integers(1, 2))):
        anywhere = [None, None, np.arange(nodes) % 2 == 0]
        waiting = tuple(
            WaitingPod(f"w{row}-{number}", (float(draw(st.integers(1, 4))), 1.0), anywhere[draw(st.integers(0, 2))])
            for number in range(draw(st.integers(0, 6)))
        )
        ground = draw(st.sampled_from([Ground.BURST, Ground.BURST, Ground.FAIR_SHARE]))
        claims.append(Claim(Owed(row, ground, np.array([float(draw(st.integers(0, 12)))]), draw(st.integers(0, 9)) > 0), waiting))
    level, fair = ([float(draw(st.integers(0, 8))) for _ in range(5)] for _ in range(2))
    weight = [draw(st.sampled_from([1.0, 1.0, 2.0])) for _ in range(5)]
    refilled = [float(draw(st.sampled_from([0, 0, 0, 5]))) for _ in range(5)]
    return claims, free, pods, givers(pods, level, fair, 40.0, weight, refilled)


class TestWhoGoes:
    """Design §6: "victims go in bulk [...]: spare work first, then queues furthest above their share, least work lost within a queue, on
    nodes where the owed pods will fit, never twice within a minimum run time"."""

    @given(cases(), st.booleans())
    def test_the_same_go_as_by_looking_at_everything_anew_for_every_pod(self, case: Case, before: bool) -> None:
        memory = ReclaimMemory(made_room={"w0-0": NOW - 30.0, "w0-1": NOW - 90.0}) if before else ReclaimMemory()
        outcome, _ = make_room(*case, memory, RULES, NOW)
        want = obvious(*case, memory, RULES)
        key = [(one.uid, one.row, one.ground, one.waiting, one.spare) for one in outcome.evictions]
        assert key == [(one.uid, one.row, one.ground, one.waiting, one.spare) for one in want]
        assert np.allclose([one.lost for one in outcome.evictions], [one.lost for one in want])

    @given(cases())
    def test_nobody_goes_twice_nor_young_nor_whose_eviction_fails_something_nor_apart_from_its_group(self, case: Case) -> None:
        outcome, _ = make_room(*case, ReclaimMemory(), RULES, NOW)
        gone = [one.uid for one in outcome.evictions]
        assert len(gone) == len(set(gone))
        by_uid = {pod.uid: pod for pod in case[2]}
        assert all(by_uid[uid].may_go and NOW - by_uid[uid].started >= 60.0 for uid in gone)
        groups = {by_uid[uid].group for uid in gone} - {""}
        assert {pod.uid for pod in case[2] if pod.group in groups} <= set(gone)


class TestNobodyIsLookedAtInVain:
    """Decision 0062: owed are "pods that [...] find no room that is free or comes free". Where all find it, a round ends there."""

    @given(cases(), st.integers(1, 4))
    def test_there_is_room_for_all_just_where_nobody_is_left_unserved_without_evictions(self, case: Case, plenty: int) -> None:
        claims, free, _, giving = case
        free[:, 0] *= plenty
        outcome, _ = make_room(claims, free, [], giving, ReclaimMemory(), RULES, NOW)
        assert room_for_all(claims, free) == (outcome.unserved == 0)

    def test_pods_that_ask_for_nothing_but_a_place_fit_where_places_are_not_counted(self) -> None:
        pods = tuple(WaitingPod(f"w{number}", (0.0, 1.0), np.array([False, True])) for number in range(3))
        claims = [Claim(Owed(0, Ground.BURST, np.array([5.0]), evicts=True), pods)]
        assert room_for_all(claims, np.array([[0.0, np.inf], [0.0, np.inf]]))
        assert not room_for_all(claims, np.array([[0.0, np.inf], [0.0, 2.0]]))


class TestNoQueueFallsBelow:
    """Design §6: "The victim's enforced quota is lowered first"; issue 8: victims are "queues furthest above their share"."""

    @given(cases())
    def test_every_queue_that_gives_keeps_its_fair_share_and_its_level_too_where_spare_work_goes(self, case: Case) -> None:
        claims, _, pods, giving = case
        outcome, _ = make_room(*case, ReclaimMemory(), RULES, NOW)
        by_uid = {pod.uid: pod for pod in pods}
        left = giving.use[:, 0].copy()
        for one in outcome.evictions:
            left[by_uid[one.uid].row] -= by_uid[one.uid].request[0]
        for row in {by_uid[one.uid].row for one in outcome.evictions}:
            assert left[row] >= max(giving.fair[row, 0], giving.refilled[row, 0]) - 1e-6
            if all(one.spare for one in outcome.evictions if by_uid[one.uid].row == row):
                assert left[row] >= giving.level[row, 0] - 1e-6
        if all(one.owed.ground is Ground.FAIR_SHARE for one in claims):
            assert all(one.spare for one in outcome.evictions)


class TestNoMoreThanIsOwed:
    """Design §6: "the operator makes room for what a queue is owed", and for no more."""

    @given(cases())
    def test_room_is_made_for_pods_of_what_is_owed_at_most(self, case: Case) -> None:
        outcome, memory = make_room(*case, ReclaimMemory(), RULES, NOW)
        for one in case[0]:
            made = {uid for uid in memory.made_room if uid in {pod.uid for pod in one.waiting}}
            assert sum(pod.request[0] for pod in one.waiting if pod.uid in made) <= one.owed.amount[0] + 1e-6
            assert not made or one.owed.evicts
        assert {one.waiting for one in outcome.evictions} == set(memory.made_room)

    @given(cases())
    def test_the_first_pod_that_room_is_made_for_needs_all_who_go_for_it(self, case: Case) -> None:
        claims, free, pods, _ = case
        claims = [one for one in claims if one.owed.evicts][:1]
        if not claims:
            return
        alone = Claim(claims[0].owed, claims[0].waiting[:1])
        outcome, _ = make_room([alone], *case[1:], ReclaimMemory(), RULES, NOW)
        by_uid = {pod.uid: pod for pod in pods}
        works = {by_uid[one.uid].group or one.uid for one in outcome.evictions}
        for kept in works:
            gone = [by_uid[one.uid] for one in outcome.evictions if (by_uid[one.uid].group or one.uid) != kept]
            room = free.copy()
            for pod in gone:
                room[pod.node] += pod.request
            want = alone.waiting[0]
            where = np.ones(len(room), dtype=bool) if want.nodes is None else want.nodes
            assert not ((room >= np.array(want.request)).all(axis=1) & where).any(), f"{kept} need not have gone"


@functools.cache
def full_of_batch_work(grace: float) -> VirtualCluster:
    """Two latency queues without work, beside two throughput queues that have filled the nodes for 20 s. Callers copy it."""
    queues = (
        latency("lq-a", 0.0, [9.0], 6, Sporadic(16)),
        latency("lq-b", 1.0, [7.0], 4, Sporadic(12)),
        throughput("tq-a", 2.0),
        throughput("tq-b", 3.0, 2.0),
    )
    rules = ReclaimRules(grace_seconds=30.0, minimum_run_seconds=20.0, evictions_per_second=1e6)
    cluster = VirtualCluster(queues, nodes=4, per_node=5, grace=grace, rules=rules)
    for _ in range(20):
        cluster.step()
    return cluster


class TestNoLoops:
    """Issue 8: "no loops (… evicted twice for bursts within its minimum run time; a test with adversarial arrivals)"."""

    @given(
        st.lists(st.tuples(st.integers(0, 1), st.integers(1, 20), st.integers(1, 12), st.integers(1, 25)), min_size=1, max_size=6),
        st.sampled_from([0.0, 3.0]),
    )
    def test_bursts_that_come_and_go_at_the_worst_times_evict_nobody_twice_and_no_more_than_they_are_owed(
        self, script: list[tuple[int, int, int, int]], grace: float
    ) -> None:
        """Each entry: the queue of a burst, its pods, its duration, the time until the next. The model itself asserts that no pod goes
        before its minimum run time; the work of an evicted pod starts again, as young."""
        cluster = copy.deepcopy(full_of_batch_work(grace))
        for which, count, lasts, pause in script:
            name = cluster.queues[which].name
            cluster.arrive(name, count)
            for second in range(pause):
                if second == lasts:
                    cluster.leave(name)
                cluster.step()
        assert len({work for _, work, _ in cluster.evictions}) == len(cluster.evictions)
        assert len(cluster.evictions) <= len(cluster.owed_pods)
        assert {uid for _, _, uid in cluster.evictions} <= cluster.owed_pods

    def test_on_the_model_a_burst_gets_its_guarantee_by_eviction_and_only_then(self) -> None:
        """The property above would hold without any eviction."""
        queues = (latency("lq", 0.0, [20.0], 15, Sporadic(40)), throughput("tq-a", 2.0), throughput("tq-b", 3.0))
        cluster = VirtualCluster(queues, nodes=4, per_node=12, rules=RULES)
        for _ in range(70):
            cluster.step()
        assert cluster.evictions == []
        cluster.arrive("lq", 30)
        cluster.step()
        assert len(cluster.evictions) == len({uid for _, _, uid in cluster.evictions}) == 20
        cluster.step()
        assert sum(pod.queue == "lq" and pod.node is not None for pod in cluster.pods) == 20
