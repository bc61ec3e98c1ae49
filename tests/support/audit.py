"""An API server's audit log: one entry for each request that writes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from e2e.cluster import Cluster

Entry = dict[str, Any]
WRITES = {"create", "update", "patch", "delete"}


def audited(cluster: Cluster) -> list[Entry]:
    """Return the entries so far. The last line counts only once its end is written: a part of it may end like a whole one."""
    assert cluster.audit_log is not None
    whole, _, _ = cluster.audit_log.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def writes_of(cluster: Cluster, user: str) -> list[Entry]:
    """Return a user's writes that have been answered."""
    return [
        one for one in audited(cluster) if one["user"]["username"] == user and one["verb"] in WRITES and one["stage"] == "ResponseComplete"
    ]


def at(entry: Entry, field: str) -> float:
    """Return a time of an entry ("requestReceivedTimestamp", "stageTimestamp"), in seconds since the epoch."""
    return datetime.fromisoformat(entry[field]).timestamp()
