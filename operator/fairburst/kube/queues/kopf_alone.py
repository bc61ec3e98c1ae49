"""Import of Kopf without the `kubernetes` client, and without one of its warnings.

If that is installed, Kopf loads it for handlers that pass the library's objects. Our handlers don't, and nothing else in a pod needs the
library (`kube/api/auth.py` loads it for kubeconfigs). It would take more than a tenth of an idle operator's memory.
"""

from __future__ import annotations

import logging
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

# Kopf runs in a thread of its own, and warns at each start that it takes no signals there. The process does.
logging.getLogger("kopf._core.reactor.running").addFilter(lambda record: not record.getMessage().startswith("OS signals are ignored"))

__all__ = ["kopf"]
