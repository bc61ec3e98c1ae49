"""The dashboard's view of a queue and of the nodes, from the objects alone. Pure, and decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from fairburst.bounds import bounded_amount
from fairburst.cli.queues import summaries
from fairburst.kube.api.objects import Node
from fairburst.kube.usage.capacity import NodeShapes, counts
from fairburst.quantity import QuantityError, parse_quantity

AMOUNTS = ("demand", "usage", "allocation", "guaranteed", "waiting")
SHARES = ("share", "usedShare", "waitingShare")
TIMES = ("armsAt", "opensBy", "opened", "deadline")


def entry(kind: str, namespace: str, name: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return one queue: amounts in resource units (cores, bytes), times in seconds since the epoch, shares as fractions or None."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    (summary,) = summaries({(kind, namespace, name): obj}, 0.0)
    window = status.get("window")
    periodic = (spec.get("arrival") or {}).get("periodic") or {}
    return {
        **{part: summary[part] for part in ("namespace", "name", "kind", "pool", "weight", "enforcement", "class", "met", "missed")},
        **{part: summary[part] for part in ("ready", "reason", "message")},
        **{part: _amounts(status.get(part)) for part in AMOUNTS},
        **{part: _part(status.get(part)) for part in SHARES},
        "explanation": status.get("explanation") or "",
        "window": window
        and {
            "state": window.get("state"),
            **{each: datetime.fromisoformat(window[each]).timestamp() for each in TIMES if window.get(each)},
        },
        "periodSeconds": periodic.get("periodSeconds"),
    }


def pool_of(nodes: Collection[Node], resources: tuple[str, ...], selector: Mapping[str, str]) -> dict[str, Any]:
    """Return the pool's capacity by resource, and its nodes by shape, the most frequent first."""
    counted = [node for node in nodes if counts(node, selector)]
    shapes = NodeShapes.of(counted, resources)
    kinds = Counter(tuple(row) for row in shapes.offers.tolist())
    return {
        "nodes": len(counted),
        "capacity": dict(zip(resources, shapes.total().tolist(), strict=True)),
        "shapes": [{"nodes": count, "offers": dict(zip(resources, shape, strict=True))} for shape, count in kinds.most_common(8)],
    }


def _amounts(found: Mapping[str, str] | None) -> dict[str, float]:
    amounts = {}
    for name, text in (found or {}).items():
        try:
            amounts[name] = bounded_amount(parse_quantity(text))
        except QuantityError:
            continue  # another program wrote this status; the page shows its other parts
    return amounts


def _part(text: str | None) -> float | None:
    try:
        return float(str(text).removesuffix("%")) / 100
    except ValueError:
        return None
