"""Reading of recordings, round by round, because a file may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairburst.policy.model import PolicyConfig
from fairburst.recording.errors import RecordingError
from fairburst.recording.lines import LineDecoder, RecordedRound, decode_header


class RecordingReader:
    """Reader of one file. `config`: the recorded configuration. `cut_off`: whether the last pass skipped an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_off = False
        _, text = next(self._lines(), (1, ""))
        if not text:
            raise RecordingError(f"{path}:1: expected the header of a recording, found an empty file")
        try:
            self.config: PolicyConfig = decode_header(text)
        except (ValueError, OverflowError, RecursionError) as error:
            raise RecordingError(f"{path}:1: {error}") from error

    def rounds(self) -> Iterator[tuple[int, RecordedRound]]:
        """Yield every round with its line number. Raises RecordingError at the first line that is not a round."""
        decoder = LineDecoder()
        for number, text in self._lines():
            if number == 1:
                continue
            try:
                yield number, decoder.decode(text)
            except (ValueError, OverflowError, RecursionError) as error:
                raise RecordingError(f"{self.path}:{number}: {error}") from error

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield all complete lines. A killed process leaves an incomplete last line, which is not an error."""
        self.cut_off = False
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    self.cut_off = True
                    return
                try:
                    yield number, line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise RecordingError(f"{self.path}:{number}: expected UTF-8 text, found {error}") from error
