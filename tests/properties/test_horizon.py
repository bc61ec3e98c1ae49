"""Properties over whole horizons: BoPF §3.4 and Table 1, with work that flows at the granted rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.model import EventKind, GuaranteeClass, Periodic, PolicyConfig, QueueKind, QueueSpec, Sporadic
from tests.support.policy import History, backlog, bursts_of, latency, run_fluid, throughput
from tests.support.profiles import horizons
from tests.support.strategies import START, WEIGHTS

UNTIL = START + 400


@st.composite
def scenarios(draw: st.DrawFn, weights: st.SearchStrategy[float] = WEIGHTS) -> tuple[tuple[QueueSpec, ...], list[float]]:
    """One to three latency queues and one or two backlogged throughput queues on one or two resources."""
    width = draw(st.integers(1, 2))
    capacity = [float(draw(st.integers(10, 40))) for _ in range(width)]
    queues: list[QueueSpec] = []
    for number in range(draw(st.integers(1, 2))):
        queues.append(throughput(f"t{number}/q", float(number), draw(weights)))
    for number in range(draw(st.integers(1, 3))):
        duration = float(draw(st.integers(2, 15)))
        deadline = duration + draw(st.sampled_from([0, 0, 5]))
        period = max(deadline, float(draw(st.sampled_from([30, 50, 70, 110]))))
        resources = [float(draw(st.integers(1, int(amount)))) for amount in capacity]
        arrival = draw(st.sampled_from([Periodic(period, START + 10 * number), Sporadic(period), Periodic(period)]))
        queues.append(latency(f"l{number}/q", 10.0 + number, resources, duration, arrival, deadline, draw(weights)))
    return tuple(queues), capacity


def run(queues: tuple[QueueSpec, ...], capacity: list[float], scale: float = 1.0) -> tuple[History, dict[str, list[bool]]]:
    work = [backlog(spec.name, capacity) for spec in queues if spec.kind is QueueKind.THROUGHPUT]
    bursts = [item for spec in queues if spec.kind is QueueKind.LATENCY for item in bursts_of(spec, capacity, START + 5, UNTIL, scale)]
    history = run_fluid(queues, capacity, [*work, *bursts], START, UNTIL)
    verdicts: dict[str, list[bool]] = {}
    for item in bursts:
        if item.deadline < UNTIL:
            verdicts.setdefault(item.queue, []).append(item.met)
    return history, verdicts


class TestBurstGuarantee:
    """BoPF Table 1, BG: honest bursts of hard queues finish by their deadline."""

    @horizons()
    @given(scenarios())
    def test_honest_bursts_of_hard_queues_are_met(self, scenario: tuple[tuple[QueueSpec, ...], list[float]]) -> None:
        queues, capacity = scenario
        history, verdicts = run(queues, capacity)
        for spec, granted in zip(queues, history.results[-1].classes, strict=True):
            if granted is GuaranteeClass.HARD:
                assert all(verdicts.get(spec.name, [True])), spec
                assert history.memory.queues[spec.name].missed == 0


class TestLongTermFairness:
    """BoPF §3.4 as the ledger states it: guaranteed use of a latency queue is at most F in each period, share x T + 2F over T."""

    @horizons()
    @given(scenarios(), st.sampled_from([1.0, 1.5, 3.0]))
    def test_the_ledger_stays_below_the_fair_share_and_a_backlogged_throughput_queue_gets_no_less_per_weight(
        self, scenario: tuple[tuple[QueueSpec, ...], list[float]], scale: float
    ) -> None:
        queues, capacity = scenario
        history, _ = run(queues, capacity, scale)
        self.ledgers_stay_below_fair_shares(history)
        self.throughput_queues_get_no_less_per_weight(queues, history)

    @staticmethod
    def ledgers_stay_below_fair_shares(history: History) -> None:
        for result in history.results:
            for decision in result.decisions:
                if decision.window is not None:
                    assert decision.ledger <= decision.fair_share_of_period * (1 + 1e-6) + 0.05, decision
        for decision in history.results[-1].decisions:
            if decision.window is not None:
                bound = decision.share * (UNTIL - START) + 2 * decision.fair_share_of_period
                assert history.guaranteed[decision.queue] <= bound * (1 + 1e-6)

    @staticmethod
    def throughput_queues_get_no_less_per_weight(queues: tuple[QueueSpec, ...], history: History) -> None:
        per_weight = {spec.name: history.guaranteed[spec.name] / spec.weight for spec in queues}
        weight = sum(spec.weight for spec, granted in zip(queues, history.results[-1].classes, strict=True) if granted is not None)
        for spec, granted in zip(queues, history.results[-1].classes, strict=True):
            if spec.kind is QueueKind.LATENCY and granted in {GuaranteeClass.HARD, GuaranteeClass.SOFT}:
                for other in queues:
                    if other.kind is QueueKind.THROUGHPUT:
                        period = 110.0
                        assert per_weight[spec.name] <= history.total[other.name] / other.weight + 2 * period / weight + 1e-6


class TestSharingIncentive:
    """BoPF §2.2: a backlogged queue gets at least its static share over whole periods, with a single resource."""

    @pytest.mark.parametrize("burst", [10.0, 40.0])
    def test_backlogged_throughput_queue_keeps_its_static_share(self, burst: float) -> None:
        capacity = [100.0]
        queues = (throughput("t/q"), latency("l/q", 1.0, [burst], 20, Periodic(100, START), 20))
        work = [backlog("t/q", [1000.0]), *bursts_of(queues[1], capacity, START, START + 1000, 100.0)]
        history = run_fluid(queues, capacity, work, START, START + 1000)
        assert history.total["t/q"] >= 0.5 * 1000 * (1 - 1e-6)


class TestOverstaying:
    """Design: pods that run on past the window are charged to the next period; overstaying does not pay."""

    def test_an_overrun_becomes_debt_and_shrinks_the_next_budget(self) -> None:
        from fairburst.policy.decide import decide
        from fairburst.policy.model import Memory
        from tests.support.policy import snapshot

        queues = (throughput("t/q"), latency("l/q", 1.0, [90.0], 40, Sporadic(100), 40))
        memory, now = Memory(), START
        stuck = [[10.0], [90.0]]
        budgets = []
        for _ in range(40):  # 90 cores held for 200 s by pods that can't be stopped, although the burst declared 40 s
            result, memory = decide(snapshot(queues, [100.0], [[100.0], [90.0]], stuck), memory, PolicyConfig(), now)
            budgets.append(result.decisions[1].budget)
            now += 5
        decision = result.decisions[1]
        assert decision.debt > 30.0
        assert min(budgets) == pytest.approx(max(0.0, 50 - decision.debt), abs=1e-6)


class TestWindowsAreCountedOnce:
    """met + missed = bursts, and never more than the windows that opened."""

    @horizons()
    @given(scenarios(), st.sampled_from([0.5, 1.0, 2.5]))
    def test_every_window_has_at_most_one_verdict(self, scenario: tuple[tuple[QueueSpec, ...], list[float]], scale: float) -> None:
        queues, capacity = scenario
        history, _ = run(queues, capacity, scale)
        for name, memory in history.memory.queues.items():
            opened = sum(event.kind is EventKind.BURST_OPENED for _, event in history.events if event.queue == name)
            met = sum(event.kind is EventKind.BURST_MET for _, event in history.events if event.queue == name)
            missed = sum(event.kind is EventKind.BURST_MISSED for _, event in history.events if event.queue == name)
            assert (memory.met, memory.missed, memory.bursts) == (met, missed, met + missed)
            assert met + missed <= opened


def test_class_of_every_queue_is_constant_without_a_change() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [50.0], 20, Periodic(100, START), 20))
    history, _ = run(queues, [100.0])
    assert len({result.classes for result in history.results}) == 1
    assert np.isfinite([result.next_boundary for result in history.results]).all()
