"""Levels in whole pods: rounding, the next unit, and turns of queues that would have no unit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.model import GuaranteeClass, Memory, PolicyConfig, RoundResult, Sporadic
from fairburst.policy.rounding import Rounding, Turns
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
CONFIG = PolicyConfig()


def divided(
    capacity: list[float], wants: list[list[float]], unit: list[list[float]], weight: list[float] | None = None
) -> list[list[float]]:  # fmt: skip
    """Return the allocation of throughput queues, named a, b, c ..., in the first round."""
    queues = tuple(
        throughput(f"{name}/q", float(row), (weight or [1.0] * 9)[row])
        for row, name in zip(range(len(wants)), "abcdefghijkl", strict=False)
    )
    result, _ = decide(snapshot(queues, capacity, wants, unit=unit), Memory(), CONFIG, START)
    allocation: list[list[float]] = result.allocation.tolist()
    return allocation


def of_one(
    capacity: float, wants: list[float], unit: list[float], weight: list[float] | None = None, *, beside: bool = False
) -> list[object]:  # fmt: skip
    """Return the same for one resource. `beside` adds a second resource without capacity."""
    more = [0.0] if beside else []
    got = divided([capacity, *more], [[want, *more] for want in wants], [[one, *more] for one in unit], weight)
    return [pytest.approx(row[0]) for row in got]


class TestWhoIsRounded:
    def test_who_has_all_it_wants_keeps_its_part_of_a_unit(self) -> None:
        assert of_one(10.0, [99.0, 2.5], [1.0, 1.0]) == [7.0, 2.5]

    def test_nobody_is_raised_above_what_it_wants(self) -> None:
        """Shares of 2.8, 3.3 and 3.9; two units are freed, and the first queue has use for 0.85 of one."""
        assert of_one(10.0, [2.85, 99.0, 99.0], [1.0] * 3, [2.8, 3.3, 3.9]) == [2.85, 3.0, 4.0]

    def test_beside_a_queue_of_unknown_units_others_have_whole_ones_by_weight(self) -> None:
        assert of_one(10.0, [99.0, 99.0, 99.0], [1.0, 1.0, 0.0], [4.0, 2.0, 4.0]) == [4.0, 2.0, 4.0]

    def test_a_resource_of_unknown_units_is_rounded_for_others_and_not_for_its_own_queue(self) -> None:
        """4.5 of either each: the first queue's pods need cores alone and take those that memory leaves idle."""
        assert divided([10.0, 9.0], [[20.0, 20.0]] * 2, [[1.0, 0.0], [1.0, 1.0]]) == [[6.0, 4.5], [4.0, 4.0]]

    def test_a_whole_share_is_not_offered_again_to_others(self) -> None:
        """5 units and ten halves: five queues at zero have one each, and none of them the fifth of the first queue."""
        got = of_one(10.0, [99.0] * 11, [1.0] * 11, [5.0] + [0.5] * 10)
        assert got[0] == 5.0
        assert got.count(1.0) == 5

    def test_a_hard_rate_of_whole_pods_is_not_raised(self) -> None:
        queues = (throughput("t/q"), latency("l/q", 1.0, [3.0], 10, Sporadic(100)))
        result, _ = decide(snapshot(queues, [10.0], [[0.0], [0.0]], unit=[[1.0], [1.0]]), Memory(), CONFIG, START)
        assert result.level.tolist() == [[0.0], [3.0]]

    def test_nobody_is_always_rounded_down(self) -> None:
        """Three queues of 2-core pods on 10 cores: 3.33 each; one gets two pods, in every round the same one."""
        queues = tuple(throughput(f"t{n}/q", float(n)) for n in range(3))
        given_snapshot = snapshot(queues, [10.0], [[20.0]] * 3, unit=[[2.0]] * 3)
        memory, seen = Memory(), []
        for step in range(5):
            result, memory = decide(given_snapshot, memory, CONFIG, START + 10 * step)
            seen.append(result.allocation[:, 0].tolist())
        assert seen[0] == [4.0, 4.0, 2.0]
        assert seen == [seen[0]] * 5


