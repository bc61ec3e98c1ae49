"""A burst into a full cluster under fairburst and under kube-scheduler alone: ratios of the two, at a size for two cores."""

from __future__ import annotations

import pytest

from benchmarks.peers.contender import Contender
from benchmarks.peers.contenders import contenders
from benchmarks.peers.run import Run, run
from benchmarks.peers.scenarios import quick_burst
from tests.t1.conftest import unique_name

pytestmark = pytest.mark.measure


def quick(contender: Contender) -> Run:
    return run(contender, quick_burst(), unique_name("peers"))


def test_a_burst_is_bound_sooner_than_under_the_scheduler_alone_and_costs_no_use() -> None:
    """Alone, the burst waits behind a backlog of twice the cluster. fairburst gives it each place that a batch pod leaves."""
    known = contenders()
    bare, ours = quick(known["bare"]()), quick(known["fairburst-quota"]())
    assert ours.figures["bound"] <= 0.8 * bare.figures["bound"]
    assert ours.figures["lost_seconds"] == 0
    assert ours.figures["use"] >= 0.85 * bare.figures["use"]
    assert ours.figures["requests_per_pod"] <= 2 * bare.figures["requests_per_pod"]
    own = ours.requests["fairburst"] / ours.figures["pods"]
    assert own <= 2.0, f"{own:.2f} requests of the operator a pod"
