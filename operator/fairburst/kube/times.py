"""Conversion of times in objects to and from seconds since the epoch, clipped to the bounds of `fairburst.bounds`."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta

from fairburst.bounds import bounded_epoch

_MICRO = 10**6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_epoch(time: datetime) -> float:
    """Return seconds since the epoch, exact to the microsecond."""
    return bounded_epoch((time - _EPOCH) / timedelta(microseconds=1) / _MICRO)


@functools.lru_cache(maxsize=4096)
def epoch(text: str | None) -> float:
    """Return a Kubernetes time in seconds since the epoch; 0 without one."""
    return to_epoch(datetime.fromisoformat(text)) if text else 0.0


def from_epoch(seconds: float) -> datetime:
    """Return the time, to the microsecond."""
    return _EPOCH + timedelta(microseconds=round(bounded_epoch(seconds) * _MICRO))


def to_text(seconds: float) -> str:
    """Return the time as objects contain it, such as 2026-01-01T00:00:00Z."""
    return from_epoch(seconds).isoformat().replace("+00:00", "Z")
