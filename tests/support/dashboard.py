"""Requests to the dashboard for many people, over TLS, with a person's token or without one."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path


@dataclass(frozen=True)
class Dashboard:
    """The dashboard on a port of this machine, asked by a client that trusts the `authority` and nothing else."""

    port: int
    authority: Path

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Return status and text."""
        with self._asked(path, token) as answer:
            return answer.status, answer.read().decode()

    def queues(self, token: str) -> set[str]:
        """Return the queues of the first message of the feed."""
        with self._asked("/feed", token) as feed:
            return set(json.loads(feed.readline().removeprefix(b"data: "))["queues"])

    @contextmanager
    def _asked(self, path: str, token: str | None) -> Iterator[HTTPResponse]:
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = HTTPSConnection("localhost", self.port, context=context, timeout=60)
        connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        yield connection.getresponse()
        connection.close()
