"""Idle capacity goes to pods that fit it, pod by pod (docs/decisions/0110-idle-capacity-is-lent-pod-by-pod.md)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.errors import InvalidSnapshotError
from fairburst.policy.lending import SINGLE_TURNS, Lender, _Borrower
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, RoundResult, Sporadic, WaitingPods
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

CONFIG = PolicyConfig()
Line = tuple[int, Sequence[float], float]


def waiting(lines: Sequence[Line], *, in_order: bool = False) -> WaitingPods:
    """(row, request, count) of each run of pods."""
    row, request, count = zip(*lines, strict=True)
    return WaitingPods(np.array(row), np.array(request, dtype=np.float64), np.array(count, dtype=np.float64), in_order)


def of_pods(
    capacity: Sequence[float], running: Sequence[Sequence[float]], lines: Sequence[Line], *, in_order: bool = False, **limits: float
) -> ClusterSnapshot:  # fmt: skip
    """Return throughput queues a, b, c ... that use `running` and wait with the pods of `lines`."""
    queues = tuple(throughput(f"{name}/q", float(row), **limits) for row, name in zip(range(len(running)), "abcdefgh", strict=False))
    pods = waiting(lines, in_order=in_order)
    demand, unit = np.array(running, dtype=np.float64), np.zeros((len(queues), len(capacity)))
    np.add.at(demand, pods.row, pods.request * pods.count[:, None])
    np.maximum.at(unit, pods.row, pods.request)
    return dataclasses.replace(snapshot(queues, capacity, demand, running, unit), waiting=pods)


def round_of(value: ClusterSnapshot) -> RoundResult:
    return decide(value, Memory(), CONFIG, START)[0]


class TestOneQueueAlone:
    def test_pods_of_one_mix_that_run_do_not_hold_up_pods_of_another(self) -> None:
        """40 pods of 2 cpu and 1 Gi run; by the mix of all that is wanted 80 cpu go with 400 Gi, and 20 cpu would stay idle."""
        value = snapshot((throughput("a"),), [100, 400], [[250, 1250]], [[80, 40]], [[2, 4]])
        assert round_of(value).level.tolist() == [[100, 400]]

    def test_listed_pods_are_counted_one_by_one(self) -> None:
        """The mix of all allows 50 cpu and 100 Gi; cpu-heavy pods come first and may have every core."""
        value = of_pods([100, 100], [[0, 0]], [(0, [10, 1], 10), (0, [1, 39], 10)], in_order=True)
        result = round_of(value)
        assert result.allocation[0, 0] == pytest.approx(100)
        assert result.allocation[0, 1] >= 10

    def test_a_limit_stops_it(self) -> None:
        value = of_pods([100, 100], [[0, 0]], [(0, [10, 1], 10), (0, [1, 39], 10)], in_order=True, cpu=50)
        assert round_of(value).allocation[0, 0] <= 50

    def test_a_limit_leaves_room_for_pods_of_another_mix(self) -> None:
        """The mix of all that waits has little memory below the limit of 10 cpu; the next pods need more of it."""
        value = of_pods([64, 8], [[3, 3]], [(0, [3, 1], 3), (0, [1, 0], 100)], in_order=True, cpu=10)
        assert (round_of(value).allocation >= [[9, 5]]).all()


class TestCapacity:
    def test_a_large_pod_that_lacks_a_few_bytes_is_not_lent(self) -> None:
        """20 pods of 3.4 GB fit an empty cluster. Others use 1,500 bytes, less than a millionth of such a pod, so that 19 fit."""
        pod, total = 3_435_973_836.0, 68_719_476_736.0
        value = of_pods([100, total], [[1, total - 20 * pod + 1500], [0, 0]], [(1, [1, pod], 40)])
        assert (round_of(value).allocation.sum(axis=0) <= [100, total * (1 + 1e-9)]).all()


class TestWhatRunsBeyondItsAllocation:
    """A level that did not cover what it lets run would fall when all places are taken, and rise with every pod that ends: a quota write
    for each, and a successor that waits for it. Here a's next job of single pods starts whole."""

    @staticmethod
    def levels(capacity: float, running: Sequence[float], lines: Sequence[Line]) -> list[float]:
        value = of_pods([capacity], [[amount] for amount in running], lines)
        return list(round_of(dataclasses.replace(value, unit=np.ones_like(value.unit))).level[:, 0].tolist())

    @pytest.mark.parametrize("running", [64.0, 63.0, 50.0, 33.0, 0.0])
    def test_it_stays_lent_while_no_other_queue_can_use_it(self, running: float) -> None:
        assert self.levels(64, [0, running], [(0, [40], 1), (1, [1], 200)]) == [0.0, 64.0]

    @pytest.mark.parametrize("running", [64.0, 50.0, 32.0])
    def test_it_is_not_lent_once_another_queue_can_use_it(self, running: float) -> None:
        assert self.levels(64, [0, running], [(0, [1], 100), (1, [1], 200)]) == [32.0, 32.0]

    @pytest.mark.parametrize("running", [30.0, 20.0, 10.0])
    def test_who_runs_has_no_precedence_over_who_waits(self, running: float) -> None:
        """a cannot use its 10; b and c have 5 of them each, whichever of them uses them now."""
        assert self.levels(30, [0, running, 0], [(0, [25], 1), (1, [1], 200), (2, [1], 200)]) == [0.0, 15.0, 15.0]

    def test_a_burst_that_has_outgrown_its_promise_has_idle_capacity_only_while_it_is_idle(self) -> None:
        """BoPF section 5.2: batch work is protected from bursts that need more than they declared."""
        queues = latency("l/q", 0.0, [10.0], 10, Sporadic(1000.0)), throughput("t/q", 1.0)
        pods = waiting([(0, [1], 200), (1, [40], 1)])
        full, room = (snapshot(queues, [64], [[300], [40]], [[running], [0]], [[1], [1]]) for running in (64.0, 63.0))
        assert round_of(dataclasses.replace(full, waiting=pods)).level[0, 0] < 64
        assert round_of(dataclasses.replace(room, waiting=pods)).level[0, 0] == 64

    def test_it_is_lent_no_more_than_is_wanted(self) -> None:
        assert self.levels(64, [0, 40], [(0, [50], 1), (1, [1], 4)])[1] == 44.0


