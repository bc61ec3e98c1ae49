"""A queue's status is the operator's memory: it is read back as written, and nothing is written twice."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.jobs.reserve import ReserveView
from fairburst.kube.queues.accounts import InternalStatus
from fairburst.kube.queues.core_values import promise_to_status
from fairburst.kube.queues.former_places import in_present_places
from fairburst.kube.queues.objects import parse_status
from fairburst.kube.queues.rules import KubeModel
from fairburst.kube.queues.statuses import QueueStatus
from fairburst.kube.usage.weekly_use import Week, WeekSums
from fairburst.kube.views import status_plan
from fairburst.kube.views.conditions import ConditionValue
from fairburst.kube.views.lead_time_view import LeadTimeView
from fairburst.kube.views.status import StatusInput, status_of
from fairburst.kube.views.status_memory import is_readable, memory_of
from fairburst.kube.views.status_plan import StatusPlanner, merge_difference
from fairburst.policy.model import (
    AdmissionDecision,
    Arrival,
    Burst,
    ConditionResult,
    GuaranteeClass,
    Periodic,
    QueueKind,
    QueueMemory,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
    Window,
    WindowState,
)
from tests.support.fake_api import merge_patch
from tests.support.objects import WALL, stored_queue
from tests.support.queues import full_status, to_status
from tests.support.status_inputs import NAME, PRIORITY, RESOURCES, latency_memory, status_input

# Times are kept to the microsecond, amounts of dominant-share-seconds to a thousandth, rates to a millionth of capacity.
times = st.integers(-3_600_000_000, 3_600_000_000).map(lambda micro: WALL + micro / 1e6)
thousandths = st.integers(0, 10**7).map(lambda milli: milli / 1000)
millionths = st.integers(0, 2 * 10**6).map(lambda micro: micro / 1e6)
seconds = st.integers(1, 10_000).map(float)
bursts = st.builds(
    Burst,
    st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(1, 10**6).map(float), min_size=1),
    seconds,
    seconds,
)
arrivals: st.SearchStrategy[Arrival] = st.one_of(
    st.builds(Periodic, seconds, st.none() | times, seconds),
    st.builds(Sporadic, seconds),
    st.lists(st.builds(ScheduledBurst, times, bursts), min_size=1, max_size=3).map(lambda some: Schedule(tuple(some))),
)
classes = st.sampled_from([*GuaranteeClass, None])
sides = st.none() | st.builds(
    ConditionResult, st.booleans(), st.integers(0, 10**5).map(float), st.integers(0, 10**5).map(float), st.just("cpu"), st.just(NAME)
)


@st.composite
def specs(draw: st.DrawFn) -> QueueSpec:
    kind = draw(st.sampled_from(QueueKind))
    latency = kind is QueueKind.LATENCY
    arrival = draw(arrivals) if latency else None
    return QueueSpec(
        name=NAME,
        kind=kind,
        order=(draw(times), NAME),
        weight=float(draw(st.integers(1, 100))),
        burst=draw(bursts) if latency and not isinstance(arrival, Schedule) else None,
        arrival=arrival,
        limits={} if latency else draw(st.dictionaries(st.just("cpu"), st.integers(1, 99).map(float))),
        suspended=draw(st.booleans()),
    )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    state = draw(st.sampled_from(WindowState))
    opened = draw(times) if state in {WindowState.OPEN, WindowState.OVERDUE} else None
    return Window(
        state=state,
        index=draw(st.integers(0, 10**6)),
        arms_at=draw(times),
        opens_by=draw(times | st.just(math.inf)),
        opened=opened,
        deadline=None if opened is None else opened + draw(seconds),
        demanded=draw(st.booleans()),
        judged=draw(st.booleans()),
        behind=draw(seconds),
    )


@st.composite
def memories(draw: st.DrawFn) -> QueueMemory:
    """Memories as `decide` leaves them at WALL: times of counters are not in the future, and only what has windows has periods."""
    promise, granted = draw(specs()), draw(classes)
    now = WALL
    memory = QueueMemory(
        promise=promise,
        guarantee_class=granted,
        admission_order=draw(st.integers(0, 10**6)),
        decision=draw(
            st.builds(AdmissionDecision, st.just(NAME), st.just(granted), st.just("Fits"), st.text(max_size=9), sides, sides, sides)
        ),
        ledger_value=draw(thousandths),
        ledger_rate=draw(millionths),
        ledger_as_of=now,
        delivered_value=draw(thousandths),
        delivered_rate=draw(millionths),
        waiting_since=draw(st.none() | times),
        unit_held_since=draw(st.none() | times),
        refused=draw(st.none() | specs()),
    )
    if promise.kind is QueueKind.THROUGHPUT and draw(st.booleans()):
        value, rate, lately = draw(thousandths), draw(millionths), draw(thousandths)
        if any((value, rate, lately)):
            memory = replace(memory, balance_value=-value, balance_rate=rate, recent_value=lately, balance_as_of=now)
    if promise.kind is QueueKind.THROUGHPUT:
        return memory
    memory = replace(memory, bursts=draw(st.integers(0, 99)), met=draw(st.integers(0, 99)), missed=draw(st.integers(0, 99)))
    if granted is None:
        return memory
    window = draw(windows())
    counted = window.state in {WindowState.OPEN, WindowState.OVERDUE}
    return replace(
        memory,
        window=window,
        received=draw(st.dictionaries(st.sampled_from(["cpu", "memory"]), st.tuples(thousandths, millionths))) if counted else {},
        period_started=draw(times),
        last_opened=draw(st.none() | times),
        debt=draw(thousandths),
        fair_value=draw(thousandths),
        fair_rate=draw(millionths),
        fair_as_of=now,
        residual_level=draw(millionths | st.just(math.inf)),
    )


def through_json(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status as the API server returns it."""
    stored: dict[str, Any] = json.loads(json.dumps(status))
    return stored


