"""Which blocked controllers are resynced, and how often."""

from __future__ import annotations

import itertools
import math

import pytest

from fairburst.kube.enforce.controller_resync import (
    AWAITED_REACH_SECONDS,
    AWAITED_SECONDS,
    GRACE_SECONDS,
    MOST_AWAITED,
    SERVED_A_SECOND,
    STALLED_SECONDS,
    UNREACHED_SECONDS,
    ResyncPlanner,
    Room,
)
from fairburst.kube.usage.demand import Owner


def lacking(existing: int = 2, uid: str = "a", *, reached: bool = True, due: bool = False) -> Owner:
    return Owner("Job", "batch", uid, uid, wanted=5, existing=existing, requests={"cpu": 1.0}, reached=reached, due=due)


def quota(*owners: Owner, free: float, cause: object = 0, gated: bool = False) -> list[Room]:
    """One namespace whose quota has room for `free` one-cpu pods."""
    return [Room({"cpu": free}, owners, cause, gated)]


def plan(planner: ResyncPlanner, rooms: list[Room], now: float) -> tuple[list[Owner], float]:
    """Return the controllers that a planner resyncs in its one namespace, and when it looks again."""
    resynced, dues = planner.plan({"batch": rooms}, now)
    return resynced, min((planner.due(now), *dues.values()))


def resyncs(
    planner: ResyncPlanner, until: float, *, room: bool = True, existing: int = 2, start: float = 0.0, changing: bool = True
) -> list[float]:
    """Times at which the controller is resynced if a round runs every tenth of a second; its quota's figures change in each, or never."""
    times = [start + step / 10 for step in range(round((until - start) * 10))]
    return [
        now for now in times if plan(planner, quota(lacking(existing), free=1.0 if room else 0.5, cause=now if changing else 0), now)[0]
    ]


def test_a_controller_that_creates_its_pods_by_itself_is_not_woken() -> None:
    planner = ResyncPlanner()
    for step in range(40):
        resynced, _ = plan(planner, quota(lacking(existing=step), free=1.0), step * 0.5)
        assert not resynced


def test_a_controller_that_is_merely_full_is_never_woken() -> None:
    planner = ResyncPlanner()
    assert resyncs(planner, 100.0, room=False) == []
    assert plan(planner, quota(lacking(), free=0.5), 100.0) == ([], math.inf), "nor does it make the loop turn"


def test_it_is_woken_at_once_when_its_quota_grows() -> None:
    planner = ResyncPlanner()
    resyncs(planner, 20.0, room=False)
    resynced, due = plan(planner, quota(lacking(), free=1.0), 20.0)
    assert [owner.uid for owner in resynced] == ["a"]
    assert due == math.inf, "nothing is to be done until something changes"


def test_one_that_has_just_been_refused_gets_its_grace() -> None:
    planner = ResyncPlanner()
    plan(planner, quota(lacking(), free=0.5), 10.0)
    assert plan(planner, quota(lacking(), free=1.0), 10.1) == ([], 13.0)


def test_one_whose_controller_has_still_to_count_its_ended_pods_is_not_woken_until_then() -> None:
    planner = ResyncPlanner()
    assert plan(planner, quota(lacking(due=True), free=1.0), 0.0) == ([], UNREACHED_SECONDS)
    assert plan(planner, quota(lacking(due=True), free=1.0, cause=1), 30.0) == ([], UNREACHED_SECONDS)
    (woken,), _ = plan(planner, quota(lacking(), free=1.0, cause=2), 30.1)
    assert woken.uid == "a", "it counted them and left the room"


def test_one_whose_ended_pods_are_never_counted_is_woken_like_the_others_after_a_minute() -> None:
    planner = ResyncPlanner()
    plan(planner, quota(lacking(due=True), free=1.0), 0.0)
    (woken,), _ = plan(planner, quota(lacking(due=True), free=1.0, cause=1), UNREACHED_SECONDS)
    assert woken.uid == "a"


