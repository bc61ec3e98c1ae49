"""A namespace that a late watch shows as gone comes back with its queues: what their statuses remember still holds."""

from __future__ import annotations

import pytest

from tests.support.objects import World, latency_spec

LQ, TQ = "LatencyQueue", "ThroughputQueue"


@pytest.mark.parametrize("kind", [LQ, TQ])
def test_a_queue_keeps_its_promise_when_its_namespace_is_back(kind: str) -> None:
    """As for a leader that reads the queues again when it takes over, while its watch of namespaces is behind."""
    world = World()
    world.queue(kind, "ours", spec=latency_spec() if kind == LQ else {})
    world.queue(TQ, "others", created="2026-02-01T00:00:00Z")
    world.settle(5.0)
    promise = world.status("ours", kind=kind)["promise"]
    hidden = world.view.namespaces.pop(("", "ours"))  # type: ignore[attr-defined]
    world.settle(5.0)
    world.queue(TQ, "later", created="2026-03-01T00:00:00Z")
    world.settle(5.0)
    world.view.namespaces["", "ours"] = hidden  # type: ignore[index]
    world.settle(5.0)
    assert world.status("ours", kind=kind)["promise"] == promise
