"""A progress line with the time left, within 80 columns, on a terminal only."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

COLUMNS = 80
DESCRIPTION = 36  # columns left by bar, percentage and time


class ProgressLine:
    """A line that is redrawn in place on standard error, and removed at the end, also after an error. Silent if that is no terminal."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        console.width = min(console.width, COLUMNS)
        self._progress = Progress(
            BarColumn(bar_width=24), TaskProgressColumn(), TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, part: float, what: str) -> None:
        """Show that `part` of the work is done and `what` comes next."""
        self._progress.update(self._task, completed=part, description=what[:DESCRIPTION])
