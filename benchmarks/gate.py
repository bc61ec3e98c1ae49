"""Gate mode on a separate control plane: the delay from event to release, and the rate of releases relative to a bare loop of patches.

The operator's log gives the time from the event to the decision, its metrics the time from the event to the PATCH. A separate watch
measures the API server's part: from a pod's ADDED event to the event that shows its gate removed. For comparison, a bare loop patches every
pod that its watch shows, on the same server, in a namespace with the same policies and the same quota. Start-up of cluster and operator is
excluded.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.creation import create_pod
from benchmarks.measure import Measurement, as_found, benchmark, figure
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import NotFound
from fairburst.quantity import parse_quantity

NODES, NODE_CPU = 40, 32
IN_FLIGHT = 32
PATIENCE_SECONDS = 180.0
BARE_GATE = "bare.example/hold"  # the bare loop's gate: the operator would remove its own
_FIRST = "/spec/schedulingGates/0"
BARE_PATCH = [{"op": "test", "path": f"{_FIRST}/name", "value": BARE_GATE}, {"op": "remove", "path": _FIRST}]
_PATCHED = re.compile(r'fairburst_queue_patch_seconds_bucket\{le="(.+)"\}')
_DECIDED = re.compile(r"pods released .*?pods=(\d+) .*?decided_ms=([\d.]+)")


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] = []


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    type: str
    object: _Pod


@dataclass
class Watch:
    """Monotonic seconds at which each pod of a namespace was first seen gated, and first seen without a gate."""

    gated: dict[str, float] = field(default_factory=dict)
    released: dict[str, float] = field(default_factory=dict)

    async def follow(self, client: ApiClient, namespace: str) -> None:
        """Watch until cancelled. The server ends a watch that falls behind; a new one resumes from the last version."""
        path, decoder = f"/api/v1/namespaces/{namespace}/pods", msgspec.json.Decoder(_Event)
        version = (await client.get_json(path))["metadata"]["resourceVersion"]
        while True:
            async for line in client.stream(path, {"watch": "true", "resourceVersion": version}):
                event, now = decoder.decode(line), time.monotonic()
                version = event.object.metadata.resource_version
                seen = self.gated if event.object.spec.scheduling_gates else self.released
                seen.setdefault(event.object.metadata.name, now)

    def reactions(self) -> list[float]:
        """Return the seconds from gated to released, by pod."""
        return [self.released[name] - at for name, at in self.gated.items() if name in self.released]

    def rate(self) -> float:
        """Return pods released a second, from the first to the last."""
        times = sorted(self.released.values())
        return (len(times) - 1) / (times[-1] - times[0])


def pod(name: str, gates: tuple[str, ...] = ()) -> dict[str, Any]:
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "schedulingGates": [{"name": gate} for gate in gates]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def queue(kind: str, namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "queue", "namespace": namespace}
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": {"enforcement": "Gate", **spec}}


class Site:
    """A running control plane and operator, and the actions on them."""

    def __init__(self, client: ApiClient, cluster: Cluster, operator: OperatorProcess) -> None:
        self.client, self.cluster, self.operator = client, cluster, operator

    async def namespace(self, name: str, queue_object: dict[str, Any] | None = None) -> None:
        """Create a namespace. With a queue in Gate mode, return once its pods are gated."""
        await self.client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if queue_object is None:
            return
        plural = queue_object["kind"].lower() + "s"
        await self.client.create(f"/apis/fairburst.dev/v1alpha1/namespaces/{name}/{plural}", queue_object)
        await self.until(lambda: self.is_gated(name), f"pods of {name} to be gated")
        await self.until(lambda: self.permits(name, math.inf), f"the quota of {name} to have no limits")

    async def is_gated(self, namespace: str) -> bool:
        answer = await self.client.create(f"/api/v1/namespaces/{namespace}/pods", pod("probe"), {"dryRun": "All"})
        return bool(answer["spec"].get("schedulingGates"))

    async def permits(self, namespace: str, cpu: float) -> bool:
        """Return whether the quota is there and enforces at least so much cpu, or none at all."""
        with contextlib.suppress(NotFound):
            quota = await self.client.get_json(f"/api/v1/namespaces/{namespace}/resourcequotas/fairburst")
            enforced = quota.get("status", {}).get("hard") or {}
            return parse_quantity(enforced["requests.cpu"]) >= cpu if enforced else not quota["spec"].get("hard")
        return False

    async def create(self, namespace: str, count: int, *, gates: tuple[str, ...] = (), rate: float | None = None) -> None:
        """Create pods, as fast as the server accepts them or at a steady rate."""
        begin, limit = time.monotonic(), asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            if rate is not None:
                await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            async with limit:
                await create_pod(self.client, namespace, pod(f"p{number:04}", gates), PATIENCE_SECONDS)

        await asyncio.gather(*map(one, range(count)))

    async def bare_loop(self, namespace: str, count: int) -> None:
        """Send the same patch for each pod, with as many in flight as the operator, and do nothing else."""
        limit = asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            async with limit:
                await self.client.json_patch(f"/api/v1/namespaces/{namespace}/pods/p{number:04}", BARE_PATCH)

        await asyncio.gather(*map(one, range(count)))

    async def bare_reactor(self, namespace: str) -> None:
        """Send the same patch for each pod as soon as a watch shows it, and do nothing else, until cancelled."""
        path, decoder = f"/api/v1/namespaces/{namespace}/pods", msgspec.json.Decoder(_Event)
        version = (await self.client.get_json(path))["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as patches:
            while True:
                async for line in self.client.stream(path, {"watch": "true", "resourceVersion": version}):
                    event = decoder.decode(line)
                    version = event.object.metadata.resource_version
                    if event.type == "ADDED":
                        patches.create_task(self.client.json_patch(f"{path}/{event.object.metadata.name}", BARE_PATCH))

    async def remove(self, namespace: str) -> None:
        """Delete the namespace with its queue and its pods, so that the next measurement has the cluster to itself."""
        await self.client.delete(f"/api/v1/namespaces/{namespace}")
        await self.until(lambda: self.is_empty(namespace), f"{namespace} to be empty")

    async def is_empty(self, namespace: str) -> bool:
        return not (await self.client.get_json(f"/api/v1/namespaces/{namespace}/pods", {"limit": "1"}))["items"]

    async def until(self, check: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await check():
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {PATIENCE_SECONDS:g} s for {what}; the operator's last lines:\n{self.operator.log_tail()}")
            await asyncio.sleep(0.1)

    async def watched(self, namespace: str, count: int, act: Callable[[], Awaitable[None]]) -> Watch:
        """Run `act` and return the watch's observations once all pods have been released."""
        watch = Watch()
        task = asyncio.create_task(watch.follow(self.client, namespace))
        await asyncio.sleep(0.3)
        await act()

        async def done() -> bool:
            if task.done():
                task.result()
                raise RuntimeError(f"the watch of {namespace} ended after {len(watch.released)} pods")
            return len(watch.released) >= count

        await self.until(done, f"{count} pods of {namespace} to be released")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return watch

    def decisions(self, after: int) -> list[tuple[int, float]]:
        """Return (pods, milliseconds from the event to the decision) of each decision logged since the log was `after` bytes long."""
        text = self.operator.log.read_bytes()[after:].decode(errors="replace")
        return [(int(count), float(delay)) for count, delay in _DECIDED.findall(text)]


