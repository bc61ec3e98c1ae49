"""The read path against a server in another process: figures for docs/benchmarks.md, without targets.

The server answers one list of pods in pages, then streams a burst of watch events. Pods have the size of a Job controller's pods.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.measure import Measurement, benchmark, figure, timed
from fairburst.kube.api.auth import Credentials
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.informer import Informer
from fairburst.kube.api.objects import Pod
from fairburst.kube.jobs.job_index import JobIndex
from fairburst.kube.usage.effective_requests import milli_requests
from fairburst.kube.usage.pod_index import PodIndex

PODS = "/api/v1/pods"
RESOURCES = ("cpu", "memory")


def pod_body(number: int, version: int, phase: str = "Running") -> dict[str, Any]:
    """Return about 2 kB of JSON, like a bound pod of a Job without its managed fields."""
    name = f"work-{number:06d}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": f"job-{number % 50}", "controller": True}
    requests = {"cpu": "500m", "memory": "256Mi"}
    mounts = [{"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    container = {
        "name": "main", "image": "registry.example.com/work:1.0", "args": ["--shard", str(number)], "volumeMounts": mounts,
        "resources": {"requests": requests, "limits": requests}, "terminationMessagePath": "/dev/termination-log",
    }  # fmt: skip
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    moment = "2026-01-01T00:00:00Z"
    conditions = [{"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment} for kind in kinds]
    statuses = [
        {"name": "main", "ready": True, "restartCount": 0, "image": container["image"], "state": {"running": {"startedAt": moment}}}
    ]
    metadata = {
        "name": name, "namespace": f"ns-{number % 100:03d}", "uid": f"uid-{number}", "resourceVersion": str(version),
        "creationTimestamp": moment, "labels": {"job-name": "work", "app": "work"}, "ownerReferences": [owner],
    }  # fmt: skip
    spec = {"containers": [container], "nodeName": f"node-{number % 200}", "restartPolicy": "Never", "schedulerName": "default-scheduler"}
    status = {"phase": phase, "startTime": moment, "conditions": conditions, "containerStatuses": statuses}
    return {"metadata": metadata, "spec": spec, "status": status}


def serve(pods: int, events: int, pipe: Connection) -> None:
    """Run the server until told to stop. "burst" sends `events` MODIFIED events and returns the send time of the first."""
    asyncio.run(_serve(pods, events, pipe))


async def _serve(pods: int, events: int, pipe: Connection) -> None:
    items = [json.dumps(pod_body(number, number + 1)) for number in range(pods)]
    burst = [
        json.dumps({"type": "MODIFIED", "object": pod_body(number % pods, pods + 1 + number, "Succeeded")}).encode() + b"\n"
        for number in range(events)
    ]
    go = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await go.wait()
            pipe.send(time.monotonic())
            for line in burst:
                await response.write(line)
            await asyncio.sleep(60)
            return response
        first = int(request.query.get("continue") or 0)
        last = min(pods, first + int(request.query.get("limit") or pods))
        more = {"continue": str(last)} if last < pods else {}
        metadata = json.dumps({"resourceVersion": str(pods), **more})
        return web.Response(text=f'{{"metadata": {metadata}, "items": [{",".join(items[first:last])}]}}', content_type="application/json")

    app = web.Application()
    app.router.add_get(PODS, handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(runner.addresses[0][1])
    while await asyncio.to_thread(pipe.recv) == "burst":
        go.set()
    await runner.cleanup()


async def read(port: int, pods: int, events: int, pipe: Connection) -> tuple[float, float, float, float]:
    """Return (wall seconds until synced and indexed, processor seconds of that, wall and processor seconds from the first event to all
    indexed).
    """
    index, done, seen = PodIndex(RESOURCES), asyncio.Event(), 0

    def count(_: str, old: Pod | None, new: Pod | None) -> None:
        nonlocal seen
        index.update(old, new)
        seen += 1
        if seen == pods + events:
            done.set()

    async with ApiClient(Credentials(f"http://127.0.0.1:{port}")) as client:
        informer = Informer(client, PODS, Pod, lambda: None, on_event=count)
        begin, processor = time.monotonic(), time.process_time()
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        listed = (time.monotonic() - begin, time.process_time() - processor)
        await asyncio.sleep(0.2)  # the watch is open
        processor = time.process_time()
        await asyncio.to_thread(pipe.send, "burst")
        sent = await asyncio.to_thread(pipe.recv)
        await asyncio.wait_for(done.wait(), 30)
        burst = (time.monotonic() - sent, time.process_time() - processor)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return *listed, *burst


@benchmark
def informer() -> Iterator[Measurement]:
    """Measure 10,000 pods listed, decoded, stored and indexed; a burst of 1,000 events; the effective requests of 10,000 pods."""
    yield from informer_path(10_000, 1_000)


def informer_path(pods: int, events: int) -> Iterator[Measurement]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(pods, events, theirs), daemon=True)
    server.start()
    try:
        if not ours.poll(30):
            raise RuntimeError("expected the server process to listen within 30 s, found nothing")
        wall, processor, burst, burst_processor = asyncio.run(read(ours.recv(), pods, events, ours))
    finally:
        ours.send("stop")
        server.join(5)
        server.terminate()
    yield figure(f"informer: list, decode, store, index {pods} pods, wall", wall * 1e3, "ms")
    yield figure(f"informer: list, decode, store, index {pods} pods, processor", processor * 1e3, "ms")
    yield figure(f"informer: {events} events, first sent to last indexed, wall", burst * 1e3, "ms")
    yield figure(f"informer: {events} events, processor", burst_processor * 1e3, "ms")
    decoded = [msgspec.convert(pod_body(number, number), Pod) for number in range(pods)]
    for pod in decoded:
        pod.spec.priority_class_name, pod.status.start_time = "fairburst-large", "2026-01-01T00:00:00Z"
    yield timed(f"informer: charge of {pods} pods", lambda: [milli_requests(pod) for pod in decoded], repeats=5)
    yield timed(f"informer: index of {pods} pods", lambda: PodIndex.rebuilt(RESOURCES, decoded), repeats=5)
    yield timed(f"informer: index of {pods} pods and their jobs", lambda: with_jobs(decoded), repeats=5)


def with_jobs(pods: list[Pod]) -> JobIndex:
    """Return the job index that follows all namespaces of the pod index: every pod runs as a task."""
    index, jobs = PodIndex(RESOURCES, by_class=True), JobIndex(RESOURCES, keep_seconds=22.0)
    jobs.follow(frozenset(pod.metadata.namespace for pod in pods), (), 0.0, 0.0)
    for pod in pods:
        index.update(None, pod)
        jobs.update(None, pod, index.requests_of(pod), 1.8e9, 0.0)
    return jobs
