"""The reference in docs/cli.md, generated from the commands: `python -m fairburst.cli.reference docs/cli.md`."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any, get_args

import typer.main

from fairburst.cli.errors import STATUSES
from fairburst.cli.main import app

LINE = 120  # characters, as in every page
MARK = "<!-- From here on: made by `make cli-page` from the commands themselves. -->\n"


def to_markdown() -> str:
    """Return the exit statuses and every command with its arguments and options."""
    lines = ["## Exit statuses", "", "| status | meaning |", "| --- | --- |"]
    lines += [f"| {status} | {meaning} |" for status, meaning in STATUSES.items()]
    group: Any = typer.main.get_command(app)
    panels: dict[str, list[Any]] = {}
    for command in group.commands.values():
        panels.setdefault(command.rich_help_panel, []).append(command)
    for panel, commands in panels.items():
        lines += ["", f"## {panel}"]
        for command in commands:
            lines += _command(f"fairburst {command.name}", command)
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> list[str]:
    if getattr(command, "commands", None):
        return [line for each in command.commands.values() for line in _command(f"{name} {each.name}", each)]
    given = [parameter for parameter in command.params if parameter.name != "help"]
    words = [_as_word(parameter) for parameter in given if parameter.param_type_name == "argument"]
    lines = ["", f"### `{' '.join([name, *words])}`", "", *textwrap.wrap(" ".join((command.help or "").split()), LINE)]
    if given:
        lines += ["", "| option | default | meaning |", "| --- | --- | --- |"]
        lines += [_row(parameter) for parameter in given]
    return lines


def _as_word(parameter: Any) -> str:
    word = parameter.metavar or parameter.name.upper()
    return word if parameter.required else f"[{word}]"


def _row(parameter: Any) -> str:
    names = [_as_word(parameter)] if parameter.param_type_name == "argument" else parameter.opts
    takes = parameter.metavar or "\\|".join(map(str, get_args(parameter.type_descriptor.annotation)))
    is_flag = getattr(parameter, "is_flag", False)
    shown = ", ".join(f"`{name}`" for name in names)
    if takes and not is_flag and parameter.param_type_name != "argument":
        shown += f" {takes}"
    default = parameter.default
    plain = default is None or default is False or callable(default) or default == float("inf") or default in ([], ())
    value = "required" if parameter.required else "" if plain else f"`{default}`"
    return f"| {shown} | {value} | {' '.join((parameter.help or '').split()).replace('|', chr(92) + '|')} |"


def main() -> int:
    """Write the generated part of the page."""
    page = Path(sys.argv[1])
    head, _, _ = page.read_text(encoding="utf-8").partition(MARK)
    page.write_text(head + MARK + to_markdown(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
