"""Text under one key of a ConfigMap, for state that must survive a restart.

Callers handle the errors, because it depends on the content whether unreadable state is replaced or left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import AlreadyExists, NotFound, TooManyRequests, Unavailable

# Between two looks at what is saved: another client may have deleted or damaged it, and the next leader would find nothing.
LOOK_SECONDS = 10.0
# Time between two saves of state that changes all the time. With the round before a save, a take-over finds state at most 5 s old.
SAVE_SECONDS = 4.0
READ_RETRY_SECONDS = (0.2, 1.0, 3.0)  # an API server that has just started, or is overloaded for a moment, soon answers


def memory_name(pool: str) -> str:
    """Return the name of the ConfigMap with the committed capacity and the memory of DRESS and of reclaim, one key each."""
    return f"fairburst-memory-{pool}"


def job_runs_name(pool: str) -> str:
    """Return the name of the ConfigMap with the completed runs of job families."""
    return f"fairburst-job-runs-{pool}"


class SavedText:
    """The text at `key` of the ConfigMap `name`. Other keys are left alone."""

    def __init__(self, client: ApiClient, namespace: str, name: str, key: str) -> None:
        self._client, self.name, self._key = client, name, key
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._known: str | None = None  # as last read or written

    async def read(self) -> str | None:
        """Return the saved text, or None if the ConfigMap has no such key. Retries while the server is unavailable.

        Raises NotFound if there is no ConfigMap, and ApiError.
        """
        self._known = None
        for seconds in READ_RETRY_SECONDS:
            try:
                return await self._read()
            except (Unavailable, TooManyRequests):
                await asyncio.sleep(seconds)
        return await self._read()

    def discard(self) -> None:
        """Note that what was read is of no use: `restore` leaves it until the next write."""
        self._known = None

    async def restore(self, stored: Mapping[str, str]) -> None:
        """Write the text again as it was last read or written, if `stored`, the ConfigMap's data, has another one. Raises ApiError."""
        if self._known is not None and stored.get(self._key) != self._known:
            await self.write(self._known)

    async def write(self, text: str) -> bool:
        """Save the text; return False if another client has just created the ConfigMap, so that the caller tries again. Raises ApiError."""
        data = {"data": {self._key: text}}
        try:
            await self._client.merge_patch(f"{self._collection}/{self.name}", data)
        except NotFound:
            try:
                await self._client.create(self._collection, {"metadata": {"name": self.name}, **data})
            except AlreadyExists:
                return False
        self._known = text
        return True

    async def _read(self) -> str | None:
        stored = await self._client.get_json(f"{self._collection}/{self.name}")
        self._known = (stored.get("data") or {}).get(self._key)
        return self._known


async def stored_texts(client: ApiClient, namespace: str, name: str) -> Mapping[str, str]:
    """Return the data of a ConfigMap, empty if there is none. Raises ApiError."""
    try:
        stored = await client.get_json(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except NotFound:
        return {}
    return stored.get("data") or {}
