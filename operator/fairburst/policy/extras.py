"""Packages of the extra `operator`, imported on first use: most decisions need none of them, and a simulation starts without them.

`scipy` costs 110 MB on the disk and loads its parts when they are first asked for (half a second and 70 MB).
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from fairburst.policy.errors import PolicyError


class MissingPackageError(PolicyError):
    """A declaration needs a package that is not installed."""


@functools.cache
def scipy() -> Any:
    """Return the package scipy. Raises MissingPackageError with the command that installs it."""
    try:
        return importlib.import_module("scipy")
    except ImportError as error:
        needed = "expected the package scipy, which uncertain bursts and jobs with progress curves need, found none"
        raise MissingPackageError(f"{needed}; install it: pip install 'fairburst[operator]'") from error
