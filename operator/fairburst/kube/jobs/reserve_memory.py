"""The memory of DRESS (reserve ratio, task durations by family, accuracy of its estimates), kept in the pool's ConfigMap.

It has its own key next to the committed capacity (committed.py). Its loss costs some minutes of learning and breaks no promise, so
unreadable data is logged and discarded.
"""

from __future__ import annotations

import logging
import math
import time

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, NotFound
from fairburst.kube.api.saved import SAVE_SECONDS, SavedText, memory_name
from fairburst.policy.dress.memory import DressMemory, dump_dress, load_dress
from fairburst.policy.errors import PolicyError
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

KEY = "small-jobs.json"
RATIO_STEP = 0.005  # of the elastic pool; smaller moves of the reserve ratio cause no write


class ReserveMemory:
    """Loads and saves one pool's memory of DRESS. Written only when it has changed, at most once every few seconds."""

    def __init__(self, client: ApiClient, namespace: str, pool: str) -> None:
        self.text = SavedText(client, namespace, memory_name(pool), KEY)
        self._saved: DressMemory | None = None
        self._next_at = -math.inf

    async def load(self) -> DressMemory | None:
        """Return the saved memory, or None if there is no usable one."""
        self._saved = None
        try:
            text = await self.text.read()
            self._saved = None if text is None else load_dress(text)
        except NotFound:
            return None
        except (ApiError, PolicyError, AttributeError, TypeError) as error:
            self.text.discard()
            event(logger, logging.WARNING, "memory of small jobs not readable, starting empty", name=self.text.name, problem=str(error))
            return None
        return self._saved

    async def save(self, memory: DressMemory | None) -> None:
        """Write the memory if it has changed and the last write is old enough. A failure is logged and retried later."""
        now = time.monotonic()
        if memory is None or now < self._next_at or not _is_news(memory, self._saved):
            return
        self._next_at = now + SAVE_SECONDS
        try:
            if await self.text.write(dump_dress(memory)):
                self._saved = memory
        except ApiError as error:
            event(logger, logging.DEBUG, "memory of small jobs not saved", name=self.text.name, problem=str(error))


def _is_news(memory: DressMemory, saved: DressMemory | None) -> bool:
    """Return whether the ratio has moved, something was learned, or a lead time was judged.

    Times alone do not count, or a settled cluster would be written forever.
    """
    if saved is None:
        return True
    moved = abs(memory.reserve_ratio - saved.reserve_ratio) >= RATIO_STEP
    return moved or memory.families != saved.families or _judged(memory) != _judged(saved)


def _judged(memory: DressMemory) -> dict[str, object]:
    return {name: (record.past, record.resting) for name, record in memory.lead_times.items()}
