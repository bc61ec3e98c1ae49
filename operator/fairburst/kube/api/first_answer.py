"""Wait for the API server's first answer, so that a process logs an absent server once and not for each of its watches."""

from __future__ import annotations

import asyncio
import logging

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, Unauthorized, Unavailable
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 10.0


async def first_answer(client: ApiClient, stop: asyncio.Event) -> None:
    """Return once the API server has answered, or `stop` is set.

    In a pod it waits, because a restart would only add the kubelet's delay. Elsewhere it raises, because a person waits.

    Raises
    ------
    ApiError : outside of a pod, the server cannot be reached or does not know the user.
    """
    pause = 0.25
    while not stop.is_set():
        try:
            await client.get("/version")
        except (Unavailable, Unauthorized) as error:
            if not client.credentials.in_pod:
                raise
            if pause < 1:
                event(logger, logging.WARNING, "waiting for the API server", problem=str(error))
        except ApiError:
            return  # the server answers; callers report the requests that it refuses
        else:
            return
        pause = min(max(1.0, 2 * pause), LONGEST_PAUSE_SECONDS)
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue
