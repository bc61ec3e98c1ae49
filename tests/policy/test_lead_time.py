"""Lead time: the room held for an expected burst, on numbers that a person can check."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.dress.learned import FamilyDurations, Outlook
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.dress.values import DemandCategory, DressConfig, Job
from fairburst.policy.lead_time import Expected, Hold, ends_in_time, plan_holds
from fairburst.policy.model import Memory, Periodic, PolicyConfig, RoundResult
from tests.support.dress import Task, jobs_part, task_table
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

NOW = 1000.0
FAMILIES = FamilyDurations.of({"etl": [60.0] * 10, "quick": [5.0] * 10}, {"etl": NOW, "quick": NOW})
CAPACITY = np.array([100.0])


def outlook(ages: list[float]) -> Outlook:
    """Tasks of one unit each of a family that always takes 60 s."""
    tasks = [Task(f"t{at}", "j", DemandCategory.LARGE, np.array([1.0]), NOW - age, None, "etl") for at, age in enumerate(ages)]
    return Outlook.of(FAMILIES, task_table(tasks, 1), NOW)


def burst(arrival: float, rate: float = 40.0, slack: float = 10.0, queue: str = "lq") -> Expected:
    return Expected(queue, NOW + arrival, np.array([rate]), slack)


def plan(bursts: list[Expected], free: float, ages: list[float], pending: list[Job] | None = None, known: bool = True) -> Hold:
    return plan_holds(bursts, np.array([free]), CAPACITY, outlook(ages) if known else None, pending or [], NOW, 600.0)


SPREAD = [float(age) for age in range(60)]  # a task a second ends


def test_nothing_is_held_while_releases_until_the_arrival_are_enough() -> None:
    hold = plan([burst(50.0)], 5.0, SPREAD)
    assert hold.room.tolist() == [5.0]
    assert hold.decisions[0].reason == "EnoughExpected"
    assert hold.decisions[0].planned_start == NOW + 15.0  # 35 of the 60 tasks end within 35 s


def test_what_the_releases_lack_is_held_of_what_is_free() -> None:
    """29 tasks have run more than 30 s and end within 30 s, one more at 30 s exactly: 30 + 15 free - 40 = 5 may go."""
    hold = plan([burst(30.0)], 15.0, SPREAD)
    assert hold.decisions[0].expected_release.tolist() == [30.0]
    assert hold.room.tolist() == [5.0]
    assert hold.decisions[0].held.tolist() == [10.0]
    assert hold.decisions[0].cost_rate == pytest.approx(0.10)


def test_all_that_is_free_is_held_when_even_that_is_too_little() -> None:
    hold = plan([burst(10.0)], 8.0, SPREAD)
    assert hold.room.tolist() == [0.0]
    assert hold.decisions[0].held.tolist() == [8.0]


def test_what_ends_is_kept_from_the_moment_on_from_which_it_is_too_little_also_while_nothing_is_free() -> None:
    assert plan([burst(30.0)], 0.0, SPREAD).decisions[0].reason == "Holding", "30 end by then, 40 are needed"
    assert plan([burst(50.0)], 0.0, SPREAD).decisions[0].reason == "EnoughExpected"


def test_two_bursts_need_their_rates_together_by_the_later_arrival() -> None:
    hold = plan([burst(55.0, queue="b"), burst(20.0, 10.0, queue="a")], 20.0, SPREAD)
    assert [decision.queue for decision in hold.decisions] == ["a", "b"]
    assert hold.room.tolist() == [20.0]
    assert plan([burst(40.0, queue="b"), burst(20.0, 30.0, queue="a")], 20.0, SPREAD).room.tolist() == [0.0]


@pytest.mark.parametrize(
    ("bursts", "known", "reason"),
    [
        pytest.param([burst(10.0, slack=0.0)], True, "NoSlack", id="no slack"),
        pytest.param([burst(10.0, slack=-3.0)], True, "NoSlack", id="over its fair share"),
        pytest.param([burst(10.0)], False, "NoHistory", id="nothing learned"),
    ],
)
def test_without_slack_or_history_nothing_is_held(bursts: list[Expected], known: bool, reason: str) -> None:
    hold = plan(bursts, 30.0, SPREAD, known=known)
    assert hold.room.tolist() == [30.0]
    assert [(decision.reason, decision.cost_rate) for decision in hold.decisions] == [(reason, 0.0)]


def test_a_burst_further_away_than_the_limit_is_not_looked_at() -> None:
    assert plan([burst(601.0)], 30.0, SPREAD).decisions == ()


def test_only_small_jobs_that_end_before_the_arrival_may_start_meanwhile() -> None:
    def job(name: str, category: DemandCategory, family: str) -> Job:
        return Job(name, "q", NOW, np.array([2.0]), category, family=family)

    small, large = DemandCategory.SMALL, DemandCategory.LARGE
    pending = [job("quick", small, "quick"), job("slow", small, "etl"), job("big", large, "quick"), job("unknown", small, "new")]
    hold = plan([burst(10.0)], 8.0, SPREAD, pending)
    assert hold.decisions[0].may_start == ("quick",)
    assert [(queue, request.tolist()) for queue, request in hold.extra] == [("q", [2.0])]
    assert ends_in_time(pending[0], FAMILIES, 5.0)
    assert not ends_in_time(pending[0], FAMILIES, 4.9)


def held(unit: float) -> tuple[RoundResult, Memory]:
    """One round with the numbers above: in 30 s a burst of 40 comes. 60 tasks of a minute run, one more each second old, 30 of them
    end in time; 15 of 100 are free, so 10 are held."""
    queue = dataclasses.replace(latency("l/q", 0.0, [40.0], 10, Periodic(100, START + 30)), lead_time=True)
    tasks = [Task(f"t{age}", "j", DemandCategory.LARGE, np.ones(1), START - age, None, "etl") for age in range(60)]
    value = snapshot((queue, throughput("t/q", 1.0)), [100.0], [[0.0], [200.0]], [[0.0], [85.0]], unit=[[0.0], [unit]])
    value = dataclasses.replace(value, jobs=jobs_part([], [], tasks, 1))
    learned = DressMemory(0.1, families=FamilyDurations.of({"etl": [60.0] * 10}, {"etl": START}))
    return decide(value, Memory(dress=learned), PolicyConfig(dress=DressConfig()), START)


def test_a_round_holds_room_for_an_expected_burst_and_charges_its_queue() -> None:
    """Design §5: batch grows from 85 to 90."""
    result, memory = held(unit=0.0)
    assert [(one.queue, one.reason, one.held.tolist()) for one in result.lead_time] == [("l/q", "Holding", [10.0])]
    assert result.allocation[:, 0].tolist() == [0.0, 90.0]
    assert result.decisions[0].charge_rate == pytest.approx(0.1)
    assert memory.queues["l/q"].ledger_rate == pytest.approx(0.1)


@pytest.mark.parametrize(("unit", "grown"), [(2.0, 89.0), (5e-324, 90.0)], ids=["of two", "of the least float"])
def test_beside_held_room_a_queue_grows_by_whole_units(unit: float, grown: float) -> None:
    """The room divided by the least float overflows. Warnings are errors here."""
    assert held(unit)[0].allocation[:, 0].tolist() == [0.0, grown]
