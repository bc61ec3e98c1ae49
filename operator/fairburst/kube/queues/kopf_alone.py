"""Import of Kopf without the `kubernetes` client. If that is installed, Kopf loads it for handlers that pass the library's objects.

Our handlers don't, and nothing else in a pod needs the library (`kube/api/auth.py` loads it for kubeconfigs). It would take more than a
tenth of an idle operator's memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _as_if_missing(name: str) -> Iterator[None]:
    """Make `import name` fail inside the context, as if the package were not installed."""
    loaded = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # the import system's mark for a missing module
    try:
        yield
    finally:
        del sys.modules[name]
        if loaded is not None:
            sys.modules[name] = loaded


with _as_if_missing("kubernetes"):
    import kopf

__all__ = ["kopf"]
