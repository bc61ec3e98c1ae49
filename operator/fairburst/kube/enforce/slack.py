"""The slack of each quota or gate: pods above its level, so that on average the level is used. Steered by feedback; decides no level.

A ResourceQuota refuses pods that exceed it, and controllers retry only later; a gate is removed by one more write. Between a pod's end and
its successor's start lie the release of its requests, the Job controller's next look, a creation and a binding. By Little's law (ends per
second) x (that time) pods of a level do not run. Both factors depend on the work and on the cluster's load. An integral controller finds
their product: it raises the slack while a queue that demands more runs less than its level, and lowers it while more than the level runs
(docs/decisions/0095-slack-by-feedback.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

FIRST_PODS = 1.0
# With a delay of D seconds in the loop an integral of gain g is stable below g x D = pi / 2, and hardly overshoots below 0.5: D <= 5 s.
GAIN = 0.1  # pods per pod and second
WINDOW_SECONDS = 15.0  # pods that wait for all this time are not part of the loop
SURPLUS_GAIN = 0.5
PRESSED_SECONDS = 5.0  # a quota that was full this recently is taken to be the limit of its queue
FORGET_SECONDS = 60.0
RATE_SECONDS = 60.0  # time over which ends are averaged
STEERED_SECONDS = 1.0  # between two observations of a slack that changes
CALM_SECONDS = 10.0  # and of one that does not, because the room in the pool may change without an event of the queue
OWED_SECONDS = 2.0  # at most so long a use of the whole level is owed: pods that end together leave it unused for about as long
SOON_SECONDS = 20.0  # the slack is at most the pods that end within this time: a Job that starts early must not wait for long-running pods


@dataclass(frozen=True, slots=True)
class Use:
    """The present use of one quota, in pods of the queue's largest size.

    short: the level minus the bound pods. missing: the level minus the existing pods, without those behind a gate. room: pods for which
    the pool has room beside its head-room. full: the quota or the gate admits no further pod. level: the level, and the upper bound of the
    slack. gated: whether the next pods exist already, behind a gate.
    """

    short: float
    missing: float
    room: float
    full: bool
    level: float
    gated: bool = False

    @property
    def takes_head_room(self) -> bool:
        """Whether pods of the pool use its head-room."""
        return self.room <= -0.5


@dataclass(slots=True)
class _Slack:
    pods: float
    as_of: float
    error: float = 0.0
    level: float = 0.0
    over: float = 0.0  # pods in the head-room that the integral leaves out, because the slack is below them already
    owed: float = 0.0  # these in pods x seconds, less the later shortfalls that they have made up for
    full_at: float = -math.inf
    idle_least: float = math.inf  # fewest pods that waited for room in this window
    window_from: float = 0.0
    calm: bool = True  # whether it stays as it is while nothing happens


@dataclass(slots=True)
class _Ends:
    """An exponentially weighted count of pods that have ended."""

    count: float = 0.0
    as_of: float = -math.inf

    def at(self, now: float) -> float:
        return self.count * math.exp(-max(0.0, now - self.as_of) / RATE_SECONDS)


class SlackControl:
    """The slack of each quota, in pods. A round's observation holds until the next: the integral does not depend on the rate of rounds."""

    def __init__(self) -> None:
        self._slack: dict[object, _Slack] = {}
        self._ends: dict[object, _Ends] = {}

    def resume(self, quota: object, noted: tuple[float, float] | None, now: float) -> None:
        """Begin with the slack that an earlier process noted, at its level, and with as many ends as that needs; None: it noted none."""
        if noted is not None:
            pods, level = noted
            self._slack[quota] = _Slack(pods, now, level=level, window_from=now)
            self._ends[quota] = _Ends(pods / SOON_SECONDS * RATE_SECONDS, now)

    def ended(self, quota: object, now: float) -> None:
        """Note the end of a pod that the quota counts."""
        ends = self._ends.setdefault(quota, _Ends())
        ends.count, ends.as_of = ends.at(now) + 1.0, now

    def ends_a_second(self, quota: object, now: float) -> float:
        """Return ends per second, averaged over about a minute."""
        ends = self._ends.get(quota)
        return 0.0 if ends is None else ends.at(now) / RATE_SECONDS

    def pods(self, quota: object) -> float:
        """Return the whole pods above the level that the quota should admit."""
        state = self._slack.get(quota)
        return float(math.floor((FIRST_PODS if state is None else state.pods) + 0.5))

    def observe(self, quota: object, use: Use | None, now: float) -> float:
        """Observe a round; return the new slack, in pods. `use` None: the level does not limit the queue, or no slack is wanted."""
        state = self._slack.get(quota)
        if state is None:
            if use is None:
                return FIRST_PODS
            state = self._slack[quota] = _Slack(FIRST_PODS, now, level=use.level, window_from=now)
        _integrate(state, max(0.0, now - state.as_of))
        if use is None:
            state.over, state.owed = 0.0, 0.0
            state.error, state.window_from, state.idle_least, state.calm = 0.0, now, math.inf, True
            if now - state.as_of > FORGET_SECONDS:
                del self._slack[quota]
                return FIRST_PODS
            state.pods = max(state.pods, 0.0)
            return self.pods(quota)
        state.as_of = now
        self._follow_level(state, use.level)
        if use.full:
            state.full_at = now
        self._shed_surplus(state, use, now)
        most = max(FIRST_PODS, min(use.level, SOON_SECONDS * self.ends_a_second(quota, now)))
        state.pods = min(max(state.pods, 0.0), most)
        state.error = _error(use, state, now)
        state.over = max(0.0, -use.short) if use.takes_head_room and state.error == 0 else 0.0
        state.owed = min(state.owed, OWED_SECONDS * use.level)
        at_bound = state.pods >= most if state.error > 0 else state.pods <= 0
        state.calm = state.pods <= FIRST_PODS and (state.error == 0 or at_bound)
        return self.pods(quota)

    def pause(self, quota: object) -> float | None:
        """Return the seconds until the quota is observed again if no event comes first; None: only at an event."""
        state = self._slack.get(quota)
        return None if state is None else CALM_SECONDS if state.calm else STEERED_SECONDS

    def retain(self, namespaces: Collection[str]) -> None:
        """Drop the quotas of every other namespace."""
        for known in (self._slack, self._ends):
            for key in [key for key in known if isinstance(key, tuple) and key[0] not in namespaces]:
                del known[key]

    @staticmethod
    def _follow_level(state: _Slack, level: float) -> None:
        """Scale the slack to a new level, because ends are proportional to it. A quota whose level has risen is not full yet."""
        if state.level > 0:
            state.pods = max(state.pods * level / state.level, min(state.pods, FIRST_PODS))
        if level >= state.level + 1:
            state.full_at = -math.inf
        state.level = level

    @staticmethod
    def _shed_surplus(state: _Slack, use: Use, now: float) -> None:
        """Reduce the slack by pods that wait for a node all the time, apart from one: they are not part of the loop."""
        waiting = use.short - use.missing
        state.idle_least = min(state.idle_least, waiting)
        if now >= state.window_from + WINDOW_SECONDS:
            surplus = min(state.idle_least, state.pods) - FIRST_PODS
            state.pods -= SURPLUS_GAIN * max(0.0, surplus)
            state.window_from, state.idle_least = now, waiting


def _integrate(state: _Slack, seconds: float) -> None:
    """Change the slack by what has been short since the last observation. A shortfall first makes up for what is owed."""
    short = state.error * seconds
    paid = min(max(short, 0.0), state.owed)
    state.owed += state.over * seconds - paid
    state.pods += GAIN * (short - paid)


def _error(use: Use, state: _Slack, now: float) -> float:
    """Return the value to integrate until the next round (anti-windup): only shortfalls that more slack can repair."""
    if use.short >= 0:
        # More pods help those that wait only while nodes have room: then the scheduler is slow, and creations are too. From behind a gate
        # pods come fast, and each that waits costs the scheduler attempts to place it.
        mendable = min(use.short, max(use.missing, 0.0 if use.gated else use.room, 0.0))
        return mendable if now <= state.full_at + PRESSED_SECONDS else 0.0
    if not use.takes_head_room and state.pods <= FIRST_PODS:  # on full nodes a pod that waits keeps them full
        return 0.0
    # Pods above level and slack belong to an earlier, higher level: they end by themselves.
    return use.short if -use.short <= state.pods + FIRST_PODS else 0.0
