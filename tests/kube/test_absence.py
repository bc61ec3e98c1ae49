"""Work that ran while no process watched: the replica that takes over sees it and charges it to open windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fairburst.kube.api.objects import Pod
from fairburst.kube.containment import Containment
from fairburst.kube.names import LANE_CLASSES
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces
from fairburst.kube.rounds.absence import CREATION_STEP_SECONDS, MOST_TIMES, Absence, charge_absence, unseen_work
from fairburst.kube.shadow import ObservingEngine
from fairburst.kube.times import to_text
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.recent_use import KEPT_SECONDS, RecentUse
from fairburst.policy.decide import decide
from fairburst.policy.model import EventKind, Memory, Periodic, PolicyConfig, QueueMemory, QueueSpec, Sporadic, WindowState
from tests.support.objects import World, job, latency_spec, pod, requesting
from tests.support.policy import START, latency, snapshot, throughput

NOW = 1000.0  # monotonic; START is the wall's time then
CAPACITY = 16.0
BATCH = throughput("t/q")


def bound(cpu: str = "2", namespace: str = "l", since: str | None = None) -> Pod:
    made = pod(namespace, "p", requesting(cpu, "1Gi"), node="node-0", phase="Running")
    made.status.start_time = since
    return made


def history(*changes: tuple[float, Pod | None, Pod | None], watched_from: float = -100.0) -> RecentUse:
    """Changes of pods at so many seconds after START; those before `watched_from` are a first list's."""
    recent = RecentUse()
    for at, old, new in changes:
        if at >= watched_from:
            recent.watch_from(NOW + watched_from)
        recent.pod_changed(old, new, START + at, NOW + at)
    recent.watch_from(NOW + watched_from)
    return recent


def using(cpu: float) -> PodIndex:
    """Return the pods of namespace l now."""
    return PodIndex.rebuilt(("cpu",), [bound(f"{cpu:g}")] if cpu else [])


def pieces(
    recent: RecentUse, begin: float, end: float, used: float = 0.0, spaces: Spaces = UNDIVIDED
) -> list[tuple[float, float | None, bool]]:
    """From `begin` to now, which is `end`, in order."""
    found = recent.pieces("l", spaces, ("cpu",), np.array([used]), NOW + begin, NOW + end, NOW + end)
    return [(seconds, None if usage is None else float(usage[0]), seen) for seconds, usage, seen in found][::-1]


