"""The committed capacity, kept in a ConfigMap so that a restart does not forget the low-water mark and flip classes."""

from __future__ import annotations

import json
import logging
import math
import time

import numpy as np

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, NotFound
from fairburst.kube.api.saved import SAVE_SECONDS, SavedText, memory_name
from fairburst.policy.arrays import FloatArray
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

VERSION = 1
KEY = "committed-capacity.json"


class CommittedCapacity:
    """Loads and saves one pool's mark. Written only when it changes by more than rounding."""

    def __init__(self, client: ApiClient, namespace: str, pool: str) -> None:
        self.text = SavedText(client, namespace, memory_name(pool), KEY)
        self._saved: dict[str, float] = {}
        self._retry_at = 0.0

    async def load(self) -> tuple[tuple[str, ...], FloatArray, float] | None:
        """Return (resources, amounts, monotonic time of the mark); None if none is saved or it cannot be read."""
        self._saved = {}
        try:
            content = json.loads(await self.text.read() or "")
            if content["version"] != VERSION:
                raise ValueError(f"expected version {VERSION}, found {content['version']}")
            amounts = {str(resource): float(amount) for resource, amount in content["committed"].items()}
            as_of = float(content["asOf"])
            if not all(0 <= number < math.inf for number in (as_of, *amounts.values())):
                raise ValueError(f"expected finite numbers of zero or more, found {content}")
        except NotFound:
            return None
        except (ApiError, AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            self.text.discard()
            event(logger, logging.WARNING, "committed capacity not readable, measuring it again", name=self.text.name, problem=str(error))
            return None
        self._saved = amounts
        return tuple(amounts), np.array(list(amounts.values())), time.monotonic() - max(0.0, time.time() - as_of)

    async def save(self, resources: tuple[str, ...], amount: FloatArray) -> None:
        """Write the mark if it differs from the saved one; a failure is logged and tried again later."""
        current = dict(zip(resources, amount.tolist(), strict=True))
        if current == self._saved or time.monotonic() < self._retry_at:
            return
        content = json.dumps({"version": VERSION, "asOf": time.time(), "committed": current})
        try:
            if await self.text.write(content):
                self._saved = current
        except ApiError as error:
            self._retry_at = time.monotonic() + SAVE_SECONDS
            event(logger, logging.DEBUG, "committed capacity not saved", name=self.text.name, problem=str(error))
