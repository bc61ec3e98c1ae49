"""Sends plan after plan, rate-limited by the client. `status_writer.py` sends statuses and events. Decides nothing.

A failed write is counted and returns as a difference in the next round; the client refuses it until its pause is over.
"""

from __future__ import annotations

import asyncio
import math
import time

from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.sending import Channel, NotResynced, QuotaWritten, Sending

# For so long a round waits for its writes once a burst waits, and otherwise. Then the next one may begin.
WAIT_SECONDS = 0.5
CALM_WAIT_SECONDS = 10.0
MOST_CUT_SHORT = 3  # times in a row, so that every write has its turn where the API server stays slow


class Applier:
    """Sends the plans of a process. Where the API server is slow a plan overtakes the one before: no burst waits for writes of others."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sendings = dict[asyncio.Task[bool], Sending]()  # of the present round, and of those that it has overtaken
        self._cuts = 0
        self._burst_came = asyncio.Event()
        self._burst_came_at = -math.inf

    async def apply(self, plan: RoundPlan, quota_written: QuotaWritten, not_resynced: NotResynced) -> bool:
        """Send everything but statuses and events; return whether all succeeded, False too if some are still under way then.

        `quota_written` receives each quota write, `not_resynced` each controller that was not resynced. Writes that are still under way go
        on, and later rounds leave their namespaces alone. While a burst waits, a later round cuts earlier ones short.

        Raises the unexpected error of a round that was overtaken.
        """
        for task in [task for task in self._sendings if task.done()]:
            del self._sendings[task]
            task.result()
        if plan.burst_waits:
            self._cut_short_earlier()
        self._leave_out(plan, quota_written, not_resynced)
        sending = Sending(plan, self._channel, quota_written, not_resynced)
        task = asyncio.create_task(sending.run(), name="writes of a round")
        self._sendings[task] = sending
        await self._answered(task, plan)
        if task.done():
            del self._sendings[task]
            return task.result()
        sending.overtake()
        return False

    def hurry(self) -> None:
        """Let the next round begin soon: a burst may have come."""
        self._burst_came_at = time.monotonic()
        self._burst_came.set()

    async def _answered(self, task: asyncio.Task[bool], plan: RoundPlan) -> None:
        """Wait until all is answered, or the next round should begin. More rounds than that would only cost: each writes what the next
        one changes again."""
        if not plan.burst_waits:
            if self._burst_came_at < plan.started:  # otherwise it came after the round's decision
                self._burst_came.clear()
            came = asyncio.create_task(self._burst_came.wait(), name="a burst")
            try:
                await asyncio.wait({task, came}, timeout=CALM_WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                came.cancel()
        if not task.done():
            await asyncio.wait({task}, timeout=WAIT_SECONDS)

    def _cut_short_earlier(self) -> None:
        """Leave the writes of earlier rounds that have not begun to the present one; spare the rounds when it is their turn."""
        earlier = [sending for sending in self._sendings.values() if not sending.cut_short and not sending.spared]
        if not earlier:
            return
        self._cuts = (self._cuts + 1) % (MOST_CUT_SHORT + 1)
        for sending in earlier:
            sending.spared = self._cuts == 0
            sending.cut_short = not sending.spared

    async def ended(self) -> None:
        """Return once no write is under way."""
        await asyncio.gather(*self._sendings, return_exceptions=True)

    async def cancel(self) -> None:
        """End all writes: this process no longer leads."""
        tasks = list(self._sendings)
        self._sendings.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _leave_out(self, plan: RoundPlan, quota_written: QuotaWritten, not_resynced: NotResynced) -> None:
        """Remove what the plan would write where an earlier round still writes. A later round finds it again."""
        earlier = self._sendings.values()
        if not earlier:
            return
        busy, unenforced = set[str]().union(*(one.busy for one in earlier)), set[str]().union(*(one.unenforced for one in earlier))
        starting = set[str]().union(*(one.starting for one in earlier))
        plan.labels = {namespace: labels for namespace, labels in plan.labels.items() if namespace not in busy}
        plan.releases = [namespace for namespace in plan.releases if namespace not in busy]
        plan.quota_deletions = [key for key in plan.quota_deletions if key[0] not in busy]
        for write in plan.quota_writes:
            if write.namespace in busy:
                quota_written(write, time.monotonic(), None)
        plan.quota_writes = [write for write in plan.quota_writes if write.namespace not in busy]
        for owner in plan.resyncs:
            if owner.namespace in unenforced:
                not_resynced(owner, False)
        plan.resyncs = [owner for owner in plan.resyncs if owner.namespace not in unenforced]
        plan.starts = [start for start in plan.starts if start.namespace not in starting]
        plan.elastic.not_written({(write.namespace, write.name) for write in plan.elastic.writes if write.namespace in busy})
        plan.elastic.writes[:] = [write for write in plan.elastic.writes if write.namespace not in busy]
