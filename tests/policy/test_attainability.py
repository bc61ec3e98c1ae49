"""Attainable deadlines: the delays ahead of a burst, their sum and its explanation."""

from __future__ import annotations

import pytest

from fairburst.policy.attainability import ClusterPace, Verdict, attainability

SLOW = ClusterPace(release_seconds=12.0, creation_rate=20.0, bind_rate=50.0, startup_seconds=2.0)
NEVER = ClusterPace(release_seconds=40.0)
UNMEASURED = {"demand_fraction": None}


@pytest.mark.parametrize(
    ("change", "want", "want_seconds"),
    [
        pytest.param({"pace": ClusterPace()}, Verdict.IN_TIME, 40.0, id="nothing measured is no delay"),
        pytest.param({"pace": SLOW}, Verdict.TOO_LATE, 12 + 5 + 2 + 40, id="waiting, the slower rate, starting, serving"),
        pytest.param({"pace": SLOW, "room_is_free": True}, Verdict.TOO_LATE, 5 + 2 + 40, id="nothing has to end first"),
        pytest.param({"pace": SLOW, "demand_fraction": 0.5}, Verdict.IN_TIME, 12 + 5 + 2 + 20, id="half of what was declared is used"),
        pytest.param({"pace": SLOW, "pods": 0.0}, Verdict.TOO_LATE, 12 + 2 + 40, id="no pods to create"),
        pytest.param(UNMEASURED | {"pace": SLOW}, Verdict.NOT_MEASURED, 12 + 5 + 2 + 40, id="no burst measured: late if it takes all"),
        pytest.param(UNMEASURED | {"pace": ClusterPace()}, Verdict.IN_TIME, 40.0, id="no burst measured, and no delay"),
        pytest.param(UNMEASURED | {"pace": NEVER}, Verdict.TOO_LATE, 40 + 40, id="no burst measured: late even if it takes nothing"),
        pytest.param({"pace": ClusterPace(creation_rate=0.0)}, Verdict.IN_TIME, 40.0, id="a rate of nothing is none"),
    ],
)
def test_delays_are_added_up(change: dict[str, object], want: Verdict, want_seconds: float) -> None:
    given = {"deadline_seconds": 40.0, "demand_fraction": 1.0, "pods": 100.0, "room_is_free": False} | change
    verdict = attainability(**given)  # type: ignore[arg-type]
    assert (verdict.verdict, verdict.expected_seconds, verdict.deadline_seconds) == (want, want_seconds, 40.0)


def test_a_refusal_says_what_takes_how_long_and_what_to_do() -> None:
    verdict = attainability(deadline_seconds=40.0, demand_fraction=1.0, pods=100.0, room_is_free=False, pace=SLOW)
    assert verdict.message == (
        "a burst that finds no room is expected after 59.0 s, deadline 40 s: running work ends within 12.0 s, 100 pods take "
        "5.0 s to create and bind, 2.0 s to start, and 100% of the declared demand takes 40.0 s at the guaranteed rate; "
        "declare a longer duration and deadline that include the wait, or shorter batch pods"
    )


def test_before_the_first_burst_the_message_says_what_is_not_known_and_what_would_be_late() -> None:
    verdict = attainability(deadline_seconds=40.0, demand_fraction=None, pods=100.0, room_is_free=True, pace=SLOW)
    assert verdict.message == (
        "no burst has been measured yet, and only one that takes less than it declares can be in time. One that takes all of it "
        "and finds room is expected after 47.0 s, deadline 40 s: 100 pods take 5.0 s to create and bind, 2.0 s to start, "
        "and 100% of the declared demand takes 40.0 s at the guaranteed rate; a longer duration and deadline include the wait"
    )


def test_a_burst_that_finds_room_waits_for_no_running_work_and_shorter_batch_pods_are_no_remedy() -> None:
    """The message said "running work ends within 0.0 s", and named the remedy of a full pool."""
    verdict = attainability(deadline_seconds=40.0, demand_fraction=1.0, pods=1.0, room_is_free=True, pace=SLOW)
    assert verdict.message == (
        "a burst that finds room is expected after 42.0 s, deadline 40 s: 1 pod takes 0.1 s to create and bind, 2.0 s to start, "
        "and 100% of the declared demand takes 40.0 s at the guaranteed rate; declare a longer duration and deadline that include the wait"
    )


def test_a_wait_for_running_work_that_is_not_measured_is_not_told_as_none() -> None:
    verdict = attainability(deadline_seconds=40.0, demand_fraction=1.0, pods=2.0, room_is_free=False, pace=ClusterPace())
    assert verdict.message == (
        "a burst that finds no room is expected after 40.0 s of 40 s: how soon running work ends is not known yet, 2 pods take 0.0 s to "
        "create and bind, 0.0 s to start, and 100% of the declared demand takes 40.0 s at the guaranteed rate"
    )


def test_a_deadline_met_to_the_second_is_met() -> None:
    pace = ClusterPace(release_seconds=10.0)
    assert attainability(deadline_seconds=40.0, demand_fraction=0.75, pods=1.0, room_is_free=False, pace=pace).verdict is Verdict.IN_TIME
