"""Whether the API server answers: pauses of repeated requests end as soon as it does again. Decides nothing about writes.

A request that fails is repeated after a pause that grows with each failure. If nothing was answered meanwhile, these failures had one
cause, and the first answer to any request shows that it is gone. An API server that fails only some requests ends no pause of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

from fairburst.kube.api.errors import ApiError, NotLeading, TooManyRequests

OUTAGE_SECONDS = 2.0  # failures without any answer for this long are an outage


class Answers:
    """Notes the outcome of each request. Clients of one API server may share it; `on_return` is called at the end of each outage."""

    def __init__(self) -> None:
        self.on_return: Callable[[], None] = lambda: None
        self._silent_since = math.inf
        self._back = asyncio.Event()

    def heard(self) -> None:
        """Note an answer. If it ends an outage, all pauses end."""
        lasted, self._silent_since = time.monotonic() - self._silent_since, math.inf
        if lasted >= OUTAGE_SECONDS:
            self._back.set()
            self._back = asyncio.Event()
            self.on_return()

    def failed(self, error: ApiError) -> None:
        """Note a request without an answer. A refusal is an answer."""
        if isinstance(error, NotLeading):
            return
        if not error.transient:
            self.heard()
        elif not isinstance(error, TooManyRequests):
            self._silent_since = min(self._silent_since, time.monotonic())

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until the end of an outage."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._back.wait()
