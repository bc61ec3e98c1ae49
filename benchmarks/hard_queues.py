"""Two thousand hard queues on a separate control plane for ten minutes: how long the operator's answers take, how old its Lease becomes.

The queues are declared as fast as the API server takes them; later a few bursts begin each second. Another process asks the operator for
/healthz all the time: the answer comes from the thread that also answers the API server. The asking process measures how late it wakes
itself, which is the machine's part.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection

from benchmarks.measure import Measurement, as_found, benchmark, figure, processor_seconds
from benchmarks.scale.run import declare, each, warm
from benchmarks.scale.scenarios import Workload, many_bursts
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.workload.driver import WorkloadDriver
from fairburst.config import usual_lease_name
from fairburst.kube.api.client import ApiClient

QUEUES, SECONDS = 2000, 600.0
ASKED_SECONDS, SAMPLE_SECONDS = 0.05, 1.0
LONGEST_ANSWER_MS = 100.0


@benchmark
def hard_queues() -> Iterator[Measurement]:
    """Measure how long answers of the operator take, and how old its Lease becomes, with very many hard queues."""
    yield from hard_queues_of(QUEUES, SECONDS)


def hard_queues_of(queues: int, seconds: float) -> Iterator[Measurement]:
    """Measure it for so many queues and seconds."""
    work = many_bursts(queues, seconds)
    with Cluster.start("hard-queues", **work.cluster, report=lambda _: None) as cluster:
        yield from as_found(_measured(cluster, work, seconds))


async def _measured(cluster: Cluster, work: Workload, seconds: float) -> AsyncIterator[Measurement]:
    what = f"hard queues: {len(work.queues)}, {seconds / 60:g} minutes"
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        await each([client.create("/api/v1/namespaces", {"metadata": {"name": name}}) for name in work.queues])
        with OperatorProcess(cluster, {"log": {"level": "INFO"}, "leaderElection": {"enabled": True}}, "hard-queues") as operator:
            began = time.monotonic()
            with _asking(operator.port) as answers:
                await declare(client, work, "Quota")
                waits, late = answers()
            yield figure(f"{what}: until all have a class", time.monotonic() - began, "s")
            for one in _answered(f"{what}, while they are declared", waits, late):
                yield one
            await warm(client, work.queues[0])
            driver = WorkloadDriver(client, "hard-queues", work.latency, [], work.capacity)
            used = processor_seconds(operator.pid)
            with _asking(operator.port) as answers:
                leases = asyncio.create_task(_lease_ages(client, seconds))
                record = await driver.run(seconds, drain_seconds=30.0)
                ages, transitions = await leases
                waits, late = answers()
            used = processor_seconds(operator.pid) - used
    yield figure(f"{what}: bursts met", sum(burst.met for burst in record.bursts) / max(1, len(record.bursts)), "ratio", 1.0, at_least=True)
    for one in _answered(what, waits, late):
        yield one
    yield figure(f"{what}: age of the Lease, at most", max(ages), "s")
    yield figure(f"{what}: changes of the Lease's holder", transitions, "", 0.0)
    yield figure(f"{what}: processor time", used / seconds, "cores")


def _answered(what: str, waits: Sequence[float], late: Sequence[float]) -> Iterator[Measurement]:
    """Yield the figures of one time. waits, late: in milliseconds."""
    yield figure(f"{what}: an answer, median", _quantile(waits, 0.5), "ms")
    yield figure(f"{what}: an answer, 99th percentile", _quantile(waits, 0.99), "ms", LONGEST_ANSWER_MS)
    yield figure(f"{what}: an answer, longest", max(waits), "ms")
    yield figure(f"{what}: the asking process woke too late, 99th percentile", _quantile(late, 0.99), "ms")
    yield figure(f"{what}: the asking process woke too late, at most", max(late), "ms")


async def _lease_ages(client: ApiClient, seconds: float) -> tuple[list[float], float]:
    """Return the ages of the operator's Lease, in seconds, and how often its holder has changed."""
    ages, changes, until = list[float](), list[int](), time.monotonic() + seconds
    while time.monotonic() < until:
        items = (await client.get_json("/apis/coordination.k8s.io/v1/leases"))["items"]
        (spec,) = (item["spec"] for item in items if item["metadata"]["name"] == usual_lease_name("default"))
        ages.append((datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])).total_seconds())
        changes.append(int(spec.get("leaseTransitions") or 0))
        await asyncio.sleep(SAMPLE_SECONDS)
    return ages, float(changes[-1] - changes[0])


@contextlib.contextmanager
def _asking(port: int) -> Iterator[Callable[[], tuple[list[float], list[float]]]]:
    """Ask in another process; yield a function that ends it and returns its two lists, in milliseconds."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ask, args=(port, theirs), daemon=True)
    process.start()

    def answers() -> tuple[list[float], list[float]]:
        ours.send(None)
        waits, late = ours.recv()
        return waits, late

    try:
        yield answers
    finally:
        process.kill()
        process.join()


def _ask(port: int, pipe: Connection) -> None:
    """Ask for /healthz until a message comes; send how long each answer took, and how late each question was. In milliseconds."""
    waits, late = list[float](), list[float]()
    while not pipe.poll():
        asked = time.monotonic()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        answered = time.monotonic()
        waits.append(1e3 * (answered - asked))
        time.sleep(ASKED_SECONDS)
        late.append(1e3 * (time.monotonic() - answered - ASKED_SECONDS))
    pipe.send((waits, late))


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
