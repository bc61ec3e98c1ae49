"""spec.uncertainty: the amounts that a queue asks for, from its declaration and from observed bursts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from fairburst.kube.queues.bursts import Burst, Uncertainty
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue
from fairburst.kube.queues.uncertainty import FEWEST, asked_for
from fairburst.policy.uncertainty import Correlation
from fairburst.quantity import parse_quantity
from tests.support.objects import World, latency_spec, node, pod, requesting
from tests.support.queues import LATENCY_SPEC, changed, queue, schedule, scheduled

LQ = "LatencyQueue"
BURST = Burst.model_validate({"resources": {"cpu": "10", "memory": "10Gi"}, "durationSeconds": 10})


def uncertainty(**spec: Any) -> Uncertainty:
    return Uncertainty.model_validate({"confidencePercent": 95, **spec})


class TestAskedFor:
    SPREAD: ClassVar[dict[str, Any]] = {"standardDeviationPercent": {"cpu": 40, "memory": 40}}

    @pytest.mark.parametrize(
        ("correlation", "want"),
        [("Perfect", 170), ("Independent", 180), (None, 180), ("Measured", 180)],  # 1 + .4 x 1.645 and 1 + .4 x 1.955, in steps of 5 %
    )
    def test_follows_from_the_declared_spread(self, correlation: str | None, want: int) -> None:
        asked = asked_for(BURST, uncertainty(correlation=correlation, **self.SPREAD), ())
        assert (asked.percent, asked.bursts) == ({"cpu": want, "memory": want}, 0)
        assert asked.burst(BURST).resources == {"cpu": f"{want // 10}", "memory": f"{want // 10}Gi"}
        assert asked.correlation is (Correlation.PERFECT if correlation == "Perfect" else Correlation.INDEPENDENT)

    def test_resources_without_a_spread_stay(self) -> None:
        asked = asked_for(BURST, uncertainty(standardDeviationPercent={"cpu": 40}), ())
        assert asked.percent == {"cpu": 170, "memory": 100}

    def test_is_as_declared_until_enough_bursts_were_seen(self) -> None:
        history = uncertainty(fromHistory=True)
        seen = [(1.5, 1.2)] * FEWEST
        assert asked_for(BURST, history, seen[1:]).percent == {"cpu": 100, "memory": 100}
        assert asked_for(BURST, history, seen).percent == {"cpu": 150, "memory": 120}

    def test_bursts_that_took_less_ask_for_less(self) -> None:
        assert asked_for(BURST, uncertainty(fromHistory=True), [(0.5, 0.25)] * 20).percent == {"cpu": 50, "memory": 25}

    def test_devices_are_whole(self) -> None:
        burst = Burst.model_validate({"resources": {"nvidia.com/gpu": "3"}, "durationSeconds": 10})
        asked = asked_for(burst, uncertainty(standardDeviationPercent={"nvidia.com/gpu": 10}), ())
        assert (asked.percent["nvidia.com/gpu"], asked.burst(burst).resources["nvidia.com/gpu"]) == (120, "4")

    @pytest.mark.parametrize("correlation", ["Independent", "Perfect", "Measured"])
    @pytest.mark.parametrize("together", [0.0, 0.6, 1.0])
    @pytest.mark.parametrize("count", [30, 100])
    def test_what_was_learned_suffices_for_the_bursts_to_come(self, correlation: str, together: float, count: int) -> None:
        """On average over many histories; Perfect may be too little where resources do not go together, as in the paper."""
        rng = np.random.default_rng([5, count, int(10 * together)])
        root = np.linalg.cholesky(np.array([[1.0, together], [together, 1.0]]) + 1e-12 * np.eye(2))
        share = []
        for _ in range(40):
            draws = np.maximum(1 + 0.2 * rng.normal(size=(count + 500, 2)) @ root.T, 0.01)
            asked = asked_for(BURST, uncertainty(fromHistory=True, correlation=correlation), draws[:count].tolist())
            enough = np.array([asked.percent["cpu"], asked.percent["memory"]]) / 100
            share.append((draws[count:] <= enough).all(axis=1).mean())
        least = 0.95 if correlation != "Perfect" or together == 1.0 else 0.90
        assert np.mean(share) >= least - (0.01 if count == 100 else 0.02)


class TestOnTheCluster:
    @staticmethod
    def burst(world: World, number: int, cpu: int, seconds: int = 10) -> None:
        """`cpu` pods of one cpu and 1 Gi for so many seconds, and then nothing until the next burst may begin."""
        for position in range(cpu):
            world.put(pod("burst", f"b{number}-{position}", requesting("1", "1Gi"), node=f"node-{position % 2}", phase="Running"))
        for _ in range(2 * seconds):
            world.round()
            world.after(0.5)
        for position in range(cpu):
            world.end("burst", f"b{number}-{position}")
        for _ in range(3):
            world.round()
            world.after((60 - seconds) / 3)

    def learn(self, world: World, sizes: list[int], **more: Any) -> dict[str, Any]:
        spec = latency_spec(cpu="10", duration=10, uncertainty={"confidencePercent": 95, "fromHistory": True, **more})
        world.queue(LQ, "burst", spec=spec)
        world.round()
        for number, cpu in enumerate(sizes):
            self.burst(world, number, cpu)
        for _ in range(10):
            world.round()
            world.after(1.0)
        status: dict[str, Any] = world.status("burst", kind=LQ)
        return status

    def test_bursts_are_learned_and_what_they_need_is_promised(self) -> None:
        world = World()
        status = self.learn(world, [8, 12] * 7)
        found = status["uncertainty"]
        assert (found["bursts"], found["learned"]) == (14, True)
        assert set(status["internal"]["burstsSeen"]["partsMilli"]["cpu"]) == {800, 1200}
        assert found["extraPercent"]["cpu"] >= 20
        assert found["asked"] == status["promise"]["burst"]["resources"]
        assert parse_quantity(found["asked"]["cpu"]) == pytest.approx(10 * (1 + found["extraPercent"]["cpu"] / 100))
        assert status["class"] == "Hard"

    def test_a_resource_that_counts_from_the_middle_of_a_burst_on_stops_no_learning(self) -> None:
        """Another tenant's queue can make it count. The burst itself is left out: what it used of that resource before is not known."""
        world = World()
        world.nodes["", "node-0"] = node("node-0", cpu="32", memory="128Gi", pods="110", **{"example.com/gpu": "4"})
        self.learn(world, [8])
        for position in range(10):
            world.put(pod("burst", f"middle-{position}", requesting("1", "1Gi"), node="node-0", phase="Running"))
        for _ in range(12):
            world.round()
            world.after(0.5)
        world.queue("ThroughputQueue", "gpus", spec={"limits": {"example.com/gpu": "2"}})
        for _ in range(8):
            assert world.round().snapshot.resources == ("cpu", "memory", "example.com/gpu")
            world.after(0.5)
        for position in range(10):
            world.end("burst", f"middle-{position}")
        world.settle(50.0)
        self.burst(world, 2, 12)
        world.settle(10.0)
        assert world.engine.contained.problems == {}
        assert world.status("burst", kind=LQ)["internal"]["burstsSeen"]["partsMilli"]["cpu"] == [800, 1200]

    def test_until_enough_were_seen_the_declaration_is_promised(self) -> None:
        status = self.learn(World(), [8, 12, 14])
        assert (status["uncertainty"]["bursts"], status["uncertainty"]["learned"]) == (3, False)
        assert status["promise"]["burst"]["resources"] == {"cpu": "10", "memory": "10Gi"}

    def test_what_was_learned_survives_a_restart_and_not_another_burst(self) -> None:
        world = World()
        before = self.learn(world, [8, 12] * 7)
        again = World()
        for name in ("pods", "nodes", "namespaces", "quotas", "queues"):
            getattr(again, name).update(getattr(world, name))
        again.wall, again.now = world.wall + 3.0, 5.0
        again.round()
        assert again.status("burst", kind=LQ)["uncertainty"] == before["uncertainty"]
        assert again.status("burst", kind=LQ)["promise"] == before["promise"]
        spec = latency_spec(cpu="20", duration=10, uncertainty={"confidencePercent": 95, "fromHistory": True})
        again.queue(LQ, "burst", spec=spec, generation=2)
        again.round()
        after = again.status("burst", kind=LQ)["uncertainty"]
        assert (after["bursts"], after["asked"]) == (0, {"cpu": "20", "memory": "20Gi"})

    def test_what_there_is_no_room_for_costs_the_class_and_that_is_said(self) -> None:
        """An earlier promise leaves 10 cores: the declared burst fits as well, the size of the observed bursts does not."""
        world = World()
        world.queue(LQ, "first", spec=latency_spec(cpu="54", duration=10), created="2026-01-01T00:00:00Z")
        spec = latency_spec(cpu="10", duration=10, uncertainty={"confidencePercent": 95, "fromHistory": True})
        world.queue(LQ, "burst", spec=spec)
        world.round()
        assert world.status("burst", kind=LQ)["class"] == "Hard"
        status = self.learn(world, [10, 14] * 7)
        assert status["uncertainty"]["extraPercent"]["cpu"] >= 40
        assert status["promise"]["burst"]["resources"] == status["uncertainty"]["asked"]
        assert status["class"] == "Soft"
        assert "missing for its rate" in status["admission"]["message"]


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"uncertainty": {"confidencePercent": 95}}, "expected standardDeviationPercent, or fromHistory: true", id="no spread"),
        pytest.param({"uncertainty": {"confidencePercent": 100, "fromHistory": True}}, "less than or equal to 99", id="certainty"),
        pytest.param(
            {**schedule(scheduled("2026-01-01T00:00:00Z")), "uncertainty": {"confidencePercent": 95, "fromHistory": True}},
            "expected uncertainty only with burst", id="schedule",
        ),
        pytest.param(
            {"uncertainty": {"confidencePercent": 95, "fromHistory": True, "correlation": "Some"}},
            "expected 'Independent'",
            id="correlation",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(InvalidQueueError, match=want):
        parse_queue(queue(LQ, changed(LATENCY_SPEC, changes)))