def recalled(status: dict[str, Any]) -> QueueMemory | None:
    return memory_of(stored_queue("LatencyQueue", "burst", "queue", status=through_json(status)))


class TestRoundTrip:
    """design: "Memory goes in and out as a value and is saved on the cluster, so a restart keeps every promise"."""

    @given(memories())
    def test_every_field_of_the_memory_survives(self, memory: QueueMemory) -> None:
        assert recalled(status_of(status_input(memory), {}, RESOURCES, WALL)) == memory

    def test_a_latency_queue_that_has_lost_its_guarantee_keeps_the_counts_of_its_bursts(self) -> None:
        memory = replace(latency_memory(), guarantee_class=GuaranteeClass.ELASTIC, window=None, bursts=7, met=5, missed=2)
        back = recalled(status_of(status_input(memory), {}, RESOURCES, WALL))
        assert back is not None
        assert (back.bursts, back.met, back.missed) == (7, 5, 2)

    @given(memories(), st.floats(0.0, 600.0))
    def test_counters_read_the_same_however_late_they_are_written(self, memory: QueueMemory, late: float) -> None:
        back = recalled(status_of(status_input(memory), {}, RESOURCES, WALL + late))
        assert back is not None
        for after in (late, late + 60.0):
            assert back.ledger(WALL + after) == pytest.approx(memory.ledger(WALL + after), abs=0.0006 + 1e-6 * after)

    @given(memories())
    def test_every_field_that_is_written_is_in_the_schema(self, memory: QueueMemory) -> None:
        """An unknown field would be pruned by the API server, and so be written again in every round."""
        status = through_json(status_of(status_input(memory), {}, RESOURCES, WALL))
        read = to_status(parse_status({"status": status}))
        assert _paths(dict(in_present_places(status))) <= _paths(read) | _paths({"promise": {}, "refused": {}})

    def test_every_field_of_the_schema_is_written_at_some_time(self) -> None:
        memory = replace(latency_memory(), residual_level=0.5, waiting_since=WALL, balance_value=0.5, refused=latency_memory().promise)
        reserve = ReserveView(PRIORITY, {"cpu": 3.0, "memory": 2.0**32}, 0.1, np.array([2.0, 2.0**31]), small_jobs=3, large_jobs=1)
        lead_time = LeadTimeView(None, learning=True)
        item = replace(
            status_input(memory),
            holds="Pods",
            elasticity={"jobs": 1},
            reserve=reserve,
            lead_time=lead_time,
            suggestion={"message": "None."},
            uncertainty={"bursts": 0},
            bursts_seen={"of": {}},
            shares=(0.5, 0.25, 0.0),
            week=WeekSums(WALL - 600, WALL, (1.0, 2.0, 1.0, 1.0), last=Week(WALL - 9000, 50.0, None)),
        )
        item = replace(item, decision=replace(item.decision, window=replace(memory.window, demanded=True)))  # type: ignore[arg-type, type-var]
        status = status_of(item, {}, RESOURCES, WALL)
        assert set(in_present_places(status)) == _names(QueueStatus)
        assert set(status["internal"]) == _names(InternalStatus)


