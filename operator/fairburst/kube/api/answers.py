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

from fairburst.kube.api.errors import ApiError

OUTAGE_SECONDS = 2.0  # failures without any answer for this long are an outage


class Outage:
    """Failures without a success between them."""

    def __init__(self) -> None:
        self._since = math.inf

    def failed(self, now: float) -> None:
        """Note a failure. now: monotonic seconds."""
        self._since = min(self._since, now)

    def ends(self, now: float) -> bool:
        """Note a success; return whether it ends an outage."""
        lasted, self._since = now - self._since, math.inf
        return lasted >= OUTAGE_SECONDS


class Answers:
    """Notes the outcome of each request. Clients of one API server may share it; `on_return` is called at the end of each outage."""

    def __init__(self) -> None:
        self.on_return: Callable[[], object] = lambda: None
        self._silence = Outage()
        self._back = asyncio.Event()

    def heard(self) -> None:
        """Note an answer. If it ends an outage, all pauses end."""
        if self._silence.ends(time.monotonic()):
            self._back.set()
            self._back = asyncio.Event()
            self.on_return()

    def failed(self, error: ApiError) -> None:
        """Note a request without an answer. A refusal is an answer."""
        if error.by_server:
            self._silence.failed(time.monotonic())
        elif not error.transient:
            self.heard()

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until the end of an outage."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._back.wait()
