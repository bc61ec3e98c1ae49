"""Who may look at the dashboard, and what they see. local.py and shared.py are the two ways in."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aiohttp import web

    from fairburst.cli.dashboard.questions import Questions


class Viewer(Protocol):
    """One person. `name` is None where everyone who comes in is the same person."""

    @property
    def name(self) -> str | None:
        """The user's name."""
        ...

    @property
    def questions(self) -> Questions:
        """The person's questions."""
        ...

    async def readable(self, queues: Collection[str]) -> set[str]:
        """Return those of the queues, keys of live.py, that this person may read. Raises ApiError."""
        ...

    async def sees_nodes(self) -> bool:
        """Return whether this person may list nodes, and so sees the capacity. Raises ApiError."""
        ...


class Entrance(Protocol):
    """Decides on each request."""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add this entrance's own pages, which need no viewer."""
        ...

    async def enter(self, request: web.Request) -> Viewer:
        """Return the person who asks. Raises an HTTPException for a request that may not be answered, and ApiError."""
        ...
