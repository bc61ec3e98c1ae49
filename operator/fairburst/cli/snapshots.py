"""Rounds on file: the last round of a recording as a decided round, and a decided round as a recording of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError

if TYPE_CHECKING:
    from fairburst.policy.model import ClusterSnapshot
    from fairburst.whatif.rounds import DecidedRound


def last_round(path: Path) -> DecidedRound:
    """Return the last round of a recording, decided with the memory that the rounds before it left. Raises CommandError, RecordingError."""
    from fairburst.policy.model import Memory  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.recording.reader import RecordingReader  # noqa: PLC0415
    from fairburst.whatif.rounds import DecidedRound  # noqa: PLC0415

    reader = RecordingReader(path)
    memory, found = Memory(), None
    for _, recorded in reader.rounds():
        memory = memory if recorded.memory is None else recorded.memory
        if isinstance(recorded.outcome, str):
            continue  # the operator could not decide this round, and kept its last decision
        found = DecidedRound.of(recorded.snapshot, memory, reader.config, recorded.now)
        memory = found.following
    if found is None:
        raise CommandError(f"{path}: expected a recording with a round that was decided, found none")
    return found


def row_called(snapshot: ClusterSnapshot, text: str, namespace: str | None) -> int:
    """Return the row of the queue that a person means: NAMESPACE/NAME, NAME, or the namespace that it governs. Raises CommandError."""
    names = [spec.name for spec in snapshot.queues]
    if text in names:
        return names.index(text)
    within = [name for name in names if namespace in (None, name.partition("/")[0])]
    found = [name for name in within if text in name.split("/")]
    if len(found) != 1:
        known = ", ".join(within[:5]) or "none"
        raise CommandError(f"expected one queue called {text}, found {len(found)}; there are: {known}", WRONG_ARGUMENTS)
    return names.index(found[0])


def save_round(path: Path, one: DecidedRound) -> None:
    """Write a recording of one round."""
    from fairburst.recording.lines import LineEncoder, Outcome, RecordedRound, encode_header  # noqa: PLC0415

    line = LineEncoder().encode(RecordedRound(one.now, one.snapshot, one.memory, Outcome.of(one.result)))
    path.write_text(f"{encode_header(one.config)}\n{line}\n", encoding="utf-8")
