"""Rows of the fault matrix in docs/reliability.md: one fault each, on clusters of several seeds, with recovery within seconds.

Every run checks `invariants.py` throughout, and that the cluster has converged at its end. Each row prints the columns of the matrix, from
`measures.py`: promised bursts that were late, those within reach of the operator apart from the others, bursts that the operator counted as
missed, losses of accounts, the time of recovery, and wrong writes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.simulation.fault import Fault
from tests.simulation.faults import FaultPlan
from tests.simulation.run import Result, simulate
from tests.simulation.scenario import DEFAULT_QUEUE, Scenario

SEEDS = range(301, 307)
LOST_SECONDS = 5.0  # largest error of the next leader about an open window
RECOVERED_SECONDS = 3.0  # after an API server that answered nothing: no pause outlasts its first answer
Row = Callable[[FaultPlan, int], list[Fault]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A fault fills the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def on_all(plan: FaultPlan, name: str, at: float, seconds: float, **changes: object) -> Fault:
    """Change the links of all replicas for a while."""
    former = {id(replica): replica.link.faults for replica in plan._replicas}

    def put(values: dict[str, object] | None) -> None:
        for replica in plan._replicas:
            replica.link.faults = former[id(replica)] if values is None else replace(replica.link.faults, **values)  # type: ignore[arg-type]

    return Fault(name, at, seconds, lambda: put(dict(changes)), lambda: put(None))


def leader_cut_off(plan: FaultPlan, _: int) -> list[Fault]:
    hit = []

    def begin() -> None:
        hit.extend(replica for replica in plan._replicas if replica.operator is not None and replica.operator._leading)
        for replica in hit:
            replica.link.faults = replace(replica.link.faults, cut=True)

    def end() -> None:
        for replica in hit:
            replica.link.faults = replace(replica.link.faults, cut=False)

    return [Fault("leader cut off", 30.0, 30.0, begin, end)]


def killed_often(plan: FaultPlan, seed: int) -> list[Fault]:
    """The leader is killed at twenty random moments of two minutes, and comes back a second later."""
    chance = random.Random(seed)

    def kill() -> None:
        for replica in plan._replicas:
            if replica.running and replica.operator is not None and replica.operator._leading:
                replica.kill()

    def start() -> None:
        for replica in plan._replicas:
            if not replica.running:
                replica.start()

    return [Fault("kill -9 of the leader", chance.uniform(15.0, 135.0), 1.0, kill, start) for _ in range(20)]


def webhook_down(plan: FaultPlan, _: int) -> list[Fault]:
    """On a cluster whose API server has no policies that mutate, the webhook has no valid certificate."""

    def put(*, down: bool) -> None:
        plan._server.webhook_down = down

    return [Fault("webhook down", 30.0, 120.0, lambda: put(down=True), lambda: put(down=False))]


def clock(step: float) -> Row:
    def row(plan: FaultPlan, _: int) -> list[Fault]:
        def ahead(seconds: float) -> None:
            for replica in plan._replicas:
                replica.clock.ahead = seconds

        return [Fault(f"clock {step:+g} s", 40.0, 20.0, lambda: ahead(step), lambda: ahead(0.0))]

    return row


ROWS: dict[str, Row] = {
    "kill -9 of the leader, 20 times": killed_often,
    "leader cut off for 30 s": leader_cut_off,
    "API server down for 2 minutes": lambda plan, _: [plan.down(30.0, 120.0)],
    "API server down for 10 minutes": lambda plan, _: [plan.down(30.0, 600.0)],
    "500 to every write for 2 minutes": lambda plan, _: [plan.failing_writes(30.0, 120.0)],
    "500 to everything for 2 minutes": lambda plan, _: [on_all(plan, "500", 30.0, 120.0, errors=1.0, codes=(500,))],
    "webhook down for 2 minutes": webhook_down,
    "2 s of latency for a minute": lambda plan, _: [on_all(plan, "latency", 30.0, 60.0, processing=(2.0, 2.0))],
    "all quotas deleted by hand": lambda plan, _: [plan._quotas_deleted(40.0)],
    "clock an hour back, for 20 s": clock(-3600.0),
    "clock an hour ahead, for 20 s": clock(3600.0),
}


def as_declared(scenario: Scenario) -> None:
    """Have all further queues in force: what asks for an observed one is work of the default queue, beyond the burst that it declared."""
    for tenant in scenario.tenants:
        if tenant.queue != DEFAULT_QUEUE and tenant.spec["enforcement"] == "Observe":
            tenant.spec["enforcement"] = "Quota"


def both(name: str, seed: int) -> tuple[Result, Result]:
    """Run the seed with the fault, and for the same time without one."""

    def run(chosen: Callable[[FaultPlan], list[Fault]]) -> Result:
        return simulate(seed, chosen=chosen, converge_seconds=15.0, shape=as_declared, measured=True)

    with_fault = run(lambda plan: ROWS[name](plan, seed))
    nothing = Fault("nothing", with_fault.seconds - 15.0, 0.0, lambda: None)
    return with_fault, run(lambda plan: [nothing])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ROWS)
def test_a_fault_breaks_nothing_and_all_is_well_a_quarter_of_a_minute_later(name: str) -> None:
    pairs = [both(name, seed) for seed in SEEDS]
    print(f"\n| {name} | {columns([one for one, _ in pairs])}\n| without it | {columns([other for _, other in pairs])}")
    assert [one.broken for one, _ in pairs] == [[] for _ in pairs]
    assert sum(one.wrong_writes for one, _ in pairs) == 0
    assert max(one.lost_seconds for one, _ in pairs) <= LOST_SECONDS
    assert sum(one.late for one, _ in pairs) == 0, "bursts within reach of the operator are kept"
    assert [one.seed for one, _ in pairs if one.missed < one.waited_late] == [], "late bursts that a leader saw afterwards count as missed"
    if name.startswith("API server down"):
        assert max(one.recovered_seconds for one, _ in pairs) <= RECOVERED_SECONDS
    assert [one.missed for one, _ in pairs if not one.late + one.late_beyond and one.missed] == [], "what was served counts as met"
    assert max(other.late + other.late_beyond for _, other in pairs) == 0, "the clusters keep their promises without the fault"
    assert max(other.unseen_seconds for _, other in pairs) < 1.0, "accounts and truth agree without the fault"


def columns(results: list[Result]) -> str:
    """Return the columns: late of promised bursts, within reach of the operator and out of it; missed of counted bursts; errors of accounts
    at a take-over and at any time, in seconds; seconds of recovery; wrong writes."""
    late = f"{sum(one.late for one in results)} of {sum(one.promised for one in results)}"
    beyond = f"{sum(one.late_beyond for one in results)} of {sum(one.beyond for one in results)}"
    counted = f"{sum(one.missed for one in results)} of {sum(one.bursts for one in results)}"
    worst = [max(getattr(one, name) for one in results) for name in ("lost_seconds", "unseen_seconds", "recovered_seconds")]
    return " | ".join([late, beyond, counted, *(f"{seconds:.1f}" for seconds in worst), str(sum(one.wrong_writes for one in results)), ""])
