"""The label on namespaces that need the webhook: those in Gate mode, where a pod would run if it missed its gate."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fairburst.kube.api.objects import Namespace
from fairburst.kube.names import HOLDS_LABEL


def hold_labels(namespaces: Iterable[Namespace], gated: Collection[str], left_alone: Collection[str]) -> list[tuple[str, str | None]]:
    """Return (namespace, label value or None for no label) for each namespace whose label is wrong. gated: namespaces in Gate mode."""
    found = []
    for item in namespaces:
        name, present = item.metadata.name, (item.metadata.labels or {}).get(HOLDS_LABEL)
        wanted = "Pods" if name in gated else None
        if present != wanted and name not in left_alone:
            found.append((name, wanted))
    return sorted(found)
