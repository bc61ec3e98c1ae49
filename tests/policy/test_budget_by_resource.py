"""A guarantee lasts until every resource has received its declared demand, but ends with the fair share of the period."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.policy import memory as saved
from fairburst.policy.budget import Account, current_bursts, seconds_until_spent
from fairburst.policy.decide import decide
from fairburst.policy.drf import inverse_capacity
from fairburst.policy.model import (
    EventKind,
    GuaranteeClass,
    Memory,
    PolicyConfig,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
    WindowState,
)
from tests.support.policy import History, Work, backlog, latency, run_fluid, snapshot, throughput

START = 1_000.0
CAPACITY = [10.0, 10.0]
FAIR = 50.0  # half of the cluster for 100 s
BATCH = throughput("t")
SQUARE = latency("l", 1.0, [8.0, 8.0], 10, Sporadic(100))  # 8 share-seconds of each resource


def run(rate: list[float], seconds: float, declared: QueueSpec = SQUARE) -> tuple[History, Work]:
    work = Work("l", START, np.array(rate), seconds, START + 10.0)
    return run_fluid((BATCH, declared), CAPACITY, [backlog("t", CAPACITY, START), work], START, START + 99.0, longest_step=1.0), work


def test_a_burst_with_another_mix_is_guaranteed_until_its_slowest_resource_has_received_what_is_declared() -> None:
    """Half as much memory for each core as declared: the cores are spent after 10 s, the memory after 20 s."""
    history, work = run([8.0, 4.0], 20.0)
    assert work.finished - START == pytest.approx(20.0)
    late = [result.decisions[1].window for result in history.results if 10.5 < result.now - START < 20]
    assert {window.state for window in late if window is not None} == {WindowState.OVERDUE}


def test_then_it_ends() -> None:
    history, _ = run([8.0, 4.0], 40.0)
    beyond = [result.guaranteed[1, 0] for result in history.results if 20.5 < result.now - START < 90]
    residual = 10 * (FAIR - 16) / 80
    assert max(beyond) == pytest.approx(residual, rel=0.06)


def test_the_declared_mix_ends_with_all_resources_at_once() -> None:
    history, _ = run([8.0, 8.0], 40.0)
    beyond = [result.guaranteed[1, 0] for result in history.results if 10.5 < result.now - START < 90]
    assert max(beyond) == pytest.approx(10 * (FAIR - 8) / 90, rel=0.06)


def test_a_resource_that_is_never_used_prolongs_it_no_further_than_the_fair_share() -> None:
    history, _ = run([8.0, 0.0], 1000.0)
    spent_at = FAIR / 0.8
    within = [result.guaranteed[1, 0] for result in history.results if result.now - START < spent_at - 0.1]
    assert min(within) == pytest.approx(8.0)
    assert history.guaranteed["l"] <= FAIR * (1 + 1e-6)
    told = [event.kind for _, event in history.events if event.queue == "l"]
    assert told.count(EventKind.BURST_MET) == 1, "the fullest resource was served in time"


def test_the_round_says_when_the_last_resource_is_served() -> None:
    history, _ = run([8.0, 4.0], 40.0)
    first = next(result for result in history.results if 11 < result.now - START < 13)
    assert first.next_boundary - START == pytest.approx(20.0)


def test_a_scheduled_burst_counts_by_its_own_amounts() -> None:
    burst = SQUARE.burst
    assert burst is not None
    declared = QueueSpec(
        "l", SQUARE.kind, SQUARE.order, 1.0, None, Schedule((ScheduledBurst(START, burst), ScheduledBurst(START + 100, burst)))
    )
    _, work = run([8.0, 4.0], 20.0, declared)
    assert work.finished - START == pytest.approx(20.0)


def test_what_each_resource_has_received_survives_a_restart() -> None:
    memory = Memory()
    given = [snapshot((BATCH, SQUARE), CAPACITY, [CAPACITY, [8.0, 4.0]], [[2.0, 6.0], used]) for used in ([0.0, 0.0], [8.0, 4.0])]
    for at, one in ((0.0, given[0]), (0.1, given[1]), (12.0, given[1])):
        _, memory = decide(one, memory, PolicyConfig(), START + at)
    again = saved.load(saved.dump(memory))
    assert memory.queues["l"].received["memory"][1] == pytest.approx(0.4)
    for at in (15.0, 20.0, 20.2):
        steady, memory = decide(given[1], memory, PolicyConfig(), START + at)
        other, again = decide(given[1], again, PolicyConfig(), START + at)
        assert saved.dump(memory) == saved.dump(again)
        assert steady.guaranteed.tobytes() == other.guaranteed.tobytes()
        assert (steady.guaranteed[1, 0] == pytest.approx(8.0)) == (at < 20.1)


def test_a_soft_queue_past_its_declared_demand_is_behind_one_that_is_not() -> None:
    """Both soft, both late. The first has used its cores up and hardly any memory; the second's rest is larger, but it is declared."""
    hard = latency("h", 0.0, [10.0, 10.0], 1.0, Sporadic(60.0))  # may take all at any time, so the others are soft
    first = latency("a", 1.0, [10.0, 10.0], 5.0, Sporadic(100.0), 40.0)
    second = latency("b", 2.0, [10.0, 10.0], 12.0, Sporadic(100.0), 40.0)
    queues = (hard, first, second)
    work = [Work("a", START, np.array([10.0, 1.0]), 30.0), Work("b", START + 4.0, np.array([10.0, 10.0]), 12.0)]
    history = run_fluid(queues, CAPACITY, work, START, START + 60.0, longest_step=1.0)
    assert history.results[0].classes == (GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.SOFT)
    assert work[1].finished - START == pytest.approx(17.0, abs=0.1)


def test_the_first_of_hundreds_of_guarantees_to_end_is_found_as_if_each_were_looked_at_alone() -> None:
    """Bursts of all mixes and sizes that receive other mixes: the fullest resource says little of the last."""
    rng = np.random.default_rng(4)
    count, now = 400, START + 3.0
    queues = tuple(latency(f"l{row:03d}", row, rng.uniform(1.0, 9.0, 2).tolist(), 10, Sporadic(100)) for row in range(count))
    want = rng.uniform(4.0, 9.0, (count, 2))
    memory = Memory()
    for after in (0.0, 1.0, 3.0):
        _, memory = decide(snapshot(queues, [9.0 * count] * 2, want, want * min(after, 1.0)), memory, PolicyConfig(), START + after)
    columns = memory.columns
    assert columns is not None
    current = current_bursts(columns, inverse_capacity(np.array([9.0 * count] * 2)))
    account = Account.of(columns, current, now)
    rows = np.flatnonzero(account.unspent & (columns.ledger_rate > 0))
    assert rows.size > 300
    alone = [seconds_until_spent(columns, current, account, rows[at : at + 1], now) for at in range(rows.size)]
    assert seconds_until_spent(columns, current, account, rows, now) == min(alone)