class TestHardRates:
    def test_a_hard_rate_is_rounded_up_to_a_whole_pod(self) -> None:
        queues = (throughput("t/q"), latency("l/q", 1.0, [5.0], 10, Sporadic(100), 20))
        memory = Memory()
        _, memory = decide(snapshot(queues, [10.0], [[20.0], [0.0]], unit=[[1.0], [2.0]]), memory, CONFIG, START)
        result, _ = decide(snapshot(queues, [10.0], [[20.0], [20.0]], unit=[[1.0], [2.0]]), memory, CONFIG, START + 1)
        assert result.guaranteed[1].tolist() == [4.0]
        assert result.level[1].tolist() == [4.0]

    def test_rates_are_rounded_up_only_as_far_as_capacity_goes(self) -> None:
        """Three rates of 2.5 in pods of 1 on 8.2: the first is rounded up to 3, and the 0.2 left are no 0.5 for the next."""
        queues = tuple(latency(f"l{row}/q", float(row), [2.5], 10, Sporadic(100)) for row in range(3))
        value = snapshot(queues, [8.2], [3.0, 3.0, 3.0], unit=[1.0, 1.0, 1.0])
        _, memory = decide(value, Memory(), CONFIG, START)
        result, _ = decide(value, memory, CONFIG, START + 1)
        assert result.guaranteed[:, 0].tolist() == pytest.approx([3.0, 2.5, 2.5])
        assert result.allocation.sum() <= 8.2 * (1 + 1e-9)


class TestTheNextUnit:
    def test_one_resource_of_it_is_given_where_the_other_is_exhausted(self) -> None:
        """4.5 cores and 4 of memory each: one of the two has the ninth core, beside memory that is all in use."""
        assert divided([9.0, 8.0], [[90.0, 80.0]] * 2, [[1.0, 1.0]] * 2) == [[5.0, 4.0], [4.0, 4.0]]

    def test_who_cannot_use_what_is_left_does_not_stand_in_the_way(self) -> None:
        assert divided([9.0, 8.0], [[90.0, 80.0]] * 2, [[4.0, 4.0], [1.0, 1.0]]) == [[4.0, 4.0], [5.0, 4.0]]

    def test_it_goes_to_a_queue_at_zero_before_one_that_has_a_unit(self) -> None:
        assert of_one(2.0, [99.0, 99.0], [1.0, 1.0], [4.0, 1.0]) == [1.0, 1.0]

    def test_losses_are_compared_in_parts_of_a_unit(self) -> None:
        """0.6 and 0.9 of a unit; the third queue's half a unit is not rounded."""
        assert of_one(7.0, [99.0, 99.0, 1.5], [1.0, 1.0, 0.0], [2.6, 2.9, 1.5]) == [2.0, 3.0, 1.5]

    @pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a resource that is not there"])
    @pytest.mark.parametrize(
        ("capacity", "wants", "unit", "weight", "want"),
        [
            pytest.param(10.5, [2.3, 99.0], [1.0, 1.0], [2.0, 8.5], [2.3, 8.0], id="the part of a unit that is wanted"),
            pytest.param(10.9, [2.3, 99.0], [1.0, 5.0], [2.0, 8.9], [2.3, 5.0], id="no more than that part"),
            pytest.param(153.0, [99.0, 56.0, 99.0], [40.0, 0.5, 0.5], None, [40.0, 56.0, 57.0], id="many units after one another"),
            pytest.param(153.0, [99.0, 55.0, 99.0], [40.0, 0.5, 0.5], None, [40.0, 55.0, 58.0], id="many units but to who has enough"),
            pytest.param(10.0, [99.0] * 3, [1.0, 1.0, 5.0], [3.0, 3.0, 4.0], [5.0, 5.0, 0.0], id="one each in turn"),
            pytest.param(3.5, [99.0, 99.0], [1.0, 1.0], None, [2.0, 1.0], id="the first by name of equal losses"),
        ],
    )
    def test_what_it_leaves_is_used_as_far_as_it_is_wanted(
        self, capacity: float, wants: list[float], unit: list[float], weight: list[float] | None, want: list[float], beside: bool
    ) -> None:  # fmt: skip
        assert of_one(capacity, wants, unit, weight, beside=beside) == want


