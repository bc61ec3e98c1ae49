"""Kubernetes Events, which tell users about decisions on their objects."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from fairburst.kube.api.client import ApiClient
from fairburst.kube.times import from_epoch


async def create_event(client: ApiClient, involved: Mapping[str, str], reason: str, message: str, pool: str, *, warning: bool) -> None:
    """Create an Event on `involved` (apiVersion, kind, namespace, name, uid), as of now. Raises ApiError."""
    now = from_epoch(time.time()).isoformat(timespec="microseconds").replace("+00:00", "Z")
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{involved['name']}.{uuid.uuid4().hex[:16]}", "namespace": involved["namespace"]},
        "involvedObject": dict(involved),
        "reason": reason,
        "message": message[:1024],
        "type": "Warning" if warning else "Normal",
        "eventTime": now,
        "firstTimestamp": now[:19] + "Z",
        "lastTimestamp": now[:19] + "Z",
        "count": 1,
        "action": "Decide",
        "reportingComponent": "fairburst.dev/operator",
        "reportingInstance": pool,
        "source": {"component": "fairburst"},
    }
    await client.create(f"/api/v1/namespaces/{involved['namespace']}/events", body)
