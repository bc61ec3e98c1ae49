"""The threshold of small Jobs on the namespace quota: what is written, and when it is worth a write."""

from __future__ import annotations

import pytest

from fairburst.kube.enforce.size_note import size_note
from fairburst.kube.names import SMALL_UP_TO_ANNOTATION

GI = 2.0**30
THRESHOLD = {"memory": 12.8 * GI, "cpu": 6.4}
WRITTEN = {SMALL_UP_TO_ANNOTATION: f"cpu=6400m,memory={int(12.8 * GI)}"}


def test_the_note_is_the_threshold_in_quantities() -> None:
    assert size_note(THRESHOLD, {}) == (WRITTEN, True)
    assert size_note(THRESHOLD, WRITTEN) == (WRITTEN, False)


@pytest.mark.parametrize(
    ("present", "worth"),
    [
        ("cpu=6300m,memory=13743895347", False),
        ("cpu=5,memory=13743895347", True),
        ("cpu=6400m", True),
        ("cpu=6400m,memory=13743895347,example.com/gpu=1", True),
        ("", True),
        ("cpu", True),
        ("cpu=many,memory=13743895347", True),
        ("cpu=1=2", True),
    ],
)
def test_a_small_difference_waits_for_the_quotas_next_write_and_a_damaged_note_does_not(present: str, worth: bool) -> None:
    assert size_note(THRESHOLD, {SMALL_UP_TO_ANNOTATION: present}) == (WRITTEN, worth)


def test_a_note_is_removed_with_the_next_write_where_no_job_is_small() -> None:
    assert size_note(None, {}) == ({}, False)
    assert size_note(None, WRITTEN) == ({SMALL_UP_TO_ANNOTATION: None}, False)