def test_room_that_such_a_controller_will_take_wakes_no_other() -> None:
    planner, owners = ResyncPlanner(), [lacking(uid="a"), lacking(uid="b", due=True)]
    plan(planner, quota(*owners, free=0.0), 0.0)
    assert plan(planner, quota(*owners, free=3.0, cause=1), 10.0)[0] == [], "b lacks three pods"
    assert [owner.uid for owner in plan(planner, quota(*owners, free=4.0, cause=2), 10.1)[0]] == ["a"]


def test_the_jobs_that_their_controller_has_still_to_process_are_counted() -> None:
    planner = ResyncPlanner()
    plan(planner, quota(lacking(uid="a", due=True), lacking(uid="b", reached=False), lacking(uid="c"), free=0.0), 0.0)
    assert planner.unprocessed == 2
    plan(planner, quota(lacking(uid="a"), lacking(uid="b", reached=False), free=0.0), 1.0)
    assert planner.unprocessed == 1
    plan(planner, [], 2.0)
    assert planner.unprocessed == 0


def test_waking_that_does_not_help_is_repeated_ever_more_rarely() -> None:
    times = resyncs(ResyncPlanner(), 300.0)
    gaps = [round(later - earlier, 1) for earlier, later in itertools.pairwise(times)]
    assert times[0] == 3.0
    assert gaps == sorted(gaps)
    assert gaps[:3] == [2.0, 4.0, 8.0]
    assert gaps[-1] == 60.0


@pytest.mark.parametrize(
    "sent", [pytest.param(True, id="after a pause if it failed"), pytest.param(False, id="at once if it was not sent")]
)
def test_one_that_was_not_resynced_is_chosen_again_for_the_same_cause(*, sent: bool) -> None:
    planner, owner = ResyncPlanner(), lacking()
    plan(planner, quota(owner, free=0.0), 0.0)
    assert [one.uid for one in plan(planner, quota(owner, free=1.0), 10.0)[0]] == [owner.uid]
    assert plan(planner, quota(owner, free=1.0), 10.5)[0] == []
    planner.not_resynced(owner, sent=sent)
    assert ([one.uid for one in plan(planner, quota(owner, free=1.0), 11.0)[0]] == []) is sent
    assert ([one.uid for one in plan(planner, quota(owner, free=1.0), 13.0)[0]] == [owner.uid]) is sent


def test_it_begins_anew_once_waking_has_helped() -> None:
    planner = ResyncPlanner()
    resyncs(planner, 60.0)
    assert resyncs(planner, 70.0, existing=3, start=60.0)[:2] == [63.0, 65.0]


def test_one_that_has_all_its_pods_is_forgotten() -> None:
    planner = ResyncPlanner()
    resyncs(planner, 60.0)
    assert plan(planner, [], 60.0) == ([], math.inf)
    assert resyncs(planner, 66.0, start=60.0) == [63.0, 65.0]


def test_one_free_place_wakes_one_of_many_controllers() -> None:
    planner = ResyncPlanner()
    owners = [lacking(uid=uid) for uid in "abc"]
    plan(planner, quota(*owners, free=0.0), 0.0)
    resynced, _ = plan(planner, quota(*owners, free=1.0), 10.0)
    assert [owner.uid for owner in resynced] == ["a"]


def test_a_controller_that_cannot_use_the_room_hands_its_turn_on() -> None:
    planner = ResyncPlanner()
    owners = [lacking(uid=uid) for uid in "abc"]
    plan(planner, quota(*owners, free=0.0), 0.0)
    turns = [plan(planner, quota(*owners, free=1.0), 10.0 + step)[0] for step in range(3)]
    assert [[owner.uid for owner in resynced] for resynced in turns] == [["a"], ["b"], ["c"]]


