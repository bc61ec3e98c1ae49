"""The mutable counts inside the pod index of each controller's pods, also of those that have ended, and the requests of the newest one."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from fairburst.kube.usage.host_ports import HostPorts
from fairburst.kube.usage.pod_sums import PodFacts
from fairburst.kube.usage.pod_usage import OwnerUsage, RequestVector

# The Job controller counts ended pods in batches of a second. It never counts those that a failure policy ignores.
COUNTED_SECONDS = 5.0
REMEMBERED_OWNERS = 10_000  # owners without pods whose last requests are kept, for a Job whose next pod a quota refuses

OwnerKey = tuple[str, str]  # namespace and uid


@dataclass(slots=True)
class OwnerSums:
    """The counts of one owner's pods."""

    pods: int = 0
    active: int = 0
    bound: int = 0
    terminating: int = 0
    ended: int = 0
    settled: int = 0  # those of `ended` that ended long enough ago for the Job's status to count them
    newest: tuple[str, str] = ("", "")
    newest_requests: RequestVector = ()
    newest_uncounted: tuple[str, ...] = ()
    newest_ports: HostPorts = ()
    usage: OwnerUsage | None = None  # what a reader gets; None: not read since the last change

    def end(self, pods: int) -> None:
        """Count so many more pods as ended."""
        self.ended += pods
        self.usage = None

    def settle(self, pods: int) -> None:
        """Count so many of the ended pods as counted by the Job."""
        self.settled += pods
        self.usage = None


class Owners:
    """The counts of every controller, and of every bare pod as its own owner. Controllers without pods are remembered for a while."""

    def __init__(self) -> None:
        self._sums: dict[OwnerKey, OwnerSums] = {}
        self._idle: OrderedDict[OwnerKey, None] = OrderedDict()
        self._now: list[tuple[OwnerSums, int]] = []  # ends since the last call of `settle`
        self._lately: deque[tuple[float, list[tuple[OwnerSums, int]]]] = deque()

    @property
    def unsettled(self) -> int:
        """How many ends of pods are kept until `settle` takes them as counted."""
        return len(self._now) + sum(len(ends) for _, ends in self._lately)

    def get(self, owner: OwnerKey) -> OwnerSums | None:
        """Return the counts of one owner; None if it has had no pods."""
        return self._sums.get(owner)

    def account(self, facts: PodFacts, sign: int) -> None:
        """Add a pod's contribution (+1), or remove it (-1)."""
        key = facts.namespace, facts.owner
        entry = self._sums.get(key)
        if entry is None:
            entry = self._sums[key] = OwnerSums()
        entry.usage = None
        entry.pods += sign
        if not facts.ended:
            entry.active += sign
            entry.bound += sign * facts.bound
            entry.terminating += sign * facts.terminating
        if sign > 0:
            self._idle.pop(key, None)
            if facts.created >= entry.newest:
                entry.newest, entry.newest_requests = facts.created, facts.requests
                entry.newest_uncounted, entry.newest_ports = facts.uncounted, facts.ports
        elif not entry.pods:
            if facts.owner == facts.uid:
                del self._sums[key]
            else:
                self._remember(key)

    def forget(self, owner: OwnerKey) -> None:
        """Forget an owner that has been deleted."""
        if self._idle.pop(owner, "absent") is None:
            del self._sums[owner]

    def count_end(self, owner: OwnerKey) -> None:
        """Count a pod that its Job's status may not count yet."""
        if (entry := self._sums.get(owner)) is not None:
            self._end(entry, 1)

    def count_earlier_ends(self, owner: OwnerKey, counted: int, uncounted: int) -> None:
        """Count ends that were not seen here: those that the Job's status counts, and those that it will count."""
        if uncounted and owner not in self._sums:
            self._sums[owner] = OwnerSums()
            self._remember(owner)
        if (entry := self._sums.get(owner)) is not None:
            seen = entry.ended - entry.settled
            entry.end(counted)
            entry.settle(counted)
            self._end(entry, max(0, uncounted - seen))

    def settle(self, now: float) -> None:
        """Take the ends as counted by their Jobs that are more than `COUNTED_SECONDS` old, by the first call after each. now: seconds."""
        if self._now:
            self._lately.append((now, self._now))
            self._now = []
        while self._lately and self._lately[0][0] < now - COUNTED_SECONDS:
            for entry, pods in self._lately.popleft()[1]:
                entry.settle(pods)

    def _end(self, entry: OwnerSums, pods: int) -> None:
        if pods:
            entry.end(pods)
            self._now.append((entry, pods))

    def _remember(self, owner: OwnerKey) -> None:
        """Note that an owner has no pods."""
        self._idle[owner] = None
        if len(self._idle) > REMEMBERED_OWNERS:
            oldest, _ = self._idle.popitem(last=False)
            del self._sums[oldest]
