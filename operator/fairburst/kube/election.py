"""The process's candidacy for the Lease, as configured."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fairburst.config import Config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.lease import LeaderElection, LeaseTimes
from fairburst.kube.side_thread import Runner


def election_of(config: Config, client: ApiClient, identity: str, home: asyncio.AbstractEventLoop | None = None) -> LeaderElection:
    """Return the election as configured. client, home: as `LeaderElection` expects them."""
    chosen = config.leader_election
    times = LeaseTimes(chosen.lease_seconds, chosen.renew_deadline_seconds, chosen.retry_seconds)
    return LeaderElection(client, config.namespace, config.lease_name, identity, times, home)


@contextlib.asynccontextmanager
async def elected(config: Config, client: ApiClient, identity: str, run: Runner) -> AsyncIterator[LeaderElection | None]:
    """Yield the election of a process, None if the configuration has none; it fences `client`, which sends the process's other requests.

    `run` says where its requests are sent: in a thread no renewal waits for a round.
    """
    if not config.leader_election.enabled:
        yield None
        return
    home = asyncio.get_running_loop()

    async def made() -> tuple[ApiClient, LeaderElection]:
        own = ApiClient(client.credentials, agent=f"fairburst {identity}")
        return own, election_of(config, own, identity, home)

    own, election = await run(made())
    client.fence = election
    try:
        yield election
    finally:
        await run(own.close())
