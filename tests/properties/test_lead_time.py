"""Room held for expected bursts beside any running work; holding gives no queue more than its fair share."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairburst.policy.dress.learned import FamilyDurations, Outlook
from fairburst.policy.dress.values import DemandCategory, DressConfig
from fairburst.policy.lead_time import Expected, plan_holds
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, PolicyConfig, RoundResult
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import run
from fairburst.sim.experiment import latency_spec, throughput_spec
from fairburst.sim.scenario import BurstPlan, Scenario, Submission
from fairburst.sim.workload import DagJob, Stage
from tests.support.dress import Task, task_table

NOW = 10_000.0
CAPACITY = np.array([100.0])
durations = st.lists(st.integers(1, 100).map(float), min_size=5, max_size=20)
ages = st.lists(st.integers(1, 90), max_size=20)
coming = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60), st.integers(-1, 5)), max_size=3)


class TestRoom:
    """Design §5: "the planner picks the latest moment from which natural releases alone free the rate by the arrival"."""

    @given(
        durations, ages, st.integers(0, 50), st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60), st.integers(-1, 5)), max_size=3)
    )
    def test_what_is_given_away_leaves_every_burst_that_has_slack_its_rate_or_takes_nothing(
        self, known: list[float], running: list[int], free: int, wanted: list[tuple[int, int, int]]
    ) -> None:
        families = FamilyDurations.of({"f": known}, {"f": NOW})
        tasks = [Task(f"t{at}", "j", DemandCategory.LARGE, np.ones(1), NOW - age, None, "f") for at, age in enumerate(running)]
        outlook = Outlook.of(families, task_table(tasks, 1), NOW)
        bursts = [
            Expected(f"lq-{at}", NOW + ahead, np.array([float(rate)]), float(slack)) for at, (ahead, rate, slack) in enumerate(wanted)
        ]  # fmt: skip
        hold = plan_holds(bursts, np.array([float(free)]), CAPACITY, outlook, [], NOW, 600.0)
        assert (hold.room >= 0).all()
        assert (hold.room <= free).all()
        needed = 0.0
        for decision in hold.decisions:
            if decision.reason in {"NoSlack", "NoHistory"}:
                assert not decision.held.any()
                continue
            needed += float(decision.needed[0])
            assert (decision.held <= decision.needed + 1e-9).all()
            assert hold.room[0] <= max(free + float(decision.expected_release[0]) - needed, 0.0) + 1e-9
        if not any(decision.holding for decision in hold.decisions):
            assert hold.room.tolist() == [float(free)]


class TestFairShareHolds:
    """Design §5: "The idle cost is charged to the period's slack F - d - debt, never to the burst's budget"."""

    @settings(max_examples=3)
    @given(st.integers(10, 40), st.integers(0, 100), st.lists(st.tuples(st.integers(1, 8), st.integers(5, 40)), min_size=1, max_size=4))
    def test_a_ledger_passes_its_fair_share_by_less_than_a_round_and_the_budget_stays_whole(
        self, slots: int, seed: int, kinds: list[tuple[int, int]]
    ) -> None:
        rng = np.random.default_rng(seed)
        batch = [
            Submission(second * 1.0, "tq", DagJob(f"kind-{kind}", (Stage("run", kinds[kind][0], float(kinds[kind][1]), (1.0,)),)))
            for second in range(0, 200, 2)
            for kind in [int(rng.integers(len(kinds)))]
        ]
        queue = latency_spec("lq", 0.0, ("cpu",), (slots / 4,), 10.0, 60.0, 60.0)
        burst = DagJob("burst", (Stage("serve", max(slots // 4, 1), 10.0, (1.0,)),))
        scenario = Scenario(
            one_machine(("cpu",), (float(slots),)), (dataclasses.replace(queue, lead_time=True), throughput_spec("tq", 1.0)), batch,
            [BurstPlan("lq", 60.0, 60.0, [burst], 4)], config=PolicyConfig(dress=DressConfig()), round_seconds=2.0, until=200.0,
        )  # fmt: skip

        def look(_now: float, _given: ClusterSnapshot, result: RoundResult) -> None:
            mine = result.decisions[0]
            assert mine.guarantee_class is GuaranteeClass.HARD
            assert mine.ledger <= mine.fair_share_of_period + mine.debt + 2.0 + 1e-6
            assert abs(mine.budget - 0.25 * 10.0) < 1e-6

        run(scenario, "dress", observer=look)
