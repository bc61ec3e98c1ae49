"""`fairburst replay`: decide recorded rounds again, and say what they were."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairburst.cli.command import Commands

if TYPE_CHECKING:
    from fairburst.policy.model import GuaranteeClass
    from fairburst.recording.replay import Replay


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("replay", help="decide the rounds of a recording again, and say where the decisions differ")
    parser.add_argument("file", metavar="FILE", type=Path, help="a recording (docs/recordings.md)")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.set_defaults(function=show)


def show(given: argparse.Namespace) -> int:
    """Replay and print; 1 where a round differs or the file can't be read."""
    from fairburst.recording.errors import RecordingError  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.recording.reader import RecordingReader  # noqa: PLC0415
    from fairburst.recording.replay import replay  # noqa: PLC0415

    try:
        found = replay(RecordingReader(given.file))
    except RecordingError as error:
        sys.stderr.write(f"fairburst replay: {error}\n")
        return 1
    sys.stdout.write(json.dumps(_as_json(found)) + "\n" if given.output == "json" else _as_text(found))
    return 1 if found.differing_rounds else 0


def _as_json(found: Replay) -> dict[str, Any]:
    seconds = found.seconds
    return {
        "rounds": found.rounds,
        "started": found.started if found.rounds else None,
        "seconds": seconds,
        "cut_off": found.cut_off,
        "differing_rounds": found.differing_rounds,
        "differences": [{"line": one.line, "now": one.now, "what": one.what} for one in found.differences],
        "queues": [
            {
                "queue": name,
                "classes": [{"since": since, "class": granted.value if granted else None} for since, granted in history.classes],
                "average_share_allocated": history.allocated / seconds if seconds else None,
                "average_share_used": history.used / seconds if seconds else None,
            }
            for name, history in sorted(found.queues.items())
        ],
    }


def _as_text(found: Replay) -> str:
    lines = [_headline(found)]
    if found.cut_off:
        lines.append("The last line is not complete and was left out: the operator was killed while it wrote.")
    lines += [f"line {one.line}, {_time(one.now)}: {one.what}" for one in found.differences]
    table = [("queue", "allocated", "used", "classes")]
    for name, history in sorted(found.queues.items()):
        parts = [f"{value / found.seconds:.2%}" if found.seconds else "-" for value in (history.allocated, history.used)]
        classes = ", ".join(f"{_word(granted)} from {since - found.started:.0f} s" for since, granted in history.classes)
        table.append((name, parts[0], parts[1], classes))
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines += [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}" for row in table]
    return "\n".join(lines) + "\n"


def _headline(found: Replay) -> str:
    if not found.rounds:
        return "The recording has no rounds."
    same = (
        "every one decided again as recorded"
        if not found.differing_rounds
        else f"{found.differing_rounds} decided differently; the first differences:"
    )
    return f"{found.rounds} rounds in {found.seconds:.1f} s from {_time(found.started)}: {same}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _word(granted: GuaranteeClass | None) -> str:
    return granted.value if granted is not None else "not admitted"
