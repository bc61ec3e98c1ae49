"""One text under one key of a ConfigMap: how what must survive a restart is read and written. Decides neither what nor when.

Errors are the caller's: whether a memory that can't be read starts anew or is left alone depends on what is in it.
"""

from __future__ import annotations

import asyncio

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import AlreadyExists, NotFound, TooManyRequests, Unavailable

# Between two saves of what changes all the time. With the round that has it saved, a take-over finds it at most five seconds old.
SAVE_SECONDS = 4.0
READ_RETRY_SECONDS = (0.2, 1.0, 3.0)  # an API server that has just started, or is asked by everybody at once, answers soon


def memory_name(pool: str) -> str:
    """ConfigMap of the committed capacity and of what DRESS remembers, a key each."""
    return f"fairburst-memory-{pool}"


def job_runs_name(pool: str) -> str:
    """ConfigMap of the completed runs of job families."""
    return f"fairburst-job-runs-{pool}"


class SavedText:
    """The text at `key` of the ConfigMap `name`; its other keys are left alone."""

    def __init__(self, client: ApiClient, namespace: str, name: str, key: str) -> None:
        self._client, self.name, self._key = client, name, key
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"

    async def read(self) -> str | None:
        """What is saved; None where the ConfigMap has no such key. A server that fails for a moment is asked again.

        Raises NotFound where there is no ConfigMap, and ApiError.
        """
        for seconds in READ_RETRY_SECONDS:
            try:
                return await self._read()
            except (Unavailable, TooManyRequests):
                await asyncio.sleep(seconds)
        return await self._read()

    async def write(self, text: str) -> bool:
        """Save it; False where somebody else has just made the ConfigMap, for the next time. Raises ApiError."""
        data = {"data": {self._key: text}}
        try:
            await self._client.merge_patch(f"{self._collection}/{self.name}", data)
        except NotFound:
            try:
                await self._client.create(self._collection, {"metadata": {"name": self.name}, **data})
            except AlreadyExists:
                return False
        return True

    async def _read(self) -> str | None:
        stored = await self._client.get_json(f"{self._collection}/{self.name}")
        text: str | None = (stored.get("data") or {}).get(self._key)
        return text
