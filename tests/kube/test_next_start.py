"""The room that a queue needs for its next start, and when a start has begun: only as far as the core permits."""

from __future__ import annotations

import numpy as np
import pytest

from fairburst.kube.enforce.next_start import WholeWork, next_start

RESOURCES = ("cpu",)
POOL = np.array([64.0])


def work(*needs: float) -> WholeWork:
    return WholeWork(np.array(needs, dtype=np.float64).reshape(-1, 1), np.array([sum(needs)]), np.zeros(1))


@pytest.mark.parametrize(
    ("running", "started", "granted", "expected"),
    [
        (0.0, 0.0, None, (20.0, False)),
        (0.0, 20.0, 20.0, (20.0, True)),
        (15.0, 20.0, 20.0, (5.0, True)),
        (20.0, 20.0, 20.0, (20.0, False)),
        (15.0, 64.0, 20.0, (5.0, True)),
        (20.0, 64.0, 20.0, (44.0, False)),
        (15.0, 20.0, None, (5.0, False)),
    ],
    ids=[
        "nothing runs: the smallest",
        "all of it lacks",
        "a part lacks",
        "all runs: the next one",
        "made larger: the rest of the start only",
        "made larger, and the start is complete",
        "nothing was granted, or by an operator that is gone",
    ],
)
def test_a_start_has_begun_as_far_as_it_was_granted(
    running: float, started: float, granted: float | None, expected: tuple[float, bool]
) -> None:  # fmt: skip
    """A started Job that grows takes nothing from others: the growth is another start, and waits for its turn."""
    held = work(30.0, 20.0)
    wanted = held.waits + started
    allowed = None if granted is None else np.array([granted])
    need, begun = next_start(held, wanted, np.array([running]), allowed, POOL, {}, RESOURCES)
    assert need is not None
    assert (float(need[0]), begun) == expected


def test_what_the_limit_of_a_turn_cannot_hold_is_no_next_start() -> None:
    nothing = np.zeros(1)
    assert next_start(work(40.0), np.array([40.0]), nothing, None, 0.5 * POOL, {}, RESOURCES) == (None, False)
    assert next_start(work(40.0), np.array([40.0]), nothing, None, POOL, {"cpu": 30.0}, RESOURCES) == (None, False)
