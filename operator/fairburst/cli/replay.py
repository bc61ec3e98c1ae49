"""`fairburst replay`: decide recorded rounds again, and report differences."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairburst.cli.arguments import Form, OutputForm, readable_file
from fairburst.cli.output import Table, is_data, print_table, print_value

if TYPE_CHECKING:
    from fairburst.policy.model import GuaranteeClass
    from fairburst.recording.replay import Replay


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", callback=readable_file, help="A recording (docs/recordings.md).")],
    output: OutputForm = "table",
) -> int:
    """Decide the rounds of a recording again, and say where the decisions differ; exit status 1 if one does."""
    from fairburst.recording.reader import RecordingReader  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.recording.replay import replay as decide_again  # noqa: PLC0415

    found = decide_again(RecordingReader(file))
    if is_data(output):
        print_value(_as_json(found), output)
    else:
        _print(found, output)
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


def _print(found: Replay, form: Form) -> None:
    sys.stdout.write(_headline(found) + "\n")
    if found.cut_off:
        sys.stdout.write("The last line is not complete and was left out: the operator was killed while it wrote.\n")
    sys.stdout.writelines(f"line {one.line}, {_time(one.now)}: {one.what}\n" for one in found.differences)
    table = Table(("queue", "allocated", "used", "classes"), right=frozenset({"allocated", "used"}))
    for name, history in sorted(found.queues.items()):
        parts = [f"{value / found.seconds:.2%}" if found.seconds else "-" for value in (history.allocated, history.used)]
        classes = ", ".join(f"{_word(granted)} from {since - found.started:.0f} s" for since, granted in history.classes)
        table.rows.append((name, parts[0], parts[1], classes))
    print_table(table, form)


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
