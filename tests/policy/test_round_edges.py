"""One round from snapshot to result, where a small number or a second resource decides; found by mutation testing (docs/mutation.md)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.dress.learned import FamilyDurations
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.dress.values import DemandCategory, DressConfig, JobsPart, Task
from fairburst.policy.errors import InvalidSnapshotError, InvalidSpecError
from fairburst.policy.model import Burst, EventKind, Memory, Periodic, PolicyConfig, QueueSpec, RoundResult, Sporadic, WindowState
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

CONFIG = PolicyConfig()


def test_wanting_all_it_gets_of_one_resource_and_nothing_of_another_is_no_burst() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0, 8.0], 10, Sporadic(100)))
    result, _ = decide(snapshot(queues, [10.0, 10.0], [[99.0, 99.0], [1.0, 0.0]]), Memory(), CONFIG, START)
    window = result.decisions[1].window
    assert window is not None
    assert window.state is WindowState.ARMED


def test_a_burst_of_half_a_core_is_one() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [0.5], 10, Sporadic(100)))
    result, _ = decide(snapshot(queues, [10.0], [[99.0], [0.5]]), Memory(), CONFIG, START)
    window = result.decisions[1].window
    assert window is not None
    assert window.state is WindowState.OPEN


@pytest.mark.parametrize(
    ("committed", "live", "want"),
    [
        pytest.param(10.0, 20.0, 0.4, id="of what is committed"),
        pytest.param(0.8, 8.0, 5.0, id="also where that is less than one"),
    ],
)
def test_use_is_charged_in_shares_of_committed_capacity(committed: float, live: float, want: float) -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [0.1], 10, Sporadic(100)))
    value = snapshot(queues, [live], [[99.0], [4.0]], [[0.0], [4.0]], committed=[committed])
    result, _ = decide(value, Memory(), CONFIG, START)
    assert result.decisions[1].spare.tolist() == [0.0]
    assert result.decisions[1].charge_rate == pytest.approx(want)


def test_use_is_charged_in_shares_of_live_capacity_where_nothing_is_committed() -> None:
    """Of a resource that no burst asks for: cores are committed, memory is not."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [1.0], 10, Sporadic(100)))
    value = snapshot(queues, [10.0, 10.0], [[99.0, 99.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 5.0]], committed=[10.0, 0.0])
    result, _ = decide(value, Memory(), CONFIG, START)
    assert result.decisions[1].charge_rate == pytest.approx(0.5)


def test_whole_numbers_decide_as_floating_point_ones_do() -> None:
    queues = (throughput("t/q"), throughput("u/q", 1.0, 2.0))
    value = snapshot(queues, [10.0], [[20.0], [20.0]], [[1.0], [2.0]], [[2.0], [1.0]])
    whole = dataclasses.replace(value, **{name: getattr(value, name).astype(np.int64) for name in ("demand", "usage", "unit")})
    results = [decide(one, Memory(), CONFIG, START)[0] for one in (value, whole)]
    assert results[0].allocation.tobytes() == results[1].allocation.tobytes()


def test_the_result_says_when_and_for_whom_it_was_decided() -> None:
    queues = (throughput("t/q"),)
    result, _ = decide(snapshot(queues, [10.0], [[1.0]]), Memory(), CONFIG, START)
    assert (result.now, result.queues) == (START, queues)


