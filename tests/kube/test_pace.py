"""The pace of the cluster, measured from the lives of pods."""

from __future__ import annotations

import pytest

from fairburst.kube.usage.pace import PaceMeter
from fairburst.policy.attainability import ClusterPace
from tests.support.objects import pod


def live(
    meter: PaceMeter, name: str, created: float, *, bind: float = 1.0, start: float = 2.0, end: float | None = 10.0, elastic: bool = True
) -> None:
    """One pod's life, in seconds after its creation."""
    pending = pod("n", name)
    bound = pod("n", name, node="node")
    runs = pod("n", name, node="node", phase="Running")
    meter.observe(None, pending, created, elastic=elastic)
    meter.observe(pending, bound, created + bind, elastic=elastic)
    meter.observe(bound, runs, created + start, elastic=elastic)
    if end is not None:
        meter.observe(runs, None, created + end, elastic=elastic)


def test_nothing_is_known_of_a_cluster_on_which_nothing_has_run() -> None:
    assert PaceMeter().pace(100.0) == ClusterPace(None, None, None, None)


def test_a_few_pods_say_nothing() -> None:
    meter = PaceMeter()
    for number in range(7):
        live(meter, f"p{number}", 0.0)
    assert meter.pace(20.0) == ClusterPace(None, None, None, None)


def test_lifetimes_start_ups_and_rates_are_measured() -> None:
    meter = PaceMeter()
    for number in range(20):
        live(meter, f"p{number}", number / 25, bind=1.0, start=1.5, end=9.0)
    pace = meter.pace(20.0)
    assert pace.release_seconds == pytest.approx(8.0), "from bound to gone"
    assert pace.startup_seconds == pytest.approx(0.5)
    assert pace.creation_rate == pace.bind_rate == 20.0


def test_the_release_time_is_that_of_nearly_all() -> None:
    meter = PaceMeter()
    for number in range(100):
        live(meter, f"p{number}", float(number), end=1.0 + (60.0 if number % 10 == 0 else 5.0))
    assert (meter.pace(200.0).release_seconds or 0.0) > 55.0


def test_only_batch_work_tells_how_long_a_burst_must_wait() -> None:
    meter = PaceMeter()
    for number in range(20):
        live(meter, f"p{number}", 0.0, elastic=False)
    assert meter.pace(20.0).release_seconds is None


def test_pods_that_were_bound_before_we_looked_say_nothing_of_their_length() -> None:
    meter = PaceMeter()
    for number in range(20):
        runs = pod("n", f"p{number}", node="node", phase="Running")
        meter.observe(None, runs, 0.0, elastic=True)
        meter.observe(runs, None, 3.0, elastic=True)
    assert meter.pace(20.0) == ClusterPace(None, None, None, None)


def test_rates_of_long_ago_are_forgotten() -> None:
    meter = PaceMeter()
    for number in range(20):
        live(meter, f"p{number}", 0.0)
    assert meter.pace(599.0).creation_rate == 20.0
    assert meter.pace(700.0).creation_rate is None


def test_the_rate_is_the_best_second() -> None:
    meter = PaceMeter()
    for number in range(8):
        live(meter, f"slow{number}", float(number))
    for number in range(30):
        live(meter, f"quick{number}", 20.0)
    assert meter.pace(40.0).creation_rate == 30.0