class TestWholeUnitsThatRoundingFrees:
    def test_the_largest_part_lost_is_made_up_for_first(self) -> None:
        """Shares of 3.9 and 6.1: the first lost 0.9 of a pod, the second 0.1."""
        assert of_one(10.0, [99.0, 99.0], [1.0, 1.0], [3.9, 6.1]) == [4.0, 6.0]

    @pytest.mark.parametrize(
        ("capacity", "small", "want"),
        [
            pytest.param(60.0, [100.0], [60.0], id="all of it"),
            pytest.param(60.0, [30.0], [30.0], id="no more than wanted"),
            pytest.param(60.0, [19.0], [19.0], id="one more than every pass gives"),
            pytest.param(70.0, [40.0, 40.0], [40.0, 30.0], id="one queue after the other"),
        ],
    )
    def test_what_pods_too_large_leave_is_used_by_small_ones(self, capacity: float, small: list[float], want: list[float]) -> None:
        """Five queues whose pods of 100 do not fit have a share each, which others use."""
        got = of_one(capacity, small + [500.0] * 5, [1.0] * len(small) + [100.0] * 5)
        assert got == [*want, 0.0, 0.0, 0.0, 0.0, 0.0]

    def test_a_queue_at_zero_comes_before_a_larger_loss_even_beside_a_soft_burst(self) -> None:
        """The soft queue in its window is first, then the queue that would have nothing, then the queue that lost most."""
        hard = latency("h/q", 0.0, [10.0], 1.0, Sporadic(100))
        soft = latency("s/q", 1.0, [2.0], 10.0, Sporadic(100))
        queues = (hard, soft, throughput("a/q", 2.0, 4.0), throughput("b/q", 3.0, 1.0))
        value = snapshot(queues, [9.0], [0.0, 2.0, 99.0, 99.0], unit=[1.0, 1.0, 3.0, 2.0], committed=[10.0])
        memory = Memory()
        for seconds in (0, 1):
            result, memory = decide(value, memory, CONFIG, START + seconds)
        assert result.classes == (HARD, SOFT, ELASTIC, ELASTIC)
        assert result.allocation[:, 0].tolist() == [0.0, 2.0, 3.0, 4.0]

    def test_turns_are_taken_by_pods_of_half_a_core_as_by_large_ones(self) -> None:
        queues = tuple(throughput(f"t{row}/q", float(row)) for row in range(4))
        value = snapshot(queues, [1.0], [2.0] * 4, unit=[0.5] * 4)
        memory, served = Memory(), np.zeros(4)
        for step in range(60):
            result, memory = decide(value, memory, CONFIG, START + 10 * step)
            assert sorted(result.allocation[:, 0]) == [0.0, 0.0, 0.5, 0.5]
            served += result.allocation[:, 0]
        assert served.min() >= 0.8 * served.max()


class TestTurns:
    """Queues that would have no unit take turns of a minute."""

    def play(self, names: str, rounds: list[tuple[float, float, str]]) -> list[RoundResult]:
        """One result for each (seconds, capacity, queues that want something), all with pods of one core."""
        queues = tuple(throughput(f"{name}/q", float(row)) for row, name in enumerate(names))
        memory, results = Memory(), []
        for seconds, capacity, wanting in rounds:
            wants = [[9.0 if name in wanting else 0.0] for name in names]
            value = snapshot(queues, [capacity], wants, unit=[[1.0]] * len(names))
            result, memory = decide(value, memory, CONFIG, START + seconds)
            results.append(result)
        return results

    def test_who_has_waited_longest_is_next(self) -> None:
        """a holds the unit from 0, c has waited since then, b since 30."""
        *_, last = self.play("abc", [(0, 1.0, "ac"), (30, 1.0, "abc"), (60, 1.0, "abc")])
        assert last.allocation[:, 0].tolist() == [0.0, 0.0, 1.0]

    def test_a_newcomer_comes_before_one_whose_turn_has_passed(self) -> None:
        *_, last = self.play("abc", [(0, 1.0, "ac"), (60, 2.0, "abc")])
        assert last.allocation[:, 0].tolist() == [0.0, 1.0, 1.0]

    def test_a_turn_that_comes_again_lasts_a_minute_again(self) -> None:
        """Two units for three: at 60 the one who waited has one of them, and one of the others has a second turn."""
        first, last = self.play("abc", [(0, 2.0, "abc"), (60, 2.0, "abc")])
        assert first.allocation[:, 0].tolist() == [1.0, 1.0, 0.0]
        assert last.allocation[:, 0].tolist() == [1.0, 0.0, 1.0]
        assert (first.next_boundary, last.next_boundary) == (START + 60, START + 120)

    def test_nobody_who_has_a_unit_of_its_own_takes_part(self) -> None:
        queues = tuple(
            throughput(f"{name}/q", float(row), weight) for row, (name, weight) in enumerate([("a", 4.3), ("b", 0.35), ("c", 0.35)])
        )
        _, memory = decide(snapshot(queues, [5.0], [[99.0]] * 3, unit=[[1.0]] * 3), Memory(), CONFIG, START)
        assert memory.queues["a/q"].unit_held_since is None
        assert memory.queues["b/q"].unit_held_since == START

    def test_nobody_who_has_no_share_at_all_waits_for_a_unit(self) -> None:
        """A hard burst takes all there is."""
        queues = (latency("l/q", 0.0, [10.0], 10, Sporadic(100)), throughput("t/q", 1.0))
        value = snapshot(queues, [10.0], [[10.0], [99.0]], unit=[[1.0], [1.0]])
        result, memory = decide(value, Memory(), CONFIG, START)
        assert np.array_equal(result.allocation, [[10.0], [0.0]])
        assert memory.queues["t/q"].waiting_since is None

    def test_queues_that_would_sit_at_zero_take_turns_of_a_minute(self) -> None:
        queues = tuple(throughput(f"t{n}/q", float(n)) for n in range(4))
        given_snapshot = snapshot(queues, [10.0], [[20.0]] * 4, unit=[[5.0]] * 4)
        memory, served, changes, last = Memory(), np.zeros(4), 0, None
        for step in range(120):
            result, memory = decide(given_snapshot, memory, CONFIG, START + 10 * step)
            row = result.allocation[:, 0]
            assert sorted(row) == [0, 0, 5, 5]
            changes += last is not None and row.tolist() != last
            last = row.tolist()
            served += row
        assert served.min() >= 0.8 * served.max()
        assert changes <= 20


