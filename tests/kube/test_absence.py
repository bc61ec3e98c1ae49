"""Work that ran while no process watched: the replica that takes over sees it and charges it to open windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairburst.kube.api.objects import Pod
from fairburst.kube.names import LANE_CLASSES
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces
from fairburst.kube.rounds.absence import CREATION_STEP_SECONDS, charge_absence, open_in_time
from fairburst.kube.times import to_text
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.usage.recent_use import KEPT_SECONDS, RecentUse
from fairburst.policy.decide import decide
from fairburst.policy.model import Memory, Periodic, PolicyConfig, QueueMemory, QueueSpec, Sporadic, WindowState
from tests.support.objects import pod, requesting
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

    def taken_over(self, memory: Memory, at: float, *, created: float, since: float, wants: float = 8.0) -> Memory:
        """The next leader's first round."""
        read = Memory(dict(memory.queues), memory.next_admission_order)
        given = snapshot((BATCH, self.queue), [CAPACITY], [[100.0], [wants]], [[CAPACITY], [0.0]])
        given = replace(given, oldest_work={1: START + created})
        in_time = open_in_time(read, given, PolicyConfig(), START + since, START + at)
        return decide(given, charge_absence(in_time, given, using(0.0), history(), START + at, NOW + at), PolicyConfig(), START + at)[1]

    def window(self, memory: Memory) -> tuple[WindowState, float | None]:
        window = memory.queues["l/q"].window
        assert window is not None
        return window.state, None if window.opened is None else window.opened - START

    def test_it_opens_when_its_work_came(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 10, created=3, since=2)) == (WindowState.OPEN, 3 + CREATION_STEP_SECONDS)

    def test_the_account_is_that_of_a_leader_that_was_never_away(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        watched = round_(round_(armed, 4, 4, 0, self.queue), 6, 4, 4, self.queue)
        read = Memory(dict(armed.queues), armed.next_admission_order)
        given = snapshot((BATCH, self.queue), [CAPACITY], [[100.0], [4.0]], [[CAPACITY - 4], [4.0]])
        given = replace(given, oldest_work={1: START + 3})
        in_time = open_in_time(read, given, PolicyConfig(), START + 2, START + 12)
        charged = charge_absence(in_time, given, using(4.0), history((6, None, bound("4"))), START + 12, NOW + 12)
        found, want = decide(given, charged, PolicyConfig(), START + 12)[1], round_(watched, 12, 4, 4, self.queue)
        assert self.window(found) == self.window(want)
        assert {**figures(found, 15), "window": None} == {**figures(want, 15), "window": None}

    def test_the_next_burst_in_its_own_time_makes_no_miss_of_this_one(self) -> None:
        """Opened at its discovery, the window would still run when the next work comes, and end with that work waiting."""
        opened = self.taken_over(round_(Memory(), 0, 0, 0, self.queue), 13, created=0, since=-1, wants=4.0)
        served = round_(round_(round_(opened, 14, 4, 4, self.queue), 15, 0, 0, self.queue), 21, 0, 0, self.queue)
        entry = round_(round_(served, 31, 8, 0, self.queue), 34, 8, 8, self.queue).queues["l/q"]
        assert (entry.met, entry.missed) == (1, 0)
        assert entry.window is not None
        assert entry.window.opened == START + 31

    def test_it_opens_no_earlier_than_it_may(self) -> None:
        first = round_(round_(round_(Memory(), 0, 8, 0, self.queue), 10, 0, 0, self.queue), 21, 0, 0, self.queue)
        assert self.window(first) == (WindowState.CLOSED, None)
        assert self.window(self.taken_over(first, 35, created=25, since=22)) == (WindowState.OPEN, 30)

    def test_of_work_from_before_the_absence_it_is_not_known_when_it_began_to_want_more(self) -> None:
        """A Deployment that is scaled up for each burst is as old as its queue."""
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 10, created=1, since=2)) == (WindowState.OPEN, 10)

    def test_one_that_would_be_over_opens_now(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        assert self.window(self.taken_over(armed, 60, created=3, since=2)) == (WindowState.OPEN, 60)

    def test_little_work_opens_none(self) -> None:
        armed = round_(Memory(), 0, 0, 0, self.queue)
        found = self.taken_over(armed, 10, created=3, since=2, wants=1.0)
        assert found.queues["l/q"].window == armed.queues["l/q"].window
