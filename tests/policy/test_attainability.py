"""Whether a deadline can be met in practice: the delays ahead of a burst, added up in words."""

from __future__ import annotations

import pytest

from fairburst.policy.attainability import ClusterPace, attainability

SLOW = ClusterPace(release_seconds=12.0, creation_rate=20.0, bind_rate=50.0, startup_seconds=2.0)


@pytest.mark.parametrize(
    ("change", "want_holds", "want_seconds"),
    [
        pytest.param({"pace": ClusterPace()}, True, 40.0, id="nothing measured is no delay"),
        pytest.param({"pace": SLOW}, False, 12 + 5 + 2 + 40, id="waiting, the slower rate, starting, serving"),
        pytest.param({"pace": SLOW, "room_is_free": True}, False, 5 + 2 + 40, id="nothing has to end first"),
        pytest.param({"pace": SLOW, "demand_fraction": 0.5}, True, 12 + 5 + 2 + 20, id="half of what was declared is used"),
        pytest.param({"pace": SLOW, "pods": 0.0}, False, 12 + 2 + 40, id="no pods to create"),
        pytest.param({"pace": ClusterPace(creation_rate=0.0)}, True, 40.0, id="a rate of nothing is none"),
    ],
)
def test_delays_are_added_up(change: dict[str, object], want_holds: bool, want_seconds: float) -> None:
    given = {"deadline_seconds": 40.0, "demand_fraction": 1.0, "pods": 100.0, "room_is_free": False} | change
    verdict = attainability(**given)  # type: ignore[arg-type]
    assert (verdict.holds, verdict.expected_seconds, verdict.deadline_seconds) == (want_holds, want_seconds, 40.0)


def test_a_refusal_says_what_takes_how_long_and_what_to_do() -> None:
    verdict = attainability(deadline_seconds=40.0, demand_fraction=1.0, pods=100.0, room_is_free=False, pace=SLOW)
    assert verdict.message == (
        "expected after 59.0 s, deadline 40 s: running work ends within 12.0 s, 100 pods take 5.0 s to create and bind, 2.0 s to start, "
        "and 100% of the declared demand takes 40.0 s at the guaranteed rate; "
        "declare a longer duration and deadline that include the wait, or shorter batch pods"
    )


def test_a_deadline_met_to_the_second_is_met() -> None:
    pace = ClusterPace(release_seconds=10.0)
    assert attainability(deadline_seconds=40.0, demand_fraction=0.75, pods=1.0, room_is_free=False, pace=pace).holds
