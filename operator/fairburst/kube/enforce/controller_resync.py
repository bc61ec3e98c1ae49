"""Resync controllers that a quota has blocked. A Job that a quota refused retries only after 1 to 60 s, a ReplicaSet after up to 1,000 s.

Any change of an object makes its controller try again within a second, so a controller that lacks pods although its quota has room gets an
annotation, once. A Job that has not been processed yet is still in its workers' queue and is left alone: for as long as that takes if the
Job controller notes when it first processes a Job, as Kubernetes' own does. The objects of other kinds do not show that: one that was never
refused is left alone the longer, the more controllers lack pods. A further annotation follows when its quota has changed, and ever more
rarely if that does not help. While its quota stays the same, the API server would mostly refuse its pods again. The next annotation then
follows only after `FIRST_RETRY_SECONDS` and ever longer times, in case the API server's own view of the quota was behind.

A Job whose status still counts pods as active that have ended is in that queue, too: the Job controller looks at it without an annotation.
While the Job controller is behind, most Jobs are in it, and annotations for them would only cost writes.

A controller that creates no pod although its quota has room and it was resynced several times is stalled: it waits after failures of its
pods, up to ten minutes, or the API server refuses them for another reason than a quota. It is stalled until its number of pods changes. A
Job that has not been processed for a while, which is shorter in Gate mode, is stalled until it is.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from fairburst.kube.times import epoch, from_epoch
from fairburst.kube.usage.demand import Owner

RESYNC_ANNOTATION = "fairburst.dev/resynced-at"
STALLED_ANNOTATION = "fairburst.dev/creates-no-pods"  # the number of pods that a controller had when it was resynced although it is stalled
GRACE_SECONDS = 3.0  # a controller tries again within a second of the end of one of its pods; on a busy cluster later
SERVED_A_SECOND = 20.0  # controllers that have not been reached yet wait in their workers' queue; a resync lengthens it
AWAITED_REACH_SECONDS = 10.0  # after which one that has not been processed yet is stalled in Gate mode: others use its part meanwhile
UNREACHED_SECONDS = 60.0  # after which one that seems to be in its workers' queue is treated like the others, unless starts are noted
FIRST_REPEAT_SECONDS = 2.0
LAST_REPEAT_SECONDS = 60.0
FIRST_RETRY_SECONDS = 10.0  # for the same cause
LAST_RETRY_SECONDS = 600.0
FRUITLESS_RESYNCS = 2  # before a controller is stalled
STALLED_SECONDS = 60.0  # at least, since the first of them: a busy Job controller may take as long for its queue
# The Job controller has five workers: more resyncs at a time than it can serve only lengthen its queue.
MOST_AWAITED = 20
AWAITED_SECONDS = 5.0


def resync_annotations(owner: Owner, wall: float) -> dict[str, str | None]:
    """Return the annotations of a resync at this time, seconds since the epoch."""
    return {RESYNC_ANNOTATION: from_epoch(wall).isoformat(), STALLED_ANNOTATION: str(owner.existing) if owner.stalled else None}


def noted_stall(annotations: Mapping[str, str] | None, wall: float) -> int | None:
    """Return how many pods a controller had when it was last resynced, if it was stalled then and would have been resynced again by now."""
    text, at = ((annotations or {}).get(name, "") for name in (STALLED_ANNOTATION, RESYNC_ANNOTATION))
    with contextlib.suppress(ValueError, TypeError):  # a tenant may have written anything, such as a time without its zone
        if text.isdecimal() and wall < epoch(at) + LAST_RETRY_SECONDS + STALLED_SECONDS:
            return int(text)
    return None


@dataclass(slots=True)
class _Blocked:
    """A controller that lacks pods: its pods, since when, and its resyncs. `repeat`, `retry`: the pauses until the next resync, after the
    quota has changed and while it is the same."""

    existing: int
    reached: bool
    since: float
    next_resync: float
    repeat: float
    resynced_at: float = -math.inf
    resynced_for: Hashable = None
    failed: bool = False  # whether the last resync was not stored
    refused: bool = False
    retry: float = FIRST_RETRY_SECONDS
    fruitless: int = 0  # resyncs since the number of pods changed or the quota had no room
    first_fruitless: float = math.inf
    stalled: bool = False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A controller that waits for its turn; valid until its namespace changes."""

    state: _Blocked
    owner: Owner
    cause: Hashable

    @property
    def is_repeat(self) -> bool:
        """Whether it was resynced for the same cause before. Such controllers have only half of the places, and the last turns."""
        return self.state.resynced_for == self.cause


@dataclass(frozen=True, slots=True)
class Room:
    """The amounts that a namespace's quota still admits, by resource, and the controllers there that lack pods.

    `cause`: the change that lets them create more, such as the quota's figures. `gated`: no quota refuses their pods, which wait behind
    gates instead.
    """

    free: Mapping[str, float]
    lacking: Sequence[Owner]
    cause: Hashable
    gated: bool = False


