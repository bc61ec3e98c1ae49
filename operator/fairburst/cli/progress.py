"""A progress line with the time left, on a terminal only."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """Redrawn in place on standard error; silent where that is no terminal."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.shown = sys.stderr.isatty()

    def __call__(self, part: float, what: str) -> None:
        """`part` of the work is done; `what` comes next."""
        if not self.shown:
            return
        spent = time.monotonic() - self.started
        left = f"{spent / part * (1 - part):.0f} s left" if part > 0.02 else "..."
        filled = round(part * 24)
        sys.stderr.write(f"\r[{'#' * filled}{'.' * (24 - filled)}] {part:4.0%}  {left}  {what[:60]:<60}")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line."""
        if self.shown:
            sys.stderr.write("\r" + " " * 110 + "\r")
            sys.stderr.flush()