def _names(model: type[KubeModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _paths(value: Any, prefix: str = "") -> set[str]:
    if isinstance(value, dict):
        return {prefix} | {path for key, inner in value.items() for path in _paths(inner, f"{prefix}.{key}")}
    return {prefix}


class TestSettled:
    """A settled cluster gets no writes."""

    @given(memories(), st.floats(0.0, 3600.0))
    def test_a_second_status_gives_no_patch_also_later_with_constant_rates(self, memory: QueueMemory, later: float) -> None:
        stored = through_json(status_of(status_input(memory), {}, RESOURCES, WALL))
        assert merge_difference(stored, status_of(status_input(memory), stored, RESOURCES, WALL + later)) == {}

    @given(memories(), memories())
    def test_the_patch_turns_what_there_is_into_what_is_wanted(self, before: QueueMemory, after: QueueMemory) -> None:
        stored = through_json(status_of(status_input(before), {}, RESOURCES, WALL))
        wanted = status_of(status_input(after), stored, RESOURCES, WALL + 1)
        assert merge_patch(stored, merge_difference(stored, wanted)) == through_json(wanted)

    def test_a_rate_that_changes_is_written(self) -> None:
        memory = replace(latency_memory(), ledger_rate=0.25)
        stored = through_json(status_of(status_input(memory), {}, RESOURCES, WALL))
        slower = replace(memory, ledger_rate=0.125, ledger_value=2.5, ledger_as_of=WALL + 10)
        patch = merge_difference(stored, status_of(status_input(slower), stored, RESOURCES, WALL + 10))
        assert patch["internal"]["ledger"] == {"valueMilliseconds": 2500, "rateMicro": 125000, "asOf": "2026-01-01T00:00:10Z"}

    def test_later_periods_of_an_idle_queue_are_not_written(self) -> None:
        memory = latency_memory()
        stored = through_json(status_of(status_input(memory), {}, RESOURCES, WALL))
        later = replace(memory, period_started=WALL + 600, fair_as_of=WALL + 600, ledger_as_of=WALL + 600)
        assert merge_difference(stored, status_of(status_input(later), stored, RESOURCES, WALL + 601)) == {}

    @pytest.mark.parametrize(
        "change", [{"ledger_value": 0.5}, {"ledger_rate": 0.5}, {"debt": 0.5}, {"fair_rate": 0.25}], ids=lambda change: next(iter(change))
    )
    def test_a_period_in_which_something_was_received_is_written(self, change: dict[str, float]) -> None:
        memory = latency_memory()
        stored = through_json(status_of(status_input(memory), {}, RESOURCES, WALL))
        busy = replace(memory, period_started=WALL + 600, fair_as_of=WALL + 600, ledger_as_of=WALL + 600, **change)
        patch = merge_difference(stored, status_of(status_input(busy), stored, RESOURCES, WALL + 601))
        assert "periodStarted" in patch["internal"]


class TestConditions:
    def test_the_transition_time_moves_only_with_the_status(self) -> None:
        memory = latency_memory()
        stored = through_json(status_of(status_input(memory), {}, RESOURCES, WALL))
        since = stored["conditions"][0]["lastTransitionTime"]
        again = status_of(status_input(memory, "Served"), stored, RESOURCES, WALL + 60)
        assert (again["conditions"][0]["reason"], again["conditions"][0]["lastTransitionTime"]) == ("Served", since)
        item = status_input(memory)
        gone = replace(item, conditions=[ConditionValue("Ready", "False", "Rejected", "no.")])
        assert status_of(gone, stored, RESOURCES, WALL + 60)["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:01:00Z"

    def test_a_queue_that_governs_nothing_keeps_only_conditions(self) -> None:
        item = status_input(latency_memory())
        stored = through_json(status_of(item, {}, RESOURCES, WALL))
        bare = StatusInput(item.entry, item.conditions)
        patch = merge_difference(stored, status_of(bare, stored, RESOURCES, WALL))
        assert merge_patch(stored, patch).keys() == {"observedGeneration", "conditions"}


class TestUnreadable:
    def test_a_queue_without_a_status_is_a_new_candidate(self) -> None:
        assert memory_of(stored_queue("LatencyQueue", "burst", "queue")) is None

    def test_whatever_stands_in_a_status_never_stops_a_round(self) -> None:
        whole = to_status(full_status())
        for path in sorted(_leaves(whole)):
            for value in (None, "", "x", -1, 10**30, 1.5, [], {}, "NaN", True, "0001-01-01T00:00:00Z"):
                broken: Any = copy.deepcopy(whole)
                part = broken
                for key in path[:-1]:
                    part = part[key]
                part[path[-1]] = value
                memory = memory_of(stored_queue("LatencyQueue", "burst", "queue", status=broken))
                assert memory is None or isinstance(memory, QueueMemory), path


def _leaves(value: Any, prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if isinstance(value, dict):
        return {prefix} - {()} | {path for key, inner in value.items() for path in _leaves(inner, (*prefix, key))}
    return {prefix}


class TestPlanner:
    def test_news_is_written_at_once_and_drift_only_now_and_then(self) -> None:
        planner, item = StatusPlanner(5.0), status_input(latency_memory())
        ((write,), due) = planner.plan([item], RESOURCES, WALL, 100.0)
        assert due == {}
        planner.written(write, 100.0)
        item.entry.obj["status"] = through_json(dict(write.patch))  # type: ignore[index]
        drifted = replace(item, usage=np.array([1.0, 0.0]))
        assert planner.plan([drifted], RESOURCES, WALL + 1, 101.0) == ([], {"burst": 105.0})
        assert len(planner.plan([drifted], RESOURCES, WALL + 5, 105.0)[0]) == 1
        news = replace(item, conditions=[ConditionValue("Ready", "False", "Rejected", "no.")])
        assert len(planner.plan([news], RESOURCES, WALL + 1, 101.0)[0]) == 1

    def test_a_new_message_under_the_same_verdict_is_drift(self) -> None:
        planner, item = StatusPlanner(5.0), status_input(latency_memory())
        ((write,), _) = planner.plan([item], RESOURCES, WALL, 100.0)
        planner.written(write, 100.0)
        item.entry.obj["status"] = through_json(dict(write.patch))  # type: ignore[index]
        reworded = replace(item, conditions=[ConditionValue("Ready", "True", "Ready", "the queue is served; 12 s.")])
        assert planner.plan([reworded], RESOURCES, WALL + 1, 101.0) == ([], {"burst": 105.0})

    @pytest.mark.parametrize("other", ["Guaranteed", None])
    def test_whether_a_deadline_can_be_met_is_a_forecast_and_drifts_unless_a_verdict_follows_it(self, other: str | None) -> None:
        """The pace at which pods are created and started moves it in the middle of each burst."""
        planner, forecast = StatusPlanner(5.0), ConditionValue("Attainable", "True", "InTime", "expected after 60 s of 60 s")
        item = replace(status_input(latency_memory()), conditions=[forecast, ConditionValue("Guaranteed", "True", "HardGuarantee", "")])
        ((write,), _) = planner.plan([item], RESOURCES, WALL, 100.0)
        planner.written(write, 100.0)
        item.entry.obj["status"] = through_json(dict(write.patch))  # type: ignore[index]
        late = ConditionValue("Attainable", "False", "TooLate", "expected after 61 s of 60 s")
        moved = [late, ConditionValue("Guaranteed", "False", "NotAttainable", "")] if other else [late, item.conditions[1]]
        writes, due = planner.plan([replace(item, conditions=moved)], RESOURCES, WALL + 1, 101.0)
        assert (len(writes), due) == ((1, {}) if other else (0, {"burst": 105.0}))

    def test_a_promise_is_put_into_words_once_and_a_status_of_our_own_is_not_checked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every queue is looked at every two minutes, and most have not changed."""
        made, checked = list[str](), list[object]()
        monkeypatch.setattr(status_plan, "promise_to_status", lambda spec: made.append(spec.name) or promise_to_status(spec))
        monkeypatch.setattr(status_plan, "is_readable", lambda obj: checked.append(obj) or is_readable(obj))
        planner, item = StatusPlanner(5.0), status_input(latency_memory())
        ((write,), _) = planner.plan([item], RESOURCES, WALL, 100.0)
        metadata = {**item.entry.obj["metadata"], "uid": item.entry.uid}
        stored = {**item.entry.obj, "metadata": metadata, "status": through_json(dict(write.status))}
        planner.written(write, 100.0, 0.0, stored)
        before, item = len(checked), replace(item, entry=replace(item.entry, obj=stored))
        assert planner.plan([item], RESOURCES, WALL + 60, 160.0)[0] == []
        assert (len(made), len(checked)) == (1, before)
        edited = replace(item, entry=replace(item.entry, obj={**stored, "status": {**stored["status"], "ledger": "odd"}}))
        planner.plan([edited], RESOURCES, WALL + 120, 220.0)
        assert (len(made), len(checked)) == (1, before + 1)

    def test_the_status_of_another_queue_of_the_name_is_checked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checked = list[object]()
        monkeypatch.setattr(status_plan, "is_readable", lambda obj: checked.append(obj) or is_readable(obj))
        planner, item = StatusPlanner(5.0), status_input(latency_memory())
        ((write,), _) = planner.plan([item], RESOURCES, WALL, 100.0)
        metadata = {**item.entry.obj["metadata"], "uid": "another"}
        stored = {**item.entry.obj, "metadata": metadata, "status": through_json(dict(write.status))}
        planner.written(write, 100.0, 0.0, stored)
        before = len(checked)
        planner.plan([replace(item, entry=replace(item.entry, obj=stored))], RESOURCES, WALL + 60, 160.0)
        assert len(checked) == before + 1

    def test_an_api_server_that_answers_slowly_gets_fewer_figures_and_then_as_many_as_before(self) -> None:
        planner = StatusPlanner(5.0)
        ((write,), _) = planner.plan([status_input(latency_memory())], RESOURCES, WALL, 100.0)
        rates = []
        for took in (*[0.01] * 20, *[0.1] * 20, *[3.0] * 20, *[0.01] * 60):
            planner.written(write, 100.0, took)
            rates.append(planner.figures_per_second)
        assert rates[19] == rates[-1] == 10.0
        assert rates[39] == pytest.approx(2.0, rel=0.05), "a fifth of the time"
        assert rates[59] == 1.0

    def test_statuses_of_which_only_figures_drift_share_a_rate_and_take_turns(self) -> None:
        planner, items = StatusPlanner(5.0, figures_per_second=2.0), [status_input(latency_memory()) for _ in range(3)]
        items = [replace(item, entry=replace(item.entry, uid=f"uid-{number}")) for number, item in enumerate(items)]
        for write in planner.plan(items, RESOURCES, WALL, 100.0)[0]:
            planner.written(write, 100.0)
            write.entry.obj["status"] = through_json(dict(write.patch))  # type: ignore[index]
        planner.plan(items, RESOURCES, WALL + 9, 109.5)
        drifted = [replace(item, usage=np.array([1.0, 0.0])) for item in items]
        written = []
        for step in range(3):
            writes, _ = planner.plan(drifted, RESOURCES, WALL + 10 + step / 2, 110.0 + step / 2)
            for write in writes:
                planner.written(write, 110.0 + step / 2)
                write.entry.obj["status"] = through_json({**write.entry.obj["status"], **write.patch})  # type: ignore[index]
            written.append([write.entry.uid for write in writes])
        assert [len(uids) for uids in written] == [1, 1, 1]
        assert len({uid for uids in written for uid in uids}) == 3

    def test_a_queue_that_is_looked_at_early_keeps_its_turn(self) -> None:
        """Otherwise two looks give several queues the same turn, and more are looked at in it than may be written."""
        planner, items = StatusPlanner(5.0, figures_per_second=2.0), [status_input(latency_memory()) for _ in range(6)]
        keys = [("ThroughputQueue", f"ns-{number}", "queue") for number in range(6)]
        items = [replace(item, entry=replace(item.entry, uid=key[1], key=key)) for item, key in zip(items, keys, strict=True)]
        for write in planner.plan(items, RESOURCES, WALL, 100.0)[0]:
            planner.written(write, 100.0)
            write.entry.obj["status"] = through_json(dict(write.patch))  # type: ignore[index]
        planner.plan(items, RESOURCES, WALL + 9, 109.5)
        drifted = [replace(item, usage=np.array([1.0, 0.0])) for item in items]
        _, turns = planner.plan(drifted, RESOURCES, WALL + 10, 110.0)
        assert turns == {"ns-1": 110.5, "ns-2": 111.0, "ns-3": 111.5, "ns-4": 112.0, "ns-5": 112.5}
        _, early = planner.plan(drifted[1:], RESOURCES, WALL + 10, 110.1)
        assert early.items() < turns.items()

    def test_what_latency_queues_have_received_waits_for_no_figures(self) -> None:
        """A take-over finds statuses at most five seconds old (docs/decisions/0041-two-replicas-one-writes.md), whatever the load."""
        planner, memory = StatusPlanner(300.0, figures_per_second=1.0), latency_memory()
        items = [status_input(memory) for _ in range(40)]
        items = [replace(item, entry=replace(item.entry, uid=f"uid-{number}")) for number, item in enumerate(items)]
        for write in planner.plan(items, RESOURCES, WALL, 100.0)[0]:
            planner.written(write, 100.0)
            write.entry.obj["status"] = through_json(dict(write.patch))  # type: ignore[index]
        receiving = replace(memory, ledger_rate=0.25, ledger_as_of=WALL)
        busy = [replace(item, memory=receiving, usage=np.array([1.0, 0.0])) for item in items]
        assert planner.plan(busy, RESOURCES, WALL + 3, 103.0) == ([], {"burst": 104.0})
        writes, _ = planner.plan(busy, RESOURCES, WALL + 4, 104.0)
        assert [write.patch["internal"]["ledger"]["valueMilliseconds"] for write in writes] == [1000] * 40