class TestRecentUse:
    def test_what_was_bound_and_has_ended_is_remembered_with_its_times(self) -> None:
        recent = history((10, None, bound()), (20, bound(), None))
        assert pieces(recent, 0, 30) == [(10, 0.0, True), (10, 2.0, True), (10, 0.0, True)]

    def test_a_pod_counts_from_its_binding_and_no_longer_than_to_its_end(self) -> None:
        waiting, ended = pod("l", "p", requesting("2", "1Gi")), bound()
        ended.status.phase = "Succeeded"
        recent = history((1, None, waiting), (10, waiting, bound()), (15, bound(), bound()), (20, bound(), ended), (25, ended, None))
        assert pieces(recent, 0, 30) == [(10, 0.0, True), (10, 2.0, True), (10, 0.0, True)]

    def test_pods_of_other_namespaces_of_the_system_and_those_that_never_ran_do_not_count(self) -> None:
        system, waiting = bound(), pod("l", "p", requesting("2", "1Gi"))
        system.spec.priority_class_name = "system-node-critical"
        recent = history((10, None, bound(namespace="m")), (10, None, system), (11, None, waiting), (12, waiting, None))
        assert pieces(recent, 0, 30) == [(30, 0.0, True)]

    def test_pods_of_another_queue_of_the_namespace_do_not_count(self) -> None:
        nightly = bound()
        nightly.spec.priority_class_name = LANE_CLASSES[3]
        recent = history((10, None, bound()), (10, None, nightly), (20, bound(), None), (25, nightly, None))
        lanes = Spaces({"l": {"nightly": 3}})
        assert pieces(recent, 0, 30, spaces=lanes) == [(10, 0.0, True), (10, 2.0, True), (10, 0.0, True)]
        assert pieces(recent, 0, 30) == [(10, 0.0, True), (10, 4.0, True), (5, 2.0, True), (5, 0.0, True)], "without lanes all are its own"

    def test_a_new_process_knows_since_when_the_pods_run_that_it_finds(self) -> None:
        """Before its first list it may have missed others."""
        found = bound(since=to_text(START - 8))
        assert pieces(history((0, None, found), watched_from=0.5), -20, 5, used=2.0) == [
            (12, 0.0, False),
            (8.5, 2.0, False),
            (4.5, 2.0, True),
        ]

    @pytest.mark.parametrize("text", [None, "soon", ""])
    def test_a_pod_that_does_not_say_since_when_it_runs_is_taken_to_have_run_all_along(self, text: str | None) -> None:
        found = bound(since=text)
        assert pieces(history((0, None, found), watched_from=0.5), -20, 5, used=2.0) == [(20.5, 2.0, False), (4.5, 2.0, True)]

    def test_a_pod_that_was_made_smaller_hides_no_other(self) -> None:
        recent = history((0, None, bound("1")), (10, None, bound("8")), (20, bound("8"), bound("1")), (25, bound("1"), None))
        want = [(5, 1.0, True), (10, 9.0, True), (5, 2.0, True), (5, 1.0, True)]
        assert pieces(recent, 5, 30, used=1.0) == want

    def test_a_process_that_has_lost_its_watch_does_not_know_when_the_pods_ended_that_it_had_seen(self) -> None:
        recent = history((0, None, bound()), (5, None, bound("1")))
        recent.watch_lost()
        recent.pod_changed(bound(), None, START + 30, NOW + 30)
        recent.pod_changed(None, bound("4", since=to_text(START + 20)), START + 30, NOW + 30)
        recent.watch_from(NOW + 30)
        assert pieces(recent, 10, 35, used=5.0) == [(10, 1.0, False), (10, 5.0, False), (5, 5.0, True)]

    def test_what_was_longer_ago_is_not_known(self) -> None:
        recent = history((0, None, bound()), (100, bound(), None), (100 + KEPT_SECONDS, None, bound()))
        assert len(recent._changes) == 2
        want = [(100, None, False), (10, None, False), (KEPT_SECONDS - 10, 0.0, True), (10, 2.0, True)]
        assert pieces(recent, 0, 110 + KEPT_SECONDS, used=2.0) == want


def round_(memory: Memory, at: float, wants: float, uses: float, queue: QueueSpec) -> Memory:
    given = snapshot((BATCH, queue), [CAPACITY], [[100.0], [wants]], [[CAPACITY - uses], [uses]])
    return decide(given, memory, PolicyConfig(), START + at)[1]


def after_absence(memory: Memory, recent: RecentUse, at: float, wants: float, uses: float, queue: QueueSpec) -> Memory:
    """The next leader's first round."""
    read = Memory(dict(memory.queues), memory.next_admission_order)
    given = snapshot((BATCH, queue), [CAPACITY], [[100.0], [wants]], [[CAPACITY - uses], [uses]])
    return decide(given, charge_absence(read, given, using(uses), recent, START + at, NOW + at), PolicyConfig(), START + at)[1]


def figures(memory: Memory, at: float) -> dict[str, Any]:
    """The remembered use of the queue, as of one moment."""
    entry, since = memory.queues["l/q"], START + at
    ahead = since - entry.ledger_as_of
    return {
        "window": entry.window,
        "ledger": pytest.approx(entry.ledger(since), abs=1e-9),
        "delivered": pytest.approx(entry.delivered_value + entry.delivered_rate * ahead, abs=1e-9),
        "received": {name: pytest.approx(value + rate * ahead, abs=1e-9) for name, (value, rate) in entry.received.items()},
        "counted": (entry.bursts, entry.met, entry.missed),
    }


