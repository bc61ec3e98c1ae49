"""A turn lets a queue start a whole job, and leaves every promise to other queues as it is (docs/decisions/0256)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.errors import InvalidSnapshotError
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, QueueKind, RoundResult
from tests.support.policy import snapshot, throughput
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig(largest_turn=1.0)


@st.composite
def with_starts(draw: st.DrawFn) -> ClusterSnapshot:
    """A snapshot in which any queues say that they wait for any amount more."""
    value = draw(snapshots())
    rows = draw(st.sets(st.integers(0, len(value.queues) - 1)))
    amounts = st.lists(st.integers(0, 40), min_size=len(value.resources), max_size=len(value.resources))
    starting = frozenset(draw(st.sets(st.sampled_from(sorted(rows))))) if rows else frozenset()
    return dataclasses.replace(value, next_start={row: np.array(draw(amounts), dtype=np.float64) for row in rows}, starting=starting)


@given(with_starts())
def test_a_turn_stays_within_capacity_and_demand_and_takes_nothing_from_a_promise(value: ClusterSnapshot) -> None:
    """BPF section 3.2: the allocation of a hard or soft queue in its window does not depend on how others' jobs start."""
    memory, latency = Memory(), [row for row, spec in enumerate(value.queues) if spec.kind is QueueKind.LATENCY]
    for seconds in (0, 30, 100, 200, 400, 900, 901):
        now = START + seconds
        plain, _ = decide(dataclasses.replace(value, next_start={}, starting=frozenset()), memory, CONFIG, now)
        result, memory = decide(value, memory, CONFIG, now)
        assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-9) + 1e-9).all()
        assert (result.allocation <= value.demand * (1 + 1e-9) + 1e-9).all()
        assert result.classes == plain.classes
        assert result.guaranteed[latency] == pytest.approx(plain.guaranteed[latency])
        value = dataclasses.replace(value, usage=np.minimum(result.allocation, value.demand))


def levels(need: float, config: PolicyConfig = CONFIG, *, limits: dict[str, float] | None = None, minutes: int = 5) -> list[float]:
    """The level of a queue that waits for `need` of ten places, each ten seconds, beside one of single pods that uses all others."""
    queues = dataclasses.replace(throughput("t/whole", 0.0), limits=limits or {}), throughput("t/single", 1.0)
    memory, found = Memory(), list[float]()
    for number in range(minutes * 6):
        value = snapshot(queues, [10.0], [[100.0], [100.0]], [[0.0], [10.0]], [[1.0], [1.0]])
        result, memory = decide(dataclasses.replace(value, next_start={0: np.array([need])}), memory, config, START + 10 * number)
        found.append(float(result.level[0, 0]))
    return found


def test_a_job_has_its_turn_once_it_is_owed_a_minute_of_its_need() -> None:
    """It is owed five places a second, so ten places for a minute after two."""
    found = levels(10.0)
    assert found[12:] == [pytest.approx(10.0)] * (len(found) - 12)
    assert max(found[:12]) < 10.0


def test_a_job_that_the_share_holds_needs_no_turn() -> None:
    assert levels(5.0) == levels(0.0)


@pytest.mark.parametrize(("need", "limits"), [(11.0, {}), (8.0, {"cpu": 7.0})], ids=["beyond the pool", "beyond the queue's limit"])
def test_a_job_that_can_never_start_has_no_turn(need: float, limits: dict[str, float]) -> None:
    assert max(levels(need, limits=limits)) < min(need, 10.0)


def test_a_turn_takes_no_more_than_the_largest_part_of_the_pool() -> None:
    """No running pod is evicted for others' shares, so a job that never ends keeps what its turn gave it. Catching up gives twice the
    weight, and half to who is ahead: four fifths of the pool here, without a turn."""
    half = PolicyConfig(largest_turn=0.5)
    assert max(levels(10.0, half)) == pytest.approx(8.0)
    assert max(levels(10.0, PolicyConfig(largest_turn=0.0))) == max(levels(10.0, half))


def started(lacking: float, minutes: int) -> list[RoundResult]:
    """A job of nine places of ten has had its turn; then it runs with all but `lacking` of its pods, beside pods that end and come."""
    queues = throughput("t/whole", 0.0), throughput("t/single", 1.0)
    memory, found = Memory(), list[RoundResult]()
    for number in range(6 * (minutes + 4)):
        used = 0.0 if number < 24 else 9.0 - lacking
        value = snapshot(queues, [10.0], [[100.0], [100.0]], [[used], [10.0 - used]], [[1.0], [1.0]])
        starting = frozenset({0} if used else ())
        value = dataclasses.replace(value, next_start={0: np.array([9.0 - used])}, starting=starting)
        result, memory = decide(value, memory, CONFIG, START + 10 * number)
        found.append(result)
    return found[24:]


