"""The packages for `helm install` and `pip install`: the chart as one file, and the wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from e2e.cluster.build import ensure_helm
from release.chart import CHART, ROOT
from release.check import NotReadyError

SECONDS = 600  # Helm is built first if it is not cached


def write(folder: Path) -> list[Path]:
    """Write chart and wheel to the folder, and return their paths. Raises NotReadyError with the error output of Helm or pip."""
    folder.mkdir(parents=True, exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    _run(str(ensure_helm()), "package", str(CHART), "--destination", str(folder))
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    return sorted(path for path in folder.iterdir() if before.get(path) != path.stat().st_mtime_ns)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 (our own words)
    if done.returncode != 0:
        raise NotReadyError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
