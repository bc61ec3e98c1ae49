"""Whole units, saved memory, the alpha-strategy, and inputs that no cluster has."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given

from fairburst.policy import memory as saved
from fairburst.policy.baselines import POLICIES
from fairburst.policy.decide import decide
from fairburst.policy.errors import InvalidSnapshotError, InvalidSpecError, MemoryFormatError, NewerMemoryError
from fairburst.policy.explain import amount
from fairburst.policy.model import Burst, ClusterSnapshot, Memory, Periodic, PolicyConfig, QueueKind, QueueSpec, Sporadic
from fairburst.policy.uncertainty import Correlation, compare_assumptions, joint_confidence, request_empirical, request_normal
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START, snapshots

CONFIG = PolicyConfig()


class TestWholeUnits:
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

    def test_a_hard_rate_is_rounded_up_to_a_whole_pod(self) -> None:
        queues = (throughput("t/q"), latency("l/q", 1.0, [5.0], 10, Sporadic(100), 20))
        memory = Memory()
        _, memory = decide(snapshot(queues, [10.0], [[20.0], [0.0]], unit=[[1.0], [2.0]]), memory, CONFIG, START)
        result, _ = decide(snapshot(queues, [10.0], [[20.0], [20.0]], unit=[[1.0], [2.0]]), memory, CONFIG, START + 1)
        assert result.guaranteed[1].tolist() == [4.0]
        assert result.level[1].tolist() == [4.0]


class TestSavedMemory:
    @given(snapshots())
    def test_what_is_read_is_what_was_written(self, value: ClusterSnapshot) -> None:
        memory = Memory()
        for now in (START, START + 3, START + 20):
            _, memory = decide(value, memory, CONFIG, now)
        text = saved.dump(memory)
        assert saved.load(text) == memory
        assert saved.dump(saved.load(text)) == text

    @pytest.mark.parametrize(
        ("text", "want"),
        [
            pytest.param("", "expected JSON", id="empty"),
            pytest.param("[]", "version", id="no object"),
            pytest.param('{"version": 1}', "queues", id="no queues"),
            pytest.param('{"version": 1, "nextAdmissionOrder": 0, "queues": {"a": {}}}', "promise", id="queue without promise"),
        ],
    )
    def test_damaged_memory_is_refused_with_what_is_wrong(self, text: str, want: str) -> None:
        with pytest.raises(MemoryFormatError, match=want):
            saved.load(text)
        memory, error = saved.load_or_start_anew(text)
        assert (len(memory.queues), isinstance(error, MemoryFormatError)) == (0, True)

    def test_a_number_that_is_none_names_its_field(self) -> None:
        _, memory = decide(snapshot((throughput("t/q"),), [1.0], [[1.0]]), Memory(), CONFIG, START)
        value = json.loads(saved.dump(memory))
        value["queues"]["t/q"]["debt"] = "NaN"
        with pytest.raises(MemoryFormatError, match="debt"):
            saved.load(json.dumps(value))

    def test_newer_memory_is_refused(self) -> None:
        with pytest.raises(NewerMemoryError, match="found 99"):
            saved.load('{"version": 99}')


class TestUncertainty:
    mean, deviation = np.array([100.0, 200.0, 50.0]), np.array([40.0, 80.0, 20.0])

    def test_independent_resources_need_the_kth_root(self) -> None:
        request = request_normal(self.mean, self.deviation, 0.95, Correlation.INDEPENDENT)
        assert request.quantile == pytest.approx(0.95 ** (1 / 3))
        assert joint_confidence(request.quantile, np.eye(3)) == pytest.approx(0.95, abs=1e-4)

    def test_perfect_correlation_saves_a_tenth_as_the_paper_says(self) -> None:
        """BoPF §3.5: deviation of 40 % of the mean, three resources: about 10 % less."""
        independent = request_normal(self.mean, self.deviation, 0.95, Correlation.INDEPENDENT)
        perfect = request_normal(self.mean, self.deviation, 0.95, Correlation.PERFECT)
        assert 1 - perfect.demand / independent.demand == pytest.approx([0.1] * 3, abs=0.03)

    @pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.5, 0.9])
    def test_measured_correlation_meets_the_confidence_in_a_monte_carlo_run(self, correlation: float) -> None:
        matrix = np.full((3, 3), correlation) + np.eye(3) * (1 - correlation)
        request = request_normal(self.mean, self.deviation, 0.95, Correlation.MEASURED, matrix)
        rng = np.random.default_rng(7)
        covariance = matrix * np.outer(self.deviation, self.deviation)
        bursts = rng.multivariate_normal(self.mean, covariance, 200_000)
        assert (bursts <= request.demand).all(axis=1).mean() == pytest.approx(0.95, abs=3e-3)

    def test_independence_over_provisions_positive_and_under_provisions_negative_correlation(self) -> None:
        for correlation, sign in ((0.5, 1), (-0.4, -1)):
            matrix = np.full((3, 3), correlation) + np.eye(3) * (1 - correlation)
            requests = compare_assumptions(self.mean, self.deviation, 0.9, matrix)
            difference = requests[Correlation.INDEPENDENT].cost - requests[Correlation.MEASURED].cost
            assert difference * sign >= -1e-6

    def test_samples_meet_the_confidence_they_were_asked_for(self) -> None:
        rng = np.random.default_rng(11)
        samples = rng.lognormal(0, 0.5, (2000, 2))
        request = request_empirical(samples, 0.9, Correlation.MEASURED)
        assert 0.9 <= (samples <= request.demand).all(axis=1).mean() <= 0.91

    @pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
    def test_impossible_confidence_is_refused(self, confidence: float) -> None:
        with pytest.raises(InvalidSpecError, match="confidence"):
            request_normal(self.mean, self.deviation, confidence, Correlation.PERFECT)


def bad_arrays() -> list[object]:
    return [np.full((1, 1), math.nan), np.full((1, 1), math.inf), np.full((1, 1), -1.0), np.zeros((2, 1))]


class TestBadInput:
    @pytest.mark.parametrize("field", ["demand", "usage", "unit"])
    @pytest.mark.parametrize("value", bad_arrays())
    def test_impossible_amounts_are_refused_by_name(self, field: str, value: np.ndarray) -> None:
        given_snapshot = dataclasses.replace(snapshot((throughput("t/q"),), [1.0], [[1.0]]), **{field: value})
        with pytest.raises(InvalidSnapshotError, match=field):
            decide(given_snapshot, Memory(), CONFIG, START)

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param(throughput("t/q", 0.0, 0.0), id="zero weight"),
            pytest.param(throughput("t/q", 0.0, math.nan), id="weight NaN"),
            pytest.param(latency("t/q", 0.0, [1.0], 5, Periodic(0.0)), id="period of 0"),
            pytest.param(latency("t/q", 0.0, [1.0], 5, Periodic(4.0)), id="period below duration"),
            pytest.param(latency("t/q", 0.0, [1.0], 0, Sporadic(4.0)), id="no duration"),
            pytest.param(latency("t/q", 0.0, [-1.0], 1, Sporadic(4.0)), id="negative demand"),
            pytest.param(latency("t/q", 0.0, [math.inf], 1, Sporadic(4.0)), id="infinite demand"),
            pytest.param(QueueSpec("t/q", QueueKind.LATENCY, (0.0, "t/q")), id="latency queue without burst"),
        ],
    )
    def test_impossible_specs_are_refused_by_name(self, spec: QueueSpec) -> None:
        with pytest.raises(InvalidSpecError, match="t/q"):
            decide(snapshot((spec,), [1.0], [[1.0]]), Memory(), CONFIG, START)

    def test_a_petabyte_and_a_byte_live_in_one_pool(self) -> None:
        queues = (
            throughput("a/q"),
            QueueSpec("b/q", QueueKind.LATENCY, (1.0, "b/q"), 1.0, Burst({"cpu": 1.0, "memory": 1.0}, 1, 1), Sporadic(9)),
        )
        result, _ = decide(snapshot(queues, [4.0, 1e15], [[4.0, 1e15], [1.0, 1.0]]), Memory(), CONFIG, START)
        assert np.isfinite(result.allocation).all()
        assert (result.allocation.sum(axis=0) <= np.array([4.0, 1e15]) * (1 + 1e-9)).all()

    def test_an_empty_cluster_is_a_round_too(self) -> None:
        result, memory = decide(snapshot((), [0.0], []), Memory(), CONFIG, START)
        assert (result.allocation.shape, len(memory.queues), len(result.decisions)) == ((0, 1), 0, 0)


class TestBaselines:
    capacity = (90.0,)
    queues = (throughput("a/t"), latency("b/l", 1.0, [90.0], 10, Sporadic(100)), latency("c/l", 2.0, [90.0], 10, Sporadic(100)))

    @pytest.mark.parametrize(
        ("name", "want"),
        [
            pytest.param("drf", [30.0, 30.0, 30.0], id="drf divides evenly"),
            pytest.param("sp", [0.0, 45.0, 45.0], id="strict priority starves batch"),
            pytest.param("capacity", [90.0, 0.0, 0.0], id="first come first served"),
            pytest.param("static", [30.0, 30.0, 30.0], id="static parts"),
            pytest.param("m-bvt", [0.0, 45.0, 45.0], id="equal warps share in DRF fashion"),
        ],
    )
    def test_division_of_a_full_cluster(self, name: str, want: list[float]) -> None:
        result, _ = POLICIES[name](snapshot(self.queues, self.capacity, [[90.0]] * 3), Memory(), CONFIG, START)
        assert result.allocation[:, 0].tolist() == pytest.approx(want)
        assert result.decisions[0].queue == "a/t"

    def test_static_parts_stay_idle_when_not_wanted(self) -> None:
        result, _ = POLICIES["static"](snapshot(self.queues, self.capacity, [[90.0], [0.0], [0.0]]), Memory(), CONFIG, START)
        assert result.allocation[:, 0].tolist() == pytest.approx([30.0, 0.0, 0.0])

    def test_m_bvt_of_one_resource_is_borrowed_virtual_time(self) -> None:
        """Duda and Cheriton §3: A advances by use over weight, the least E = A - W runs; here in quanta, one thread a time."""
        queues = (throughput("a/t"), throughput("b/t", 1.0), latency("c/l", 2.0, [8.0], 10, Sporadic(100)))
        demand = np.full((3, 1), 10.0)
        memory, now, fluid = Memory(), START, np.zeros(3)
        while now < START + 60:
            result, memory = POLICIES["m-bvt"](snapshot(queues, [10.0], demand), memory, CONFIG, now)
            step = min(result.next_boundary, START + 60) - now
            fluid += result.allocation[:, 0] / 10.0 * step
            now += step
        virtual, warp, ran, quantum = np.zeros(3), np.array([0.0, 0.0, 8.0]), np.zeros(3), 0.01
        for _ in range(6000):
            thread = int(np.argmin(virtual - warp))
            virtual[thread] += quantum
            ran[thread] += quantum
        assert fluid == pytest.approx(ran, abs=0.1)

    @given(snapshots())
    def test_every_baseline_stays_within_capacity_and_demand(self, value: ClusterSnapshot) -> None:
        for policy in POLICIES.values():
            result, _ = policy(value, Memory(), CONFIG, START)
            assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-7)).all()
            assert (result.allocation <= value.demand + 1e-9).all()


@pytest.mark.parametrize(
    ("value", "resource", "want"),
    [
        (1.5, "cpu", "1.5 cores"),
        (800 * 2**30, "memory", "800 GiB"),
        (4.0, "nvidia.com/gpu", "4 nvidia.com/gpu"),
        (16200.0, "cpu", "16,200 cores"),
    ],
)
def test_amounts_are_said_in_human_units(value: float, resource: str, want: str) -> None:
    assert amount(value, resource) == want
