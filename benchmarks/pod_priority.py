"""Cost of admission at the creation of pods and Jobs, by policy and by webhook, relative to an unmanaged namespace, in turns.

Runs on a separate control plane. Creations are dry runs, which pass through all of admission and are not stored. All figures include the
rules for tenants. The processor time is the API server's: other processes change it less than they change the time of a creation.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Measurement, benchmark, processor_seconds
from e2e.certificates import write_certificates
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, free_port
from fairburst.config import parse_config
from fairburst.kube.admission.server import AUTHORITY, PATH
from fairburst.kube.api.client import ApiClient
from fairburst.kube.install.webhook import mutating_webhook

IN_FLIGHT = 8
CREATIONS, TURNS = 400, 6
PATIENCE_SECONDS = 60.0
MANAGED, UNMANAGED = "managed", "unmanaged"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "p-"},
    "spec": {"containers": [{"name": "c", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"generateName": "j-"},
    "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}},  # type: ignore[dict-item]
}
COLLECTIONS = {"pods": ("/api/v1/namespaces/{}/pods", POD), "Jobs": ("/apis/batch/v1/namespaces/{}/jobs", JOB)}
QUEUE = {"apiVersion": "fairburst.dev/v1alpha1", "kind": "ThroughputQueue", "metadata": {"name": "queue", "namespace": MANAGED}, "spec": {}}


async def create(client: ApiClient, namespace: str) -> str | None:
    """Create a pod in the namespace and return its priority class."""
    answer = await client.create(f"/api/v1/namespaces/{namespace}/pods", POD, {"dryRun": "All"})
    given: str | None = answer["spec"].get("priorityClassName")
    return given


async def seconds(client: ApiClient, namespace: str, what: str) -> list[float]:
    """Return the durations of many creations."""
    path, body = COLLECTIONS[what]
    limit, took = asyncio.Semaphore(IN_FLIGHT), []

    async def one() -> None:
        async with limit:
            begin = time.perf_counter()
            await client.create(path.format(namespace), body, {"dryRun": "All"})
            took.append(time.perf_counter() - begin)

    await asyncio.gather(*(one() for _ in range(CREATIONS)))
    return took


async def in_turns(cluster: Cluster, what: str) -> dict[str, list[tuple[float, float]]]:
    """Return each turn's median of a creation, and the API server's processor time for one, in milliseconds, by namespace."""
    server = cluster.status()["kube-apiserver"] or 0
    async with await ApiClient.connect(str(cluster.kubeconfig), write_rate=100_000.0, write_burst=100_000) as client:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while await create(client, MANAGED) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"pods of {MANAGED} had no priority within {PATIENCE_SECONDS:g} s")
            await asyncio.sleep(0.2)
        found: dict[str, list[tuple[float, float]]] = {UNMANAGED: [], MANAGED: []}
        for turn, namespace in itertools.product(range(TURNS), found):
            before = processor_seconds(server)
            took = await seconds(client, namespace, what)
            if turn:  # the first warms up
                found[namespace].append((1e3 * statistics.median(took), 1e3 * (processor_seconds(server) - before) / CREATIONS))
        return found


def told(way: str, cluster: Cluster, what: str = "pods") -> Iterator[Measurement]:
    turns = asyncio.run(in_turns(cluster, what))
    for number, kind in enumerate(("", ", processor time of the API server")):
        unmanaged, managed = ([one[number] for one in turns[namespace]] for namespace in (UNMANAGED, MANAGED))
        ratios = [after / before for before, after in zip(unmanaged, managed, strict=True)]
        for name, found, unit in (
            ("unmanaged beside it", unmanaged, "ms"),
            ("managed", managed, "ms"),
            ("managed over unmanaged", ratios, "ratio"),
        ):
            about = f"priority of {what} by {way}: {name}{kind}"
            yield Measurement(about, statistics.median(found), unit, None, len(found), min(found), max(found))


@benchmark
def pod_priority() -> Iterator[Measurement]:
    """Measure creations of pods and Jobs, eight at a time: unmanaged, with the policies, and of pods with our webhook."""
    with Cluster.start("bench-priority", nodes=1) as cluster, tempfile.TemporaryDirectory() as folder:
        with OperatorProcess(cluster, name="priority-policy"):
            for namespace in (MANAGED, UNMANAGED):
                cluster.kubectl("create", "namespace", namespace)
            cluster.kubectl("create", "-f", "-", input=json.dumps(QUEUE))
            yield from told("policy", cluster)
            yield from told("policy", cluster, "Jobs")
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            cluster.kubectl("delete", kind, "--all")
        certificates = write_certificates(Path(folder))
        webhook = {"enabled": True, "host": "127.0.0.1", "port": free_port(), "certificates": str(certificates)}
        config = parse_config(json.dumps({"webhook": webhook}))
        with OperatorProcess(cluster, {"webhook": webhook}, name="priority-webhook"):
            bundle = base64.b64encode((certificates / AUTHORITY).read_bytes()).decode()
            client = {"url": f"https://127.0.0.1:{config.webhook.port}{PATH}", "caBundle": bundle}
            cluster.kubectl("apply", "-f", "-", input=json.dumps(mutating_webhook(config, client)))
            yield from told("webhook", cluster)
