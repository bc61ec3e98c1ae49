"""Reclaim's memory in the pool's ConfigMap: pods for which room was made, and queues that are short. After a restart no room is made twice.

It is written before evictions are sent, so that it covers every eviction. A memory that cannot be read is logged and replaced at once by
the present one, which starts empty: ending pods are still seen as such, so only the grace time and the pause after an attempt start again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, NotFound
from fairburst.kube.api.saved import SAVE_SECONDS, SavedText, memory_name
from fairburst.policy.errors import PolicyError
from fairburst.policy.reclaim.memory import dump_reclaim, load_reclaim
from fairburst.policy.reclaim.values import ReclaimMemory
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

KEY = "reclaim.json"


class SavedReclaim:
    """Loads and saves one pool's memory of reclaim."""

    def __init__(self, client: ApiClient, namespace: str, pool: str) -> None:
        self.text = SavedText(client, namespace, memory_name(pool), KEY)
        self._saved: ReclaimMemory | None = ReclaimMemory()  # None if what is saved is unknown or of no use
        self._next_at = -math.inf
        self._writing = asyncio.Lock()

    async def load(self) -> ReclaimMemory:
        """Return the saved memory; an empty one if none is saved or it cannot be read."""
        self._saved = None
        try:
            text = await self.text.read()
            self._saved = ReclaimMemory() if text is None else load_reclaim(text)
        except NotFound:
            self._saved = ReclaimMemory()
        except (ApiError, PolicyError) as error:
            self.text.discard()
            event(logger, logging.WARNING, "memory of reclaim not readable, starting empty", name=self.text.name, problem=str(error))
        return self._saved or ReclaimMemory()

    async def save(self, current: Callable[[], ReclaimMemory], *, ahead: bool = False) -> bool:
        """Save the current memory if it differs; return whether the saved one is up to date.

        Saves every few seconds at most, but at once if evictions wait for it (`ahead`). Writes are sent one at a time, so that an older
        memory never follows a newer one.
        """
        async with self._writing:
            memory = current()
            if self._saved is not None and _kept(memory) == _kept(self._saved):
                return True
            if time.monotonic() < self._next_at and not ahead:
                return False
            self._next_at = time.monotonic() + SAVE_SECONDS
            return await self._write(memory)

    async def _write(self, memory: ReclaimMemory) -> bool:
        try:
            written = await self.text.write(dump_reclaim(memory))
        except ApiError as error:
            event(logger, logging.DEBUG, "memory of reclaim not saved", name=self.text.name, problem=str(error))
            return False
        self._saved = memory if written else self._saved
        return written


def _kept(memory: ReclaimMemory) -> object:
    """Return the parts whose change is worth a write."""
    return memory.short_since, memory.made_room, memory.asked