class TestChargeAbsence:
    """The replica that takes over has the accounts of a leader that was never away."""

    queue = latency("l/q", 1.0, [8.0], 10, Sporadic(100), deadline=20)  # at most 4 cpu at once are guaranteed

    def test_a_burst_that_began_and_ended_meanwhile_is_charged(self) -> None:
        opened = round_(Memory(), 0, 4, 0, self.queue)
        watched = round_(round_(opened, 2, 4, 4, self.queue), 9, 0, 0, self.queue)
        ran = history((2, None, bound("4")), (9, bound("4"), None))
        assert figures(after_absence(opened, ran, 10, 0, 0, self.queue), 12) == figures(round_(watched, 10, 0, 0, self.queue), 12)

    def test_one_that_still_runs_is_charged_from_its_binding(self) -> None:
        opened = round_(Memory(), 0, 4, 0, self.queue)
        watched = round_(opened, 2, 4, 4, self.queue)
        found = bound("4", since=to_text(START + 2))
        for ran in (history((2, None, bound("4"))), history((9, None, found), watched_from=9.5)):
            assert figures(after_absence(opened, ran, 10, 4, 4, self.queue), 12) == figures(round_(watched, 10, 4, 4, self.queue), 12)

    def test_pods_that_ended_meanwhile_are_charged_no_longer(self) -> None:
        running = round_(round_(Memory(), 0, 4, 0, self.queue), 2, 4, 4, self.queue)
        watched = round_(running, 5, 0, 0, self.queue)
        ran = history((2, None, bound("4")), (5, bound("4"), None))
        assert figures(after_absence(running, ran, 10, 0, 0, self.queue), 12) == figures(round_(watched, 10, 0, 0, self.queue), 12)

    def test_a_process_that_has_seen_nothing_of_it_goes_on_with_the_last_rate(self) -> None:
        running = round_(round_(Memory(), 0, 4, 0, self.queue), 2, 4, 4, self.queue)
        entry = after_absence(running, history(watched_from=10.0), 10, 0, 0, self.queue).queues["l/q"]
        assert entry.delivered_value == pytest.approx(4 / CAPACITY * 8)

    def test_use_after_the_deadline_does_not_count_for_the_burst(self) -> None:
        opened = round_(Memory(), 0, 8, 0, self.queue)
        ran = history((19, None, bound("4")))
        entry = after_absence(opened, ran, 40, 8, 4, self.queue).queues["l/q"]
        assert (entry.met, entry.missed) == (0, 1)

    def test_spare_is_not_charged(self) -> None:
        """More than the guaranteed rate ran. A leader would have given the rest as spare."""
        opened = round_(Memory(), 0, 8, 0, self.queue)
        read = Memory(dict(opened.queues), opened.next_admission_order)
        given = snapshot((BATCH, self.queue), [CAPACITY], [[100.0], [8.0]], [[8.0], [8.0]])
        entry = charge_absence(read, given, using(8.0), history((2, None, bound("8"))), START + 10, NOW + 10).queues["l/q"]
        assert entry.ledger(START + 10) == pytest.approx(4 / CAPACITY * 8)
        assert entry.delivered_value == pytest.approx(8 / CAPACITY * 8)

    def test_a_window_that_should_have_opened_is_charged_from_its_opening(self) -> None:
        queue = latency("l/q", 1.0, [8.0], 10, Periodic(100, first_arrival=START + 5), deadline=20)
        closed = round_(Memory(), 0, 0, 0, queue)
        watched = round_(round_(closed, 5, 4, 0, queue), 6, 4, 4, queue)
        ran = history((6, None, bound("4")))
        found = after_absence(closed, ran, 12, 4, 4, queue)
        assert found.queues["l/q"].window is not None
        assert found.queues["l/q"].window.opened == START + 5
        assert figures(found, 15) == figures(round_(watched, 12, 4, 4, queue), 15)

    def test_nothing_else_changes(self) -> None:
        """Batch queues, and latency queues outside their windows."""
        memory = round_(Memory(), 0, 0, 0, self.queue)
        read = Memory(dict(memory.queues), memory.next_admission_order)
        given = snapshot((BATCH, self.queue), [CAPACITY], [[100.0], [1.0]], [[8.0], [1.0]])
        assert charge_absence(read, given, using(1.0), history((2, None, bound("1"))), START + 10, NOW + 10) is read

    def test_a_resource_that_no_node_offers_and_no_burst_declares_is_charged_nothing(self) -> None:
        """One that the configuration counts from now on: a GPU before the first node with one. The account was no number then."""
        opened = round_(Memory(), 0, 4, 0, self.queue)
        read = Memory(dict(opened.queues), opened.next_admission_order)
        given = snapshot((BATCH, self.queue), [CAPACITY, 0.0], [[100.0, 0.0], [4.0, 0.0]], [[12.0, 0.0], [4.0, 0.0]])
        entry = charge_absence(read, given, using(4.0), history((2, None, bound("4"))), START + 10, NOW + 10).queues["l/q"]
        assert entry.ledger(START + 10) == pytest.approx(4 / CAPACITY * 8)
        assert entry.received["memory"] == (0.0, 0.0)

    @pytest.mark.parametrize("state", [WindowState.OPEN, WindowState.OVERDUE])
    def test_accounts_of_the_future_are_left_alone(self, state: WindowState) -> None:
        opened = round_(Memory(), 0, 4, 0, self.queue)
        entry = opened.queues["l/q"]
        assert entry.window is not None
        ahead: QueueMemory = replace(entry, ledger_as_of=START + 60, window=replace(entry.window, state=state, deadline=START + 80))
        read = Memory({**opened.queues, "l/q": ahead}, opened.next_admission_order)
        given = snapshot((BATCH, self.queue), [CAPACITY], [[100.0], [4.0]], [[8.0], [4.0]])
        assert charge_absence(read, given, using(4.0), history((2, None, bound("4"))), START + 10, NOW + 10) is read