@pytest.mark.parametrize(("unit", "want"), [(0.0, 2.5), (2.0, 4.0), (1.0, 3.0)], ids=["none", "another", "the same"])
def test_a_quiet_round_notices_that_pods_are_of_another_size(unit: float, want: float) -> None:
    """An armed burst of 2.5 cores in pods of 1 has a level of 3."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [2.5], 10, Sporadic(100)))
    value = snapshot(queues, [10.0], [[0.0], [0.0]], unit=[[1.0], [1.0]])
    result, memory = decide(value, Memory(), CONFIG, START)
    assert result.level.tolist() == [[0.0], [3.0]]
    result, _ = decide(dataclasses.replace(value, unit=np.full((2, 1), unit)), memory, CONFIG, START + 1)
    assert result.level.tolist() == [[0.0], [want]]
    assert result.charge_rate.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("field", ["demand", "usage"])
def test_a_quiet_round_refuses_an_amount_below_nothing(field: str) -> None:
    value = snapshot((throughput("t/q"),), [10.0], [[0.0]])
    _, memory = decide(value, Memory(), CONFIG, START)
    with pytest.raises(InvalidSnapshotError, match=f"{field} of t/q"):
        decide(dataclasses.replace(value, **{field: np.array([[-1.0]])}), memory, CONFIG, START + 1)


def test_a_round_holds_room_for_an_expected_burst_and_charges_its_queue() -> None:
    """Design §5, with the numbers of test_lead_time.py: in 30 s a burst of 40 comes. 60 tasks of a minute run, one more each second old,
    30 of them end in time; 15 of 100 are free, so 10 are held, and batch grows from 85 to 90."""
    queue = dataclasses.replace(latency("l/q", 0.0, [40.0], 10, Periodic(100, START + 30)), lead_time=True)
    tasks = [Task(f"t{age}", "j", "t/q", DemandCategory.LARGE, np.ones(1), START - age, None, "etl") for age in range(60)]
    value = snapshot((queue, throughput("t/q", 1.0)), [100.0], [[0.0], [200.0]], [[0.0], [85.0]])
    value = dataclasses.replace(value, jobs=JobsPart.of([], [], tasks, 1))
    learned = DressMemory(0.1, families=FamilyDurations.of({"etl": [60.0] * 10}, {"etl": START}))
    result, memory = decide(value, Memory(dress=learned), PolicyConfig(dress=DressConfig()), START)
    assert [(one.queue, one.reason, one.held.tolist()) for one in result.lead_time] == [("l/q", "Holding", [10.0])]
    assert result.allocation[:, 0].tolist() == [0.0, 90.0]
    assert result.decisions[0].charge_rate == pytest.approx(0.1)
    assert memory.queues["l/q"].ledger_rate == pytest.approx(0.1)


def test_the_pool_that_small_and_large_jobs_divide_is_what_other_queues_leave() -> None:
    """DRESS's Tot_R: 100 of either resource less the burst's 40 and 20, and less the 10 and 5 of a queue that does not take part."""
    queues = (latency("l/q", 0.0, [40.0, 20.0], 10, Sporadic(100)), throughput("a/q", 1.0), throughput("b/q", 2.0))
    value = snapshot(queues, [100.0, 100.0], [[40.0, 20.0], [99.0, 9.0], [10.0, 5.0]])
    jobs = dataclasses.replace(JobsPart.of([], [], [], 2), taking_part=np.array([False, True, False]))
    result, _ = decide(dataclasses.replace(value, jobs=jobs), Memory(), PolicyConfig(dress=DressConfig()), START)
    assert result.dress is not None
    assert result.dress.pool.tolist() == [50.0, 75.0]


class TestLimits:
    def test_scale_down_the_demand_of_their_queue_as_a_whole_and_of_no_other(self) -> None:
        queues = (
            throughput("a/q", 0.0, cpu=4.0, memory=2.0),
            throughput("b/q", 1.0, cpu=4.0),
            throughput("c/q", 2.0),
            throughput("d/q", 3.0, cpu=0.0),
        )
        result, _ = decide(snapshot(queues, [40.0, 40.0], [[10.0, 10.0], [1.0, 1.0], [9.0, 9.0], [9.0, 9.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[2.0, 2.0], [1.0, 1.0], [9.0, 9.0], [0.0, 0.0]]

    def test_of_resources_that_nobody_counts_say_nothing(self) -> None:
        result, _ = decide(snapshot((throughput("a/q", 0.0, tpu=1.0),), [10.0], [[9.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[9.0]]


def test_a_rejected_queue_gets_only_what_no_admitted_one_wants() -> None:
    queues = (latency("a/q", 0.0, [10.0], 40, Sporadic(100)), throughput("b/q", 1.0), throughput("c/q", 2.0))
    result, _ = decide(snapshot(queues, [10.0], [[0.0], [2.0], [2.0]]), Memory(), CONFIG, START)
    assert (result.allocation[:, 0].tolist(), result.guaranteed[:, 0].tolist()) == ([0.0, 2.0, 2.0], [0.0, 2.0, 0.0])
    result, _ = decide(snapshot(queues, [10.0], [[0.0], [10.0], [2.0]]), Memory(), CONFIG, START)
    assert result.allocation[:, 0].tolist() == [0.0, 10.0, 0.0]


class TestOneLatencyQueue:
    """8 of 10 cores for 10 s, once in 100 s, beside batch work; F is 50 dominant-share-seconds and the burst is 8 of them."""

    def play(
        self, rounds: list[tuple[float, float, float]], deadline: float = 10.0, cores: float = 8.0, seconds: float = 10.0,
        live: float = 10.0, batch: float = 99.0,
    ) -> tuple[list[RoundResult], Memory]:  # fmt: skip
        """One result for each (seconds, wants, uses) of the latency queue."""
        queues = (throughput("t/q"), latency("l/q", 1.0, [cores], seconds, Sporadic(100), deadline))
        memory, results = Memory(), []
        for at, wants, uses in rounds:
            value = snapshot(queues, [live], [[batch], [wants]], [[0.0], [uses]], committed=[10.0])
            result, memory = decide(value, memory, PolicyConfig(level_dead_band=0.05), START + at)
            results.append(result)
        return results, memory

    def test_outside_its_window_its_level_follows_a_rise_beyond_the_dead_band_only(self) -> None:
        """42 are left: over 90 s, then 88 (2 % more), then 85 (6 % more)."""
        results, _ = self.play([(0, 8.0, 8.0), (10, 10.0, 0.0), (12, 10.0, 0.0), (15, 10.0, 0.0)])
        assert [one.guaranteed[1, 0] for one in results[1:]] == pytest.approx([10 * 42 / 90, 10 * 42 / 90, 10 * 42 / 85])

    def test_outside_its_window_it_has_nothing_once_its_fair_share_is_used_up(self) -> None:
        results, _ = self.play([(0, 8.0, 10.0), (10, 10.0, 10.0), (60, 10.0, 0.0)])
        assert results[-1].guaranteed[1, 0] == 0.0

    def test_its_level_is_the_same_number_of_cores_when_there_are_more_than_were_committed(self) -> None:
        results, _ = self.play([(0, 8.0, 8.0), (10, 10.0, 0.0)], live=20.0)
        assert results[-1].guaranteed[1, 0] == pytest.approx(10 * 42 / 90)

    @pytest.mark.parametrize(
        ("rounds", "want"),
        [
            pytest.param([(0, 8.0, 8.0), (9, 8.0, 8.0), (10, 8.0, 4.0), (11, 8.0, 4.0)], [0, 0, 1, 0], id="once"),
            pytest.param([(at, 8.0, 8.0) for at in range(14)], [0] * 10 + [1, 0, 0, 0], id="once, though its use goes on as before"),
            pytest.param([(0, 8.0, 7.0), (15, 0.0, 7.0), (100, 8.0, 8.0), (110, 8.0, 8.0)], [0, 0, 0, 1], id="beside a debt of 20 too"),
        ],
    )
    def test_the_end_of_its_budget_is_told_by_name(self, rounds: list[tuple[float, float, float]], want: list[int]) -> None:
        results, _ = self.play(rounds, deadline=15.0)
        spent = [[event for event in one.events if event.kind is EventKind.BUDGET_SPENT] for one in results]
        assert [[event.queue for event in some] for some in spent] == [["l/q"] * count for count in want]
        assert all(event.message.startswith("The declared burst has been delivered in full") for some in spent for event in some)

    def test_what_was_delivered_at_different_rates_adds_up(self) -> None:
        """2.5 s of 8 cores, 10 s of 4 and 2.5 s of 8 are the 80 core-seconds declared."""
        results, _ = self.play([(0, 8.0, 8.0), (2.5, 8.0, 4.0), (12.5, 8.0, 8.0), (14.9, 8.0, 8.0), (15, 8.0, 8.0)], deadline=20.0)
        assert [EventKind.BURST_MET in [event.kind for event in one.events] for one in results] == [False] * 4 + [True]

    def test_its_ledger_is_exact_where_use_changes_twice_in_a_second(self) -> None:
        results, _ = self.play([(0, 8.0, 8.0), (0.5, 8.0, 4.0), (1.0, 8.0, 4.0)])
        assert results[-1].decisions[1].ledger == pytest.approx(0.6)

    @pytest.mark.parametrize(
        ("rounds", "seconds", "want"),
        [
            pytest.param([(0, 0.0, 0.0)], 10.0, 8.0, id="armed: its rate"),
            pytest.param([(0, 0.0, 0.0)], 1.0, 0.8, id="armed for a small burst: its rate"),
            pytest.param([(0, 8.0, 8.0), (5, 1.0, 1.0)], 10.0, 8.0, id="open: its rate, whatever it wants at the moment"),
            pytest.param([(0, 8.0, 8.0), (10, 0.0, 0.0)], 10.0, 0.0, id="closed: what it is given"),
            pytest.param([(0, 8.0, 10.0), (10, 0.0, 10.0), (100, 0.0, 10.0)], 10.0, 0.0, id="armed without a budget: what it is given"),
        ],
    )
    def test_its_quota_follows_its_window(self, rounds: list[tuple[float, float, float]], seconds: float, want: float) -> None:
        assert self.play(rounds, seconds=seconds)[0][-1].level[1, 0] == pytest.approx(want)


def test_half_the_guaranteed_rate_is_a_burst() -> None:
    """Exactly half, and no more than the fair share (docs/decisions/0010-a-burst-that-fits-its-fair-share.md)."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
    result, _ = decide(snapshot(queues, [10.0], [[99.0], [4.0]]), Memory(), CONFIG, START)
    window = result.decisions[1].window
    assert window is not None
    assert window.state is WindowState.OPEN


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
    """Of 14 GB two batch queues have 7 each, in pods of 2; the cores that they leave idle are spare for the third, and for no other."""
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