async def rates(site: Site, pods: int) -> tuple[list[float], list[float]]:
    """Return pods released a second by the operator and by a bare loop, in turn, twice each. All pods wait before the first release."""
    ours, bare = [], []
    for turn in range(2):
        name = f"bare-{turn}"
        await site.namespace(name)
        await site.create(name, pods, gates=(BARE_GATE,))
        bare.append((await site.watched(name, pods, lambda name=name: site.bare_loop(name, pods))).rate())  # type: ignore[misc]
        await site.remove(name)
        name = f"ours-{turn}"
        await site.namespace(name, queue("ThroughputQueue", name, limits={"cpu": "1"}))
        await site.create(name, pods)
        unlimited = {"spec": {"limits": {"cpu": str(pods)}}}
        path = f"/apis/fairburst.dev/v1alpha1/namespaces/{name}/throughputqueues/queue"

        async def lift(path: str = path, unlimited: dict[str, Any] = unlimited) -> None:
            await site.client.merge_patch(path, unlimited)

        ours.append((await site.watched(name, pods - 1, lift)).rate())  # the old limit released one pod
        await site.remove(name)
    return ours, bare


async def burst(site: Site, kind: str, pods: int) -> list[tuple[int, float]]:
    """Return the decisions over a burst that arrives as fast as the server accepts it."""
    name = f"burst-{kind.lower()}"
    await site.namespace(name, queue(kind, name, **_spec(kind, pods)))
    before = site.operator.log.stat().st_size
    await site.watched(name, pods, lambda: site.create(name, pods))
    await site.remove(name)
    return site.decisions(before)


@dataclass(frozen=True)
class Trickle:
    """Pods that arrive at a steady rate.

    reactions: seconds from event to patch.
    decided: milliseconds from the first event that led to a decision to that decision, for each pod.
    sent: cumulated number of patches by seconds.
    """

    reactions: list[float]
    decided: list[float]
    sent: dict[float, int]


async def trickle(site: Site, kind: str, pods: int, rate: float) -> Trickle:
    name = f"trickle-{kind.lower()}"
    await site.namespace(name, queue(kind, name, **_spec(kind, pods)))
    before, logged = patches_sent(site.operator), site.operator.log.stat().st_size
    watch = await site.watched(name, pods, lambda: site.create(name, pods, rate=rate))
    sent = {bound: count - before.get(bound, 0) for bound, count in patches_sent(site.operator).items()}
    decided = [delay for count, delay in site.decisions(logged) for _ in range(count)]
    await site.remove(name)
    return Trickle(watch.reactions(), decided, sent)


