"""Locations outside the checkout: binaries by version, and the state of clusters."""

from __future__ import annotations

import os
from pathlib import Path

from e2e.cluster.versions import Tool


def cache_folder() -> Path:
    """Return `$FAIRBURST_CACHE`, else `$XDG_CACHE_HOME/fairburst`, else `~/.cache/fairburst`."""
    own = os.environ.get("FAIRBURST_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser().absolute() if shared else Path.home() / ".cache") / "fairburst"


def binary_path(tool: Tool) -> Path:
    return cache_folder() / "bin" / tool.module / tool.name


def clusters_folder() -> Path:
    return cache_folder() / "clusters"
