"""Reclaim: how soon a burst runs in a full cluster, relative to kube-scheduler's preemption; how much each queue gives; the lost work.

The first runs on a separate control plane, both ways in turn on the same nodes. The others measure the choice alone, without a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from benchmarks.creation import create_pod
from benchmarks.measure import Measurement, as_found, benchmark, figure, timed
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import NotFound
from fairburst.policy.reclaim.values import Claim, GiverState, Ground, Owed, ReclaimMemory, ReclaimRules, RunningPod, WaitingPod
from fairburst.policy.reclaim.victims import make_room, room_for_all

NODES, NODE_CPU = 20, 32
WEIGHTS = {"batch-a": 1, "batch-b": 1, "batch-c": 2, "batch-d": 2}
IN_FLIGHT = 32
PATIENCE_SECONDS = 300.0
PREEMPTOR = "bench-preempts"
# kube-scheduler has no minimum run time, and ours would only delay the burst. The unmanaged pods of one turn would lower the capacity of
# promises for ten minutes.
SETTINGS = {
    "reclaim": {"minimumRunSeconds": 1},
    "pool": {"declaredCapacity": {"cpu": str(NODES * NODE_CPU), "memory": f"{64 * NODES}Gi"}},
}
IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
UNLIMITED = ReclaimRules(evictions_per_second=1e6)
JsonObject = dict[str, Any]


def pod_spec(**more: Any) -> JsonObject:
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "16Mi"}}}
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **more}


def job(name: str, pods: int) -> JsonObject:
    """Return a Job of so many pods that run until they are deleted. The Job survives their eviction."""
    spec = {"parallelism": pods, "completions": pods, "podFailurePolicy": IGNORED, "podReplacementPolicy": "Failed", "backoffLimit": 0}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec | {"template": {"spec": pod_spec()}}}


def queue(kind: str, namespace: str, **spec: Any) -> JsonObject:
    metadata = {"name": "queue", "namespace": namespace}
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


class Site:
    """A control plane, and the actions on it."""

    def __init__(self, client: ApiClient, cluster: Cluster, pods: int, capacity: int) -> None:
        self.client, self.cluster, self.pods, self.capacity = client, cluster, pods, capacity

    async def namespace(self, name: str, managed: JsonObject | None = None) -> None:
        await self.client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if managed is not None:
            await self.client.create(f"/apis/fairburst.dev/v1alpha1/namespaces/{name}/{managed['kind'].lower()}s", managed)
            want = "Hard" if managed["kind"] == "LatencyQueue" else "Elastic"
            await self.until(lambda: self._is_held(name, managed, want), f"the quota of {name}, and its class to be {want}")

    async def _is_held(self, namespace: str, managed: JsonObject, want: str) -> bool:
        path = f"/apis/fairburst.dev/v1alpha1/namespaces/{namespace}/{managed['kind'].lower()}s/queue"
        with contextlib.suppress(NotFound):
            await self.client.get(f"/api/v1/namespaces/{namespace}/resourcequotas/fairburst")
            return bool((await self.client.get_json(path)).get("status", {}).get("class") == want)
        return False

    async def fill(self, jobs: dict[str, int]) -> None:
        """Create Jobs of so many pods by namespace, and wait until all run."""
        for namespace, pods in jobs.items():
            await self.client.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job("work", pods))

        async def full() -> bool:
            return sum([await self.bound(namespace) for namespace in jobs]) == self.capacity

        await self.until(full, "the cluster to be full")

    async def bound(self, namespace: str) -> int:
        """Return the number of the namespace's pods that are bound and not being deleted."""
        items = (await self.client.get_json(f"/api/v1/namespaces/{namespace}/pods"))["items"]
        return sum("nodeName" in one["spec"] and "deletionTimestamp" not in one["metadata"] for one in items)

    async def burst(self, namespace: str, **spec: Any) -> float:
        """Return the seconds from the first pod's creation until all are bound."""
        begin, limit = time.monotonic(), asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"u{number:03}"}, "spec": pod_spec(**spec)}
            async with limit:
                await create_pod(self.client, namespace, body, PATIENCE_SECONDS)

        await asyncio.gather(*map(one, range(self.pods)))

        async def all_bound() -> bool:
            return await self.bound(namespace) == self.pods

        await self.until(all_bound, f"the burst of {namespace} to be bound", every=0.1)
        return time.monotonic() - begin

    async def clear(self, *namespaces: str) -> None:
        """Delete the namespaces with their contents, and wait for it."""
        for namespace in namespaces:
            await self.client.delete(f"/api/v1/namespaces/{namespace}")

        async def gone() -> bool:
            names = {one["metadata"]["name"] for one in (await self.client.get_json("/api/v1/namespaces"))["items"]}
            return not names & set(namespaces)

        await self.until(gone, f"{', '.join(namespaces)} to be gone")

    async def until(self, check: Any, what: str, every: float = 0.2) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await check():
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {PATIENCE_SECONDS:g} s for {what}")
            await asyncio.sleep(every)


