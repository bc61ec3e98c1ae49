"""The feed against an API server that binds and ends each Job's pods at once, and records both in an audit log."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.peers import feed as module
from benchmarks.peers.audit import AuditLog
from benchmarks.peers.contender import Contender, JsonObject, Site
from benchmarks.peers.feed import Feed
from benchmarks.peers.scenarios import Burst, Promise, Queue, Scenario, Work
from e2e.cluster import Cluster
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import Unavailable
from tests.peers.test_audit import event, life


class Server:
    """Creates Jobs and plays their pods, which are named after the Job with a number. It refuses the first `away` requests."""

    def __init__(self, log: Path, away: int = 0, ends: bool = True) -> None:
        self.log, self.away, self.ends = log, away, ends
        self.bodies: list[JsonObject] = []
        log.touch()

    async def create(self, path: str, body: JsonObject) -> JsonObject:
        if self.away:
            self.away -= 1
            raise Unavailable(503, "away", path)
        self.bodies.append(body)
        name, number = body["metadata"]["name"], len(self.bodies)
        lines = [event("create", "admin", "jobs", name, at=float(number), code=201)]
        for pod in range(body["spec"]["completions"]):
            lines += life(f"{name}-{pod}", number + 0.1, number + 0.2, number + 0.9 if self.ends else None)
        with self.log.open("ab") as file:
            file.write(b"".join(lines))
        return body

    def names(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.bodies]


class Counted(Contender):
    """A contender that records its calls."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def dress(self, queue: Queue, job: JsonObject) -> JsonObject:
        job["metadata"]["labels"]["seen"] = queue.name
        return job

    def kill(self) -> None:
        self.done.append("kill")

    async def revive(self) -> None:
        self.done.append("revive")


def scenario(**changes: Any) -> Scenario:
    return replace(Scenario("test", "A test", 1, (Queue("team"),), seconds=1.5), **changes)


def feed_of(server: Server, made: Scenario, contender: Contender | None = None) -> Feed:
    site = Site(cast(Cluster, None), cast(ApiClient, server), made, server.log.parent, time.time())
    return Feed(site, contender or Counted(), AuditLog(server.log))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(module, "REVIVED_AFTER", 0.05)
    monkeypatch.setattr(module, "TAIL_SECONDS", 0.0)


async def test_given_work_is_submitted_once_and_the_run_ends_with_its_last_pod(tmp_path: Path) -> None:
    server = Server(tmp_path / "audit.log")
    feed = feed_of(server, scenario(given={"team": [Work(2, 1.0), Work(3, 5.0)]}, seconds=60.0))
    await feed.run()
    assert feed.now < 10.0
    assert [body["spec"]["completions"] for body in server.bodies] == [2, 3]
    assert [body["spec"]["template"]["metadata"]["annotations"]["run-seconds"] for body in server.bodies] == ["1.000s", "5.000s"]
    assert {body["metadata"]["labels"]["seen"] for body in server.bodies} == {"team"}
    assert all(job.ended == len(job.pods) for job in feed.log.record.jobs.values())


async def test_work_that_is_only_bound_ends_a_run_that_waits_for_bindings(tmp_path: Path) -> None:
    server = Server(tmp_path / "audit.log", ends=False)
    feed = feed_of(server, scenario(given={"team": [Work(2, 600.0)]}, seconds=60.0, until_bound=True))
    await feed.run()
    assert feed.now < 10.0


async def test_a_job_is_sent_again_while_the_server_is_away(tmp_path: Path) -> None:
    server = Server(tmp_path / "audit.log", away=2)
    await feed_of(server, scenario(given={"team": [Work(1, 1.0)]}, seconds=60.0)).run()
    assert server.names() == ["job-1"]


async def test_a_backlog_is_kept_as_deep_as_the_scenario_wants(tmp_path: Path) -> None:
    server = Server(tmp_path / "audit.log", ends=False)
    await feed_of(server, scenario(backlog={"team": lambda: repeat((Work(4, 1.0),))}, deep=10, seconds=0.3)).run()
    assert len(server.bodies) == 3  # 12 unfinished pods, and none has ended


async def test_a_graphs_job_is_submitted_when_its_parents_are_done(tmp_path: Path) -> None:
    graph = (Work(1, 1.0), Work(2, 1.0), Work(3, 1.0, parents=(0, 1)), Work(4, 1.0, parents=(2,)))
    done, held = Server(tmp_path / "audit.log"), Server(tmp_path / "held.log", ends=False)
    for server, expected in ((done, [1, 2, 3, 4]), (held, [1, 2])):
        await feed_of(server, scenario(backlog={"team": lambda: chain([graph], repeat((Work(50, 1.0),)))}, deep=3, seconds=0.4)).run()
        sizes = [body["spec"]["completions"] for body in server.bodies]
        assert [size for size in sizes if size < 50] == expected


async def test_bursts_are_sent_at_their_time_and_the_controller_dies_with_the_first(tmp_path: Path) -> None:
    server, contender = Server(tmp_path / "audit.log"), Counted()
    bursts = tuple(Burst("team", at, (Work(2, 1.0), Work(1, 1.0)), 10.0) for at in (0.1, 0.2))
    queues = (Queue("team", Promise(3, 5, 10, 60)),)
    feed = feed_of(server, scenario(queues=queues, bursts=bursts, until_burst=True, killed_at=0.1, seconds=60.0), contender)
    await feed.run()
    assert [(burst.jobs, burst.pods, burst.deadline) for burst in feed.sent] == [
        (("job-1", "job-2"), 3, 10.0),
        (("job-3", "job-4"), 3, 10.0),
    ]
    assert Counter(contender.done) == {"kill": 1, "revive": 1}
    assert 0.2 <= feed.now < 10.0
