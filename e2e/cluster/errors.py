"""The single error type of this package. Its messages say what was expected, what was found and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ClusterError(RuntimeError):
    """A cluster, or one of its binaries, is in an unexpected state. The message is written for users."""


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return `wrong` with the known names, and the most similar one."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.4)
    meant = f", did you mean {close[0]!r}?" if close else ""
    return f"{wrong!r}{meant} (known: {', '.join(names) or 'none'})"
