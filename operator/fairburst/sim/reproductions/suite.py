"""Runs all experiments and keeps their results in a folder. An interrupted suite continues with the missing results."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fairburst
from fairburst.sim.errors import SimulationError
from fairburst.sim.plots import can_plot, save_charts
from fairburst.sim.reproductions import EXPERIMENTS
from fairburst.sim.reproductions.result import Options, Reproduction, as_json

# Packages that determine a result. The operator's other packages do not.
SOURCES = ("curves", "policy", "sim")


def origin(options: Options) -> dict[str, Any]:
    """Return the origin of a result: program, seed and form. `program` is the version with a digest of the sources in SOURCES."""
    return {"program": _program(), "seed": options.seed, "quick": options.quick}


@functools.cache  # the loaded code stays the same when the files change
def _program() -> str:
    root = Path(fairburst.__file__).parent
    digest = hashlib.sha256()
    for package in SOURCES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('fairburst')}+{digest.hexdigest()[:12]}"


def save(result: Reproduction, made_by: Mapping[str, Any], folder: Path) -> None:
    """Write the plots, if matplotlib is installed, and then `<name>.json`, so that a JSON file implies that its plots exist."""
    folder.mkdir(parents=True, exist_ok=True)
    if can_plot():
        save_charts(result.charts, folder)
    file = folder / f"{result.name}.json"
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps({**as_json(result), **made_by}, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(file)


def missing(names: Sequence[str], made_by: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the names without a result from `made_by` in `folder`."""
    return [name for name in names if not made_by.items() <= _saved(folder / f"{name}.json").items()]


def _saved(file: Path) -> Mapping[str, Any]:
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or foreign: the result is computed again
        return {}
    return {key: saved.get(key) for key in ("program", "seed", "quick")} if isinstance(saved, dict) else {}


def run_all(names: Sequence[str], options: Options, folder: Path, executor: Executor) -> Iterator[tuple[str, Mapping[str, int] | str]]:
    """Run and save each experiment. As each one ends, yield its name with its count of each verdict, or with an error message."""
    made_by = origin(options)
    pending = {executor.submit(_run_one, name, options, made_by, folder): name for name in names}
    try:
        for done in as_completed(pending):
            try:
                yield pending[done], done.result()
            except SimulationError as error:
                yield pending[done], str(error)
    finally:  # after an interruption, no further experiment may begin
        for waiting in pending:
            waiting.cancel()


def _run_one(name: str, options: Options, made_by: Mapping[str, Any], folder: Path) -> dict[str, int]:
    result = EXPERIMENTS[name].run(options, _silent)
    save(result, made_by, folder)
    verdicts: dict[str, int] = {}
    for row in result.rows:
        verdicts[row.verdict] = verdicts.get(row.verdict, 0) + 1
    return verdicts


def _silent(part: float, what: str) -> None:
    """Ignore progress: parallel experiments have no common progress."""
