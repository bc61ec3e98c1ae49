"""The retry policy of all writers: when a failed write may be sent again, and what the log says about failures.

Writers plan from the cluster's present state and offer the same write again as long as it is missing. `WriteRetries` keeps that cheap:

- An object whose write failed waits before the next attempt. The pause doubles with each failure and has jitter.
- Consecutive failures halve the rate of all writes, down to `LEAST_PER_SECOND`, unless they concern single objects: what a tenant writes
  into its objects may have their writes refused. Successes restore the rate and end all pauses.
- The first success after failures alone ends the pauses of all objects that a failing API server has caused.
- The log has one line per cause, with the numbers of failures and objects, and repeats it at growing intervals.

Conflict and NotFound mean that the object changed before the write: the first two in a row cause no pause.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fairburst.kube.api.answers import Outage
from fairburst.kube.api.errors import ApiError, BackedOff, Conflict, NotFound, NotLeading, TooManyRequests
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

LONGEST_RETRY_AFTER_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 1.0
# A failing API server may recover at any time; an intended refusal (403, 422) ends only when a person changes something.
LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_AFTER_REFUSAL_SECONDS = 15.0, 120.0
FREE_CONFLICTS = 2
LEAST_PER_SECOND = 5.0
FULL_PER_SECOND = 300.0
TROUBLE_BEGINS, MOST_TROUBLE = 10, 16  # consecutive failures that concern all writes: from how many these slow down, and the largest count
TOGETHER_SECONDS = 0.2  # writes of this time may be sent at once: the pods of a burst are offered together
OTHERS_FIRST_SECONDS = 2.0  # time for which a slow API server gets only writes that have not failed yet
LOG_PAUSE_SECONDS = (10.0, 300.0)
CAUSE_ENDS_SECONDS = 600.0  # a cause that was absent for this time is logged as a new one
MOST_REMEMBERED = 20_000

_SUBRESOURCES = frozenset({"status", "eviction"})


@dataclass(slots=True)
class _Failing:
    """An object whose last write failed. path: the path of that write, because an object and its status fail separately.

    by_server: whether the API server failed, or did not answer.
    """

    path: str
    failures: int
    waits_until: float
    by_server: bool


@dataclass(slots=True)
class _Cause:
    """Failures of one kind since the last log line about them."""

    line_due: float = 0.0
    pause: float = LOG_PAUSE_SECONDS[0]
    last: float = 0.0
    failures: int = 0
    objects: set[str] = field(default_factory=set)


class WriteRetries:
    """The policy of the module's docstring. A client calls `admit` before each write and reports each outcome.

    `on_pardon` is called when pauses have ended early, so that writers offer their writes again.
    """

    def __init__(self, on_pardon: Callable[[], None] = lambda: None) -> None:
        self._on_pardon = on_pardon
        self._outage, self._pardoned_at = Outage(), -math.inf
        self._failing: dict[str, _Failing] = {}
        self._causes: dict[tuple[str, str, int, str], _Cause] = {}
        self._trouble = 0
        self._failures = 0
        self._next_at = self._others_first_until = 0.0

    def admit(self, path: str) -> None:
        """Raise BackedOff if it is too early for this write."""
        now = time.monotonic()
        failing = self._failing.get(object_path(path))
        if failing is not None and now < failing.waits_until:
            raise BackedOff(f"{path}: failed {failing.failures} times, next attempt in {failing.waits_until - now:.1f} s")
        rate = self._rate()
        if rate < FULL_PER_SECOND:
            if now < self._next_at - TOGETHER_SECONDS or (failing is not None and now < self._others_first_until):
                if failing is None:
                    self._others_first_until = now + OTHERS_FIRST_SECONDS
                raise BackedOff(f"{path}: the API server fails, {rate:.0f} writes a second are sent")
            self._next_at = max(now, self._next_at) + 1.0 / rate

    def succeeded(self, path: str) -> None:
        """Note that a write succeeded."""
        key = object_path(path)
        failing = self._failing.get(key)
        if failing is not None and failing.path == path:
            del self._failing[key]
        if self._outage.ends(time.monotonic()):
            self.pardon()
        was, self._trouble = self._trouble, max(0, self._trouble - 2)
        if was >= TROUBLE_BEGINS > self._trouble:
            event(logger, logging.INFO, "writes succeed again", failures=self._failures)
            self._failing.clear()
            self._failures = 0

    def pardon(self) -> None:
        """End the pauses that a failing API server has caused, once in `LONGEST_PAUSE_SECONDS`: some objects may fail as before."""
        now = time.monotonic()
        pardoned = [one for one in self._failing.values() if one.by_server and one.waits_until > now]
        if pardoned and now >= self._pardoned_at + LONGEST_PAUSE_SECONDS:
            self._pardoned_at = now
            for one in pardoned:
                one.waits_until = now
            self._on_pardon()

    def failed(self, method: str, path: str, error: ApiError) -> None:
        """Note that a write was answered with an error, or not at all."""
        if isinstance(error, NotLeading | BackedOff):
            return
        now, key = time.monotonic(), object_path(path)
        known = self._failing.get(key)
        failures = 1 + (known.failures if known is not None else 0)
        overtaken = isinstance(error, NotFound | Conflict)
        self._failing[key] = _Failing(path, failures, now + self._pause(failures, error, overtaken=overtaken), error.by_server)
        if error.by_server:
            self._outage.failed(now)
        if len(self._failing) > MOST_REMEMBERED:
            self._forget(now)
        if overtaken or isinstance(error, TooManyRequests):
            return
        if error.concerns_all:
            self._trouble = min(MOST_TROUBLE, self._trouble + 1)
            self._failures += 1
        self._log(method, key, error, now)

    def _rate(self) -> float:
        """Return the present limit of writes a second."""
        if self._trouble < TROUBLE_BEGINS:
            return FULL_PER_SECOND
        return max(LEAST_PER_SECOND, FULL_PER_SECOND / 2.0 ** (self._trouble - TROUBLE_BEGINS + 1))

    def _pause(self, failures: int, error: ApiError, *, overtaken: bool) -> float:
        if overtaken and failures <= FREE_CONFLICTS:
            return 0.0
        temporary = error.transient or overtaken
        longest = LONGEST_PAUSE_SECONDS if temporary else LONGEST_PAUSE_AFTER_REFUSAL_SECONDS
        if self._trouble >= TROUBLE_BEGINS:  # gives each object a turn at the lowest rate, in whatever order writers offer them
            longest = max(longest, 2.0 * len(self._failing) / LEAST_PER_SECOND)
        pause = min(longest, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)
        return max(pause, error.retry_after) if isinstance(error, TooManyRequests) else pause

    def _forget(self, now: float) -> None:
        """Drop objects whose pause ended long ago: they were deleted, or their write is no longer needed."""
        self._failing = {key: one for key, one in self._failing.items() if one.waits_until + LONGEST_PAUSE_AFTER_REFUSAL_SECONDS > now}
        if len(self._failing) > MOST_REMEMBERED:
            self._failing.clear()

    def _log(self, method: str, key: str, error: ApiError, now: float) -> None:
        what = method, resource_of(key), error.status, error.reason
        cause = self._causes.get(what)
        if cause is None or now - cause.last > CAUSE_ENDS_SECONDS:
            self._causes = {known: one for known, one in self._causes.items() if now - one.last <= CAUSE_ENDS_SECONDS}
            cause = self._causes[what] = _Cause()
        cause.last = now
        cause.failures += 1
        cause.objects.add(key)
        if now < cause.line_due:
            return
        fields = {"method": method, "resource": what[1], "failures": cause.failures, "objects": len(cause.objects)}
        event(logger, logging.WARNING, "writes fail", **fields, problem=str(error)[:300])
        cause.line_due, cause.pause = now + cause.pause, min(cause.pause * 2, LOG_PAUSE_SECONDS[1])
        cause.failures = 0
        cause.objects.clear()


def object_path(path: str) -> str:
    """Return the path of the written object, without the subresource."""
    head, _, last = path.rpartition("/")
    return head if last in _SUBRESOURCES else path


def resource_of(path: str) -> str:
    """Return the plural in a path: "resourcequotas" for /api/v1/namespaces/x/resourcequotas/y."""
    inner = re.sub(r"^/(api/[^/]+|apis/[^/]+/[^/]+)(/namespaces/[^/]+(?=/))?/", "", path)
    return inner.split("/")[0]
