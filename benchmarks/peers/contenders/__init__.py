"""The contenders, each in one file with a table `CONTENDERS` of its variants. Every file in this folder takes part."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from benchmarks.peers.contender import Contender


def contenders() -> dict[str, Callable[[], Contender]]:
    """Return the constructor of each contender, by name."""
    known: dict[str, Callable[[], Contender]] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        known |= importlib.import_module(f"{__name__}.{module.name}").CONTENDERS
    return known
