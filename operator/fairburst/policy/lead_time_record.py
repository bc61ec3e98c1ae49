"""Whether lead time is worth it for a queue (ours): the gain of its last bursts by the room held for them, against the idle capacity.

Both in dominant-share-seconds. The cost of a burst is the capacity held free for it, over time. Its gain is its rate times the additional
seconds for which its last part would have waited for running work without a hold, times the fraction of the burst that arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairburst.policy.arrays import FloatArray

JUDGED = 10  # bursts over which gain and cost are compared, and after which a queue without lead time gets another try


@dataclass(frozen=True, slots=True, eq=False)
class LeadTimeDecision:
    """The room held for one expected burst, and the reason. (K,) resource units each: needed by the arrival, free now, expected to be
    released by then, held now. cost_rate: dominant share that is charged while it is held. gain: dominant-share-seconds that the burst
    would wait longer if it arrived now and nothing were held. may_start: small jobs that end before the arrival.
    planned_start: the expected begin of the hold if work continues to end as it does now; infinite if nothing will be held."""

    queue: str
    arrival: float
    planned_start: float
    needed: FloatArray
    free: FloatArray
    expected_release: FloatArray
    held: FloatArray
    cost_rate: float
    slack: float
    may_start: tuple[str, ...]
    reason: str
    message: str
    gain: float = 0.0

    @property
    def holding(self) -> bool:
        """Whether any room is kept from others now."""
        return self.reason == "Holding"


@dataclass(frozen=True, slots=True)
class LeadTimeRecord:
    """One queue's lead time so far.

    window: number of the window for which room is or was last held. cost, gain: of that one so far; cost_rate: since as_of, seconds.
    past: (gain, cost) of the last bursts with held room, oldest first. resting: number of coming windows without lead time.
    """

    window: int = -1
    cost: float = 0.0
    gain: float = 0.0
    cost_rate: float = 0.0
    as_of: float = 0.0
    past: tuple[tuple[float, float], ...] = ()
    resting: int = 0

    def advanced(self, decision: LeadTimeDecision | None, window: int, came: float, now: float) -> LeadTimeRecord:
        """Return the record after a round.

        Parameters
        ----------
        decision : the decision for the queue's next burst; None: none is expected now
        window : number of that burst's window, or of the present one
        came : the fraction of the former window's demand that was delivered, 0 to 1
        now : seconds; a clock that stepped back costs nothing
        """
        record = self
        if self.cost_rate > 0:
            record = replace(self, cost=self.cost + self.cost_rate * max(0.0, now - self.as_of), cost_rate=0.0)
        if decision is None:
            return record
        if window != record.window:
            record = record._judged(came, window)
        return replace(record, cost_rate=decision.cost_rate, gain=decision.gain, as_of=now) if decision.holding else record

    def _judged(self, came: float, window: int) -> LeadTimeRecord:
        """Return the record with the former window in `past`, at the begin of the next one."""
        past = (*self.past, (self.gain * came, self.cost))[-JUDGED:] if self.cost > 0 else self.past
        resting = max(self.resting - 1, 0)
        if len(past) == JUDGED and sum(gain for gain, _ in past) < sum(cost for _, cost in past):
            past, resting = (), JUDGED
        return LeadTimeRecord(window, past=past, resting=resting)
