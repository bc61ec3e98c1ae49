"""Requests become bursts that a sporadic latency queue may declare."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.workload.arrivals import RequestBurst, compressed_bursts, read_requests, request_trace, sporadic_arrivals
from e2e.workload.stages import TraceError, data_folder

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


def test_requests_are_read_in_seconds_after_the_first(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:18:04.0799600,3180,8\r\n", newline="")
    assert read_requests(path) == pytest.approx([0.0, 60.1])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("when,what\r\n1,2\r\n", r":1: expected a header that begins with TIMESTAMP, found 'when,what'", id="header"),
        pytest.param("", r":1: expected a header that begins with TIMESTAMP, found 'an empty file'", id="empty"),
        pytest.param(HEADER, r":2: expected at least one request, found the end of the file", id="no requests"),
        pytest.param(HEADER + "yesterday,1,2\r\n", r":2: expected a time like 2023-11-16 18:17:03\.9799600, found 'yesterday'", id="time"),
    ],
)
def test_malformed_request_trace_names_file_line_expected_and_found(tmp_path, text, want):
    path = tmp_path / "trace.csv"
    path.write_text(text, newline="")
    with pytest.raises(TraceError, match=want):
        read_requests(path)


def test_public_request_trace_spans_an_hour():
    try:
        path = request_trace(data_folder(), "code")
    except TraceError as missing:
        pytest.skip(str(missing))
    requests = read_requests(path)
    assert len(requests) == 8819
    assert 3300 < requests[-1] < 3700


def test_a_burst_is_sent_when_enough_requests_wait_and_the_minimum_gap_has_passed():
    requests = [0, 1, 2, 3, 100, 101, 102, 103, 104, 105, 200]
    bursts = compressed_bursts(requests, time_factor=0.5, min_interarrival_seconds=10, collect=2, largest=4)
    # Requests that come within the gap wait for the next burst; a single request at the end is no burst.
    assert bursts == [RequestBurst(0.5, 2), RequestBurst(10.5, 2), RequestBurst(50.5, 2), RequestBurst(60.5, 4)]


@given(
    requests=st.lists(st.integers(0, 1000), min_size=1, max_size=200).map(sorted),
    gap=st.integers(1, 100),
    collect=st.integers(1, 5),
    more=st.integers(0, 20),
)
def test_bursts_keep_the_declared_gap_and_size_and_lose_only_an_incomplete_tail(requests, gap, collect, more):
    bursts = compressed_bursts(requests, time_factor=0.25, min_interarrival_seconds=gap, collect=collect, largest=collect + more)
    assert all(later.arrival - earlier.arrival >= gap for earlier, later in itertools.pairwise(bursts))
    assert all(collect <= burst.requests <= collect + more for burst in bursts)
    assert 0 <= len(requests) - sum(burst.requests for burst in bursts) < collect


def test_sporadic_arrivals_keep_the_minimum_gap_and_follow_the_seed():
    arrivals = sporadic_arrivals(3, first=20, min_interarrival_seconds=60, mean_extra_seconds=10, until=2000)
    assert arrivals[0] == 20
    assert arrivals[-1] < 2000
    assert min(b - a for a, b in itertools.pairwise(arrivals)) >= 60
    assert arrivals == sporadic_arrivals(3, first=20, min_interarrival_seconds=60, mean_extra_seconds=10, until=2000)
    assert arrivals != sporadic_arrivals(4, first=20, min_interarrival_seconds=60, mean_extra_seconds=10, until=2000)
