"""Plan the status writes of a round, and defer those that are not due. Pure, apart from the times of the last writes."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairburst.kube.containment import Containment
from fairburst.kube.queues.core_values import promise_to_status
from fairburst.kube.queues.former_places import FORMER_PLACES, in_present_places
from fairburst.kube.queues.queue_set import INTERNAL_ERROR, QueueEntry
from fairburst.kube.views.conditions import ATTAINABLE, ConditionValue
from fairburst.kube.views.forecast_view import START_FORECAST
from fairburst.kube.views.status import StatusInput, condition_list, status_of
from fairburst.kube.views.status_memory import is_readable
from fairburst.policy.model import QueueSpec

FIGURES_PER_SECOND = 10.0  # limits status writes of hundreds of busy queues
ANSWERS_SHARE = 0.2  # fewer are written where an answer takes so long that this part of the time would be waiting for one
FEWEST_PER_SECOND = 1.0
ANSWER_WEIGHT = 0.2  # of the latest answer in the mean
# A latency queue's receipts are on the cluster after at most this long, whatever else waits. With a round and half a second between two
# checks of the statuses, a take-over finds them at most five seconds old. LEDGER_TOLERANCE keeps this to a few dozen writes a second in
# total.
ACCOUNTS_SECONDS = 4.0
_ACCOUNTS = frozenset({"ledger", "fairShare", "debtMilliseconds"})
# Fields that the webhook reads, and promises. sizeThreshold is excluded: it drifts with capacity and is late whenever figures are.
_AWAITED = frozenset({"podPriority", "smallPodPriority", "holds", "class", "promise"})
_DRIFTING = (
    "allocation",
    "guaranteed",
    "usage",
    "demand",
    "waiting",
    "explanation",
    "share",
    "allocatedShare",
    "usedShare",
    "waitingShare",
    "week",
    "lastWeek",
    "elasticity",
    "reserve",
    "sizeThreshold",
    "leadTime",
    *(place[0] for place in FORMER_PLACES if len(place) == 1),  # moved by the first write of this version, which is no news for users
)
_WINDOW_DRIFTING = ("usedPercent", "nextBurst", *(place[1] for place in FORMER_PLACES if place[0] == "window"))
_UNCERTAINTY_MOVED = frozenset(place[1] for place in FORMER_PLACES if place[0] == "uncertainty")
_FORECASTS = frozenset({START_FORECAST, ATTAINABLE})  # the pace of pods moves them in the middle of a burst
_NEWS_OF_WINDOW = frozenset({"demanded", "judged"})  # of status.internal.window: they decide whether a burst counts


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """One queue's desired status, and the merge patch that turns the observed object's status into it."""

    entry: QueueEntry
    patch: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def is_awaited(self) -> bool:
        """Whether a round waits for the answer: the patch changes what the API server admits, or makes a promise."""
        return not _AWAITED.isdisjoint(self.patch)


class StatusPlanner:
    """Plans the status writes that are due. Remembers by uid when each status was last written and what it published."""

    def __init__(
        self, interval_seconds: float, figures_per_second: float = FIGURES_PER_SECOND, contained: Containment | None = None
    ) -> None:
        self._interval = interval_seconds
        self._contained = contained or Containment()
        self._figures_per_second = figures_per_second
        self._answer_seconds = 0.0
        self._written_at: dict[str, float] = {}
        self._last_published: dict[str, tuple[Any, ...]] = {}
        self._turns: dict[str, float] = {}
        self._readable: dict[str, tuple[Mapping[str, Any], bool]] = {}  # the status last looked at, by uid
        self._promises: dict[str, tuple[QueueSpec, Mapping[str, Any]]] = {}  # the promise last shown, by queue
        self._last_turn = self._planned_at = -math.inf

    @property
    def figures_per_second(self) -> float:
        """The number of statuses with new figures that may be written in a second. An API server that answers slowly gets fewer."""
        bearable = ANSWERS_SHARE / self._answer_seconds if self._answer_seconds > 0 else math.inf
        return min(self._figures_per_second, max(FEWEST_PER_SECOND, bearable))

    def plan(
        self, inputs: Sequence[StatusInput], resources: tuple[str, ...], wall: float, now: float
    ) -> tuple[list[StatusWrite], dict[str, float]]:
        """Return the writes due now, and by namespace the monotonic time at which a deferred one falls due. `wall` is in seconds since the
        epoch.

        `inputs`: the queues that may have changed. News is written at once, and the receipts of latency queues after `ACCOUNTS_SECONDS` at
        the latest. Statuses whose figures only drift share a rate; latency queues and the longest unwritten come first.
        """
        news: list[StatusWrite] = []
        figures: list[tuple[float, StatusWrite]] = []
        dues: dict[str, float] = {}
        for item in inputs:
            uid, current, published = item.entry.uid, item.entry.obj.get("status") or {}, _published_by(item)
            written_at = self._written_at.get(uid, -math.inf)
            earliest = written_at + self._interval
            accounts = min(earliest, written_at + ACCOUNTS_SECONDS) if item.entry.key[0] == "LatencyQueue" else earliest
            if now < accounts and self._last_published.get(uid) == published:
                _defer(dues, item, accounts)
                continue
            self._last_published[uid] = published
            status = self._status(item, current if self._is_readable(item.entry, current) else {}, resources, wall)
            patch = merge_difference(current, status)
            write = StatusWrite(item.entry, patch, status)
            if patch and (_is_news(current, status, patch) or (now >= accounts and _has_accounts(item, patch))):
                news.append(write)
            elif patch and now >= earliest:
                figures.append((earliest, write))
            elif patch:
                _defer(dues, item, accounts if _has_accounts(item, patch) else earliest)
        figures.sort(key=lambda pair: (pair[1].entry.key[0] != "LatencyQueue", pair[0]))
        share = max(1, round(self.figures_per_second * min(now - self._planned_at, self._interval)))
        self._planned_at = now
        for _, write in figures[share:]:
            _defer(dues, write, self._turn(write.entry.uid, now))
        return news + [write for _, write in figures[:share]], dues

    def _turn(self, uid: str, now: float) -> float:
        """Return when the figures of this queue are looked at again: after those of all queues that wait for a turn already."""
        if self._turns.get(uid, -math.inf) <= now:
            self._last_turn = max(self._last_turn, now) + 1.0 / self.figures_per_second
            self._turns[uid] = self._last_turn
        return self._turns[uid]

    def _is_readable(self, entry: QueueEntry, current: Mapping[str, Any]) -> bool:
        """Return whether the next leader could read the stored status. If not, another client has written it, and nothing of it is kept."""
        known = self._readable.get(entry.uid)
        if known is None or known[0] is not current:
            known = self._readable[entry.uid] = current, is_readable(entry.obj)
        return known[1]

    def _status(self, item: StatusInput, current: Mapping[str, Any], resources: tuple[str, ...], wall: float) -> dict[str, Any]:
        """Return the desired status. If it cannot be built, return the present one with the reason as its Ready condition."""
        if not item.failed:
            with self._contained.object("show", item.entry.namespace):
                return status_of(item, current, resources, wall, self._promise)
        others = [one for one in current.get("conditions") or [] if one.get("type") != "Ready"]
        ready = StatusInput(item.entry, [self.internal_error(item.entry.namespace)])
        return {**current, "conditions": [*others, *condition_list(ready, current.get("conditions") or [], wall)]}

    def _promise(self, spec: QueueSpec) -> Mapping[str, Any]:
        """Return a promise as the status holds it. It is made again only for another spec."""
        known = self._promises.get(spec.name)
        if known is None or known[0] is not spec:
            known = self._promises[spec.name] = spec, promise_to_status(spec)
        return known[1]

    def internal_error(self, namespace: str) -> ConditionValue:
        """Return the Ready condition of a queue that an error keeps from being shown."""
        return ConditionValue("Ready", "False", INTERNAL_ERROR, self._contained.problems[namespace])

    def sent(self, write: StatusWrite, now: float) -> None:
        """Record that a write is in flight. Until it is answered, only news is planned on top of it."""
        self._written_at[write.entry.uid] = now

    def written(self, write: StatusWrite, now: float, took_seconds: float = 0.0, stored: Mapping[str, Any] | None = None) -> None:
        """Record that a write was answered, successfully or not, after `took_seconds`. The next plan checks whether it arrived.

        stored: the queue, if it is known to have that status.
        """
        if stored is not None and stored["metadata"].get("uid", "") == write.entry.uid:
            self._readable[write.entry.uid] = stored["status"], True
        self._answer_seconds += ANSWER_WEIGHT * (took_seconds - self._answer_seconds)
        self._written_at[write.entry.uid] = now
        self._last_published.pop(write.entry.uid, None)

    def retain(self, uids: Container[str], names: Container[str]) -> None:
        """Forget every other queue. `names`: namespace and name of those that govern."""
        self._promises = {name: known for name, known in self._promises.items() if name in names}
        self._written_at = {uid: at for uid, at in self._written_at.items() if uid in uids}
        self._last_published = {uid: published for uid, published in self._last_published.items() if uid in uids}
        self._turns = {uid: at for uid, at in self._turns.items() if uid in uids}
        self._readable = {uid: known for uid, known in self._readable.items() if uid in uids}


def _defer(dues: dict[str, float], item: StatusInput | StatusWrite, at: float) -> None:
    namespace = item.entry.namespace
    dues[namespace] = min(dues.get(namespace, math.inf), at)


def _has_accounts(item: StatusInput, patch: Mapping[str, Any]) -> bool:
    """Return whether a patch changes a latency queue's recorded receipts."""
    return item.entry.key[0] == "LatencyQueue" and not _ACCOUNTS.isdisjoint(patch.get("internal") or ())


