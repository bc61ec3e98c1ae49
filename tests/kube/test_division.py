"""The two quotas of a divided level: they add up to it, and the places for pods move only where one of them lacks some."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.enforce.division import Division, divided
from fairburst.kube.enforce.quota_plan import QuotaTarget
from fairburst.kube.names import SMALL_CLASS
from fairburst.kube.usage.pod_usage import ClassUsage, NamespaceUsage
from tests.support.objects import quota

AMOUNT = st.floats(0, 1000)
SMALL_UNIT, OTHER_UNIT = 0.5, 2.0


def usage(small: float = 0.0, other: float = 0.0) -> NamespaceUsage:
    """Return the use of a namespace, in cpu."""
    total = {"cpu": small + other}
    of_class = {SMALL_CLASS: ClassUsage({"cpu": small}, {"cpu": SMALL_UNIT}, 3)} if small else {}
    return NamespaceUsage(total, total, {"cpu": OTHER_UNIT}, frozenset(), frozenset(), 7, {"cpu": 0.0}, by_class=of_class)


def division(small: float, ratio: float = 0.1, small_pods: int = 1, other_pods: int = 1) -> Division:
    return Division({"cpu": small}, ratio, {"cpu": SMALL_UNIT}, {"cpu": OTHER_UNIT}, small_pods, other_pods)


def whole(level: float = 100.0, used: float = 0.0, **more: Any) -> QuotaTarget:
    return QuotaTarget("n", {"cpu": level}, {"cpu": OTHER_UNIT}, {"cpu": used}, latency=False, counted_pods=7, **more)


@given(level=AMOUNT, small=AMOUNT, more=AMOUNT, ratio=st.floats(0, 1), slack=st.floats(1, 9))
def test_the_two_quotas_permit_what_the_whole_one_would_and_slack_for_either_size(
    level: float, small: float, more: float, ratio: float, slack: float
) -> None:
    """docs/decisions/0274: the two amounts add up to the level, and a pod of either size beyond it."""
    one = whole(level, slack=slack, entitled={"cpu": level + more})
    first, second = divided(one, division(small, ratio), usage(), None)
    assert first.level["cpu"] + second.level["cpu"] == pytest.approx(level)
    assert first.entitled["cpu"] + second.entitled["cpu"] == pytest.approx(level + more)
    assert first.entitled["cpu"] >= first.level["cpu"]
    assert second.entitled["cpu"] >= second.level["cpu"] - 1e-6
    assert first.hard("cpu") >= min(SMALL_UNIT, slack * SMALL_UNIT) - 1e-3
    assert second.hard("cpu") >= OTHER_UNIT - 1e-3


def test_while_room_is_kept_for_a_burst_the_two_permit_the_level_and_no_pod_more() -> None:
    first, second = divided(whole(10.0, exact=True), division(3.0), usage(), None)
    assert (first.hard("cpu"), second.hard("cpu")) == (3.0, 7.0)


def test_each_pod_counts_for_one_of_them() -> None:
    first, second = divided(whole(used=14.0), division(3.0), usage(small=2.0, other=12.0), None)
    assert (first.counted, second.counted) == ({"cpu": 2.0}, {"cpu": 12.0})
    assert (first.counted_pods, second.counted_pods) == (3, 4)


@pytest.mark.parametrize(
    ("present", "small_pods", "other_pods", "want"),
    [
        pytest.param(None, 10, 30, 25, id="in proportion to the pods that either wants"),
        pytest.param(None, 0, 30, 1, id="one for the first small pod"),
        pytest.param(40, 10, 30, 40, id="as before while both have enough"),
        pytest.param(40, 50, 10, 83, id="moved to small jobs, which lack places"),
        pytest.param(40, 10, 70, 12, id="moved to the others"),
        pytest.param(40, 100, 120, 40, id="too few for all, and nearly in proportion already"),
        pytest.param(40, 900, 100, 90, id="too few for all, and far from proportion"),
        pytest.param(140, 10, 30, 25, id="there were more places"),
    ],
)
def test_places_for_pods(present: int | None, small_pods: int, other_pods: int, want: int) -> None:
    own: ResourceQuota | None = None if present is None else quota("n", {"pods": str(present)}, name="fairburst-small")
    first, second = divided(whole(pods=100), division(3.0, small_pods=small_pods, other_pods=other_pods), usage(), own)
    assert (first.pods, second.pods) == (want, 100 - want)


def test_without_a_limit_on_pods_neither_has_one() -> None:
    assert [one.pods for one in divided(whole(), division(3.0), usage(), None)] == [None, None]
