"""The extender's answers at 5,000 nodes: kube-scheduler's requests over a kept connection, each with every node's name.

The server is a separate process, as in an installation. Its table is filled from constructed nodes and pods, not from an API server.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import itertools
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from benchmarks.informer import RESOURCES, pod_body
from benchmarks.measure import Measurement, benchmark
from fairburst.config import ExtenderConfig
from fairburst.kube.api.objects import Node, Pod
from fairburst.kube.extender.node_table import NodeTable
from fairburst.kube.extender.queue_objects import ExpectedBurst
from fairburst.kube.extender.server import VERBS, ExtenderServer
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.telemetry.metrics import ExtenderMetrics

TARGET_MILLISECONDS = 2.0
GI = 2.0**30
# The namespaces of the requests (batch work, a burst, unmanaged) and the priority class of their pods.
PODS = {"batch": "fairburst-large", "burst": "fairburst-hard", "unmanaged": ""}
BURST = ExpectedBurst("burst/queue", {"cpu": 400.0, "memory": 400 * GI}, {"cpu": 1.0, "memory": GI})


def node_names(nodes: int) -> list[str]:
    return [f"node-{number:05d}.cluster.example.com" for number in range(nodes)]


def table_of(nodes: int, pods_a_node: int) -> NodeTable:
    """Return nodes with pods of the three namespaces, and room kept for a burst."""
    index, names = PodIndex(RESOURCES), node_names(nodes)
    for number in range(nodes * pods_a_node):
        body = pod_body(number, number + 1)
        body["metadata"]["namespace"] = list(PODS)[number % len(PODS)]
        body["spec"]["nodeName"] = names[number * 7 % nodes]
        index.update(None, msgspec.convert(body, Pod))
    table = NodeTable(RESOURCES, {}, index.on_node)
    # Half full, so that every node has a score to report.
    ready = {
        "allocatable": {"cpu": f"{pods_a_node}", "memory": f"{pods_a_node * 512}Mi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    table.set_nodes([msgspec.convert({"metadata": {"name": name}, "status": ready}, Node) for name in names])
    table.set_classes({namespace: priority_class for namespace, priority_class in PODS.items() if priority_class})
    table.keep([BURST])
    return table


def question(namespace: str, nodes: int) -> bytes:
    """Return kube-scheduler's request about a pod of the namespace and this many nodes."""
    pod: dict[str, Any] = pod_body(0, 1)
    pod["metadata"]["namespace"] = namespace
    pod["spec"] |= {"nodeName": "", "priorityClassName": PODS[namespace]}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": node_names(nodes)}).encode()


def serve(nodes: int, pods_a_node: int, pipe: Connection) -> None:
    """Run the server until told to stop; first send its port."""
    asyncio.run(_serve(nodes, pods_a_node, pipe))


async def _serve(nodes: int, pods_a_node: int, pipe: Connection) -> None:
    config = ExtenderConfig(host="127.0.0.1", port=0)
    server = ExtenderServer(config, table_of(nodes, pods_a_node), ExtenderMetrics(), ready=lambda: None, healthy=lambda: None)
    gc.collect()
    gc.freeze()  # as the process does after a collection
    pipe.send(await server.start())
    await asyncio.to_thread(pipe.recv)
    await server.stop()


def round_trips(port: int, verb: str, body: bytes, times: int) -> list[float]:
    """Return milliseconds from a request to its complete answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        took.append(1e3 * (time.perf_counter() - begin))
        if answer.status != 200:
            raise RuntimeError(f"/{verb}: expected 200, found {answer.status}")
    connection.close()
    return took[times // 10 :]  # the first requests warm up


@benchmark
def extender() -> Iterator[Measurement]:
    """Measure 99th percentiles of answers to requests that name all 5,000 nodes: processor time, and wall time over HTTP.

    Over HTTP, also measure requests that name a tenth of the nodes: by default kube-scheduler searches no further among that many nodes.
    """
    yield from answers_at(5_000, 500, 4, 1_000, TARGET_MILLISECONDS)


def answers_at(nodes: int, fewer: int, pods_a_node: int, times: int, target: float | None) -> Iterator[Measurement]:
    table, bodies = table_of(nodes, pods_a_node), {namespace: question(namespace, nodes) for namespace in PODS}
    for verb, answers in VERBS.items():
        for namespace, body in bodies.items():
            took = []
            for _ in range(times):
                begin = time.process_time()  # processor time excludes the load of other processes
                answers(body, table)
                took.append(1e3 * (time.process_time() - begin))
            yield percentile(f"extender: {verb}, {namespace}, answer of {nodes} nodes, p99", took[times // 10 :], target)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(nodes, pods_a_node, theirs), daemon=True)
    server.start()
    try:
        if not ours.poll(120):
            raise RuntimeError("expected the server process to listen within 120 s, found nothing")
        port = ours.recv()
        for asked, verb, namespace in itertools.product((nodes, fewer), VERBS, PODS):
            took = round_trips(port, verb, question(namespace, asked), times)
            name = f"extender: {verb}, {namespace}, round trip of {asked} of {nodes} nodes"
            yield percentile(f"{name}, p99", took, target)
            yield Measurement(f"{name}, median", statistics.median(took), "ms", None, len(took), min(took), max(took))
    finally:
        ours.send("stop")
        server.join(5)
        server.terminate()


def percentile(name: str, took: list[float], target: float | None) -> Measurement:
    """Return the 99th percentile."""
    return Measurement(name, statistics.quantiles(took, n=100, method="inclusive")[98], "ms", target, len(took), min(took), max(took))
