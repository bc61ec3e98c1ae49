"""A queue that is edited all the time keeps its former spec for a while, so that the rounds of all others stay short."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.queues.edit_limit import EDIT_SECONDS, EDITS_AT_ONCE, EditLimit

KEY = ("LatencyQueue", "burst", "queue")
OTHER = ("ThroughputQueue", "batch", "queue")


def edited(generation: int, uid: str = "one", **status: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "generation": generation}, "spec": {"weight": generation}, "status": status}


def weight(limit: EditLimit, key: tuple[str, str, str] = KEY) -> int:
    found: int = limit.in_force[key]["spec"]["weight"]
    assert limit.in_force[key]["metadata"]["generation"] == found, "the status says which spec counts"
    return found


def exhausted() -> EditLimit:
    limit = EditLimit()
    for generation in range(EDITS_AT_ONCE + 1):
        limit.put(KEY, edited(generation), 100.0)
        assert weight(limit) == generation
    return limit


def test_edits_count_at_once_until_a_queue_is_edited_too_often_and_the_newest_counts_later() -> None:
    limit = exhausted()
    for generation in (50, 51, 52):
        limit.put(KEY, edited(generation), 101.0)
    assert weight(limit) == EDITS_AT_ONCE
    due = limit.release(102.0)
    assert due == 100.0 + EDIT_SECONDS
    assert weight(limit) == EDITS_AT_ONCE
    assert limit.release(due) == float("inf")
    assert weight(limit) == 52


def test_the_edits_of_others_count_at_once() -> None:
    limit = exhausted()
    limit.put(KEY, edited(50), 101.0)
    for generation in range(EDITS_AT_ONCE):
        limit.put(OTHER, edited(generation), 101.0)
        assert weight(limit, OTHER) == generation


def test_a_held_edit_stays_the_same_object_until_it_counts() -> None:
    """Rounds compare objects by identity: a new one each time would be a change each time."""
    limit = exhausted()
    limit.put(KEY, edited(50), 101.0)
    before = limit.in_force[KEY]
    limit.release(102.0)
    assert limit.in_force[KEY] is before


def test_the_newest_status_is_seen_with_a_held_edit() -> None:
    limit = exhausted()
    limit.put(KEY, edited(50), 101.0)
    limit.put(KEY, edited(50, share="1%"), 101.5)
    assert limit.in_force[KEY]["status"] == {"share": "1%"}
    assert weight(limit) == EDITS_AT_ONCE


def test_changes_of_the_status_are_no_edits() -> None:
    limit = EditLimit()
    for number in range(100):
        limit.put(KEY, edited(1, number=number), 100.0)
        assert limit.in_force[KEY]["status"] == {"number": number}


def test_a_queue_that_is_created_anew_counts_at_once() -> None:
    limit = exhausted()
    limit.put(KEY, edited(50), 101.0)
    limit.put(KEY, edited(1, uid="two"), 101.0)
    assert weight(limit) == 1
    limit.remove(KEY)
    assert limit.in_force == {}
    assert limit.release(1000.0) == float("inf")


@given(st.lists(st.floats(0.0, 30.0), max_size=60))
def test_in_any_time_a_queue_has_as_many_edits_as_the_limit_says_and_ends_with_its_newest_spec(pauses: list[float]) -> None:
    limit, now, changes, last = EditLimit(), 0.0, 0, None
    for generation, pause in enumerate(pauses):
        now += pause
        limit.release(now)
        limit.put(KEY, edited(generation), now)
        found = weight(limit)
        changes += found != last
        last = found
    assert changes <= EDITS_AT_ONCE + 1 + now / EDIT_SECONDS
    if pauses:
        assert limit.release(now + EDIT_SECONDS) == float("inf")
        assert weight(limit) == len(pauses) - 1
