"""Create pods as a controller does."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import AlreadyExists, ApiError, Conflict


async def create_pod(client: ApiClient, namespace: str, body: dict[str, Any], patience_seconds: float) -> None:
    """Create a pod with retries: admission by a quota may fail under load."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            await client.create(f"/api/v1/namespaces/{namespace}/pods", body)
        except AlreadyExists:
            return
        except ApiError as error:
            if time.monotonic() > deadline or not (error.transient or isinstance(error, Conflict)):
                raise
            await asyncio.sleep(0.05)
        else:
            return