def _published_by(item: StatusInput) -> tuple[Any, ...]:
    """Return the published values of the status, without figures that drift."""
    verdicts = tuple((one.type, one.status, one.reason) for one in item.conditions if one.type not in _FORECASTS)
    decision, memory = item.decision, item.memory
    if decision is None or memory is None:
        return item.entry.generation, verdicts
    counted = memory.bursts, memory.met, memory.missed, memory.refused
    published = item.entry.generation, verdicts, decision.guarantee_class, decision.window, memory.promise, counted, decision.admission
    bursts = None if item.uncertainty is None else item.uncertainty["bursts"]
    return (*published, item.reserve is not None, item.holds, item.suggestion, bursts)


def merge_difference(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) that turns `current` into `wanted`; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key in current if key not in wanted}
    for key, value in wanted.items():
        have = current.get(key)
        if have == value:
            continue
        if isinstance(value, Mapping) and isinstance(have, Mapping):
            if inner := merge_difference(have, value):
                patch[key] = inner
        else:
            patch[key] = value
    return patch


def _is_news(current: Mapping[str, Any], status: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Return whether the patch contains news for users. A value that only moves from its place in an earlier version is no news."""
    return _is_structural(patch, current) and _is_structural(merge_difference(in_present_places(current), status), current)


def _is_structural(patch: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Return whether the patch contains news for users, as opposed to figures that drift."""
    for key, value in patch.items():
        if key in _DRIFTING:
            continue
        if key == "window" and isinstance(value, Mapping) and all(part in _WINDOW_DRIFTING for part in value):
            continue
        if key == "uncertainty" and isinstance(value, Mapping) and _UNCERTAINTY_MOVED.issuperset(value):
            continue
        if key == "internal" and isinstance(value, Mapping) and _NEWS_OF_WINDOW.isdisjoint(value.get("window") or ()):
            continue
        if key == "conditions" and _verdicts(value) == _verdicts(current.get("conditions") or []):
            continue
        return True
    return False


def _verdicts(conditions: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the parts of the conditions that are news. A forecast is a figure that drifts."""
    published = (one for one in conditions if one["type"] not in _FORECASTS)
    return [(one["type"], one["status"], one["reason"], one.get("observedGeneration")) for one in published]
