"""The live table: the type, allocation and usage of each queue now. Pure text; only `Screen` knows whether it goes to a terminal."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from e2e.demo.scenario import Scenario
from e2e.workload.metrics import Amounts, BurstRecord
from fairburst.quantity import parse_quantity

PLAIN_LINE_SECONDS = 5.0
HEADER = ("QUEUE", "CLASS", "FAIR SHARE", "ALLOCATION", "HOLDS", "WANTS", "WINDOW", "MET", "MISSED")


@dataclass(frozen=True, slots=True)
class Row:
    """One queue now. `allocation` and `window` come from the operator and are empty without it; the workload driver observed the rest."""

    queue: str
    guarantee_class: str
    fair_share: float
    allocation: float | None
    held: float
    wanted: float
    window: str
    met: int | None
    missed: int | None

    def cells(self) -> tuple[str, ...]:
        counts = ("" if count is None else str(count) for count in (self.met, self.missed))
        allocation = "" if self.allocation is None else percent(self.allocation)
        shares = (percent(self.held), percent(self.wanted))
        return (self.queue, self.guarantee_class, percent(self.fair_share), allocation, *shares, self.window, *counts)


def rows(
    of: Scenario,
    held: Mapping[str, Amounts],
    wanted: Mapping[str, Amounts],
    bursts: Sequence[BurstRecord],
    *,
    now: float,
    statuses: Mapping[str, Mapping[str, Any]],
    clock: dt.datetime,
) -> list[Row]:
    """Return a row per queue. `now` in seconds after the start; `statuses` by queue, empty without the operator; `clock`: time of day."""
    latency = {queue.name for queue in of.latency}
    result = []
    for queue, fair_share in of.shares.items():
        status = statuses.get(queue, {})
        own = [burst for burst in bursts if burst.queue == queue]
        result.append(
            Row(
                queue=queue,
                guarantee_class=status.get("class") or "",
                fair_share=fair_share,
                allocation=_allocation(status, of.capacity),
                held=held[queue].dominant_share(of.capacity),
                wanted=wanted[queue].dominant_share(of.capacity),
                window=_window(status, clock),
                met=sum(burst.met for burst in own) if queue in latency else None,
                missed=sum(burst.missed(now) for burst in own) if queue in latency else None,
            )
        )
    return result


def _allocation(status: Mapping[str, Any], capacity: Amounts) -> float | None:
    allocation = status.get("allocation")
    if not allocation:
        return None
    amounts = Amounts(float(parse_quantity(allocation.get("cpu", "0"))), float(parse_quantity(allocation.get("memory", "0"))))
    return amounts.dominant_share(capacity)


def _window(status: Mapping[str, Any], clock: dt.datetime) -> str:
    window = status.get("window") or {}
    state = window.get("state", "")
    if state == "Open" and window.get("deadline"):
        left = (dt.datetime.fromisoformat(window["deadline"]) - clock).total_seconds()
        return f"Open, {left:.0f} s left" if left >= 0 else f"Open, {-left:.0f} s over"
    return str(state)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def aligned(lines: Sequence[Sequence[str]], left: int = 2) -> list[str]:
    """Return columns of equal width: the first `left` of them aligned left, the others right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return "  ".join(padded).rstrip()

    return [line(cells) for cells in lines]


class Screen:
    """The demo's output. On a terminal each table replaces the last one in place; elsewhere `draw` prints an occasional line."""

    def __init__(self, output: TextIO | None = None) -> None:
        self.output = output or sys.stdout
        self.live = self.output.isatty()
        self._drawn = 0
        self._next_line_at = 0.0

    def say(self, text: str = "") -> None:
        """Print a permanent line. A later table is drawn below it."""
        self._drawn = 0
        print(text, file=self.output, flush=True)

    def draw(self, title: str, table: Sequence[Row], now: float) -> None:
        """Show the table as it is now."""
        if self.live:
            lines = [title, *aligned([HEADER, *(row.cells() for row in table)])]
            up = f"\x1b[{self._drawn}F" if self._drawn else ""
            # Erase from each line's end, not the screen first, to avoid flicker. Lines wider than the terminal are cut, not wrapped.
            body = "".join(f"{line}\x1b[K\n" for line in lines)
            print(f"{up}\x1b[?7l{body}\x1b[?7h", end="", file=self.output, flush=True)
            self._drawn = len(lines)
        elif now >= self._next_line_at:
            self._next_line_at = now + PLAIN_LINE_SECONDS
            self.say(f"{title}  " + "; ".join(_short(row) for row in table))

    def begin(self) -> None:
        """Start a new sequence of tables, whose time starts again."""
        self._drawn = 0
        self._next_line_at = -1e9


def _short(row: Row) -> str:
    words = [row.queue, row.guarantee_class, f"holds {percent(row.held)}"]
    if row.allocation is not None:
        words.append(f"of {percent(row.allocation)}")
    if row.window:
        words.append(row.window)
    if row.met is not None:
        words.append(f"met {row.met} missed {row.missed}")
    return " ".join(word for word in words if word)