def test_controllers_that_hand_the_turn_to_each_other_in_vain_are_woken_as_rarely_as_one() -> None:
    """There is room for a pod of one of them, and something else refuses it: a webhook, or a quota of another owner."""
    planner, owners, woken = ResyncPlanner(), [lacking(uid=uid) for uid in "ab"], dict[str, list[float]](a=[], b=[])
    for step in range(3_000):
        for owner in plan(planner, quota(*owners, free=1.0), step / 10)[0]:
            woken[owner.uid].append(step / 10)
    assert woken == {"a": [3.0, 13.0, 33.0, 73.0, 153.0], "b": [3.1, 13.1, 33.1, 73.1, 153.1]}


def test_no_more_controllers_are_woken_at_a_time_than_can_be_served() -> None:
    planner = ResyncPlanner()
    owners = [lacking(uid=f"{number:03}") for number in range(50)]

    def resynced(now: float) -> list[str]:
        rooms = [room for owner in owners for room in quota(owner, free=1.0)]
        return [owner.uid for owner in plan(planner, rooms, now)[0]]

    resynced(0.0)
    assert resynced(10.0) == [owner.uid for owner in owners[:MOST_AWAITED]]
    assert resynced(11.0) == [], "as long as the first ones may still answer"
    owners[0] = lacking(existing=3, uid="000")
    assert resynced(11.5) == ["020"], "one has answered: the next one's turn"


def test_a_namespace_whose_controllers_are_woken_in_vain_keeps_no_other_waiting() -> None:
    """A broken webhook refuses all pods of forty controllers, while the figures of their quota change every second."""
    planner, stuck = ResyncPlanner(), [lacking(uid=f"{number:03}") for number in range(2 * MOST_AWAITED)]
    woken = dict[str, int]()
    for now in range(200):
        rooms = {"stuck": quota(*stuck, free=float(MOST_AWAITED), cause=now)}
        if now >= 100:
            rooms["other"] = quota(lacking(uid="other"), free=1.0 if now >= 110 else 0.0, cause=now >= 110)
        for owner in planner.plan(rooms, float(now))[0]:
            woken.setdefault(owner.uid, now)
    assert 110 <= woken.get("other", math.inf) <= 110 + AWAITED_SECONDS


def test_a_wake_for_the_same_cause_is_repeated_rarely() -> None:
    """The API server may have refused the pods by a view of the quota that was behind. Nothing else would change."""
    planner = ResyncPlanner()
    assert resyncs(planner, 300.0, changing=False) == [3.0, 13.0, 33.0, 73.0, 153.0]
    assert plan(planner, quota(lacking(), free=1.0, cause="the quota has grown"), 300.0)[0]
    assert plan(planner, quota(lacking(), free=1.0, cause="the quota has grown"), 309.0) == ([], 310.0)


def test_a_wake_for_the_same_cause_comes_after_the_first_ones_of_other_controllers() -> None:
    planner, first = ResyncPlanner(), lacking(uid="first")
    others = [lacking(uid=f"{number:03}") for number in range(MOST_AWAITED)]
    plan(planner, quota(first, free=1e6), 0.0)
    assert plan(planner, quota(first, free=1e6), 5.0)[0] == [first]
    plan(planner, quota(first, *others, free=1e6), 10.0)
    assert plan(planner, quota(first, *others, free=1e6), 16.0)[0] == others


def test_how_often_controllers_find_no_room_is_counted() -> None:
    planner = ResyncPlanner()
    for now in range(20):
        plan(planner, quota(lacking(), lacking(uid="b"), free=0.5), float(now))
    assert planner.refused == 2, "once for each, however often it is looked at"
    plan(planner, quota(lacking(existing=3), lacking(uid="b"), free=0.5), 20.0)
    assert planner.refused == 3


