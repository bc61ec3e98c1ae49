"""Checks of a round's inputs: shapes agree, amounts are finite, settings are within bounds. Decides nothing."""

from __future__ import annotations

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.errors import InvalidConfigError, InvalidSnapshotError
from fairburst.policy.model import ClusterSnapshot, PolicyConfig, WaitingPods
from fairburst.policy.tolerance import LARGEST, LONGEST_SECONDS, TIME_STEP_SECONDS

# Bounds of the settings. A cycle below a time step would divide by next to nothing; no cluster expects more weight than LARGEST.
SETTINGS = (
    ("expected_queues", 0.0, LARGEST), ("max_cycle_seconds", TIME_STEP_SECONDS, LONGEST_SECONDS), ("level_dead_band", 0.0, LARGEST),
    ("max_profile_events", 0, LARGEST), ("batch_memory_seconds", 0.0, LONGEST_SECONDS),
    ("largest_turn", 0.0, 1.0), ("max_lead_seconds", 0.0, LONGEST_SECONDS),
)  # fmt: skip


_LARGEST_BITS = np.float64(LARGEST).view(np.uint64)


def _are_plain(array: FloatArray) -> bool:
    """Return whether every number is between 0 and LARGEST. As unsigned integers such float64 are at most LARGEST's bits, and negative
    numbers and NaN are larger. This takes one pass instead of two. The caller handles -0.0."""
    return array.dtype == np.float64 and bool(array.view(np.uint64).max() <= _LARGEST_BITS)


def check(snapshot: ClusterSnapshot, config: PolicyConfig, now: float) -> None:
    """Raise an error if shapes disagree or a number is not a finite amount >= 0."""
    count, width = len(snapshot.queues), len(snapshot.resources)
    if len(set(snapshot.resources)) != width or width == 0:
        raise InvalidSnapshotError(f"expected distinct resources, at least one, found {snapshot.resources}")
    for name, want in (
        ("live_capacity", (width,)), ("committed_capacity", (width,)),
        ("demand", (count, width)), ("usage", (count, width)), ("unit", (count, width)),
    ):  # fmt: skip
        array = getattr(snapshot, name)
        if array.shape != want:
            raise InvalidSnapshotError(f"{name}: expected shape {want} (queues, resources), found {array.shape}")
        if array.size and not (_are_plain(array) or (array.min() >= 0 and array.max() <= LARGEST)):
            row = int(np.argmax(~((array >= 0) & (array <= LARGEST)).reshape(want[0], -1).all(axis=1)))
            what = snapshot.queues[row].name if array.ndim == 2 else snapshot.resources[row]
            raise InvalidSnapshotError(f"{name} of {what}: expected amounts between 0 and {LARGEST:g}, found {array[row]}")
    if not abs(now) <= LONGEST_SECONDS:
        raise InvalidSnapshotError(f"now: expected seconds since the epoch, at most {LONGEST_SECONDS:g}, found {now}")
    if snapshot.waiting is not None:
        check_waiting(snapshot.waiting, count, width)
    for row, time in snapshot.oldest_work.items():
        if not (0 <= row < count and abs(time) <= LONGEST_SECONDS):
            raise InvalidSnapshotError(f"oldest_work: expected rows of {count} queues and seconds since the epoch, found {row}: {time}")
    for row, times in snapshot.unseen_work.items():
        if not (0 <= row < count and all(abs(time) <= LONGEST_SECONDS for time in times) and list(times) == sorted(times)):
            raise InvalidSnapshotError(f"unseen_work: expected rows of {count} queues and ascending seconds, found {row}: {times}")
    _check_amounts(snapshot)
    for name, least, most in SETTINGS:
        found = getattr(config, name)
        if not least <= found <= most:
            raise InvalidConfigError(f"expected {name} between {least:g} and {most:g}, found {found}")


def _check_amounts(snapshot: ClusterSnapshot) -> None:
    count, width = snapshot.demand.shape
    for name in ("next_start", "left_behind"):
        for row, amounts in getattr(snapshot, name).items():
            if not (0 <= row < count and amounts.shape == (width,) and ((amounts >= 0) & (amounts <= LARGEST)).all()):
                raise InvalidSnapshotError(f"{name}: expected rows of {count} queues and {width} amounts each, found {row}: {amounts}")
    if not snapshot.starting <= snapshot.next_start.keys():
        raise InvalidSnapshotError(f"starting: expected rows of next_start, found {sorted(snapshot.starting - snapshot.next_start.keys())}")


def check_waiting(waiting: WaitingPods, count: int, width: int) -> None:
    """Raise an error if the waiting pods are not those of `count` queues and `width` resources."""
    length = len(waiting.row)
    if waiting.row.shape != (length,) or waiting.request.shape != (length, width) or waiting.count.shape != (length,):
        raise InvalidSnapshotError(
            f"waiting: expected rows (L,), requests (L, {width}) and counts (L,), found {waiting.row.shape}, {waiting.request.shape} and "
            f"{waiting.count.shape}"
        )
    if length and not (waiting.row[0] >= 0 and waiting.row[-1] < count and (np.diff(waiting.row) >= 0).all()):
        raise InvalidSnapshotError(f"waiting: expected rows of {count} queues in ascending order, found {waiting.row}")
    for name, array in (("request", waiting.request), ("count", waiting.count)):
        if not ((array >= 0) & (array <= LARGEST)).all():
            raise InvalidSnapshotError(f"waiting: expected {name}s between 0 and {LARGEST:g}, found {array}")
