"""Which blocked controllers to wake: a Job that a quota refused retries only after 1 to 60 s, a ReplicaSet after up to 1,000 s.

Any change of the object makes its controller try again within a second, so a controller that lacks pods although its quota has
room gets an annotation, once. One that was never seen without room may only not have been reached yet: the more controllers lack pods, the
longer it is left alone. It is told again only after its quota has changed, and if that does not help ever more rarely: as long as
nothing has changed, its pods would be refused for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from fairburst.kube.usage.demand import Owner

RESYNC_ANNOTATION = "fairburst.dev/woken-at"
GRACE_SECONDS = 3.0  # a controller tries again within a second of an end of a pod of its own; on a busy cluster somewhat later
SERVED_A_SECOND = 20.0  # controllers that have only not been reached yet wait in their workers' queue; a wake lengthens it
FIRST_REPEAT_SECONDS = 2.0
LAST_REPEAT_SECONDS = 60.0
# The Job controller has five workers: to wake more at a time than it can serve only lengthens its queue.
MOST_AWAITED = 20
AWAITED_SECONDS = 5.0


@dataclass(slots=True)
class _Blocked:
    existing: int
    since: float
    next_resync: float
    repeat: float
    resynced_at: float = -math.inf
    told: Hashable = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A controller that waits for its turn only; valid until something changes in its namespace."""

    state: _Blocked
    owner: Owner
    cause: Hashable


@dataclass(frozen=True, slots=True)
class Room:
    """What one namespace's quota still admits, by resource, and the controllers there that want more pods than they have.

    `cause`: what would let them create more, such as the quota's figures: who has been woken for it is not woken for it again.
    """

    free: Mapping[str, float]
    lacking: Sequence[Owner]
    cause: Hashable


class ResyncPlanner:
    """Remembers since when each controller has lacked pods, by namespace and uid."""

    def __init__(self) -> None:
        self._blocked: dict[str, dict[str, _Blocked]] = {}
        self._awaited: dict[str, float] = {}  # since when controllers, by uid, have had their turn; in order of time
        self._ready: dict[str, list[_Ready]] = {}
        self._queued_seconds = 0.0
        self.refused = 0  # how often a controller was found to lack pods for which its quota has no room

    def plan(self, rooms: Mapping[str, Sequence[Room]], now: float) -> tuple[list[Owner], dict[str, float]]:
        """Controllers to wake now, and when to look again by namespace.

        `rooms`: of the namespaces in which something may have changed; an empty list where no controller lacks pods any more.
        Room for one pod resyncs one controller: those woken longest ago come first, so that one which cannot use it does not keep it.
        """
        dues = dict[str, float]()
        self._queued_seconds = max(0, sum(map(len, self._blocked.values())) - MOST_AWAITED) / SERVED_A_SECOND
        for namespace, those in rooms.items():
            former, blocked = self._blocked.pop(namespace, {}), dict[str, _Blocked]()
            for room in those:
                blocked |= {owner.uid: self._seen(former.get(owner.uid), owner, now) for owner in room.lacking}
            if blocked:
                self._blocked[namespace] = blocked
            for uid in former.keys() - blocked.keys():
                self._awaited.pop(uid, None)
            self._ready.pop(namespace, None)
            for room in those:
                ready, dues[namespace] = self._choose(room, blocked, dues.get(namespace, math.inf), now)
                if ready:
                    self._ready.setdefault(namespace, []).extend(ready)
        return self._take_turns(now), dues

    def due(self, now: float) -> float:
        """When a controller that waits for its turn may have it; infinite if none does."""
        return min((now + 1.0, *(since + AWAITED_SECONDS for since in self._awaited.values()))) if self._ready else math.inf

    def _take_turns(self, now: float) -> list[Owner]:
        """Wake as many of those that are ready as their controllers can serve; the others stay ready."""
        self._awaited = {uid: since for uid, since in self._awaited.items() if now < since + AWAITED_SECONDS}
        free_places = max(0, MOST_AWAITED - len(self._awaited))
        if not free_places or not self._ready:
            return []
        candidates = sorted((one for ready in self._ready.values() for one in ready), key=lambda one: (one.state.since, one.owner.uid))
        for one in candidates[:free_places]:
            self._note_resync(one.state, one.cause, now)
            self._awaited[one.owner.uid] = now
        for namespace in {one.owner.namespace for one in candidates[:free_places]}:
            left = [one for one in self._ready.pop(namespace) if one.state.resynced_at != now]
            if left:
                self._ready[namespace] = left
        return [one.owner for one in candidates[:free_places]]

    def _choose(self, room: Room, blocked: Mapping[str, _Blocked], due: float, now: float) -> tuple[list[_Ready], float]:
        """Whom a room would let create a pod, and when to look again at those for whom it is too early, `due` at the latest."""
        chosen = list[_Ready]()
        free = dict(room.free)
        for owner in sorted(room.lacking, key=lambda owner: (blocked[owner.uid].resynced_at, owner.uid)):
            state = blocked[owner.uid]
            if not _take(free, owner):  # wake it at once when its quota grows, unless it has only just been refused
                self.refused += not state.refused
                state.told, state.refused = None, True
                state.next_resync, state.repeat = max(state.since + GRACE_SECONDS, now), FIRST_REPEAT_SECONDS
            elif state.told != room.cause:
                early = state.next_resync + (0.0 if state.refused else self._queued_seconds)
                if now >= early:
                    chosen.append(_Ready(state, owner, room.cause))
                else:
                    due = min(due, early)
        return chosen, due

    @staticmethod
    def _note_resync(state: _Blocked, cause: Hashable, now: float) -> None:
        """Note a wake, and when the next one may be if its cause is another."""
        state.resynced_at, state.told, state.next_resync = now, cause, now + state.repeat
        state.repeat = min(2 * state.repeat, LAST_REPEAT_SECONDS)

    def _seen(self, known: _Blocked | None, owner: Owner, now: float) -> _Blocked:
        state = known or _Blocked(owner.existing, now, now + GRACE_SECONDS, FIRST_REPEAT_SECONDS)
        if owner.existing != state.existing:  # its own pods' events make it try again within a second
            self._awaited.pop(owner.uid, None)
            state.existing, state.since, state.resynced_at = owner.existing, now, -math.inf
            state.told, state.refused = None, False
            state.next_resync, state.repeat = now + GRACE_SECONDS, FIRST_REPEAT_SECONDS
        return state


def _take(free: dict[str, float], owner: Owner) -> bool:
    """Take as many of the pods that `owner` lacks as fit out of `free`; False if not even one does."""
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