def test_many_controllers_that_were_not_refused_are_left_alone_as_long_as_their_workers_need_to_reach_them() -> None:
    """A thousand new Jobs at once wait in the Job controller's queue: a resync of each would make the queue twice as long."""
    planner, owners = ResyncPlanner(), [lacking(uid=f"j{number}") for number in range(1_000)]
    room = quota(*owners, free=1e6)
    plan(planner, room, 0.0)
    patient = GRACE_SECONDS + (len(owners) - MOST_AWAITED) / SERVED_A_SECOND
    assert plan(planner, room, patient - 1.0)[0] == []
    assert len(plan(planner, room, patient + 1.0)[0]) == MOST_AWAITED


@pytest.mark.parametrize("lacks_pods_elsewhere", [True, False])
def test_the_queue_of_the_workers_is_as_long_as_the_controllers_that_lack_pods_now(lacks_pods_elsewhere: bool) -> None:
    """Those of a namespace that lack none any more no longer count, and one that goes on lacking them counts once."""
    planner, many, one = ResyncPlanner(), [lacking(uid=f"j{number}") for number in range(1_000)], lacking(uid="one")
    planner.plan({"many": quota(*many, free=1e6), "one": quota(one, free=1.0)}, 0.0)
    planner.plan({"many": [] if not lacks_pods_elsewhere else quota(*many, free=1e6), "one": quota(one, free=1.0)}, 0.1)
    patient = GRACE_SECONDS + (len(many) - MOST_AWAITED) / SERVED_A_SECOND
    assert planner.plan({"one": quota(one, free=1.0)}, GRACE_SECONDS + 0.1)[0] == ([] if lacks_pods_elsewhere else [one])
    if lacks_pods_elsewhere:
        assert planner.plan({"one": quota(one, free=1.0)}, patient + 1.0)[0] == [one]


def test_a_job_that_its_controller_has_not_reached_is_left_alone_and_has_its_grace_from_then_on() -> None:
    planner, new = ResyncPlanner(), lacking(0, reached=False)
    assert plan(planner, quota(new, free=1.0), 0.0) == ([], UNREACHED_SECONDS)
    for now in range(1, 50):
        assert plan(planner, quota(new, free=float(now % 3), cause=now), float(now))[0] == []
    assert planner.refused == 0, "no quota has refused it"
    assert plan(planner, quota(lacking(0), free=1.0), 50.0) == ([], 50.0 + GRACE_SECONDS)
    assert len(plan(planner, quota(lacking(0), free=1.0), 50.0 + GRACE_SECONDS)[0]) == 1


def test_behind_gates_a_job_that_its_controller_has_not_reached_for_a_while_is_stalled_until_it_has() -> None:
    planner, new = ResyncPlanner(), lacking(0, reached=False)
    assert plan(planner, quota(new, free=9.0, gated=True), 0.0) == ([], AWAITED_REACH_SECONDS)
    plan(planner, quota(new, free=9.0, gated=True), AWAITED_REACH_SECONDS - 0.1)
    assert planner.stalled("batch") == {}
    assert plan(planner, quota(new, free=9.0, gated=True), AWAITED_REACH_SECONDS) == ([], UNREACHED_SECONDS)
    assert planner.stalled("batch") == {new.uid: 0}
    plan(planner, quota(lacking(0), free=9.0, gated=True), 20.0)
    assert planner.stalled("batch") == {}


def test_where_a_quota_refuses_pods_such_a_job_keeps_its_part() -> None:
    """To lend it and to take it back again is a write for each change, on a control plane that is behind."""
    planner, new = ResyncPlanner(), lacking(0, reached=False)
    for now in (0.0, AWAITED_REACH_SECONDS, UNREACHED_SECONDS - 1):
        plan(planner, quota(new, free=9.0), now)
    assert planner.stalled("batch") == {}


def test_a_job_that_is_not_reached_yet_keeps_no_room_from_one_that_was_refused() -> None:
    planner, new, old = ResyncPlanner(), lacking(0, "a", reached=False), lacking(2, "b")
    plan(planner, quota(new, old, free=0.0), 0.0)
    assert plan(planner, quota(new, old, free=1.0, cause=1), 20.0)[0] == [old]


