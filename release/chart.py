"""`python -m release chart`: write the generated parts of charts/fairburst, or list those that are out of date."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from release.readme import with_table
from release.schema import to_json, values_schema
from release.templates import generated

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "fairburst"


def package_version(root: Path = ROOT) -> str:
    """Return the version from pyproject.toml, its only source."""
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def files() -> dict[Path, str]:
    """Return the expected text of each file that is generated or has a generated part."""
    texts = {CHART / "templates" / name: text for name, text in generated().items()}
    texts[CHART / "values.schema.json"] = to_json(values_schema())
    texts[CHART / "README.md"] = with_table(_text("README.md"), _text("values.yaml"))
    version = package_version()
    texts[CHART / "Chart.yaml"] = re.sub(r"(?m)^(version|appVersion): .*$", rf"\g<1>: {version}", _text("Chart.yaml"))
    return texts


def drifted() -> list[Path]:
    """Return the files that are missing or differ from their expected text."""
    return [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def write() -> list[Path]:
    """Write the files that differ and return their paths."""
    changed = drifted()
    texts = files()
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return changed


def _text(name: str) -> str:
    return (CHART / name).read_text(encoding="utf-8")
