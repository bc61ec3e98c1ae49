"""Property of lending: no waiting pod fits into idle capacity that no queue is owed (docs/decisions/0110)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.arrays import FloatArray
from fairburst.policy.model import ClusterSnapshot, RoundResult
from tests.support.pod_runs import NEARLY, PodRun, Pods
from tests.support.policy import throughput
from tests.support.strategies import START, WEIGHTS


@st.composite
def pod_runs(draw: st.DrawFn, most_queues: int = 5) -> PodRun:
    """Queues of unlike pods on a small cluster."""
    width = draw(st.integers(1, 3))
    capacity = np.array([float(draw(st.integers(4, 60))) for _ in range(width)])
    queues, pods = [], []
    for number in range(draw(st.integers(1, most_queues))):
        queues.append(throughput(f"ns{draw(st.integers(0, 9))}-{number}/q", float(number), draw(WEIGHTS)))
        lines = []
        for _ in range(draw(st.integers(0, 3))):
            request = np.array([float(draw(st.integers(0, 9))) for _ in range(width)])
            if request.any():
                seconds, since = float(draw(st.sampled_from([1, 7, 40, 300]))), float(draw(st.sampled_from([0, 0, 20])))
                lines.append(Pods(np.minimum(request, capacity), seconds, float(draw(st.integers(1, 30))), since))
        pods.append(lines)
    return PodRun(tuple(queues), capacity, pods)


def owed(value: ClusterSnapshot, result: RoundResult, used: FloatArray) -> FloatArray:
    """(N, K) room that a queue has in its allocation and a waiting pod of its will take once running pods have ended."""
    assert value.waiting is not None
    found = np.zeros_like(used)
    for row, request in zip(value.waiting.row, value.waiting.request, strict=True):
        room = np.maximum(result.allocation[row] - used[row], 0.0)
        if (request <= room * (1 + NEARLY) + NEARLY).all():
            found[row] = room
    return found


def no_waiting_pod_fits(value: ClusterSnapshot, result: RoundResult, used: FloatArray) -> None:
    assert value.waiting is not None
    idle = value.live_capacity - used.sum(axis=0) - owed(value, result, used).sum(axis=0)
    for row, request in zip(value.waiting.row, value.waiting.request, strict=True):
        assert not (request <= idle - 1e-3).all(), f"{request} of {value.queues[row].name} fits {idle}"


class TestNothingIsIdle:
    """Once the pods have started that a round permits, no pod waits that fits what is idle and no other queue is owed.

    What is lent stays within capacity and demand.
    """

    @given(pod_runs())
    def test_no_waiting_pod_fits_idle_capacity_and_capacity_and_demand_bound_what_is_lent(self, run: PodRun) -> None:
        run.run(START, 600, check=no_waiting_pod_fits)
        for _, value, result in run.results:
            assert (result.allocation.sum(axis=0) <= value.live_capacity * (1 + 1e-7)).all()
            assert (result.allocation <= np.maximum(value.demand, value.usage) * (1 + 1e-7) + 1e-9).all()
            assert (result.guaranteed <= result.allocation + 1e-9).all()