def test_one_that_seems_never_to_be_reached_is_woken_after_a_minute() -> None:
    planner, new = ResyncPlanner(), lacking(0, reached=False)
    plan(planner, quota(new, free=1.0), 0.0)
    assert plan(planner, quota(new, free=1.0), UNREACHED_SECONDS)[0] == [new]


def test_where_starts_are_noted_one_that_was_never_reached_is_not_woken_however_long_that_takes_but_lends_its_part() -> None:
    """15,000 Jobs at once: the Job controller came to the last of them after a quarter of an hour. 8,146 of them were woken before."""
    planner, new = ResyncPlanner(), lacking(0, reached=False)
    planner.starts_are_noted = True
    lent_at = UNREACHED_SECONDS + STALLED_SECONDS
    assert plan(planner, quota(new, free=1.0), 0.0) == ([], lent_at)
    plan(planner, quota(new, free=1.0), lent_at - 0.1)
    assert planner.stalled("batch") == {}
    assert plan(planner, quota(new, free=1.0), lent_at) == ([], math.inf)
    assert planner.stalled("batch") == {new.uid: 0}
    assert plan(planner, quota(new, free=1.0), 900.0) == ([], math.inf)
    assert plan(planner, quota(lacking(0), free=1.0), 901.0) == ([], 901.0 + GRACE_SECONDS)
    assert planner.stalled("batch") == {}


def test_those_that_were_refused_are_woken_however_many_lack_pods() -> None:
    planner, owners = ResyncPlanner(), [lacking(uid=f"j{number}") for number in range(1_000)]
    plan(planner, quota(*owners, free=0.0), 0.0)
    assert len(plan(planner, quota(*owners, free=1e6, cause=1), GRACE_SECONDS + 1.0)[0]) == MOST_AWAITED


def test_the_pause_after_failed_resyncs_ends_with_the_failures() -> None:
    """The API server has failed all writes for a while. The pause would last up to a minute."""
    planner, now = ResyncPlanner(), 0.0
    resyncs(planner, 20.0, room=False)
    for now in range(20, 80):
        for owner in plan(planner, quota(lacking(), free=1.0, cause=now), float(now))[0]:
            planner.not_resynced(owner, True)
    assert plan(planner, quota(lacking(), free=1.0, cause=80), 80.0)[0] == [], "it waits"
    assert planner.pardon() == ["batch"]
    assert [owner.uid for owner in plan(planner, quota(lacking(), free=1.0, cause=80), 80.0)[0]] == ["a"]
    assert planner.pardon() == []


def test_a_controller_that_creates_nothing_after_several_resyncs_is_stalled_until_its_pods_change() -> None:
    planner = ResyncPlanner()
    assert resyncs(planner, GRACE_SECONDS + STALLED_SECONDS)
    assert planner.stalled("batch") == {}
    resyncs(planner, 120.0, start=GRACE_SECONDS + STALLED_SECONDS)
    assert planner.stalled("batch") == {"a": 2}
    plan(planner, quota(lacking(), free=0.5), 60.0)
    assert planner.stalled("batch") == {"a": 2}, "that others take the room says nothing new about it"
    plan(planner, quota(lacking(existing=3), free=1.0), 60.1)
    assert planner.stalled("batch") == {}


def test_a_controller_whose_room_comes_and_goes_is_not_stalled() -> None:
    planner = ResyncPlanner()
    for start in range(0, 200, 10):
        resyncs(planner, start + 9.0, start=start)
        plan(planner, quota(lacking(), free=0.5), start + 9.5)
        assert planner.stalled("batch") == {}


def test_resyncs_that_were_not_stored_stall_no_controller() -> None:
    planner = ResyncPlanner()
    for second in range(200):
        resynced, _ = plan(planner, quota(lacking(), free=1.0), float(second))
        for owner in resynced:
            planner.not_resynced(owner, sent=True)
    assert planner.stalled("batch") == {}
