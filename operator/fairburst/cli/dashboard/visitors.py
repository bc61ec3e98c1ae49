"""People who have logged in with a token: the API server says who they are (TokenReview) and what they may read (SubjectAccessReview).

Both answers are kept for a while, a refusal for longer: a right that is taken away must soon matter, one that is given may wait. Questions
are asked with the person's own token, so the API server decides on every object that they read.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairburst.cli.dashboard.questions import Questions
from fairburst.kube.names import GROUP, PLURALS

if TYPE_CHECKING:
    from fairburst.cli.cluster import Cluster
    from fairburst.kube.api.client import ApiClient

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALLOWED_SECONDS, REFUSED_SECONDS = 30.0, 120.0
MOST_TOKEN_BYTES = 16 * 1024
Clock = Callable[[], float]


class NotAuthenticatedError(Exception):
    """The API server does not know the token; the message says so."""


class Rights:
    """What one user may read."""

    def __init__(self, client: ApiClient, user: Mapping[str, Any], clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._user = {part: user[part] for part in ("uid", "groups", "extra") if user.get(part)} | {"user": user["username"]}
        self._known: dict[tuple[str, ...], tuple[bool, float]] = {}

    async def may(self, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> bool:
        """Return whether the user may do that; without a namespace, in all of them. Raises ApiError."""
        key = (verb, group, resource, namespace, name)
        allowed, until = self._known.get(key, (False, 0.0))
        if self._clock() >= until:
            attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
            spec = {**self._user, "resourceAttributes": attributes}
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            answer = await self._client.create(ACCESS_REVIEWS, review)
            allowed = bool((answer.get("status") or {}).get("allowed"))
            self._known[key] = allowed, self._clock() + (ALLOWED_SECONDS if allowed else REFUSED_SECONDS)
        return allowed

    def forget_outdated(self) -> None:
        """Drop answers that are too old to be used."""
        now = self._clock()
        self._known = {key: known for key, known in self._known.items() if now < known[1]}


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person who has logged in."""

    name: str
    questions: Questions
    rights: Rights

    async def readable(self, queues: Collection[str]) -> set[str]:
        """Return those of the queues that this person may `get`."""
        everywhere = {kind for kind, plural in PLURALS.items() if await self.rights.may("get", GROUP, plural)}
        asked = [(key, *key.split("/")) for key in queues]
        single = [(key, kind, namespace, name) for key, kind, namespace, name in asked if kind not in everywhere]
        allowed = await asyncio.gather(*(self.rights.may("get", GROUP, PLURALS[kind], where, name) for _, kind, where, name in single))
        refused = {one[0] for one, may in zip(single, allowed, strict=True) if not may}
        return set(queues) - refused

    async def sees_nodes(self) -> bool:
        """Return whether this person may list nodes."""
        return await self.rights.may("list", "", "nodes")


class Visitors:
    """The visitors of one cluster, by token. `cluster` is asked for them with their own token, one question at a time."""

    def __init__(self, client: ApiClient, cluster: Cluster, clock: Clock = time.monotonic) -> None:
        self._client, self._cluster, self._clock = client, cluster, clock
        self._turn = asyncio.Lock()
        self._known: dict[bytes, tuple[Visitor, float]] = {}

    async def of(self, token: str) -> Visitor:
        """Return the person with this token. Raises NotAuthenticatedError and ApiError."""
        key = hashlib.sha256(token.encode()).digest()
        known, until = self._known.get(key, (None, 0.0))
        if known is not None and self._clock() < until:
            return known
        self._known.pop(key, None)
        user = await self._reviewed(token)
        if known is None:
            rights = Rights(self._client, user, self._clock)
            known = Visitor(user["username"], Questions(dataclasses.replace(self._cluster, token=token), self._turn), rights)
        known.rights.forget_outdated()
        self._known = {one: entry for one, entry in self._known.items() if self._clock() < entry[1]}
        self._known[key] = known, self._clock() + ALLOWED_SECONDS
        return known

    async def _reviewed(self, token: str) -> Mapping[str, Any]:
        """Return the user to whom the token belongs."""
        if not token or len(token) > MOST_TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
            raise NotAuthenticatedError("Expected a token of this cluster: one line of text without spaces.")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._client.create(TOKEN_REVIEWS, review)).get("status") or {}
        if not status.get("authenticated"):
            raise NotAuthenticatedError("The API server does not know this token. It may have expired: make a new one.")
        user: Mapping[str, Any] = status.get("user") or {}
        if not user.get("username"):
            raise NotAuthenticatedError("The API server knows this token, and no user of it.")
        return user
