"""Owed amounts and their victims, on numbers that a person can check."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.errors import MemoryFormatError, NewerMemoryError
from fairburst.policy.model import Memory, PolicyConfig, QueueSpec, RoundResult, Sporadic
from fairburst.policy.reclaim.memory import dump_reclaim, load_reclaim
from fairburst.policy.reclaim.owed import owed
from fairburst.policy.reclaim.values import Claim, Ground, ReclaimMemory, ReclaimRules, RunningPod
from fairburst.policy.reclaim.victims import make_room
from tests.support.policy import latency, snapshot, throughput
from tests.support.reclaim import LARGE_RATE, NOW, claim, givers, running, waiting

FULL = np.zeros((1, 2))
RULES = ReclaimRules()


def evicted(
    claims: list[Claim], pods: list[RunningPod], level: list[float], fair: list[float], *, free: np.ndarray = FULL,
    memory: ReclaimMemory | None = None, rules: ReclaimRules = LARGE_RATE, capacity: float = 100.0, weight: list[float] | None = None,
) -> list[str]:  # fmt: skip
    outcome, _ = make_room(
        claims, free, pods, givers(pods, level, fair, capacity, weight), memory or ReclaimMemory(), rules, NOW
    )  # fmt: skip
    return [one.uid for one in outcome.evictions]


BURSTY, FIRST, SECOND = 0, 1, 2


def test_a_burst_gets_as_many_pods_as_it_is_owed_and_no_more() -> None:
    pods = [running(f"a{number}", FIRST, 0) for number in range(10)]
    assert len(evicted([claim(3.0, waiting(8))], pods, [0.0, 4.0], [0.0, 4.0])) == 3


def test_what_is_free_or_comes_free_is_taken_first() -> None:
    pods = [running(f"a{number}", FIRST, 0) for number in range(10)]
    assert len(evicted([claim(3.0, waiting(3))], pods, [0.0, 4.0], [0.0, 4.0], free=np.array([[2.0, 10.0]]))) == 1


def test_a_queue_that_evicts_nobody_takes_free_room_before_one_that_does() -> None:
    pods = [running(f"a{number}", FIRST, 0) for number in range(10)]
    claims = [claim(1.0, waiting(1, prefix="never"), evicts=False), claim(1.0, waiting(1))]
    assert len(evicted(claims, pods, [0.0, 4.0], [0.0, 4.0], free=np.array([[1.0, 10.0]]))) == 1
    assert evicted(claims[:1], pods, [0.0, 4.0], [0.0, 4.0]) == []


def test_spare_work_goes_before_that_of_a_queue_further_above_its_share() -> None:
    """The first queue is further above its fair share of 1, but within its level; the second uses 2 more than its own."""
    pods = [running(f"a{number}", FIRST, 0) for number in range(10)] + [running(f"b{number}", SECOND, 0) for number in range(6)]
    assert evicted([claim(3.0, waiting(3))], pods, [0.0, 10.0, 4.0], [0.0, 1.0, 4.0]) == ["b0", "b1", "a0"]


def test_of_spare_work_that_of_the_queue_furthest_above_its_share_goes_first_by_weight() -> None:
    pods = [running(f"a{number}", FIRST, 0) for number in range(10)] + [running(f"b{number}", SECOND, 0) for number in range(8)]
    two = [claim(2.0, waiting(2))]
    assert evicted(two, pods, [0.0] * 3, [0.0] * 3) == ["a0", "a1"]
    assert evicted(two, pods, [0.0] * 3, [0.0] * 3, weight=[1.0, 2.0, 1.0]) == ["b0", "b1"]


def test_within_a_queue_the_least_work_is_lost() -> None:
    ages = {"long": 5000.0, "short": 90.0, "middle": 400.0}
    pods = [running(uid, FIRST, 0, age=age) for uid, age in ages.items()]
    assert evicted([claim(2.0, waiting(2))], pods, [0.0] * 2, [0.0] * 2) == ["short", "middle"]


def test_no_queue_is_taken_below_its_fair_share() -> None:
    pods = [running(f"a{number}", FIRST, 0) for number in range(5)]
    assert evicted([claim(5.0, waiting(5))], pods, [0.0, 4.0], [0.0, 3.0]) == ["a0", "a1"]


def test_for_a_fair_share_no_queue_is_taken_below_its_level_either() -> None:
    """Below it, its controller would start the same work again, at the same priority as the pods that wait."""
    pods = [running(f"a{number}", FIRST, 0) for number in range(5)]
    assert evicted([claim(5.0, waiting(5), Ground.FAIR_SHARE)], pods, [0.0, 4.0], [0.0, 3.0]) == ["a0"]


def test_nobody_goes_whose_place_would_be_filled_again() -> None:
    """The quota is to be 4 and is still 8."""
    pods = [running(f"a{number}", FIRST, 0) for number in range(10)]
    giving = givers(pods, [0.0, 4.0], [0.0, 4.0], 100.0, refilled=[0.0, 8.0])
    outcome, _ = make_room([claim(6.0, waiting(6))], FULL, pods, giving, ReclaimMemory(), LARGE_RATE, NOW)
    assert (len(outcome.evictions), outcome.unserved) == (2, 4)


def test_nobody_goes_who_has_run_for_less_than_the_minimum_run_time() -> None:
    pods = [running("young", FIRST, 0, age=59.0), running("old", FIRST, 0, age=60.0)]
    assert evicted([claim(2.0, waiting(2))], pods, [0.0] * 2, [0.0] * 2) == ["old"]


def test_nobody_goes_whose_eviction_would_fail_something() -> None:
    pods = [running("fails", FIRST, 0, may_go=False), running("goes", FIRST, 0)]
    assert evicted([claim(2.0, waiting(2))], pods, [0.0] * 2, [0.0] * 2) == ["goes"]


def test_a_whole_pods_room_is_made_on_one_node_for_the_least_loss() -> None:
    """Node 0 has two pods of two cpu, node 1 four of one that have just started: the pod of four needs one of the nodes whole."""
    pods = [running(f"big{number}", FIRST, 0, 2.0, 300.0) for number in range(2)]
    pods += [running(f"small{number}", FIRST, 1, 1.0, 100.0) for number in range(4)]
    assert evicted([claim(4.0, waiting(1, 4.0))], pods, [0.0] * 2, [0.0] * 2, free=np.zeros((2, 2))) == [f"small{n}" for n in range(4)]


def test_where_no_node_can_be_cleared_for_a_pod_nobody_goes_for_it() -> None:
    pods = [running(f"a{node}", FIRST, node) for node in range(4)]
    assert evicted([claim(2.0, waiting(1, 2.0))], pods, [0.0] * 2, [0.0] * 2, free=np.zeros((4, 2))) == []


def test_room_is_made_only_where_the_pod_may_run() -> None:
    pods = [running("here", FIRST, 0, age=100.0), running("there", FIRST, 1, age=900.0)]
    claims = [claim(1.0, waiting(1, nodes=[False, True]))]
    assert evicted(claims, pods, [0.0] * 2, [0.0] * 2, free=np.zeros((2, 2))) == ["there"]


def test_what_larger_work_frees_beside_the_first_pod_serves_the_next() -> None:
    pods = [running("a0", FIRST, 0, 3.0, 100.0), running("a1", FIRST, 0, 3.0, 200.0)]
    assert evicted([claim(4.0, waiting(4))], pods, [0.0] * 2, [0.0] * 2) == ["a0", "a1"]


def test_who_is_not_needed_beside_larger_work_stays() -> None:
    """Least lost first, the one cpu would go before the four; with the four gone it need not."""
    pods = [running("small", FIRST, 0, 1.0, 100.0), running("large", FIRST, 0, 4.0, 100.0)]
    assert evicted([claim(4.0, waiting(1, 4.0))], pods, [0.0] * 2, [0.0] * 2) == ["large"]


def test_a_group_goes_whole_or_not_at_all() -> None:
    pods = [running(f"g{node}", FIRST, node, group="team") for node in range(3)] + [running("alone", FIRST, 0, age=1200.0)]
    nowhere = np.zeros((3, 2))
    assert evicted([claim(1.0, waiting(1))], pods, [0.0] * 2, [0.0] * 2, free=nowhere) == ["alone"], "less is lost than with all three"
    assert evicted([claim(3.0, waiting(3))], pods, [0.0] * 2, [0.0] * 2, free=nowhere) == ["alone", "g0", "g1", "g2"]
    assert evicted([claim(3.0, waiting(3))], pods, [0.0] * 2, [0.0, 1.5], free=nowhere) == ["alone"], "the fair share leaves no whole group"


@pytest.mark.parametrize("held", [{"age": 10.0}, {"may_go": False}], ids=["one is young", "one may not go"])
def test_a_group_stays_while_one_of_it_must(held: dict[str, float]) -> None:
    pods = [running("g0", FIRST, 0, group="team"), running("g1", FIRST, 0, group="team", **held)]  # type: ignore[arg-type]
    assert evicted([claim(1.0, waiting(1))], pods, [0.0] * 2, [0.0] * 2) == []


def test_room_is_made_for_one_pod_once_in_the_minimum_run_time() -> None:
    """Even if another pod takes it: an eviction that is repeated at once may be repeated for ever."""
    pods = [running(f"a{number}", FIRST, 0) for number in range(3)]
    just = ReclaimMemory(made_room={"w0": NOW - 59.0})
    assert evicted([claim(2.0, waiting(2))], pods, [0.0] * 2, [0.0] * 2, memory=just) == ["a0"]
    assert len(evicted([claim(2.0, waiting(2))], pods, [0.0] * 2, [0.0] * 2, memory=ReclaimMemory(made_room={"w0": NOW - 60.0}))) == 2


def test_evictions_come_at_the_rate_that_is_allowed() -> None:
    pods = [running(f"a{number}", FIRST, 0) for number in range(30)]
    rules, memory, counts = ReclaimRules(evictions_per_second=10.0), ReclaimMemory(), []
    left, free = pods, np.zeros((1, 2))
    for step in (0.0, 0.5, 0.25):
        now = NOW + sum((0.0, 0.5, 0.25)[: len(counts) + 1])
        giving = givers(left, [0.0] * 2, [0.0] * 2, 100.0)
        outcome, memory = make_room([claim(30.0, waiting(30))], free, left, giving, memory, rules, now)
        gone = {one.uid for one in outcome.evictions}
        left, free = [pod for pod in left if pod.uid not in gone], free + np.array([len(gone), len(gone)])
        counts.append(len(gone))
        assert outcome.next_boundary > now, step
    assert counts == [10, 5, 2]


def test_a_group_larger_than_a_second_of_the_rate_goes_once_all_of_it_is_saved_up() -> None:
    pods = [running(f"g{number}", FIRST, 0, group="team") for number in range(5)]
    rules = ReclaimRules(evictions_per_second=2.0)
    assert len(evicted([claim(1.0, waiting(1))], pods, [0.0] * 2, [0.0] * 2, rules=rules)) == 5
    spent = ReclaimMemory(allowance=1.0, allowance_as_of=NOW)
    assert evicted([claim(1.0, waiting(1))], pods, [0.0] * 2, [0.0] * 2, rules=rules, memory=spent) == []


# What is owed -----------------------------------------------------------------------------------------------------------

QUEUES = (latency("lq", 0.0, [40.0], 20, Sporadic(100)), throughput("tq-a", 1.0), throughput("tq-b", 2.0))


def decided(
    demand: list[float], usage: list[float], queues: tuple[QueueSpec, ...] = QUEUES
) -> tuple[RoundResult, object]:  # fmt: skip
    """A round on 100 cpu, after one without demand in which the queues were admitted."""
    config, nothing = PolicyConfig(), np.zeros((len(queues), 1))
    one = np.ones((len(queues), 1))
    before = snapshot(queues, [100.0], nothing, nothing, one)
    _, memory = decide(before, Memory(), config, NOW)
    now = snapshot(queues, [100.0], np.array(demand)[:, None], np.array(usage)[:, None], one)
    result, _ = decide(now, memory, config, NOW + 1.0)
    return result, now


def owed_to(
    demand: list[float],
    usage: list[float],
    evict: list[bool],
    since: dict[str, float] | None = None,
    queues: tuple[QueueSpec, ...] = QUEUES,
) -> list[tuple[str, Ground, float, bool]]:
    result, now = decided(demand, usage, queues)
    found, _, _ = owed(now, result, np.array(evict), since or {}, RULES, NOW + 1.0)  # type: ignore[arg-type]
    return [(queues[one.row].name, one.ground, float(one.amount[0]), one.evicts) for one in found]


def test_a_hard_burst_in_its_window_is_owed_its_guarantee_less_what_it_runs() -> None:
    assert owed_to([60.0, 100.0, 0.0], [10.0, 90.0, 0.0], [True, False, False]) == [("lq", Ground.BURST, 30.0, True)]
    assert owed_to([15.0, 100.0, 0.0], [10.0, 90.0, 0.0], [True, False, False]) == [], "a trickle that opens no window is no burst"


def test_a_hard_burst_of_a_queue_that_evicts_nobody_is_owed_too_but_takes_only_free_room() -> None:
    assert owed_to([60.0, 100.0, 0.0], [10.0, 90.0, 0.0], [False, False, False]) == [("lq", Ground.BURST, 30.0, False)]


def test_a_burst_without_a_guarantee_is_owed_nothing() -> None:
    elastic = (*QUEUES[1:], latency("lq", 3.0, [100.0], 90, Sporadic(100)))
    assert owed_to([100.0, 0.0, 60.0], [90.0, 0.0, 10.0], [True, True, True], queues=elastic) == []


def test_a_throughput_queue_is_owed_its_fair_share_after_the_grace_time() -> None:
    """Two of equal weight: 50 each; the second runs nothing."""
    wants, uses, evict = [0.0, 100.0, 100.0], [0.0, 100.0, 0.0], [False, False, True]
    assert owed_to(wants, uses, evict) == []
    assert owed_to(wants, uses, evict, {"tq-b": NOW - 298.9}) == []
    assert owed_to(wants, uses, evict, {"tq-b": NOW - 299.0}) == [("tq-b", Ground.FAIR_SHARE, 50.0, True)]
    assert owed_to(wants, uses, [False] * 3, {"tq-b": NOW - 9000.0}) == [], "its reclaim is Never"


def test_the_grace_time_begins_anew_once_a_queue_has_had_its_share() -> None:
    result, now = decided([0.0, 100.0, 100.0], [0.0, 50.0, 50.0])
    found, since, wake = owed(now, result, np.array([False, True, True]), {"tq-b": NOW - 9000.0}, RULES, NOW + 1.0)  # type: ignore[arg-type]
    assert (found, since, wake) == ((), {}, float("inf"))


def test_the_next_grace_times_end_is_known() -> None:
    result, now = decided([0.0, 100.0, 100.0], [0.0, 100.0, 0.0])
    _, since, wake = owed(now, result, np.array([False, False, True]), {"tq-b": NOW - 100.0}, RULES, NOW + 1.0)  # type: ignore[arg-type]
    assert since == {"tq-b": NOW - 100.0}
    assert wake == NOW + 200.0


# Memory -----------------------------------------------------------------------------------------------------------------

REMEMBERED = ReclaimMemory({"a/queue": 5.5}, {"uid-1": 7.25, "uid-0": 6.0}, -3.5, 8.0, {"a/pod/uid-2": 9.5})


def test_the_memory_comes_back_as_it_was() -> None:
    assert load_reclaim(dump_reclaim(REMEMBERED)) == REMEMBERED
    assert load_reclaim(dump_reclaim(ReclaimMemory())) == ReclaimMemory()
    turned = dataclasses.replace(REMEMBERED, made_room={"uid-0": 6.0, "uid-1": 7.25})
    assert dump_reclaim(turned) == dump_reclaim(REMEMBERED)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("{", MemoryFormatError, id="no JSON"),
        pytest.param("[]", MemoryFormatError, id="no object"),
        pytest.param('{"version": 1}', MemoryFormatError, id="fields missing"),
        pytest.param(dump_reclaim(REMEMBERED).replace("5.5", '"x"'), MemoryFormatError, id="no number"),
        pytest.param(dump_reclaim(REMEMBERED).replace("5.5", "Infinity"), MemoryFormatError, id="no finite number"),
        pytest.param(dump_reclaim(REMEMBERED).replace("5.5", f"1{'0' * 400}"), MemoryFormatError, id="a number that no float holds"),
        pytest.param("[" * 100_000, MemoryFormatError, id="nested too deeply to be read"),
        pytest.param(dump_reclaim(REMEMBERED).replace('"version": 1', '"version": 2'), NewerMemoryError, id="newer"),
    ],
)
def test_a_damaged_memory_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_reclaim(text)
