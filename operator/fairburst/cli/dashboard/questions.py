"""Questions that a page asks on demand: the commands `explain`, `eta` and `plan`, with their answers as `-o json` prints them.

Each reads the cluster and decides, which takes a second or more at a thousand queues, so they run one at a time, outside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import typer

from fairburst.cli import eta, explain, plan
from fairburst.cli.cluster import Cluster
from fairburst.cli.errors import CommandError
from fairburst.kube.api.errors import Forbidden

RUNS, SEED = 40, 1


class Questions:
    """One person's questions about a cluster. Every method raises CommandError with one line that says what to do.

    `turn` is shared with other people's: each person waits in its line with one question at most.
    """

    def __init__(self, cluster: Cluster, turn: asyncio.Lock | None = None) -> None:
        self._cluster = cluster
        self._own_turn, self._turn = asyncio.Lock(), turn or asyncio.Lock()

    async def queue(self, namespace: str, name: str) -> dict[str, Any]:
        """Explain the queue's allocation, with changes that would raise it."""
        findings, found = await self._ask(lambda: self._cluster.ask(lambda client: explain.ask(client, self._cluster, name, namespace)))
        return explain.as_data(findings, found)

    async def job(self, namespace: str, name: str) -> dict[str, Any]:
        """Explain why the Job waits, and forecast its start."""
        what = f"job/{name}"
        findings, found = await self._ask(lambda: self._cluster.ask(lambda client: explain.ask(client, self._cluster, what, namespace)))
        return {**explain.as_data(findings, found), "eta": await self._start(namespace, name)}

    async def what_if(self, capacity: Sequence[str], removed: Sequence[str], weights: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Return the effect of changed capacity, queues and weights on every queue."""
        try:
            asked = plan.Asked(
                (), dict(plan.factor(text) for text in capacity), tuple(removed),
                {queue: plan.parsed_weight(text) for queue, text in weights}, {},
            )  # fmt: skip
        except typer.BadParameter as error:
            raise CommandError(error.message) from None
        if not (asked.factors or asked.removed or asked.weights):
            raise CommandError("expected a change to try: capacity, a queue to remove, or a weight; found none")
        found = await self._ask(lambda: self._cluster.ask(lambda client: plan.ask(client, self._cluster, asked)))
        return plan.as_data(found)

    async def _start(self, namespace: str, name: str) -> dict[str, Any]:
        """Forecast a Job's start. A person who may not read the whole cluster is told where the operator's forecast is."""
        try:
            found: dict[str, Any] = await self._ask(
                lambda: self._cluster.ask(lambda client: eta.ask(client, self._cluster, namespace, name, RUNS, SEED))
            )
        except CommandError as error:
            if isinstance(error.__cause__, Forbidden):
                return {"state": "Unknown"}
            raise
        return found

    async def _ask(self, work: Callable[[], Any]) -> Any:
        async with self._own_turn, self._turn:
            return await asyncio.to_thread(work)
