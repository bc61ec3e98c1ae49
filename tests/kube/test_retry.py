"""Failed writes are retried at growing intervals, and the log has a line for the cause."""

from __future__ import annotations

import itertools
import logging

import pytest

from fairburst.kube.api import retry
from fairburst.kube.api.answers import OUTAGE_SECONDS
from fairburst.kube.api.errors import (
    ApiError,
    BackedOff,
    Conflict,
    Forbidden,
    Invalid,
    NotLeading,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from fairburst.kube.api.retry import (
    FULL_PER_SECOND,
    LEAST_PER_SECOND,
    LONGEST_PAUSE_AFTER_REFUSAL_SECONDS,
    LONGEST_PAUSE_SECONDS,
    WriteRetries,
)
from tests.support.clocks import Clock
from tests.support.fake_api import FakeApi, status

QUOTA = "/api/v1/namespaces/{}/resourcequotas/fairburst"
BROKEN = ApiError(500, "InternalError", "etcd is away")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retry, "time", made)
    return made


def attempts(retries: WriteRetries, clock: Clock, paths: list[str], error: ApiError | None, seconds: int) -> list[int]:
    """Return the writes sent in each second, where all are offered four times a second."""
    sent = []
    for _ in range(seconds):
        before = 0
        for _ in range(4):
            for path in paths:
                try:
                    retries.admit(path)
                except BackedOff:
                    continue
                before += 1
                retries.succeeded(path) if error is None else retries.failed("PATCH", path, error)
            clock.now += 0.25
        sent.append(before)
    return sent


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.fields for record in caplog.records if record.levelno >= logging.WARNING]  # type: ignore[attr-defined]


def test_an_object_that_fails_waits_twice_as_long_each_time(clock: Clock) -> None:
    retries, sent = WriteRetries(), list[float]()
    while clock.now < 1300.0:
        try:
            retries.admit(QUOTA.format("one"))
        except BackedOff:
            clock.now += 0.01
            continue
        sent.append(clock.now)
        retries.failed("PATCH", QUOTA.format("one"), BROKEN)
        retries.succeeded(QUOTA.format("another"))
    pauses = [after - before for before, after in itertools.pairwise(sent)]
    assert all(0.5 * 2**number - 0.02 <= pause <= 2**number + 0.02 for number, pause in enumerate(pauses[:4]))
    assert all(LONGEST_PAUSE_SECONDS / 2 - 0.02 <= pause <= LONGEST_PAUSE_SECONDS + 0.02 for pause in pauses[4:])
    assert len({round(pause, 1) for pause in pauses[4:]}) > 3, "the pauses have jitter"


def test_the_pods_of_a_burst_are_sent_together_to_a_slow_server(clock: Clock) -> None:
    """Otherwise all but one of the writes that are offered in one instant would wait a second for their next offer."""
    retries = WriteRetries()
    for number in range(retry.TROUBLE_BEGINS):
        retries.failed("PATCH", QUOTA.format(f"other-{number}"), BROKEN)
    for number in range(7):
        retries.admit(f"/api/v1/namespaces/burst/pods/{number}")
    paths = [f"/api/v1/namespaces/burst/pods/late-{number}" for number in range(1000)]
    assert attempts(retries, clock, paths, BROKEN, 1)[0] <= FULL_PER_SECOND / 2


def test_others_do_not_wait_for_an_object_that_fails(clock: Clock) -> None:
    retries = WriteRetries()
    retries.failed("PATCH", QUOTA.format("one"), BROKEN)
    retries.admit(QUOTA.format("another"))
    with pytest.raises(BackedOff):
        retries.admit(QUOTA.format("one"))


def waits(retries: WriteRetries, path: str) -> bool:
    try:
        retries.admit(path)
    except BackedOff:
        return True
    return False


def test_the_first_success_after_failures_alone_ends_the_pauses_of_all_that_the_server_failed(clock: Clock) -> None:
    pardons = list[float]()
    retries, paths = WriteRetries(lambda: pardons.append(clock.now)), [QUOTA.format(name) for name in ("one", "two", "refused")]
    for _ in range(4):  # pauses of four seconds at least
        for path in paths[:2]:
            retries.failed("PATCH", path, BROKEN)
        clock.now += OUTAGE_SECONDS / 4
    retries.failed("PATCH", paths[2], Forbidden(403, "Forbidden", "not allowed"))
    assert [waits(retries, path) for path in paths] == [True, True, True]
    retries.succeeded(QUOTA.format("another"))
    assert [waits(retries, path) for path in paths] == [False, False, True]
    assert pardons == [clock.now]


