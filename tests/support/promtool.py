"""Prometheus and promtool, which tests its rules: the installed ones, or Debian's package, unpacked in the cache folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from e2e.cluster.cache import cache_folder


class NoPromtoolError(Exception):
    """They are neither installed nor available. The message says what was tried."""


def promtool() -> Path:
    """Return the program. Raises NoPromtoolError."""
    return _program("promtool")


def prometheus() -> Path:
    """Return the program. Raises NoPromtoolError."""
    return _program("prometheus")


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found:
        return Path(found)
    folder = cache_folder() / "promtool"
    program = folder / "usr" / "bin" / name
    if not program.exists():
        _unpack_package(folder)
    if not program.exists():
        raise NoPromtoolError(f"expected usr/bin/{name} in Debian's package prometheus, found none")
    return program


def _unpack_package(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, check=True, capture_output=True, text=True, timeout=120)
        (package,) = folder.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True, capture_output=True, text=True, timeout=60)
        package.unlink()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
        raise NoPromtoolError(
            f"Prometheus is not installed, and apt-get download prometheus failed: {str(problem).strip()[-200:]}"
        ) from error
