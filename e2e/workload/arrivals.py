"""Arrivals of a latency queue's bursts: from a request trace compressed in time, or drawn from a seed. Independent of any cluster."""

from __future__ import annotations

import csv
import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairburst.sim.errors import TraceError


@dataclass(frozen=True, slots=True)
class RequestBurst:
    """`requests` that have accumulated by `arrival` seconds after the start."""

    arrival: float
    requests: int


def request_trace(folder: Path, service: str) -> Path:
    """Return the file with the arrivals of one service ("code" or "conv") below the folder of public traces."""
    found = sorted(folder.glob(f"azure-*-inference/Azure*_{service}.csv"))
    if len(found) != 1:
        raise TraceError(f"expected one file azure-*-inference/Azure*_{service}.csv in {folder}, found {len(found)}")
    return found[0]


def read_requests(path: Path) -> list[float]:
    """Return the arrival of every request in seconds after the first, ascending. Raises TraceError with file, line, expected and found."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"expected a readable CSV file {path}, found: {error}") from error
    if not rows or not rows[0] or rows[0][0] != "TIMESTAMP":
        raise TraceError(
            f"{path}:1: expected a header that begins with TIMESTAMP, found {','.join(rows[0]) if rows else 'an empty file'!r}"
        )
    times = [_timestamp(path, line, row) for line, row in enumerate(rows[1:], 2) if row]
    if not times:
        raise TraceError(f"{path}:2: expected at least one request, found the end of the file")
    times.sort()
    return [time - times[0] for time in times]


def _timestamp(path: Path, line: int, row: Sequence[str]) -> float:
    text = row[0]
    try:
        # Seven digits of a second: one more than datetime can read, and 100 ns do not matter.
        return dt.datetime.strptime(text[:26], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=dt.UTC).timestamp()
    except ValueError as error:
        raise TraceError(f"{path}:{line}: expected a time like 2023-11-16 18:17:03.9799600, found {text[:60]!r}") from error


def compressed_bursts(
    requests: Sequence[float], *, time_factor: float, min_interarrival_seconds: float, collect: int, largest: int
) -> list[RequestBurst]:
    """Group requests into bursts that a sporadic latency queue may declare.

    Every time is multiplied by `time_factor`. A burst is sent once `collect` requests wait and `min_interarrival_seconds` have passed since
    the last one. It takes at most `largest` of the waiting requests; the rest waits for the next burst. If fewer than `collect` remain at
    the end of the trace, they are dropped.
    """
    if not 1 <= collect <= largest:
        raise ValueError(f"expected 1 <= collect <= largest, found collect {collect}, largest {largest}")
    times = [request * time_factor for request in requests]
    bursts: list[RequestBurst] = []
    taken, earliest = 0, -math.inf
    while taken + collect <= len(times):
        arrival = max(times[taken + collect - 1], earliest)
        waiting = int(np.searchsorted(times, arrival, side="right")) - taken
        size = min(waiting, largest)
        bursts.append(RequestBurst(arrival, size))
        taken += size
        earliest = arrival + min_interarrival_seconds
    return bursts


def sporadic_arrivals(seed: int, *, first: float, min_interarrival_seconds: float, mean_extra_seconds: float, until: float) -> list[float]:
    """Return arrivals in [first, until): gaps of the minimum plus an exponential extra. The same seed gives the same arrivals."""
    rng = np.random.default_rng(seed)
    arrivals: list[float] = []
    time = first
    while time < until:
        arrivals.append(time)
        time += min_interarrival_seconds + float(rng.exponential(mean_extra_seconds))
    return arrivals