class TestManyQueues:
    def test_what_one_cannot_use_goes_to_another_and_no_more_of_it_than_that(self) -> None:
        """a's next pods are cpu-heavy, b's memory-heavy; behind them both wait with the opposite."""
        value = of_pods(
            [100, 100], [[0, 0], [0, 0]],
            [(0, [10, 1], 10), (0, [1, 10], 10), (1, [1, 10], 10), (1, [10, 1], 10)], in_order=True,
        )  # fmt: skip
        result = round_of(value)
        assert result.allocation[0, 0] >= 80
        assert result.allocation[1, 1] >= 80
        assert (result.allocation.sum(axis=0) <= 100 + 1e-6).all()

    def test_the_lowest_dominant_share_is_served_first(self) -> None:
        """20 cpu are idle beside what covers the pods of a third queue; a uses more than b."""
        value = of_pods([120, 100], [[60, 10], [20, 10], [10, 50]], [(0, [5, 0], 9), (1, [5, 0], 2), (2, [0, 30], 9)])
        result = round_of(value)
        assert result.allocation[1, 0] >= 30
        assert result.allocation[0, 0] >= 60

    def test_of_equal_shares_the_one_that_is_owed_more_comes_first(self) -> None:
        """Two queues of pods of 40 on 64 cores, and of parts of them: one fits at a time, and each has its turn."""
        queues, pods = (throughput("a/q", 0.0), throughput("b/q", 1.0)), waiting([(0, [40.0], 9), (1, [40.0], 9)])
        value = dataclasses.replace(snapshot(queues, [64.0], [[360.0]] * 2, unit=[[1.0]] * 2), waiting=pods)
        served, memory, usage = list[int](), Memory(), np.zeros((2, 1))
        for number in range(6):
            result, memory = decide(dataclasses.replace(value, usage=usage), memory, CONFIG, START + 100 * number)
            usage = np.where(result.allocation >= 40, 40.0, 0.0) if number % 2 == 0 else np.zeros((2, 1))
            if number % 2 == 0:
                served.append(int(np.argmax(usage)))
        assert set(served) == {0, 1}

    @pytest.mark.parametrize("pods", [1e5, 1e7])
    def test_room_for_very_many_pods_takes_few_turns_and_is_as_fairly_lent(self, pods: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """A round took 0.8 s per hundred thousand pods, since each was lent in a turn of its own."""
        turns = itertools.count()
        start = _Borrower.start

        def counted(self: _Borrower, *given: Any) -> None:
            next(turns)
            start(self, *given)

        monkeypatch.setattr(_Borrower, "start", counted)
        many, weight, nothing = np.arange(50), 1.0 + np.arange(50) % 3, np.zeros((50, 2))
        waits = WaitingPods(many, np.tile([0.001, 1.0], (50, 1)), np.full(50, 1e9))
        held, again = np.zeros(50, dtype=bool), np.ones(50, dtype=bool)
        lender = Lender(nothing + 1e9, nothing, nothing, weight, np.array([pods, pods]), None, waits, held, again, np.zeros(50))
        lent = lender.lend(nothing.copy())[:, 1]
        assert lent.sum() == pods
        assert np.ptp(lent / weight) <= 1
        assert next(turns) < SINGLE_TURNS + 10_000

    def test_lent_capacity_is_spare(self) -> None:
        """A latency queue outside its window pays nothing for it."""
        queues = (latency("l/q", 0.0, [10.0, 10.0], 10, Sporadic(1000.0)), throughput("t/q", 1.0))
        value = snapshot(queues, [100, 400], [[250, 1250], [0, 0]], [[80, 40], [0, 0]], [[2, 4], [1, 1]])
        result = round_of(value)
        assert result.allocation[0, 0] == pytest.approx(100)
        assert result.decisions[0].spare[0] > 0

    def test_a_burst_in_its_window_keeps_what_it_is_owed(self) -> None:
        """The burst is owed 50 cpu and as much memory and has started nothing; no other queue is lent any of it."""
        queues = (latency("l/q", 0.0, [50.0, 50.0], 10, Sporadic(100.0)), throughput("t/q", 1.0))
        pods = waiting([(0, [10, 10], 5), (1, [1, 30], 9)], in_order=True)
        value = dataclasses.replace(snapshot(queues, [100, 100], [[50, 50], [9, 270]], [[0, 0], [0, 0]], [[10, 10], [1, 30]]), waiting=pods)
        result = round_of(value)
        assert result.allocation[0].tolist() == [50, 50]
        assert result.allocation[1, 1] <= 50

    def test_pods_that_wait_behind_none_may_pass_one_that_does_not_fit(self) -> None:
        lines: list[Line] = [(0, [90, 10], 1), (0, [5, 60], 1)]
        assert round_of(of_pods([100, 100], [[20, 20]], lines)).allocation[0, 1] >= 80
        assert round_of(of_pods([100, 100], [[20, 20]], lines, in_order=True)).allocation[0, 1] < 80


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("pods", "what"),
        [
            pytest.param(WaitingPods(np.array([1]), np.ones((1, 2)), np.ones(1)), "rows of 1 queues", id="a row that is not there"),
            pytest.param(WaitingPods(np.array([0]), np.ones((1, 3)), np.ones(1)), "requests", id="another number of resources"),
            pytest.param(WaitingPods(np.array([0]), np.full((1, 2), np.nan), np.ones(1)), "requests between", id="not a number"),
            pytest.param(WaitingPods(np.array([0]), np.ones((1, 2)), -np.ones(1)), "counts between", id="fewer than none"),
        ],
    )
    def test_damaged_lists_are_named(self, pods: WaitingPods, what: str) -> None:
        value = dataclasses.replace(snapshot((throughput("a"),), [10, 10], [[1, 1]]), waiting=pods)
        with pytest.raises(InvalidSnapshotError, match=what):
            round_of(value)