async def preempted(site: Site, turn: int) -> float:
    """Run the burst with kube-scheduler's preemption: unmanaged namespaces, four Jobs without priority, a burst that outranks them."""
    batches = {f"plain-{turn}-{name}": site.capacity // len(WEIGHTS) for name in WEIGHTS}
    burst = f"plain-{turn}-burst"
    for namespace in (*batches, burst):
        await site.namespace(namespace)
    await site.fill(batches)
    seconds = await site.burst(burst, priorityClassName=PREEMPTOR)
    await site.clear(*batches, burst)
    return seconds


async def reclaimed(site: Site, turn: int) -> tuple[float, dict[str, tuple[int, int]]]:
    """Run the burst with our evictions. Also return, by queue, the running pods before and after it."""
    names = {f"{name}-{turn}": weight for name, weight in WEIGHTS.items()}
    needed = {"resources": {"cpu": str(site.pods), "memory": f"{16 * site.pods}Mi"}, "durationSeconds": 300}
    burst = f"burst-{turn}"
    for name, weight in names.items():
        await site.namespace(name, queue("ThroughputQueue", name, weight=weight))
    spec = {"burst": needed, "arrival": {"sporadic": {"minInterarrivalSeconds": 1800}}, "reclaim": "Evict"}
    await site.namespace(burst, queue("LatencyQueue", burst, **spec))
    await site.fill(dict.fromkeys(names, site.capacity))
    before = {name: await site.bound(name) for name in names}
    seconds = await site.burst(burst)
    after = {name: await site.bound(name) for name in names}
    await site.clear(*names, burst)
    return seconds, {name: (before[name], after[name]) for name in names}


async def _measured(cluster: Cluster, pods: int, capacity: int, turns: int) -> AsyncIterator[Measurement]:
    async with await ApiClient.connect(str(cluster.kubeconfig), write_rate=100_000.0, write_burst=100_000) as client:
        site = Site(client, cluster, pods, capacity)
        for turn in range(1, turns + 1):
            theirs = await preempted(site, turn)
            yield figure(f"reclaim: {pods} of {capacity}, kube-scheduler preempts, turn {turn}", theirs, "s")
            ours, given = await reclaimed(site, turn)
            yield figure(f"reclaim: {pods} of {capacity}, fairburst evicts, turn {turn}", ours, "s")
            yield figure(f"reclaim: kube-scheduler's time over ours, turn {turn}", theirs / ours, "ratio", 5.0, at_least=True)
            for (name, weight), (before, after) in zip(WEIGHTS.items(), given.values(), strict=True):
                what = f"reclaim: {name}, weight {weight}, pods given of {before}, turn {turn}"
                yield figure(what, before - after, "pods")


def reclaim_path(nodes: int, pods: int, turns: int) -> Iterator[Measurement]:
    """Measure on a separate cluster, full of one-cpu pods; a burst of `pods`, both ways in turn."""
    name = f"bench-reclaim-{time.time_ns() % 10**8:08}"
    preemptor = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": PREEMPTOR}, "value": 5000}
    with (
        Cluster.start(name, nodes=nodes, node_cpu=str(NODE_CPU), node_memory="64Gi") as cluster,
        OperatorProcess(cluster, SETTINGS, "bench-reclaim"),
    ):
        cluster.kubectl("create", "-f", "-", input=json.dumps(preemptor))
        yield from as_found(_measured(cluster, pods, nodes * NODE_CPU, turns))


@benchmark
def reclaim() -> Iterator[Measurement]:
    """Measure 200 one-cpu pods into 640 running ones, by preemption and by reclaim, on a separate control plane (minutes)."""
    yield from reclaim_path(NODES, 200, 1)


def full_cluster(nodes: int, per_node: int, queues: int, seed: int) -> tuple[list[RunningPod], GiverState]:
    """Return nodes full of one-cpu pods of queues that use twice their fair share. Pods have run one minute to two hours, most briefly."""
    random = np.random.default_rng(seed)
    count = nodes * per_node
    ages, rows = 60.0 + np.minimum(random.exponential(1200.0, count), 7140.0), random.integers(0, queues, count) + 1
    pods = [RunningPod(f"p{one}", int(rows[one]), one // per_node, (1.0, 1.0), -float(ages[one])) for one in range(count)]
    use = np.bincount(rows, minlength=queues + 1)[:, None].astype(np.float64)
    fair = np.floor(use / 2)
    return pods, GiverState(use, fair, fair, np.zeros_like(use), np.ones(queues + 1), np.array([float(count)]))


def claim(pods: int) -> Claim:
    waiting = tuple(WaitingPod(f"w{number}", (1.0, 1.0)) for number in range(pods))
    return Claim(Owed(0, Ground.BURST, np.array([float(pods)]), evicts=True), waiting)


def choice_of(nodes: int, pods: int, repeats: int) -> Measurement:
    """Measure the choice of `pods` victims."""
    running, giving = full_cluster(nodes, NODE_CPU, 4, 1)
    free, claims = np.zeros((nodes, 2)), [claim(pods)]
    name = f"reclaim: {pods} victims among {len(running)} pods on {nodes} nodes"
    return timed(name, lambda: make_room(claims, free, running, giving, ReclaimMemory(), UNLIMITED, 0.0), repeats=repeats)


def waits_of(nodes: int, pods: int, repeats: int) -> Iterator[Measurement]:
    """Measure a round whose pods wait for room that becomes free: the check that it suffices, and a choice without result."""
    running, giving = full_cluster(nodes, NODE_CPU, 4, 1)
    free, claims = np.full((nodes, 2), math.ceil(pods / nodes), dtype=np.float64), [claim(pods)]
    name = f"reclaim: {pods} pods wait for room that comes free on {nodes} nodes"
    yield timed(f"{name}, seen", lambda: room_for_all(claims, free), repeats=repeats)
    yield timed(
        f"{name}, no pod chosen", lambda: make_room(claims, free, running, giving, ReclaimMemory(), UNLIMITED, 0.0), repeats=repeats
    )


def lost_beside_random(nodes: int, pods: int, draws: int) -> Measurement:
    """Return the work that the choice loses, relative to the mean over a hundred random choices."""
    found = []
    for seed in range(draws):
        running, giving = full_cluster(nodes, NODE_CPU, 4, seed)
        outcome, _ = make_room([claim(pods)], np.zeros((nodes, 2)), running, giving, ReclaimMemory(), UNLIMITED, 0.0)
        ages = np.array([-pod.started for pod in running])
        at_random = np.random.default_rng(seed).permuted(np.tile(ages, (100, 1)), axis=1)[:, : len(outcome.evictions)].sum(axis=1).mean()
        found.append(sum(one.lost for one in outcome.evictions) / (at_random / len(running)))
    name = f"reclaim: work lost, relative to {pods} victims at random"
    return Measurement(name, statistics.median(found), "ratio", 0.5, draws, min(found), max(found))


@benchmark
def reclaim_choice() -> Iterator[Measurement]:
    """Measure the choice alone: its time, and its lost work relative to random victims."""
    for nodes, pods in ((20, 200), (1000, 100), (5000, 100)):
        yield choice_of(nodes, pods, 5)
        yield from waits_of(nodes, pods, 5)
    yield lost_beside_random(20, 200, 20)
