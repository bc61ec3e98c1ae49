"""Tables: complete in a pipe, within the width of a terminal, with colours only there."""

from __future__ import annotations

import re
import sys

import pytest

from fairburst.cli.get import HEAD, RIGHT, WIDE
from fairburst.cli.output import Table, print_table

LONG = ("a-team-with-a-long-name/and-a-queue-with-a-longer-name", "Elastic", "128 cpu", "33.3%", "open, 12m 30s left", "10 of 12", "False")
TABLE = Table(HEAD, [(*LONG, "latency", "64 cpu", "64 cpu", "1", "Quota", "SecondQueue")], WIDE, RIGHT)


def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard output a terminal of 80 columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_pipe_gets_every_row_in_one_line_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(TABLE)
    head, row = capsys.readouterr().out.splitlines()
    assert row.startswith(LONG[0])
    assert row.index("Elastic") == head.index("CLASS")
    assert "\x1b" not in row
    assert "SecondQueue" not in row
    print_table(TABLE, "wide")
    assert "SecondQueue" in capsys.readouterr().out


def test_a_terminal_of_80_columns_wraps_the_name_and_cuts_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch)
    print_table(TABLE)
    shown = capsys.readouterr().out
    assert "\x1b[36mElastic" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(len(line) for line in lines) <= 80
    for word in LONG[1:]:
        assert word in lines[1]
    assert "".join(line.split("  ")[0].strip() for line in lines[1:]) == LONG[0]


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(TABLE)
    assert "\x1b[36m" not in capsys.readouterr().out
