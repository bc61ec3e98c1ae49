"""Results of long runs: kept in a file, so that a stopped run can continue, with progress on standard error.

A result counts only for the sources that produced it: after a change of the operator a run starts again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

ROOT = Path(__file__).parents[2]
SOURCES = ("operator/fairburst", "tests/simulation", "tests/support")
SHOWN_SECONDS = 30.0

Work = TypeVar("Work")
Result = TypeVar("Result")


def sources() -> str:
    """Return a digest of all sources that a run depends on, without the packages."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Results:
    """The finished parts of a run by key, in a file of JSON lines, or in memory if there is no file."""

    def __init__(self, file: Path | None, of: str = "") -> None:
        self._file, self._of = file, of or sources()
        self.finished: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                stored = _decoded(line)
                if stored.get("sources") == self._of:
                    self.finished[stored["key"]] = stored["result"]

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Keep one result."""
        self.finished[key] = result
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "sources": self._of, "result": result}) + "\n")


def _decoded(line: str) -> dict[str, Any]:
    """Return the stored line, or {} for a line that a killed run has half written."""
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return found


def shown(
    results: Iterable[Result], total: int, what: str, *, is_bad: Callable[[Result], bool], file: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Result]:  # fmt: skip
    """Yield the results, and print the progress of the run every half minute."""
    out, began = file or sys.stderr, clock()
    last, bad = began, 0
    for done, result in enumerate(results, 1):
        bad += is_bad(result)
        now = clock()
        if now - last >= SHOWN_SECONDS:
            last, rate = now, done / (now - began)
            out.write(f"{done} of {total} {what}, {bad} broke, {rate:.2f} a second, {(total - done) / rate / 60:.0f} min left\n")
            out.flush()
        yield result
