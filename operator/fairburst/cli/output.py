"""Output of the commands: tables for people, JSON and YAML for programs. Only a terminal gets colours and lines of its width."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from fairburst.cli.arguments import Form

FLEXIBLE = frozenset({"QUEUE", "WHY", "MESSAGE", "FOUND", "CLASSES"})  # columns that are wrapped on a narrow terminal
NARROWEST = 12
GAP = "  "
STYLES = {"Hard": "green", "Soft": "yellow", "Elastic": "cyan", "Rejected": "red", "True": "green", "False": "red"}


@dataclass(slots=True)
class Table:
    """Rows of text below a head. `wide`: columns that only `-o wide` shows; `right`: columns aligned to the right."""

    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    wide: frozenset[str] = frozenset()
    right: frozenset[str] = frozenset()


def print_table(table: Table, form: Form = "table") -> None:
    """Print the table: in full if the output is piped, otherwise within the width of the terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write(_plain(table, _shown(table, form)))
        return
    from rich.console import Console  # noqa: PLC0415  only a terminal needs it

    console = Console(highlight=False)
    console.print(drawn_table(table, console.width, form))


def drawn_table(table: Table, room: int, form: Form = "table") -> RichTable:
    """Return the table as a terminal of `room` columns shows it."""
    from rich.table import Table as RichTable  # noqa: PLC0415  only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    shown = _shown(table, form)
    widths = _fitted(table, shown, room)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for at in shown:
        drawn.add_column(table.head[at], justify="right" if table.head[at] in table.right else "left", overflow="fold", width=widths[at])
    for row in table.rows:
        drawn.add_row(*(Text(row[at], style=STYLES.get(row[at], "")) for at in shown))
    return drawn


def _shown(table: Table, form: Form) -> list[int]:
    return [at for at, name in enumerate(table.head) if form == "wide" or name not in table.wide]


def _widths(table: Table, shown: Sequence[int]) -> dict[int, int]:
    return {at: max(len(row[at]) for row in (table.head, *table.rows)) for at in shown}


def _fitted(table: Table, shown: Sequence[int], room: int) -> dict[int, int]:
    """Return the widths of the columns within `room` characters: the widest flexible column shrinks first, then the next."""
    widths = _widths(table, shown)
    flexible = [at for at in shown if table.head[at].upper() in FLEXIBLE]
    excess = sum(widths.values()) + len(GAP) * (len(shown) - 1) - room
    while excess > 0 and (wide := [at for at in flexible if widths[at] > NARROWEST]):
        widest = max(wide, key=lambda at: widths[at])
        widths[widest] -= 1
        excess -= 1
    return widths


def _plain(table: Table, shown: Sequence[int]) -> str:
    widths = _widths(table, shown)
    lines = []
    for row in (table.head, *table.rows):
        cells = [row[at].rjust(widths[at]) if table.head[at] in table.right else row[at].ljust(widths[at]) for at in shown]
        lines.append(GAP.join(cells).rstrip())
    return "\n".join(lines) + "\n"


def print_value(value: Any, form: Form) -> None:
    """Print a value of dictionaries, lists and scalars as JSON or YAML."""
    if form == "yaml":
        import yaml  # noqa: PLC0415  only this form needs it

        sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        sys.stdout.write(json.dumps(value, indent=2 if sys.stdout.isatty() else None) + "\n")


def is_data(form: Form) -> bool:
    """Return whether the form is one for programs."""
    return form in {"json", "yaml"}


def wrapped(label: str, text: str) -> str:
    """Return the text next to its label, wrapped to the terminal; in one line if the output is piped."""
    if not sys.stdout.isatty():
        return f"{label}{text}\n"
    import shutil  # noqa: PLC0415
    import textwrap  # noqa: PLC0415

    width = max(60, shutil.get_terminal_size((80, 24)).columns)
    return textwrap.fill(text, width, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False) + "\n"