def test_an_object_that_fails_while_others_succeed_now_and_then_is_pardoned_seldom(clock: Clock) -> None:
    retries, sent = WriteRetries(), 0
    for _ in range(100):
        for _ in range(30):
            if not waits(retries, QUOTA.format("one")):
                sent += 1
                retries.failed("PATCH", QUOTA.format("one"), BROKEN)
            clock.now += 0.1
        retries.succeeded(QUOTA.format("another"))
    assert sent <= 5 + 2 * 300 / (LONGEST_PAUSE_SECONDS / 2)


def test_a_pardon_of_the_whole_server(clock: Clock) -> None:
    retries = WriteRetries()
    retries.failed("PATCH", QUOTA.format("one"), BROKEN)
    retries.pardon()
    assert not waits(retries, QUOTA.format("one"))


def test_a_thousand_objects_of_a_broken_server_cost_few_writes_and_lines(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    retries = WriteRetries()
    paths = [QUOTA.format(f"queue-{number}") for number in range(1000)]
    with caplog.at_level(logging.INFO):
        sent = attempts(retries, clock, paths, BROKEN, 300)
        assert sum(sent[:60]) <= 400
        assert max(sent[60:]) <= LEAST_PER_SECOND + 1
        lines = warnings(caplog)
        assert 3 <= len(lines) <= 7
        assert {line["resource"] for line in lines} == {"resourcequotas"}
        assert lines[-1]["objects"] > 100  # type: ignore[operator]
        well = attempts(retries, clock, paths, None, 2)
        assert sum(well) >= 1000, "all of them within two seconds of the recovery"
    assert caplog.records[-1].getMessage() == "writes succeed again"


def test_refusals_on_purpose_are_repeated_more_rarely(clock: Clock) -> None:
    retries, paths = WriteRetries(), [QUOTA.format(f"queue-{number}") for number in range(100)]
    fine = QUOTA.format("fine")
    for _ in range(1200):
        for path in paths:
            try:
                retries.admit(path)
            except BackedOff:
                continue
            retries.failed("PATCH", path, Forbidden(403, "Forbidden", "no"))
            retries.succeeded(fine)
        clock.now += 1.0
    sent = 0
    for _ in range(int(LONGEST_PAUSE_AFTER_REFUSAL_SECONDS)):
        for path in paths:
            try:
                retries.admit(path)
            except BackedOff:
                continue
            sent += 1
            retries.failed("PATCH", path, Forbidden(403, "Forbidden", "no"))
            retries.succeeded(fine)
        clock.now += 1.0
    assert sent <= 2 * len(paths)


ANONYMOUS = Forbidden(403, "Forbidden", 'User "system:anonymous" cannot patch resource "resourcequotas"')


@pytest.mark.parametrize(
    ("error", "slows"),
    [
        pytest.param(Invalid(422, "Invalid", "metadata.annotations: Too long: must have at most 262144 bytes"), False, id="annotations"),
        pytest.param(ApiError(500, "InternalError", "etcdserver: request is too large"), False, id="too large for etcd"),
        pytest.param(Forbidden(403, "Forbidden", "the namespace is being terminated"), False, id="a namespace that is being deleted"),
        pytest.param(BROKEN, True, id="the API server fails"),
        pytest.param(Unauthorized(401, "Unauthorized", "token"), True, id="the API server does not know the operator"),
        pytest.param(ANONYMOUS, True, id="the API server takes the operator for an anonymous user"),
    ],
)
def test_only_what_concerns_all_writes_slows_all_of_them_down(clock: Clock, error: ApiError, *, slows: bool) -> None:
    """A tenant can have all of its Jobs refused at each attempt to start them. The burst of another tenant must not wait for that."""
    retries, mine = WriteRetries(), [f"/apis/batch/v1/namespaces/mine/jobs/job-{number}" for number in range(100)]
    attempts(retries, clock, mine, error, 20)
    burst = [f"/api/v1/namespaces/burst/pods/pod-{number}" for number in range(50)]
    assert any(waits(retries, path) for path in burst) is slows


def test_an_object_that_is_too_large_for_etcd_is_tried_as_seldom_as_one_that_is_refused(clock: Clock) -> None:
    retries, path = WriteRetries(), QUOTA.format("one")
    sent = attempts(retries, clock, [path], ApiError(500, "InternalError", "etcdserver: request is too large"), 1200)
    assert sum(sent[600:]) <= 600 / (LONGEST_PAUSE_AFTER_REFUSAL_SECONDS / 2)


def test_a_write_that_was_overtaken_is_repeated_at_once_but_not_for_ever(clock: Clock) -> None:
    retries, path = WriteRetries(), QUOTA.format("one")
    for _ in range(retry.FREE_CONFLICTS):
        retries.failed("PATCH", path, Conflict(409, "Conflict", "changed"))
        retries.admit(path)
    retries.failed("PATCH", path, Conflict(409, "Conflict", "changed"))
    with pytest.raises(BackedOff):
        retries.admit(path)


def test_a_status_that_fails_is_not_forgiven_for_the_objects_sake(clock: Clock) -> None:
    retries, path = WriteRetries(), QUOTA.format("one")
    for _ in range(3):
        retries.succeeded(path)
        retries.failed("PATCH", f"{path}/status", BROKEN)
    clock.now += 1.5
    with pytest.raises(BackedOff, match="failed 3 times"):
        retries.admit(path)


def test_a_write_that_was_not_sent_is_no_failure(clock: Clock) -> None:
    retries, path = WriteRetries(), QUOTA.format("one")
    retries.failed("PATCH", path, NotLeading("another leads"))
    retries.admit(path)


def test_what_a_disruption_budget_refuses_waits_and_is_no_trouble_of_the_server(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    retries = WriteRetries()
    for number in range(100):
        path = f"/api/v1/namespaces/a/pods/pod-{number}/eviction"
        retries.admit(path)
        retries.failed("POST", path, TooManyRequests(429, "TooManyRequests", "budget", 10.0))
    clock.now += 9.0
    with pytest.raises(BackedOff):
        retries.admit("/api/v1/namespaces/a/pods/pod-0/eviction")
    retries.admit("/api/v1/namespaces/a/pods/another/eviction")
    assert not caplog.records


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "MOST_REMEMBERED", 100)
    retries = WriteRetries()
    for number in range(1000):
        retries.failed("PATCH", QUOTA.format(f"queue-{number}"), BROKEN)
        clock.now += 1.0
    assert len(retries._failing) <= 200


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/x/resourcequotas/fairburst", "resourcequotas"),
        ("/api/v1/namespaces/x/events", "events"),
        ("/api/v1/namespaces/x", "namespaces"),
        ("/apis/batch/v1/namespaces/x/jobs/y", "jobs"),
        ("/apis/fairburst.dev/v1alpha1/namespaces/x/latencyqueues/y/status", "latencyqueues"),
    ],
)
def test_the_log_names_the_resource(path: str, resource: str) -> None:
    assert retry.resource_of(path) == resource