@pytest.mark.parametrize("lacking", [1.0, 2.0, 6.0])
def test_a_start_that_has_begun_keeps_its_turn_until_it_has_all_its_pods(lacking: float) -> None:
    """The queue's owed amount runs out meanwhile. A job with only a part of its pods would hold its places for nothing."""
    assert [float(result.level[0, 0]) for result in started(lacking, 9)] == [pytest.approx(9.0)] * 54


def test_a_start_that_lacks_pods_asks_for_no_round_until_its_turn_may_end() -> None:
    assert min(result.next_boundary - result.now for result in started(1.0, 40)) >= 10.0


def test_a_start_that_never_gets_all_its_pods_keeps_its_turn_for_ten_minutes() -> None:
    """Pods that fit on no node, or a job that is made larger again and again, don't take others' shares for ever."""
    levels = [float(result.level[0, 0]) for result in started(1.0, 40)]
    assert levels[:54] == [pytest.approx(9.0)] * 54
    assert np.mean(levels[60:]) < 6.0


def test_a_start_that_its_share_permitted_is_finished_when_newcomers_lower_the_share() -> None:
    """Two queues share ten places, and each starts a job of five; then eight more come. The jobs' pods do not exist yet: the Job controller
    is behind. If the newcomers had their parts at once, they would start jobs too, and ten jobs would wait for pods in a pool of two."""
    queues = tuple(throughput(f"t/q{number}", float(number)) for number in range(10))
    memory, needs, found = Memory(), np.full(10, 5.0), list[RoundResult]()
    for number in range(12):
        wanted = [[20.0 if row < 2 or number else 0.0] for row in range(10)]
        value = snapshot(queues, [10.0], wanted, [[0.0]] * 10, [[1.0]] * 10)
        starting = frozenset({0, 1} if number else ())
        nexts = {row: needs[row : row + 1] for row in range(10) if wanted[row][0]}
        result, memory = decide(dataclasses.replace(value, next_start=nexts, starting=starting), memory, CONFIG, START + 5 * number)
        found.append(result)
    assert [result.level[:2, 0].tolist() for result in found] == [[pytest.approx(5.0)] * 2] * 12


def test_starts_that_are_stuck_leave_their_turn_to_others_who_then_keep_it() -> None:
    """A job that never gets its last pod has ten minutes. It does not take the places back from the next one, which has begun too."""
    queues = throughput("t/stuck", 0.0), throughput("t/next", 1.0), throughput("t/single", 2.0)
    memory, levels = Memory(), list[list[float]]()
    for number in range(6 * 16):
        value = snapshot(queues, [10.0], [[100.0]] * 3, [[0.0], [0.0], [10.0]], [[1.0]] * 3)
        starting = frozenset({0, 1} if number >= 24 else {0} if number else ())
        value = dataclasses.replace(value, next_start={0: np.array([9.0]), 1: np.array([9.0])}, starting=starting)
        result, memory = decide(value, memory, CONFIG, START + 10 * number)
        levels.append(result.level[:, 0].tolist())
    holders = [next((row for row in range(2) if level[row] >= 9.0), None) for level in levels]
    changes = [one for one, former in zip(holders[1:], holders, strict=False) if one != former and one is not None]
    assert changes == [0, 1]


def test_queues_that_have_nothing_in_a_jobs_turn_are_held_to_it() -> None:
    queues = throughput("t/whole", 0.0), throughput("t/single", 1.0), throughput("t/idle", 2.0)
    memory = Memory()
    for number in range(30):
        value = snapshot(queues, [10.0], [[100.0], [100.0], [0.0]], [[0.0], [10.0], [0.0]], [[1.0], [1.0], [1.0]])
        result, memory = decide(dataclasses.replace(value, next_start={0: np.array([10.0])}), memory, CONFIG, START + 10 * number)
    assert result.level[:, 0] == pytest.approx([10.0, 0.0, 0.0])
    assert result.held_back is not None
    assert result.held_back.tolist() == [False, True, False]


def test_rows_that_start_without_a_next_start_are_a_named_error() -> None:
    value = dataclasses.replace(snapshot((throughput("t/q", 0.0),), [10.0], [[100.0]]), starting=frozenset({0}))
    with pytest.raises(InvalidSnapshotError, match=r"starting: expected rows of next_start, found \[0\]"):
        decide(value, Memory(), CONFIG, START)


@pytest.mark.parametrize("amounts", [[math.nan], [-1.0], [math.inf], [1.0, 1.0], [[1.0]]], ids=str)
def test_amounts_that_are_none_are_a_named_error(amounts: list[float]) -> None:
    value = snapshot((throughput("t/q", 0.0),), [10.0], [[100.0]])
    with pytest.raises(InvalidSnapshotError, match="next_start: expected rows of 1 queues and 1 amounts"):
        decide(dataclasses.replace(value, next_start={0: np.array(amounts)}), Memory(), CONFIG, START)
