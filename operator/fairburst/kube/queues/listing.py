"""Queue objects and other collections, read once and untyped, for commands. The operator watches instead."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fairburst.kube.api.client import ApiClient, JsonObject
from fairburst.kube.names import GROUP, PLURALS, VERSION

PAGE_SIZE = 500

Queues = Mapping[tuple[str, str, str], Mapping[str, Any]]  # by kind, namespace, name


def is_decided(queue: Mapping[str, Any]) -> bool:
    """Return whether an operator has decided on the queue's present spec."""
    return bool((queue.get("status") or {}).get("observedGeneration") == queue["metadata"].get("generation"))


async def read_queues(client: ApiClient, namespace: str | None = None) -> Queues:
    """Return the queue objects of all namespaces, or of one. Raises ApiError; NotFound if the kinds are not installed."""
    lists = await asyncio.gather(*(_queues_of(client, kind, namespace) for kind in PLURALS))
    return {key: obj for found in lists for key, obj in found.items()}


async def _queues_of(client: ApiClient, kind: str, namespace: str | None) -> Queues:
    within = "" if namespace is None else f"/namespaces/{namespace}"
    items = await read_all(client, f"/apis/{GROUP}/{VERSION}{within}/{PLURALS[kind]}")
    return {(kind, obj["metadata"]["namespace"], obj["metadata"]["name"]): {**obj, "kind": kind} for obj in items}


async def read_all(client: ApiClient, path: str, params: Mapping[str, str] | None = None) -> list[JsonObject]:
    """Return all items of a collection, read in pages. Raises ApiError."""
    items: list[JsonObject] = []
    token = ""
    while True:
        page = await client.get_json(path, {**(params or {}), "limit": str(PAGE_SIZE)} | ({"continue": token} if token else {}))
        items += page.get("items") or []
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return items