class ResyncPlanner:
    """Chooses the controllers to resync. Remembers since when each has lacked pods, by namespace and uid."""

    def __init__(self) -> None:
        self._blocked: dict[str, dict[str, _Blocked]] = {}
        self._lacking = 0  # controllers in `_blocked`
        self._unprocessed = dict[str, int]()  # by namespace, those of them that are in their workers' queue
        self._awaited: dict[str, float] = {}  # by uid, when a controller's turn began; in order of time
        self._ready: dict[str, list[_Ready]] = {}
        self._queued_seconds = 0.0
        self._recalled: dict[str, int] = {}
        self.starts_are_noted = False  # whether the Job controller is known to note when it first processes a Job
        self.refused = 0  # times that a controller lacked pods for which its quota had no room

    def plan(self, rooms: Mapping[str, Sequence[Room]], now: float) -> tuple[list[Owner], dict[str, float]]:
        """Return the controllers to resync now, and when to look again by namespace.

        `rooms`: of the namespaces that may have changed; an empty list if no controller lacks pods now. Room for one pod resyncs
        one controller, the one that was resynced longest ago, so that one which cannot use the room does not block the others.
        """
        dues = dict[str, float]()
        self._queued_seconds = max(0, self._lacking - MOST_AWAITED) / SERVED_A_SECOND
        for namespace, in_namespace in rooms.items():
            former, blocked = self._blocked.pop(namespace, {}), dict[str, _Blocked]()
            for room in in_namespace:
                blocked |= {owner.uid: self._seen(former.get(owner.uid), owner, now) for owner in room.lacking}
            self._lacking += len(blocked) - len(former)
            self._unprocessed.pop(namespace, None)
            if blocked:
                self._blocked[namespace] = blocked
            if count := sum(owner.due or not owner.reached for room in in_namespace for owner in room.lacking):
                self._unprocessed[namespace] = count
            for uid in former.keys() - blocked.keys():
                self._awaited.pop(uid, None)
            self._ready.pop(namespace, None)
            for room in in_namespace:
                ready, dues[namespace] = self._choose(room, blocked, dues.get(namespace, math.inf), now)
                if ready:
                    self._ready.setdefault(namespace, []).extend(ready)
        return self._take_turns(now), dues

    @property
    def unprocessed(self) -> int:
        """How many controllers lack pods and are known to be in their workers' queue."""
        return sum(self._unprocessed.values())

    def recall(self, uid: str, pods: int) -> None:
        """Note a controller that an earlier process found stalled, and the number of pods that it had."""
        self._recalled[uid] = pods

    def stalled(self, namespace: str) -> dict[str, int]:
        """Return the controllers of a namespace that are stalled, by uid, with the number of their pods."""
        return {uid: state.existing for uid, state in self._blocked.get(namespace, {}).items() if state.stalled}

    def not_resynced(self, owner: Owner, sent: bool) -> None:
        """Note that a chosen controller has not been resynced: it is chosen again for the same cause.

        `sent`: the write was sent and failed; then the next one follows after the pause that a resync without effect has, too.
        """
        self._awaited.pop(owner.uid, None)
        for blocked in self._blocked.values():
            state = blocked.get(owner.uid)
            if state is not None:
                state.resynced_for, state.failed, state.fruitless = None, sent, 0
                if not sent:
                    state.next_resync, state.repeat = state.resynced_at, max(state.repeat / 2, FIRST_REPEAT_SECONDS)

    def pardon(self) -> list[str]:
        """End the pauses after failed resyncs, because the API server answers again; return the namespaces where one ended."""
        ended = list[str]()
        for namespace, blocked in self._blocked.items():
            failed = [state for state in blocked.values() if state.failed]
            for state in failed:
                state.next_resync, state.repeat, state.failed = state.resynced_at, FIRST_REPEAT_SECONDS, False
            ended += [namespace] if failed else []
        return ended

    def due(self, now: float) -> float:
        """Return when the next waiting controller has its turn; infinite if none waits."""
        return min((now + 1.0, *(since + AWAITED_SECONDS for since in self._awaited.values()))) if self._ready else math.inf

    def _take_turns(self, now: float) -> list[Owner]:
        """Resync as many ready controllers as their workers can serve, those resynced longest ago first; the others stay ready."""
        self._awaited = {uid: since for uid, since in self._awaited.items() if now < since + AWAITED_SECONDS}
        free_places = max(0, MOST_AWAITED - len(self._awaited))
        if not free_places or not self._ready:
            return []
        waiting = [(namespace, one) for namespace, ready in self._ready.items() for one in ready]
        waiting.sort(key=lambda pair: (pair[1].state.resynced_at, pair[1].state.since, pair[1].owner.uid))
        first = [pair for pair in waiting if not pair[1].is_repeat]
        again = [pair for pair in waiting if pair[1].is_repeat][: max(0, MOST_AWAITED // 2 - len(self._awaited))]
        chosen = (first + again)[:free_places]
        for _, one in chosen:
            self._note_resync(one.state, one.cause, now)
            self._awaited[one.owner.uid] = now
        for namespace in {namespace for namespace, _ in chosen}:
            left = [one for one in self._ready.pop(namespace) if one.state.resynced_at != now]
            if left:
                self._ready[namespace] = left
        return [one.owner for _, one in chosen]

    def _choose(self, room: Room, blocked: Mapping[str, _Blocked], due: float, now: float) -> tuple[list[_Ready], float]:
        """Return the controllers for which there is room, and when to look again at those whose turn is later, `due` at the latest."""
        chosen = list[_Ready]()
        free = dict(room.free)
        for owner in sorted(room.lacking, key=lambda owner: (not owner.due, blocked[owner.uid].resynced_at, owner.uid)):
            state = blocked[owner.uid]
            if owner.due and now < state.since + UNREACHED_SECONDS:
                _take(free, owner)  # it creates its pods without us
                due = min(due, state.since + UNREACHED_SECONDS)
                continue
            if not owner.reached and (again := self._await_reach(state, room, now)) is not None:
                due = min(due, again)
                continue
            if not _take(free, owner):  # resync it at once when its quota grows, unless it was refused just now
                self.refused += not state.refused
                state.refused, state.fruitless = True, 0
                if not _take(dict(room.free), owner):  # others did not take the room: it is too small
                    state.resynced_for = None
                state.next_resync, state.repeat = max(state.since + GRACE_SECONDS, now), FIRST_REPEAT_SECONDS
                continue
            early = state.next_resync + (0.0 if state.refused else self._queued_seconds)
            if state.resynced_for == room.cause:
                early = state.resynced_at + state.retry
            if now >= early:
                waited = now >= state.first_fruitless + STALLED_SECONDS + self._queued_seconds
                state.stalled |= state.fruitless >= FRUITLESS_RESYNCS and waited
                chosen.append(_Ready(state, owner, room.cause))
            else:
                due = min(due, early)
        return chosen, due

    def _await_reach(self, state: _Blocked, room: Room, now: float) -> float | None:
        """Return when to look again at a controller that has not been processed yet; None: it is treated like the others from now on."""
        woken_at = math.inf if self.starts_are_noted else state.since + UNREACHED_SECONDS
        if now >= woken_at:
            return None
        patience = AWAITED_REACH_SECONDS if room.gated else UNREACHED_SECONDS + STALLED_SECONDS + self._queued_seconds
        state.stalled |= now >= state.since + patience
        return woken_at if state.stalled else min(woken_at, state.since + patience)

    @staticmethod
    def _note_resync(state: _Blocked, cause: Hashable, now: float) -> None:
        """Note a resync, and when the next one is due for the same cause and for another."""
        state.retry = min(2 * state.retry, LAST_RETRY_SECONDS) if state.resynced_for == cause else FIRST_RETRY_SECONDS
        state.resynced_at, state.resynced_for, state.next_resync, state.failed = now, cause, now + state.repeat, False
        state.repeat = min(2 * state.repeat, LAST_REPEAT_SECONDS)
        state.first_fruitless = state.first_fruitless if state.fruitless else now
        state.fruitless += 1

    def _seen(self, known: _Blocked | None, owner: Owner, now: float) -> _Blocked:
        """Return the controller's state, as if it had begun to lack pods now if its pods have changed or it has just been processed."""
        state = known or _Blocked(owner.existing, owner.reached, now, now + GRACE_SECONDS, FIRST_REPEAT_SECONDS)
        if known is None and self._recalled.pop(owner.uid, None) == owner.existing:
            state.stalled, state.fruitless, state.first_fruitless = True, FRUITLESS_RESYNCS, -math.inf
        # the events of its own pods make it try again within a second
        if owner.existing != state.existing or (owner.reached and not state.reached):
            self._awaited.pop(owner.uid, None)
            state.reached = owner.reached
            state.existing, state.since, state.resynced_at = owner.existing, now, -math.inf
            state.resynced_for, state.refused = None, False
            state.fruitless, state.stalled = 0, False
            state.next_resync, state.repeat = now + GRACE_SECONDS, FIRST_REPEAT_SECONDS
        return state


def _take(free: dict[str, float], owner: Owner) -> bool:
    """Subtract the pods that `owner` lacks from `free`, as many as fit; return False if not even one does."""
    pods = owner.wanted - owner.existing
    for resource, amount in owner.requests.items():
        if amount > 0 and resource in free:
            pods = min(pods, math.floor(free[resource] / amount + 1e-9))
    if pods < 1:
        return False
    for resource, amount in owner.requests.items():
        if resource in free:
            free[resource] -= pods * amount
    return True
