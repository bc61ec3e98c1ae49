"""Kopf without the `kubernetes` client, which it loads where that is installed, for handlers that hand it that library's objects.

Ours don't, and in a pod nothing else needs it either (`kube/api/auth.py` loads it for kubeconfigs): 10 MiB of an idle operator's 86.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _as_if_missing(name: str) -> Iterator[None]:
    """`import name` fails meanwhile, as it does where nothing of that name is installed."""
    loaded = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # what the import system takes for "there is none"
    try:
        yield
    finally:
        del sys.modules[name]
        if loaded is not None:
            sys.modules[name] = loaded


with _as_if_missing("kubernetes"):
    import kopf

__all__ = ["kopf"]