def test_spare_that_is_given_in_whole_units_is_not_charged() -> None:
    """8 of 10.5 cores are promised, more than the queue's fair share; of the rest, two whole pods are spare."""
    queues = (latency("l/q", 0.0, [8.0], 10, Sporadic(100)), throughput("t/q"))
    given = snapshot(queues, [10.5], [[20.0], [0.0]], [[10.0], [0.0]], [[1.0], [0.0]])
    result, _ = decide(given, Memory(), CONFIG, START)
    assert (result.allocation[0].tolist(), result.guaranteed[0].tolist()) == ([10.0], [8.0])
    assert result.charge_rate.tolist() == pytest.approx([8 / 10.5, 0.0])


def test_what_rounding_takes_from_a_promise_is_not_granted() -> None:
    """Outside its window 79 of 80 are left over 90 s: 6.1 of 7 cores, and .9 spare; but its pods are of 6 cores, and one fits."""
    queues = (throughput("t/q", weight=0.25), latency("l/q", 1.0, [1.0], 10, Sporadic(100)))
    memory = Memory()
    for seconds, wants, uses in ((0, 1.0, 0.7), (10, 0.0, 0.0)):
        _, memory = decide(snapshot(queues, [7.0], [[0.0], [wants]], [[0.0], [uses]], [[0.0], [6.0]]), memory, CONFIG, START + seconds)
    result, _ = decide(snapshot(queues, [7.0], [[0.0], [20.0]], unit=[[0.0], [6.0]]), memory, CONFIG, START + 10)
    divisible, _ = decide(snapshot(queues, [7.0], [[0.0], [20.0]]), memory, CONFIG, START + 10)
    assert divisible.guaranteed[1].tolist() == pytest.approx([7 * 79 / 90])
    assert divisible.decisions[1].spare.tolist() == pytest.approx([7 - 7 * 79 / 90])
    assert (result.allocation[1].tolist(), result.guaranteed[1].tolist()) == ([6.0], [6.0])


def test_what_rounding_adds_to_a_fair_share_is_no_spare() -> None:
    """Two batch queues have 7 of 14 GB each, in pods of 2. The cores that they leave idle are spare for the third queue only."""
    queues = (throughput("a/q"), throughput("b/q", 1.0), latency("l/q", 2.0, [1.0, 0.0], 10, Sporadic(100)))
    unit, batch = [[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]], [[20.0, 40.0]] * 2
    memory = Memory()
    for seconds, wants, uses in ((0, 1.0, 1.0), (10, 0.0, 0.0)):
        value = snapshot(queues, [30.0, 14.0], [*batch, [wants, 0.0]], [[0.0, 0.0], [0.0, 0.0], [uses, 0.0]], unit)
        _, memory = decide(value, memory, CONFIG, START + seconds)
    result, _ = decide(snapshot(queues, [30.0, 14.0], [*batch, [30.0, 0.0]], None, unit), memory, CONFIG, START + 10)
    assert result.decisions[2].spare[0] > 0
    assert result.allocation[:2].tolist() == [[4.0, 8.0], [3.0, 6.0]]
    assert result.guaranteed[:2].tolist() == [[4.0, 8.0], [3.0, 6.0]]


def test_where_room_is_left_for_fewer_turns_those_that_began_first_go_on() -> None:
    """All three are in their first minute. By the lost part of a unit, which changes with each pod, they would lose it in turn."""
    shares, ones, firm = np.array([[0.5], [0.9], [0.6]]), np.ones(3), np.zeros(3, dtype=bool)
    rounding = Rounding(
        guaranteed=np.zeros((3, 1)), firm=firm, wanted=np.full((3, 1), 10.0), unit=np.ones((3, 1)), capacity=np.array([2.0]),
        first=np.zeros(0, dtype=np.int64), name_rank=np.arange(3), yields=~firm, weight=ones,
    )  # fmt: skip
    rounded, turns = rounding.round_to_units(shares, Turns(np.full(3, math.nan), np.array([90.0, 95.0, 80.0]), np.zeros(3)), 100.0)
    assert rounded[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert turns.unit_held_since[[0, 2]].tolist() == [90.0, 80.0]