class TestOpenInTime:
    """A window opens when its work came, where no process looked then."""

    queue = latency("l/q", 1.0, [8.0], 10, Sporadic(30), deadline=20)  # at most 4 cpu at once are guaranteed

    def taken_over(
        self, memory: Memory, at: float, *created: float, since: float, wants: float = 8.0, uses: float = 0.0,
        queue: QueueSpec | None = None, recent: RecentUse | None = None, missed: list[str] | None = None,
    ) -> Memory:  # fmt: skip
        """The next leader's first round."""
        read = Memory(dict(memory.queues), memory.next_admission_order)
        given = snapshot((BATCH, queue or self.queue), [CAPACITY], [[100.0], [wants]], [[CAPACITY - uses], [uses]])
        times = sorted(START + time for time in created)
        given = replace(given, oldest_work={1: times[0]} if times else {})
        absence = Absence(Containment())
        absence.begin(recent or history())
        absence.since = NOW + since
        found, given = absence.make_up(
            read, given, lambda row: times if row == 1 and times else None, using(uses),
            PolicyConfig(), START + at, NOW + at,
        )  # fmt: skip
        result, after = decide(given, found, PolicyConfig(), START + at)
        if missed is not None:
            missed += [one.message for one in result.events if one.kind is EventKind.BURST_MISSED]
        return after

    def window(self, memory: Memory) -> tuple[WindowState, float | None]:
        window = memory.queues["l/q"].window
        assert window is not None
        return window.state, None if window.opened is None else window.opened - START

    def test_it_opens_when_its_work_came(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 10, 3, since=2)) == (WindowState.OPEN, 3 + CREATION_STEP_SECONDS)

    def test_the_account_is_that_of_a_leader_that_was_never_away(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        watched = round_(round_(armed, 4, 4, 0, self.queue), 6, 4, 4, self.queue)
        ran = history((6, None, bound("4")))
        found = self.taken_over(armed, 12, 3, since=2, wants=4.0, uses=4.0, recent=ran)
        want = round_(watched, 12, 4, 4, self.queue)
        assert self.window(found) == self.window(want)
        assert {**figures(found, 15), "window": None} == {**figures(want, 15), "window": None}

    def test_the_next_burst_in_its_own_time_makes_no_miss_of_this_one(self) -> None:
        """Opened at its discovery, the window would still run when the next work comes, and end with that work waiting."""
        opened = self.taken_over(round_(Memory(), 0, 0, 0, self.queue), 13, 0, since=-1, wants=4.0)
        served = round_(round_(round_(opened, 14, 4, 4, self.queue), 15, 0, 0, self.queue), 21, 0, 0, self.queue)
        entry = round_(round_(served, 31, 8, 0, self.queue), 34, 8, 8, self.queue).queues["l/q"]
        assert (entry.met, entry.missed) == (1, 0)
        assert entry.window is not None
        assert entry.window.opened == START + 31

    def test_it_opens_no_earlier_than_it_may(self) -> None:
        first = round_(round_(round_(Memory(), 0, 8, 0, self.queue), 10, 0, 0, self.queue), 21, 0, 0, self.queue)
        assert self.window(first) == (WindowState.CLOSED, None)
        assert self.window(self.taken_over(first, 35, 25, since=22)) == (WindowState.OPEN, 30)

    def test_of_work_from_before_the_absence_it_is_not_known_when_it_began_to_want_more(self) -> None:
        """A Deployment that is scaled up for each burst is as old as its queue."""
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 10, 1, since=2)) == (WindowState.OPEN, 10)

    def test_little_work_opens_none(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        found = self.taken_over(armed, 10, 3, since=2, wants=1.0)
        assert found.queues["l/q"].window == armed.queues["l/q"].window

    # Bursts that were late before a process saw them count as missed, once.

    dated = latency("l/q", 1.0, [8.0], 10, Periodic(30, first_arrival=START + 5), deadline=20)
    floating = latency("l/q", 1.0, [8.0], 10, Periodic(30), deadline=20)

    def counted(self, memory: Memory) -> tuple[int, int, int]:
        entry = memory.queues["l/q"]
        return entry.bursts, entry.met, entry.missed

    def test_it_is_missed_and_owed_its_demand_until_the_next_window_arms(self) -> None:
        armed, missed = round_(Memory(), 0, 0, 0, self.queue), list[str]()
        found = self.taken_over(armed, 27, 3, since=2, missed=missed)
        assert self.window(found) == (WindowState.OVERDUE, 4)
        assert self.counted(found) == (1, 0, 1)
        assert missed == ["Burst 0 was not served by its deadline: its work came while no operator looked."]
        assert self.window(round_(found, 34, 8, 4, self.queue)) == (WindowState.OPEN, 34), "the next one is in its own time"

    def test_each_of_several_is_missed(self) -> None:
        armed, missed = round_(Memory(), 0, 0, 0, self.queue), list[str]()
        found = self.taken_over(armed, 100, 3, 33, 63, 93, since=2, missed=missed)
        assert self.window(found) == (WindowState.OPEN, 94)
        assert self.counted(found) == (3, 0, 3)
        assert len(missed) == 3

    def test_work_of_one_burst_is_one_miss(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.counted(self.taken_over(armed, 30, 3, 4, 10, 22, since=2)) == (1, 0, 1)

    def test_what_is_left_of_it_has_a_window_and_is_not_counted_again(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        found = self.taken_over(armed, 60, 3, since=2)
        assert self.window(found) == (WindowState.OPEN, 60)
        assert self.counted(found) == (1, 0, 1)
        served = round_(round_(found, 61, 8, 8, self.queue), 71, 0, 0, self.queue)
        assert self.counted(round_(served, 81, 0, 0, self.queue)) == (1, 0, 1)
        again = round_(round_(served, 95, 8, 8, self.queue), 106, 0, 0, self.queue)
        assert self.counted(again) == (2, 1, 1), "the next one counts as always"

    @pytest.mark.parametrize(("at", "created", "want", "counts"), [
        pytest.param(30, (4,), (WindowState.OVERDUE, 5), (1, 0, 1), id="one is over"),
        pytest.param(90, (34,), (WindowState.CLOSED, None), (1, 0, 1), id="two are over, and work came for the second"),
        pytest.param(97, (4, 34, 65), (WindowState.OPEN, 95), (3, 0, 3), id="three are over and the fourth runs"),
        pytest.param(97, (27,), (WindowState.OPEN, 95), (1, 0, 1), id="work that came before its window"),
        pytest.param(97, (95,), (WindowState.OPEN, 95), (0, 0, 0), id="only the window that runs"),
    ])  # fmt: skip
    def test_windows_at_given_times_are_missed_if_work_came_for_them(
        self, at: float, created: tuple[float, ...], want: tuple[WindowState, float | None], counts: tuple[int, int, int]
    ) -> None:
        closed = round_(Memory(), 0, 0, 0, self.dated)
        found = self.taken_over(closed, at, *created, since=1, queue=self.dated)
        assert self.counted(found) == counts
        state, opened = self.window(found)
        assert (state, opened) == want or (want[0] is WindowState.CLOSED and state in {WindowState.CLOSED, WindowState.OVERDUE})

    def test_the_phase_of_a_queue_without_dates_is_that_of_its_unseen_bursts(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.floating)
        found = self.taken_over(armed, 70, 3, 34, 64, since=2, queue=self.floating)
        assert self.window(found) == (WindowState.OPEN, 64)
        assert self.counted(found) == (2, 0, 2)

    def test_work_from_before_the_absence_is_that_of_the_window_that_was_open(self) -> None:
        opened = round_(Memory(), 0, 8, 0, self.queue)
        found = self.taken_over(opened, 45, -1, 31, since=2)
        assert self.window(found) == (WindowState.OPEN, 32)
        assert self.counted(found) == (1, 0, 1)

    def test_windows_are_as_far_apart_as_promised(self) -> None:
        """A tenant may start suspended Jobs late, so that they look older than their demand: no window opens earlier than its next one."""
        armed = round_(Memory(), 0, 0, 0, self.queue)
        found, openings = self.taken_over(armed, 50, 3, 5, 30, 49, since=2), [4.0]
        for at in range(50, 120):
            found = round_(found, at, 100, 4, self.queue)
            _, opened = self.window(found)
            openings += [] if opened is None or opened == openings[-1] else [opened]
        assert openings == [4, 34, 64, 94]

    def test_work_of_unknown_age_opens_its_window_when_it_is_seen(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 27, since=2)) == (WindowState.OPEN, 27)

    def test_a_clock_that_is_behind_makes_nothing_late(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 27, 3600, 3630, since=2)) == (WindowState.OPEN, 27)

    def test_use_of_a_window_that_was_open_does_not_serve_the_later_ones(self) -> None:
        """Its pods ended at an unknown time. Taken to run on, they would have delivered every later burst."""
        running = round_(round_(Memory(), 0, 4, 0, self.queue), 2, 4, 4, self.queue)
        blind = history((2, None, bound("4")))
        blind.watch_lost()
        blind.pod_changed(bound("4"), None, START + 98, NOW + 98)
        found = self.taken_over(running, 98, 33, 63, since=2, recent=blind)
        assert self.counted(found) == (3, 1, 2)
        assert found.queues["l/q"].delivered_rate == 0


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([(job("burst", "work", 8), 20)], ("Open", 0, 1), id="a Job that is late"),
        pytest.param([(pod("burst", f"bare-{one}"), 20) for one in range(8)], ("Open", 0, 1), id="pods without a controller"),
        pytest.param(
            [(pod("burst", f"spark-{one}", owner=("SparkApplication", "s")), 20) for one in range(8)], ("Open", 0, 0),
            id="of pods of unknown controllers it is not known",
        ),
        pytest.param([(job("burst", "old", 1), -100), (job("burst", "work", 8), 20)], ("Open", 0, 0), id="nor beside older work"),
        pytest.param([(job("burst", "work", 8), 95)], ("Open", 0, 0), id="a Job that has time left"),
        pytest.param([], ("Armed", 0, 0), id="none came"),
    ],
)  # fmt: skip
def test_a_new_leader_counts_bursts_that_were_late_before_it_looked(things: list[tuple[Any, float]], want: tuple[str, int, int]) -> None:
    world = World("smallJobs: {enabled: false}")
    world.queue("LatencyQueue", "burst", spec=latency_spec("8", 20, 60))
    world.settle(10.0)
    world.engine = ObservingEngine(world.config, world.config.namespace)
    world.engine.absence.begin(RecentUse())
    world.engine.absence.since = world.now
    began = world.wall
    world.after(100.0)
    for thing, at in things:
        metadata = msgspec.structs.replace(thing.metadata, creation_timestamp=to_text(float(round(began + at))))
        made = msgspec.structs.replace(thing, metadata=metadata)
        world.put(made) if isinstance(made, Pod) else world.controller("Job", None, made)
    plan = world.round()
    entry = world.engine.memory.entry("burst/queue")
    assert entry.window is not None
    assert (entry.window.state.value, entry.met, entry.missed) == want
    history = world.status("burst", kind="LatencyQueue").get("history") or {}
    assert history.get("missed", 0) == want[2]
    assert [one.kind for _, one in plan.events if one.kind is EventKind.BURST_MISSED] == [EventKind.BURST_MISSED] * want[2]


def test_a_tenant_with_work_of_every_second_of_a_long_outage_delays_no_first_round() -> None:
    """Each time may open a window, and each window takes a pass over all queues."""
    queue = latency("l/q", 0.0, [1.0], 1.0, Sporadic(1.0))
    memory = decide(snapshot((queue, BATCH), [CAPACITY], [[0.0], [0.0]]), Memory(), PolicyConfig(), START)[1]
    away = 36_000.0
    given = snapshot((queue, BATCH), [CAPACITY], [[4.0], [0.0]])
    created = [START + second for second in range(1, int(away))]
    came = unseen_work(memory, given, lambda row: created if row == 0 else None, PolicyConfig(), START, START + away)
    assert came[0] == tuple(time + CREATION_STEP_SECONDS for time in created[-MOST_TIMES:])
