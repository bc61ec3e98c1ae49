"""Which namespaces cannot do without the webhook: those in which a pod that misses its gate would run. A label on them says so."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fairburst.kube.api.objects import Namespace
from fairburst.kube.names import HOLDS_LABEL


def hold_labels(namespaces: Iterable[Namespace], gated: Collection[str], left_alone: Collection[str]) -> list[tuple[str, str | None]]:
    """What the label should say (None: nothing) where it does not. `gated`: namespaces of queues in Gate mode."""
    found = []
    for item in namespaces:
        name, present = item.metadata.name, (item.metadata.labels or {}).get(HOLDS_LABEL)
        wanted = "Pods" if name in gated else None
        if present != wanted and name not in left_alone:
            found.append((name, wanted))
    return sorted(found)