def patches_sent(operator: OperatorProcess) -> dict[float, int]:
    """Return the cumulated number of patches by seconds from their pod's event."""
    found = ((_PATCHED.fullmatch(name), value) for name, value in operator.metrics().items())
    return {float(match[1]): int(value) for match, value in found if match is not None}


def median_bound(sent: dict[float, int]) -> float:
    """Return the seconds within which half of the patches were sent."""
    return min(bound for bound, count in sent.items() if 2 * count >= max(sent.values()))


async def bare_trickle(site: Site, pods: int, rate: float) -> list[float]:
    """Measure the same for a bare loop. A burst quota is armed and pods get their priority class, but another client sets the gate."""
    name = "trickle-bare"
    await site.namespace(name)
    latency = queue("LatencyQueue", name, **{**_spec("LatencyQueue", pods), "enforcement": "Quota"})
    await site.client.create(f"/apis/fairburst.dev/v1alpha1/namespaces/{name}/latencyqueues", latency)
    await site.until(lambda: site.permits(name, pods), f"the quota of {name} to be armed")
    reactor = asyncio.create_task(site.bare_reactor(name))
    try:
        watch = await site.watched(name, pods, lambda: site.create(name, pods, gates=(BARE_GATE,), rate=rate))
    finally:
        reactor.cancel()
        await asyncio.wait([reactor])
    await site.remove(name)
    return watch.reactions()


def _spec(kind: str, pods: int) -> dict[str, Any]:
    if kind == "ThroughputQueue":
        return {}
    needed = {"resources": {"cpu": str(pods), "memory": f"{pods}Mi"}, "durationSeconds": 120}
    return {"burst": needed, "arrival": {"sporadic": {"minInterarrivalSeconds": 600}}}


async def _measured(cluster: Cluster, operator: OperatorProcess, pods: int, trickled: int, rate: float) -> AsyncIterator[Measurement]:
    kinds = (("LatencyQueue", "hard burst"), ("ThroughputQueue", "elastic queue"))
    async with await ApiClient.connect(str(cluster.kubeconfig), write_rate=100_000.0, write_burst=100_000) as client:
        site = Site(client, cluster, operator)
        for kind, what in kinds:
            decisions = [delay for _, delay in await burst(site, kind, pods)]
            name = f"gate: {pods} pods at once, {what}, event to decision, largest"
            yield Measurement(name, max(decisions), "ms", 100.0, len(decisions), min(decisions), max(decisions))
        bare_delays = [delay * 1e3 for delay in await bare_trickle(site, trickled, rate)]
        name = f"gate: {rate:g} pods a second, bare loop, event to patched"
        yield Measurement(name, statistics.median(bare_delays), "ms", None, trickled, min(bare_delays), max(bare_delays))
        for kind, what in kinds:
            seen = await trickle(site, kind, trickled, rate)
            name = f"gate: {rate:g} pods a second, {what}"
            yield Measurement(
                f"{name}, event to decision", statistics.median(seen.decided), "ms", None, trickled, min(seen.decided), max(seen.decided)
            )
            yield figure(f"{name}, event to PATCH, median at most", median_bound(seen.sent) * 1e3, "ms", 20.0)
            delays = [delay * 1e3 for delay in seen.reactions]
            yield Measurement(f"{name}, event to patched", statistics.median(delays), "ms", None, len(delays), min(delays), max(delays))
        ours, bare = await rates(site, pods)
        yield Measurement(f"gate: {pods} pods, bare loop", statistics.mean(bare), "pods/s", None, len(bare), min(bare), max(bare))
        yield Measurement(f"gate: {pods} pods, operator", statistics.mean(ours), "pods/s", None, len(ours), min(ours), max(ours))
        ratio = statistics.mean(ours) / statistics.mean(bare)
        yield figure("gate: operator's rate to the bare loop's", ratio, "ratio", 0.9, at_least=True)


def gate_path(pods: int, trickled: int, rate: float) -> Iterator[Measurement]:
    """Measure on a separate cluster: `pods` at once, and `trickled` pods at `rate` a second."""
    name = f"bench-gate-{time.time_ns() % 10**8:08}"
    with (
        Cluster.start(name, nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi") as cluster,
        OperatorProcess(cluster, {"log": {"level": "DEBUG"}}, "gate-speed") as operator,
    ):
        yield from as_found(_measured(cluster, operator, pods, trickled, rate))


@benchmark
def gate() -> Iterator[Measurement]:
    """Measure Gate mode: 1,000 pods at once and 100 a second, on a separate control plane (two minutes)."""
    yield from gate_path(1_000, 1_000, 100.0)
