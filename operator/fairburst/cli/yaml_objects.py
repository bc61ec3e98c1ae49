"""Kubernetes objects from YAML files of users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError


def read_objects(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, those of a List one by one; `-` is standard input. Leaves out other values. Raises CommandError."""
    import yaml  # noqa: PLC0415  keeps `fairburst --help` quick

    try:
        text = sys.stdin.read() if str(file) == "-" else file.expanduser().read_text(encoding="utf-8")
        documents = [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
    except Exception as error:  # for a wrong date or a deep nesting, the library passes on errors of Python
        raise CommandError(f"{file}: expected a readable YAML file, found: {' '.join(str(error).split())}", WRONG_ARGUMENTS) from error
    found: list[dict[str, Any]] = []
    for one in documents:
        items = one.get("items") or [one]
        if not isinstance(items, list):
            raise CommandError(f"{file}: expected a list of objects as items, found {items!r}", WRONG_ARGUMENTS)
        found += [item for item in items if isinstance(item, dict)]
    return found
