"""Queue objects: those that the operator accepts, the messages for others, and promises that survive the status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.queues.core_values import promise_from_status, promise_to_status, to_queue_spec
from fairburst.kube.queues.objects import InvalidQueueError, parse_queue, parse_status
from fairburst.kube.queues.rules import KubeModel, SpecModel
from fairburst.kube.times import from_epoch, to_epoch
from fairburst.policy.model import Burst, Periodic, QueueKind, QueueSpec, Schedule, ScheduledBurst, Sporadic
from tests.support.queues import ABSENT, LATENCY_SPEC, THROUGHPUT_SPEC, changed, full_status, queue, schedule, scheduled, to_status

NEW_YEAR = 1_767_225_600.0  # 2026-01-01T00:00:00Z
GIB = 2.0**30


def test_a_latency_queue_becomes_the_cores_value_in_natural_units() -> None:
    spec = to_queue_spec(parse_queue(queue("LatencyQueue", LATENCY_SPEC | {"weight": 2}, "clickstream", "burst")))
    assert spec == QueueSpec(
        name="clickstream/burst",
        kind=QueueKind.LATENCY,
        order=(NEW_YEAR, "clickstream/burst"),
        weight=2.0,
        burst=Burst({"cpu": 400.0, "memory": 800 * GIB, "nvidia.com/gpu": 4.0}, 27.0, 40.0),
        arrival=Periodic(300.0, NEW_YEAR, 30.0),
        lead_time=True,
    )


def test_the_deadline_is_by_default_the_duration() -> None:
    spec = to_queue_spec(parse_queue(queue("LatencyQueue", changed(LATENCY_SPEC, {"burst/deadlineSeconds": ABSENT}))))
    assert spec.burst is not None
    assert spec.burst.deadline_seconds == 27.0


def test_a_schedule_carries_its_own_bursts() -> None:
    changes = schedule(scheduled("2026-01-01T00:00:00Z"), scheduled("2026-01-01T01:30:00.25+01:00", deadlineSeconds=60))
    spec = to_queue_spec(parse_queue(queue("LatencyQueue", changed(LATENCY_SPEC, changes))))
    assert spec.burst is None
    assert spec.arrival == Schedule(
        (
            ScheduledBurst(NEW_YEAR, Burst({"cpu": 1.0}, 10.0, 10.0)),
            ScheduledBurst(NEW_YEAR + 1800.25, Burst({"cpu": 1.0}, 10.0, 60.0)),
        )
    )


def test_a_throughput_queue_keeps_its_limits() -> None:
    spec = to_queue_spec(parse_queue(queue("ThroughputQueue", THROUGHPUT_SPEC | {"suspended": True})))
    assert (spec.kind, spec.weight, spec.limits, spec.suspended) == (QueueKind.THROUGHPUT, 3.0, {"cpu": 100.0}, True)
    assert spec.burst is None
    assert spec.arrival is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"limits": {"cpu": "400"}}, id="just what the burst needs"),
        pytest.param({"limits": {"cpu": "400000m"}}, id="in other units"),
        pytest.param(schedule(scheduled("2026-01-01T00:00:00Z")) | {"limits": {"cpu": 400}}, id="above every scheduled burst"),
    ],
)
def test_a_latency_queue_keeps_limits_that_hold_its_bursts(changes: dict[str, Any]) -> None:
    spec = to_queue_spec(parse_queue(queue("LatencyQueue", changed(LATENCY_SPEC, changes))))
    assert spec.limits == {"cpu": 400.0}
    assert promise_to_status(spec)["limits"] == {"cpu": "400"}
    assert promise_from_status(promise_to_status(spec)).limits == {"cpu": 400.0}


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        *(
            pytest.param(changes, "spec.limits: expected limits of at least what each burst needs, and only for resources", id=name)
            for name, changes in {
                "a limit below the burst": {"limits": {"cpu": "399999m"}},
                "a limit on what the burst does not name": {"limits": {"ephemeral-storage": "1Ti"}},
                "a limit below a scheduled burst": schedule(scheduled("2026-01-01T00:00:00Z")) | {"limits": {"cpu": "500m"}},
            }.items()
        ),
        pytest.param(
            {"limits": {"cpu": 400}, "uncertainty": {"confidencePercent": 95, "fromHistory": True}},
            "spec.limits: expected no limits with uncertainty",
            id="limits and uncertainty",
        ),
        pytest.param(
            {"burst/resources/cpu": "-1"},
            "spec.burst.resources.cpu: expected a quantity greater than zero, found '-1'",
            id="negative demand",
        ),
        pytest.param(
            {"burst/resources/cpu": 0}, "spec.burst.resources.cpu: expected a quantity greater than zero, found 0", id="zero demand"
        ),
        pytest.param(
            {"burst/resources/gpu": 1}, "spec.burst.resources.gpu: expected cpu, memory, ephemeral-storage or an extended", id="unknown"
        ),
        pytest.param(
            {"burst/resources": {"nvidia.com/gpu": "0.5"}}, "spec.burst.resources: expected whole numbers of extended", id="half a GPU"
        ),
        pytest.param(
            {"burst/durationSeconds": "27"}, "spec.burst.durationSeconds: expected a valid integer, found '27'", id="text for a number"
        ),
        pytest.param({"burst/durationSeconds": 41}, "expected deadlineSeconds of at least durationSeconds, found 40 < 41", id="long burst"),
        pytest.param(
            {"arrival/periodic/periodSeconds": 39},
            "spec.arrival.periodic.periodSeconds: expected periodSeconds of at least the burst's deadlineSeconds, found 39 < 40",
            id="short period",
        ),
        pytest.param({"arrival/periodic/jitterSeconds": 131}, "so that windows do not overlap, found 302 > 300", id="too much jitter"),
        pytest.param(
            {"arrival": {"sporadic": {"minInterarrivalSeconds": 39}}},
            "spec.arrival.sporadic.minInterarrivalSeconds: expected minInterarrivalSeconds of at least the burst's deadlineSeconds",
            id="too often",
        ),
        pytest.param(
            {"arrival/sporadic": {"minInterarrivalSeconds": 300}},
            "spec.arrival: expected exactly one of periodic, sporadic, schedule and calendar, found periodic and sporadic",
            id="two arrivals",
        ),
        pytest.param(
            {"arrival": {}}, "expected exactly one of periodic, sporadic, schedule and calendar, found none", id="no arrival form"
        ),
        pytest.param({"arrival": ABSENT}, "spec.arrival: expected a value, found none", id="no arrival"),
        pytest.param(
            {"burst": ABSENT}, "spec.burst: expected burst with arrival.periodic, arrival.sporadic or arrival.calendar", id="no burst"
        ),
        pytest.param({"arrival/periodic/firstArrival": "soon"}, "expected a time as in RFC 3339, such as", id="no time"),
        pytest.param({"arrival/periodic/firstArrival": "2026-02-30T00:00:00Z"}, "expected a time as in RFC 3339", id="no such day"),
        pytest.param(
            schedule(scheduled("2026-01-01T00:00:00Z"), scheduled("2026-01-01T00:00:09Z")),
            "expected bursts in ascending order of arrival, the deadline of each at or before the arrival of the next",
            id="overlap",
        ),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["61 * * * *"]}}},
            "spec.arrival.calendar.cron[0]: expected a cron expression such as 0 9 * * 1-5; Bad minute, found '61 * * * *'",
            id="no such minute",
        ),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["0 9 * *"]}}},
            "cron[0]: expected a cron expression such as 0 9 * * 1-5; it has",
            id="four fields",
        ),
        pytest.param({"arrival": {"calendar": {"cron": []}}}, "spec.arrival.calendar.cron: expected", id="no expression"),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["0 9 * * *"], "timeZone": "Europe/Nowhere"}}},
            "spec.arrival.calendar.timeZone: expected an IANA time zone such as Europe/Berlin, found 'Europe/Nowhere'",
            id="no such zone",
        ),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["0 9 * * *"], "timeZone": "../../etc/passwd"}}},
            "spec.arrival.calendar.timeZone: expected",
            id="a zone that is a path",
        ),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["0 9 * * *"], "exceptions": ["2026-02-30"]}}},
            "spec.arrival.calendar.exceptions[0]: expected a date such as 2026-12-25, found '2026-02-30'",
            id="no such date",
        ),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["0 9 * * *", "5 9 * * *"]}}, "burst/deadlineSeconds": 301},
            "spec.arrival.calendar.cron: expected arrivals at least the burst's deadlineSeconds apart, found 300 < 301",
            id="arrivals too close",
        ),
        pytest.param(
            {"arrival": {"calendar": {"cron": ["0 9 31 4 *"]}}},
            "spec.arrival.calendar.cron",
            id="a day that never comes",
        ),
        pytest.param(
            {"burst/durationSecond": 1}, "spec.burst.durationSecond: no such key; did you mean spec.burst.durationSeconds?", id="misspelt"
        ),
        pytest.param({"uncertainty": {"confidencePercent": 95}}, "spec.uncertainty: expected standardDeviationPercent", id="uncertainty"),
        pytest.param({"reclaim": "Always"}, "spec.reclaim: expected 'Never' or 'Evict'", id="reclaim"),
        pytest.param({"leadTime": "Always"}, "spec.leadTime", id="lead time"),
        pytest.param({"enforcement": "Hold"}, "spec.enforcement: expected 'Quota', 'Gate', 'Suspend' or 'Observe'", id="not a mode"),
        pytest.param({"weight": 0}, "spec.weight: expected greater than or equal to 1, found 0", id="no weight"),
        pytest.param({"weight": True}, "spec.weight: expected a valid integer, found True", id="truth for a number"),
    ],
)
def test_what_is_wrong_is_said_with_path_expectation_and_finding(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(InvalidQueueError) as caught:
        parse_queue(queue("LatencyQueue", changed(LATENCY_SPEC, changes)))
    assert want in str(caught.value)
    assert len(caught.value.problems) == 1


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidQueueError) as caught:
        parse_queue(
            queue(
                "LatencyQueue",
                changed(LATENCY_SPEC, {"uncertainty": {"confidencePercent": 95}, "burst/durationSeconds": 50}),
            )
        )
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    "obj", [{}, {"kind": "Pod"}, {"kind": ["LatencyQueue"]}, {"kind": "LatencyQueue"}, {"kind": "LatencyQueue", "spec": 5}]
)
def test_an_object_that_is_no_queue_is_an_error_not_a_crash(obj: dict[str, Any]) -> None:
    with pytest.raises(InvalidQueueError, match="expected"):
        parse_queue(obj)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda x: st.lists(x) | st.dictionaries(st.text(max_size=5), x),
)


@given(
    path=st.sampled_from(["burst", "arrival", "burst/resources", "arrival/periodic", "burst/resources/cpu", "pool", "weight"]), value=JSON
)
def test_any_value_anywhere_is_accepted_or_named(path: str, value: Any) -> None:
    try:
        accepted = parse_queue(queue("LatencyQueue", changed(LATENCY_SPEC, {path: value})))
    except InvalidQueueError as error:
        assert error.problems  # noqa: PT017  either outcome is right, a third is not
        return
    assert promise_from_status(promise_to_status(to_queue_spec(accepted))) == to_queue_spec(accepted)


seconds = st.integers(1, 10**6).map(float)
times = st.integers(0, 4 * 10**15).map(lambda micro: to_epoch(from_epoch(micro / 10**6)))
resources = st.fixed_dictionaries(
    {},
    optional={"cpu": st.integers(1, 10**8).map(lambda milli: milli / 1000), "memory": st.integers(1, 2**50).map(float), "x.io/d": seconds},
)
CALENDARS = [
    {"cron": ["0 9 * * 1-5"], "timeZone": "Europe/Berlin", "exceptions": ["2026-12-25"]},
    {"cron": ["*/5 * * * *"]},
    {"cron": ["30 2 * * *", "0 12 29 2 *"], "timeZone": "America/New_York"},
]


@given(calendar=st.sampled_from(CALENDARS), now=st.integers(0, 10**10).map(float))
def test_the_promise_of_a_calendar_survives_the_status_exactly(calendar: dict[str, Any], now: float) -> None:
    written = changed(LATENCY_SPEC, {"arrival": {"calendar": calendar}})
    spec = to_queue_spec(parse_queue(queue("LatencyQueue", written)), now)
    assert spec.burst is None
    assert isinstance(spec.arrival, Schedule)
    assert spec.lead_time
    status = promise_to_status(spec)
    assert len(str(status)) < 2000
    assert promise_from_status(status | {"admissionOrder": 3}) == spec


bursts = st.builds(Burst, resources.filter(bool), seconds, seconds)
arrivals = (
    st.builds(Periodic, seconds, st.none() | times, st.integers(0, 100).map(float))
    | st.builds(Sporadic, seconds)
    | st.builds(Schedule, st.lists(st.builds(ScheduledBurst, times, bursts), min_size=1, max_size=4).map(tuple))
)


specs = st.builds(
    QueueSpec,
    name=st.just("a/b"),
    kind=st.sampled_from(QueueKind),
    order=times.map(lambda created: (created, "a/b")),
    weight=st.integers(1, 10**6).map(float),
    burst=st.none() | bursts,
    arrival=st.none() | arrivals,
    limits=resources,
    suspended=st.booleans(),
)


@given(spec=specs)
def test_a_promise_survives_the_status_exactly(spec: QueueSpec) -> None:
    assert promise_from_status(promise_to_status(spec) | {"admissionOrder": 3}) == spec


def test_what_pods_add_to_a_promise_is_left_out_where_it_is_less_than_a_unit() -> None:
    """Pods that request a part of a byte made a promise that the status cannot hold, as fuzzed objects found."""
    burst = Burst({"cpu": 4.0, "memory": 0.25}, 20.0, 20.0)
    written = promise_to_status(QueueSpec("a/b", QueueKind.LATENCY, (0.0, "a/b"), 1.0, burst, Sporadic(60.0)))
    assert written["burst"]["resources"] == {"cpu": "4"}
    assert promise_from_status(written).burst == Burst({"cpu": 4.0}, 20.0, 20.0)


def test_a_promise_that_cannot_be_written_exactly_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"expected a whole number as weight, found 1\.5"):
        promise_to_status(QueueSpec("a/b", QueueKind.THROUGHPUT, (0.0, "a/b"), weight=1.5))


@pytest.mark.parametrize("promise", [{}, {"kind": "Latency"}, {"kind": "Latency", "name": "a/b", "created": 5, "weight": 1}])
def test_a_damaged_promise_is_named(promise: dict[str, Any]) -> None:
    with pytest.raises(InvalidQueueError, match=r"status\.promise\."):
        promise_from_status(promise)


def test_a_full_status_is_written_and_read_back() -> None:
    assert parse_status({"status": to_status(full_status())}) == full_status()
    assert unset_fields(full_status(), "status") == []


def unset_fields(value: object, path: str) -> list[str]:
    """Fields of the status, at any depth outside the promised spec, that the example leaves out."""
    if isinstance(value, list):
        return [name for item in value for name in unset_fields(item, f"{path}[]")]
    if not isinstance(value, KubeModel) or isinstance(value, SpecModel):
        return [path] if value is None else []
    return [name for field, below in value for name in unset_fields(below, f"{path}.{field}")]


def test_an_absent_status_is_empty_and_a_damaged_one_is_named() -> None:
    assert to_status(parse_status({})) == {}
    with pytest.raises(InvalidQueueError, match=r"status\.window\.index: expected a valid integer, found 'x'"):
        parse_status({"status": {"window": {"state": "Open", "index": "x", "armsAt": "2026-01-01T00:00:00Z"}}})
