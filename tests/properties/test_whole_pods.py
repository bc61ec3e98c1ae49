"""Whole pods over a day: every team has its share within one pod-hour, for any size of its pods (docs/decisions/0111)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairburst.policy.arrays import FloatArray
from fairburst.policy.decide import decide
from fairburst.policy.model import Memory, PolicyConfig
from tests.support.pod_runs import PodRun, Pods
from tests.support.policy import snapshot, throughput
from tests.support.strategies import START

DAY = 86_400.0
HOUR = 3600.0
CONFIG = PolicyConfig()


def day(capacity: float, units: list[float], weights: list[float] | None = None, step: float = 60.0) -> FloatArray:
    """(N,) mean of what equal teams get in a day if pods follow the levels at once; each wants a hundred times the cluster."""
    count = len(units)
    queues = tuple(throughput(f"q{row}", float(row), (weights or [1.0] * count)[row]) for row in range(count))
    usage, total, memory = np.zeros((count, 1)), np.zeros(count), Memory()
    for number in range(int(DAY / step)):
        value = snapshot(queues, [capacity], [[100 * capacity]] * count, usage, [[unit] for unit in units])
        result, memory = decide(value, memory, CONFIG, START + number * step)
        usage = result.allocation
        total += usage[:, 0] * step
    return total / DAY


class TestADayOfTurns:
    """Levels that pods follow at once."""

    @pytest.mark.parametrize(
        ("capacity", "units", "want"),
        [
            pytest.param(8, [8, 1], [4, 4], id="a pod that takes everything, beside small ones"),
            pytest.param(3, [1, 1], [1.5, 1.5], id="an odd pod"),
            pytest.param(4, [1] * 5, [0.8] * 5, id="fewer pods than teams"),
            pytest.param(24, [8, 1], [12, 12], id="a pod and a half of one team's"),
            pytest.param(16, [8, 8, 1], [16 / 3] * 3, id="two teams of large pods and one of small ones"),
            pytest.param(8, [8, 8], [4, 4], id="one large pod at a time"),
        ],
    )
    def test_each_team_has_its_share_within_a_pod_hour(self, capacity: float, units: list[float], want: list[float]) -> None:
        got = day(capacity, units)
        assert np.abs(got - want) * 24 == pytest.approx(0, abs=max(units)), got

    def test_weights_count(self) -> None:
        assert day(8, [8, 1], [1.0, 3.0]) == pytest.approx([2, 6], abs=8 / 24)

    def test_a_turn_lasts_a_minute_at_least(self) -> None:
        """Rounds each second: the level of the team of large pods rests a minute between any two changes. All repeats within 12 minutes."""
        queues = tuple(throughput(f"q{row}", float(row)) for row in range(3))
        usage, memory, changes = np.zeros((3, 1)), Memory(), list[int]()
        for second in range(1800):
            value = snapshot(queues, [8.0], [[800.0]] * 3, usage, [[8.0], [1.0], [3.0]])
            result, memory = decide(value, memory, CONFIG, START + second)
            if result.allocation[0, 0] != usage[0, 0]:
                changes.append(second)
            usage = result.allocation
        assert changes
        assert min(np.diff(changes)) >= 60


class TestADayOfPods:
    """Pods that run on until they end: `reclaim: Never`."""

    @pytest.mark.parametrize(
        ("capacity", "teams"),
        [
            pytest.param([8.0], [([8.0], 900.0), ([1.0], 900.0)], id="one whole node at a time, and single devices"),
            pytest.param([3.0], [([1.0], 600.0), ([1.0], 300.0)], id="an odd pod"),
            pytest.param([4.0], [([1.0], 1200.0)] * 5, id="fewer pods than teams"),
            pytest.param([16.0], [([8.0], 1800.0), ([8.0], 600.0), ([1.0], 300.0)], id="two teams of large pods"),
            pytest.param([10.0, 10.0], [([5.0, 1.0], 700.0), ([1.0, 4.0], 500.0)], id="unlike mixes"),
        ],
    )
    def test_each_team_has_its_share_within_a_pod_hour(self, capacity: list[float], teams: list[tuple[list[float], float]]) -> None:
        queues = tuple(throughput(f"q{row}", float(row)) for row in range(len(teams)))
        pods = [[Pods(np.array(request), seconds)] for request, seconds in teams]
        run = PodRun(queues, np.array(capacity), pods).run(START, DAY, step=600.0)
        shares = (run.received / run.capacity).max(axis=1)
        for row, (request, seconds) in enumerate(teams):
            pod_hours = float(np.max(np.array(request) / run.capacity)) * max(HOUR, 2 * seconds)
            assert shares[row] >= shares.mean() - pod_hours, (row, shares / DAY)


@st.composite
def teams(draw: st.DrawFn) -> tuple[float, list[tuple[float, float]]]:
    """Capacity, and the pod size and duration of each team, as accelerators come: in powers of two."""
    capacity = draw(st.integers(0, 4))
    sizes = draw(st.lists(st.integers(0, capacity), min_size=2, max_size=5))
    return 2.0**capacity, [(2.0**size, float(draw(st.sampled_from([300, 600, 900])))) for size in sizes]


class TestAnyTeams:
    """Random sizes and durations on one resource."""

    @given(teams())
    @settings(max_examples=12, phases=(Phase.explicit, Phase.reuse, Phase.generate))
    def test_no_team_is_more_than_a_pod_hour_behind_after_a_day(self, drawn: tuple[float, list[tuple[float, float]]]) -> None:
        capacity, sizes = drawn
        queues = tuple(throughput(f"q{row}", float(row)) for row in range(len(sizes)))
        pods = [[Pods(np.array([size]), seconds)] for size, seconds in sizes]
        run = PodRun(queues, np.array([capacity]), pods).run(START, DAY, step=600.0)
        received = run.received[:, 0] / HOUR
        assert received.min() >= received.mean() - max(size for size, _ in sizes), received / 24

    @given(teams())
    @settings(max_examples=12, phases=(Phase.explicit, Phase.reuse, Phase.generate))
    def test_a_restart_before_every_round_changes_nothing(self, drawn: tuple[float, list[tuple[float, float]]]) -> None:
        capacity, sizes = drawn
        queues = tuple(throughput(f"q{row}", float(row)) for row in range(len(sizes)))
        pods = [[Pods(np.array([size]), seconds)] for size, seconds in sizes]
        straight, reloaded = (
            PodRun(queues, np.array([capacity]), pods, reloads=reloads).run(START, 3600.0, step=60.0) for reloads in (False, True)
        )
        for (now, _, first), (then, _, second) in zip(straight.results, reloaded.results, strict=True):
            assert now == then
            assert first.level.tobytes() == second.level.tobytes()
            assert first.next_boundary == second.next_boundary