def test_jobs_that_come_into_a_quiet_cluster_are_looked_at() -> None:
    queues, config = (throughput("t/q"),), PolicyConfig(dress=DressConfig())
    value, memory = snapshot(queues, [10.0], [[0.0]]), Memory()
    for seconds in (0, 1):
        _, memory = decide(value, memory, config, START + seconds)
    result, _ = decide(dataclasses.replace(value, jobs=JobsPart.of([], [], [], 1)), memory, config, START + 2)
    assert result.dress is not None


def test_a_quiet_round_says_of_every_queue_what_the_round_before_it_said() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
    value, memory, told = snapshot(queues, [10.0], np.zeros((2, 1))), Memory(), []
    for seconds in (0, 1, 2):
        result, memory = decide(value, memory, CONFIG, START + seconds)
        told.append([(one.level.tolist(), one.budget, one.fair_share_of_period, one.window, one.reason) for one in result.decisions])
    assert told[0][1][:3] == ([8.0], pytest.approx(8.0), pytest.approx(50.0))
    assert told[1:] == told[:2]


def test_a_round_leaves_the_memory_it_was_given_as_it_was() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
    value = snapshot(queues, [10.0], [[99.0], [8.0]], [[0.0], [8.0]])
    _, memory = decide(value, Memory(), CONFIG, START)
    before = dict(memory.queues)
    decide(dataclasses.replace(value, usage=np.array([[0.0], [4.0]])), memory, CONFIG, START + 12)
    assert dict(memory.queues) == before


