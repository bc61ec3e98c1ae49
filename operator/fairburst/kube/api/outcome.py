"""Count the outcomes of writes. A failed write is not raised: the next round sees the difference. `retry.py` logs and paces failures."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from fairburst.kube.api.errors import ApiError, BackedOff, Conflict, NotFound, NotLeading
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)


async def succeeded(kind: str, write: Awaitable[None], metrics: Metrics) -> bool:
    """Wait for a write's answer; return whether it succeeded. `kind` names it in the log and in the metric."""
    try:
        await write
    except (NotFound, Conflict, NotLeading) as error:  # a change whose event is still on its way, or another leader
        event(logger, logging.DEBUG, "write overtaken", kind=kind, problem=str(error))
        metrics.writes.labels(kind, "overtaken").inc()
        return False
    except BackedOff:
        metrics.writes.labels(kind, "postponed").inc()
        return False
    except ApiError:
        metrics.writes.labels(kind, "error").inc()
        return False
    metrics.writes.labels(kind, "ok").inc()
    return True
