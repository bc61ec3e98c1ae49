"""How soon a burst runs in a full cluster, compared with kube-scheduler's preemption: the figures of docs/benchmarks.md, as claims."""

from __future__ import annotations

import pytest

from benchmarks.reclaim import NODES, WEIGHTS, reclaim_path

pytestmark = pytest.mark.long


@pytest.mark.timeout(1800)
def test_two_hundred_pods_run_five_times_sooner_than_by_preemption_and_queues_give_by_their_weights() -> None:
    """200 one-cpu pods into 640. It needs an otherwise idle machine."""
    found = list(reclaim_path(NODES, 200, 1))
    for measurement in found:
        print(measurement)
    assert [measurement.name for measurement in found if not measurement.ok] == []
    given = [measurement.value for measurement in found if "pods given" in measurement.name]
    assert sum(given) == 200
    per_weight = [pods / weight for pods, weight in zip(given, WEIGHTS.values(), strict=True)]
    assert max(per_weight) - min(per_weight) <= 3, "a pod or two each by rounding"
