"""The Event that tells people what was decided about an object of theirs. A value; decides nothing."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def event_body(involved: Mapping[str, str], reason: str, message: str, pool: str, *, warning: bool) -> dict[str, Any]:
    """An Event on `involved` (apiVersion, kind, namespace, name, uid), as of now."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {
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
