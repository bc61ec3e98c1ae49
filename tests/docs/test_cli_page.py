"""Every command on the page of the command line runs as printed, and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fairburst.cli.main import main

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```console\n\$ (fairburst [^\n]*)\n(.*?)```", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("command", "want"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_command_prints_what_the_page_says(
    command: str, want: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    status = main(shlex.split(command)[1:])
    said = capsys.readouterr()
    assert said.out + said.err == want
    assert status == (4 if said.err else 0)


def test_the_page_has_commands_to_run() -> None:
    assert len(BLOCKS) >= 3
