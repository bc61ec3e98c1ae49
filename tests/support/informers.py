"""An informer of pods that follows a fake server, and a second store by which its events are checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fairburst.kube.api.informer import Informer
from fairburst.kube.api.objects import Pod
from tests.support.fake_api import FakeApi
from tests.support.tasks import until

PODS = "/api/v1/pods"
FAST = (0.01, 0.05)


def pod(name: str, namespace: str = "a", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [{"name": "main"}]}, "status": status}


class Mirror:
    """A second store that follows only the reported events. It differs from the first if an event is missing or wrong."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Pod] = {}
        self.events: list[tuple[str, str]] = []

    def __call__(self, kind: str, old: Pod | None, new: Pod | None) -> None:
        subject = new if new is not None else old
        assert subject is not None
        key = (subject.metadata.namespace, subject.metadata.name)
        assert self.objects.get(key) is old
        self.events.append((kind, key[1]))
        if new is None:
            del self.objects[key]
        else:
            self.objects[key] = new


@asynccontextmanager
async def running(api: FakeApi, **options: Any) -> AsyncIterator[tuple[Informer[Pod], Mirror, list[int]]]:
    """A synced informer, its mirror, and the store's size at each wake-up."""
    mirror, sizes = Mirror(), list[int]()
    async with api.client() as client:
        informer: Informer[Pod] = Informer(
            client, PODS, Pod, lambda: sizes.append(len(informer.store)), on_event=mirror, **{"backoff_seconds": FAST} | options
        )
        task = asyncio.create_task(informer.run())
        try:
            await asyncio.wait_for(informer.synced.wait(), 5)
            yield informer, mirror, sizes
            assert not task.done(), "the informer must not end by itself"
            assert mirror.objects == informer.store
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def names(informer: Informer[Pod]) -> set[str]:
    return {name for _, name in informer.store}


async def watching(api: FakeApi) -> None:
    await until(lambda: api.open_watches == 1, "one open watch")
