"""Recording in a running operator: a round hands over references, and a separate thread encodes and writes them.

Memory is bounded by the number of rounds that wait for the disk, disk space by the size and the number of files.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fairburst.config import RecordingConfig
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, RoundResult
from fairburst.recording.lines import LineEncoder, Outcome, RecordedRound, Refusal, encode_header, refusal
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

BACKLOG = 64  # rounds that may wait for the disk: a few seconds of a busy operator
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of `decide`: its inputs, its result or error, and the memory that it returned (`following`)."""

    snapshot: ClusterSnapshot
    memory: Memory
    config: PolicyConfig
    now: float
    outcome: RoundResult | Refusal
    following: Memory


def recorder_of(config: RecordingConfig) -> Recorder | None:
    """Return the configured recorder, or None if recording is off."""
    return None if config.file is None else Recorder(Path(config.file), config.max_megabytes * 1_000_000, config.files)


class Recorder:
    """Writes every call of `decide` to `path`. A full file becomes `path`.1, the old `path`.1 becomes `path`.2; `files` files are kept.

    `Recorder` also moves away a file that exists at the start, so that each file belongs to one process and is complete. A disk error ends
    the recording with a log line and never affects a round.
    """

    def __init__(self, path: Path, max_bytes: int, files: int, backlog: int = BACKLOG) -> None:
        self._path, self._max_bytes, self._files = path, max_bytes, files
        self._waiting: queue.Queue[_Call | None] = queue.Queue(backlog)
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._ended = False
        self._output: IO[bytes] | None = None
        self._encoder = LineEncoder()
        self._returned: Memory | None = None
        self.left_out = 0

    @property
    def waiting(self) -> int:
        """Number of rounds that are not written yet."""
        return self._waiting.qsize()

    def start(self) -> None:
        """Start the writing thread. Raises OSError if the file cannot be opened."""
        with self._path.open("ab"):
            pass
        self._thread.start()

    def stop(self) -> None:
        """Write the waiting rounds and close the file."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=STOP_SECONDS)
            self._thread.join(STOP_SECONDS)

    def decide(self, snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
        """Call `policy.decide` and record it. Its inputs and results are immutable, so the thread may read them later."""
        try:
            result, following = decide(snapshot, memory, config, now)
        except Exception as error:
            self._hand_over(_Call(snapshot, memory, config, now, refusal(error), memory))
            raise
        self._hand_over(_Call(snapshot, memory, config, now, result, following))
        return result, following

    def _hand_over(self, call: _Call) -> None:
        if self._ended:
            return
        try:
            self._waiting.put_nowait(call)
        except queue.Full:
            # The thread then lacks the memory before the next round, so it writes that in full, and replay stays exact.
            self.left_out += 1
            if self.left_out == 1:
                event(logger, logging.WARNING, "recording leaves out rounds: writing is too slow", path=str(self._path))

    def _write_all(self) -> None:
        try:
            while (call := self._waiting.get()) is not None:
                self._write(call)
        except Exception:
            logger.exception("recording ended")
        finally:
            self._ended = True
            self._close()

    def _write(self, call: _Call) -> None:
        output = self._output or self._begin(call.config)
        known = call.memory is self._returned
        outcome = call.outcome if isinstance(call.outcome, str) else Outcome.of(call.outcome)
        line = self._encoder.encode(RecordedRound(call.now, call.snapshot, None if known else call.memory, outcome))
        output.write(line.encode() + b"\n")
        output.flush()
        self._returned = call.following
        if output.tell() >= self._max_bytes:
            self._close()

    def _begin(self, config: PolicyConfig) -> IO[bytes]:
        """Open a new file. The encoder starts without history, so the next round is written in full."""
        if self._path.exists() and self._path.stat().st_size:
            for number in range(self._files - 1, 0, -1):
                older = self._numbered(number - 1)
                if older.exists():
                    older.replace(self._numbered(number))
        self._encoder, self._returned = LineEncoder(), None
        self._output = self._path.open("wb")
        self._output.write(encode_header(config).encode() + b"\n")
        return self._output

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _close(self) -> None:
        if self._output is not None:
            self._output.close()
            self._output = None