def test_a_fair_share_is_exact_where_it_changes_twice_in_a_second() -> None:
    """Half a second of one half, then 99.5 s of a third."""
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)), throughput("u/q", 2.0))
    _, memory = decide(snapshot(queues[:2], [10.0], [[0.0]] * 2), Memory(), CONFIG, START)
    result, _ = decide(snapshot(queues, [10.0], [[0.0]] * 3), memory, CONFIG, START + 0.5)
    assert result.decisions[1].fair_share_of_period == pytest.approx(0.25 + 99.5 / 3)


class TestARestart:
    """What is saved is plain values; the round after reads like the round that would have been."""

    def test_keeps_turns_verdicts_and_refused_changes(self) -> None:
        burst = latency("l/q", 0.0, [2.0], 10, Sporadic(100), 15)
        queues = (burst, *(throughput(f"{name}/q", 1.0 + row) for row, name in enumerate("abc")))
        memory, usage = Memory(), [[2.0], [0.0], [0.0], [0.0]]
        value = snapshot(queues, [2.9], [[2.0], [9.0], [9.0], [9.0]], usage, [[0.0], [1.0], [1.0], [1.0]])
        for seconds in (0, 5, 10.5):
            _, memory = decide(value, memory, CONFIG, START + seconds)
        changed = dataclasses.replace(burst, burst=Burst({"tpu": 1.0}, 10, 10))
        value = dataclasses.replace(value, queues=(changed, *queues[1:]))
        _, memory = decide(value, memory, CONFIG, START + 11)
        saved = Memory(queues=dict(memory.queues), next_admission_order=memory.next_admission_order)
        window = saved.queues["l/q"].window
        assert window is not None
        assert (window.state, window.demanded, window.judged) == (WindowState.OPEN, True, True)
        assert saved.queues["l/q"].refused == changed
        assert any(one.waiting_since is not None for one in saved.queues.values())
        assert any(one.unit_held_since is not None for one in saved.queues.values())
        for seconds in (12, 15, 61):
            same, memory = decide(value, memory, CONFIG, START + seconds)
            after, saved = decide(value, saved, CONFIG, START + seconds)
            assert (after.allocation.tolist(), after.events, after.next_boundary) == (
                same.allocation.tolist(),
                same.events,
                same.next_boundary,
            )
            assert dict(saved.queues) == dict(memory.queues)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("field", "value", "want"),
        [
            pytest.param("demand", [[0.5, 0.0], [0.0, -1.0]], "demand of b/q", id="a negative amount"),
            pytest.param("usage", [[0.5, 0.0], [0.0, 1e25]], "usage of b/q", id="more than there can be"),
            pytest.param("live_capacity", [0.5, float("nan")], "live_capacity of memory", id="no number"),
        ],
    )
    def test_an_amount_is_refused_by_field_and_owner(self, field: str, value: object, want: str) -> None:
        given = snapshot((throughput("a/q"), throughput("b/q", 1.0)), [10.0, 10.0], np.zeros((2, 2)))
        with pytest.raises(InvalidSnapshotError, match=want):
            decide(dataclasses.replace(given, **{field: np.array(value)}), Memory(), CONFIG, START)

    def test_a_resource_named_twice_is_refused(self) -> None:
        given = snapshot((throughput("a/q"),), [10.0, 10.0], np.zeros((1, 2)))
        with pytest.raises(InvalidSnapshotError, match="expected distinct resources"):
            decide(dataclasses.replace(given, resources=("cpu", "cpu")), Memory(), CONFIG, START)

    def test_minus_zero_is_zero(self) -> None:
        queues = (throughput("a/q"), throughput("b/q", 1.0))
        result, _ = decide(snapshot(queues, [10.0], [[-0.0], [4.0]]), Memory(), CONFIG, START)
        assert result.allocation.tolist() == [[0.0], [4.0]]

    @pytest.mark.parametrize(
        "second",
        [
            pytest.param(throughput("b/q", 1.0, 0.0), id="no weight"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Periodic(100, 1e13)), id="a first arrival beyond time"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Periodic(100, START, 60)), id="more jitter than half a period"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Periodic(100, START, -1)), id="less jitter than none"),
            pytest.param(latency("b/q", 1.0, [1.0], 1, Sporadic(1e13)), id="a period beyond time"),
            pytest.param(latency("b/q", 1.0, [1.0], 101, Sporadic(100)), id="a deadline after the next arrival"),
            pytest.param(dataclasses.replace(latency("b/q", 1.0, [1.0], 1, Sporadic(100)), burst=None), id="no burst"),
            pytest.param(throughput("b/q", 1.0, cpu=-1.0), id="a limit below nothing"),
        ],
    )
    def test_a_spec_is_refused_by_the_name_of_its_queue(self, second: QueueSpec) -> None:
        first = latency("a/q", 0.0, [1.0], 1, Periodic(100, START, 50))
        with pytest.raises(InvalidSpecError, match="queue b/q: "):
            decide(snapshot((first, second), [10.0], np.zeros((2, 1))), Memory(), CONFIG, START)
