"""Which blocked controllers to wake: a Job that a quota refused retries only after 1 to 60 s, a ReplicaSet after up to 1,000 s.

Any change of the object makes its controller try again within a second, so a controller that lacks pods although its quota has
room gets an annotation, once. It is told again only after its quota has changed, and if that does not help ever more rarely: as long as
nothing has changed, its pods would be refused for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairburst.kube.usage.demand import Owner

WOKEN_ANNOTATION = "fairburst.dev/woken-at"
GRACE_SECONDS = 3.0  # a controller tries again within a second of an end of a pod of its own; on a busy cluster somewhat later
FIRST_REPEAT_SECONDS = 2.0
LAST_REPEAT_SECONDS = 60.0
# The Job controller has five workers: to wake more at a time than it can serve only lengthens its queue.
MOST_AWAITED = 20
AWAITED_SECONDS = 5.0


@dataclass(slots=True)
class _Blocked:
    existing: int
    since: float
    next_wake: float
    repeat: float
    woken_at: float = -math.inf
    told: Hashable = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What one namespace's quota still admits, by resource, and the controllers there that want more pods than they have.

    `cause`: what would let them create more, such as the quota's figures: who has been woken for it is not woken for it again.
    """

    free: Mapping[str, float]
    lacking: Sequence[Owner]
    cause: Hashable


class WakePlanner:
    """Remembers since when each controller has lacked pods, by uid."""

    def __init__(self) -> None:
        self._blocked: dict[str, _Blocked] = {}
        self.refused = 0  # how often a controller was found to lack pods for which its quota has no room

    def plan(self, rooms: Iterable[Room], now: float) -> tuple[list[Owner], float]:
        """Controllers to wake now and when to look again (infinite: never by itself).

        Room for one pod wakes one controller: those woken longest ago come first, so that one which cannot use it does not keep it.
        """
        due, candidates, blocked, causes = math.inf, list[Owner](), dict[str, _Blocked](), dict[str, Hashable]()
        for room in rooms:
            for owner in room.lacking:
                blocked[owner.uid] = self._seen(owner, now)
            free = dict(room.free)
            for owner in sorted(room.lacking, key=lambda owner: (blocked[owner.uid].woken_at, owner.uid)):
                state = blocked[owner.uid]
                if not _take(free, owner):  # wake it at once when its quota grows, unless it has only just been refused
                    self.refused += not state.refused
                    state.told, state.refused = None, True
                    state.next_wake, state.repeat = max(state.since + GRACE_SECONDS, now), FIRST_REPEAT_SECONDS
                    continue
                if state.told == room.cause:
                    continue
                if now >= state.next_wake:
                    candidates.append(owner)
                    causes[owner.uid] = room.cause
                else:
                    due = min(due, state.next_wake)
        self._blocked = blocked
        free_places = MOST_AWAITED - sum(now < state.woken_at + AWAITED_SECONDS for state in blocked.values())
        candidates.sort(key=lambda owner: (blocked[owner.uid].since, owner.uid))
        wake = candidates[: max(0, free_places)]
        for owner in wake:
            self._woken(blocked[owner.uid], causes[owner.uid], now)
        return wake, due if len(wake) == len(candidates) else min(due, now + 1.0)

    @staticmethod
    def _woken(state: _Blocked, cause: Hashable, now: float) -> None:
        """Note a wake, and when the next one may be if its cause is another."""
        state.woken_at, state.told, state.next_wake = now, cause, now + state.repeat
        state.repeat = min(2 * state.repeat, LAST_REPEAT_SECONDS)

    def _seen(self, owner: Owner, now: float) -> _Blocked:
        state = self._blocked.get(owner.uid) or _Blocked(owner.existing, now, now + GRACE_SECONDS, FIRST_REPEAT_SECONDS)
        if owner.existing != state.existing:  # its own pods' events make it try again within a second
            state.existing, state.since, state.woken_at = owner.existing, now, -math.inf
            state.told, state.refused = None, False
            state.next_wake, state.repeat = now + GRACE_SECONDS, FIRST_REPEAT_SECONDS
        return state


def _take(free: dict[str, float], owner: Owner) -> bool:
    """Take as many of the pods that `owner` lacks as fit out of `free`; False if not even one does."""
    pods = owner.wanted - owner.existing
    for resource, amount in owner.charge.items():
        if amount > 0 and resource in free:
            pods = min(pods, math.floor(free[resource] / amount + 1e-9))
    if pods < 1:
        return False
    for resource, amount in owner.charge.items():
        if resource in free:
            free[resource] -= pods * amount
    return True
