"""One queue of a set of hard queues, or a candidate for it: its rate and its ON windows, read from the table of declarations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.declared import SCHEDULE, Declared
from fairburst.policy.phases import Windows, periodic_windows, to_ticks


@dataclass(frozen=True, slots=True)
class HardQueue:
    """One hard queue or candidate: row `row` of the table `declared`."""

    declared: Declared
    row: int

    @property
    def rate(self) -> FloatArray:
        rate: FloatArray = self.declared.highest_rate[self.row]
        return rate

    @property
    def name(self) -> str:
        return self.declared.queues[self.row].name

    @property
    def scheduled(self) -> bool:
        return bool(self.declared.kind[self.row] == SCHEDULE)

    @property
    def periodic(self) -> bool:
        """Whether its windows repeat at known times. If they neither repeat nor are scheduled, they may be anywhere."""
        return bool(self.declared.phases.placed[self.row])

    @property
    def phase(self) -> tuple[int, int, int]:
        """Start, period and length in ticks."""
        phases = self.declared.phases
        return int(phases.start[self.row]), int(phases.period[self.row]), int(phases.length[self.row])

    @property
    def schedule(self) -> Windows:
        flat = self.declared.schedules
        whole = slice(int(flat.start[self.row]), int(flat.start[self.row] + flat.count[self.row]))
        begin = to_ticks(flat.arrival[whole])
        return Windows(begin, begin + to_ticks(flat.deadline[whole]), flat.rate[whole])

    def windows(self, origin: int, finish: int) -> Windows:
        """Return the ON windows of a placed queue that meet [origin, finish]; all of a schedule."""
        if self.scheduled:
            return self.schedule
        return periodic_windows(self.declared.phases, np.array([self.row]), self.declared.highest_rate, origin, finish)