async def test_the_client_sends_a_failed_write_again_only_after_its_pause() -> None:
    async with FakeApi("/api/v1/configmaps") as api, api.client() as client:
        client.retries = WriteRetries()
        api.put("/api/v1/configmaps", {"metadata": {"name": "one", "namespace": "a"}})
        api.fail(1, 500, status(500, "InternalError"))
        with pytest.raises(ApiError, match="InternalError"):
            await client.merge_patch("/api/v1/namespaces/a/configmaps/one", {"data": {}})
        sent = len(api.requests)
        with pytest.raises(BackedOff):
            await client.merge_patch("/api/v1/namespaces/a/configmaps/one", {"data": {}})
        assert len(api.requests) == sent


async def test_a_server_that_asks_for_a_day_gets_half_a_minute() -> None:
    async with FakeApi("/api/v1/configmaps") as api, api.client() as client:
        api.fail(1, 429, "later", {"Retry-After": "86400"})
        with pytest.raises(TooManyRequests) as refused:
            await client.merge_patch("/api/v1/namespaces/a/configmaps/one", {"data": {}})
        assert refused.value.retry_after == retry.LONGEST_RETRY_AFTER_SECONDS
        assert client.writes._full_at - client.writes._tolerance - retry.time.monotonic() <= retry.LONGEST_RETRY_AFTER_SECONDS


def test_no_answer_counts_like_an_error(clock: Clock) -> None:
    retries, path = WriteRetries(), QUOTA.format("one")
    retries.failed("PATCH", path, Unavailable(0, "Timeout", "no answer in time"))
    with pytest.raises(BackedOff):
        retries.admit(path)
