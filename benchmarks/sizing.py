"""Needs of the operator's process: memory, and processor time at rest and per event, by numbers of queues and pods. Then the dashboard's.

The real `fairburst run` runs in its own process and a fake API server in another, so that only the operator is measured. A tenth of the
queues are latency queues, without work. Each of the others has a Job whose pods run. An event is one change of a pod: it ends, or its
successor is created or bound. Then the same with bare pods, whose successors are created in other queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

from benchmarks.informer import pod_body
from benchmarks.measure import Measurement, benchmark, figure, processor_seconds
from e2e.harness import free_port, samples_by_name
from fairburst.kube.jobs.job_size import SIZE_LABEL, SMALL
from fairburst.kube.names import SMALL_CLASS
from tests.support.fake_api import FakeApi, JsonObject
from tests.support.objects import latency_spec, stored_queue

QUEUES = [f"/apis/fairburst.dev/v1alpha1/{kind}" for kind in ("latencyqueues", "throughputqueues")]
CORE = {kind: f"/api/v1/{kind}" for kind in ("namespaces", "nodes", "pods", "resourcequotas", "limitranges", "events", "configmaps")}
JOBS = "/apis/batch/v1/jobs"
WORK = [JOBS, *(f"/apis/apps/v1/{kind}" for kind in ("deployments", "replicasets", "statefulsets"))]
SIZES = ((100, 1_000), (1_000, 10_000))
PODS_A_NODE = 30
MOMENT = "2026-01-01T00:00:00Z"
SETTLE_SECONDS, REST_SECONDS, READY_SECONDS = 10.0, 20.0, 300.0
EVENTS, EVENTS_A_SECOND = 600, 150


class Server(FakeApi):
    """A server whose quotas are in force at once, without kube-controller-manager."""

    @override
    def put(self, collection: str, obj: JsonObject) -> JsonObject:
        """Store an object. A quota gets its status too."""
        if collection == CORE["resourcequotas"]:
            hard = obj.get("spec", {}).get("hard", {})
            obj = {**obj, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        return super().put(collection, obj)


@benchmark
def sizing() -> Iterator[Measurement]:
    """Measure the operator's memory, its processor time at rest and per event, and the dashboard's memory, by queues and pods."""
    for queues, pods in SIZES:
        yield from measured(Work(queues, pods), EVENTS, SETTLE_SECONDS, REST_SECONDS)
    yield from measured(Work(*SIZES[-1], bare=True), EVENTS, SETTLE_SECONDS, REST_SECONDS)


@dataclass(frozen=True, slots=True)
class Work:
    """The queues of a cluster, and their running pods: those of a Job in each throughput queue, or `bare` ones."""

    queues: int
    pods: int
    bare: bool = False

    def namespace(self, number: int) -> str:
        """Return the namespace of the throughput queue that has the pod of this number."""
        queue = number % self.batch
        return f"ns-{queue + queue // 9 + 1}"

    @property
    def batch(self) -> int:
        """Return the number of throughput queues."""
        return self.queues - -(-self.queues // 10)

    def successor(self, ended: int, turn: int) -> int:
        """Return a new number for the pod that follows `ended`: one of the same Job, or a bare one of another queue."""
        new = (-(-self.pods // self.batch) + turn) * self.batch + ended % self.batch
        return self.pods + turn if self.bare else new

    def pod(self, number: int, **changed: Any) -> JsonObject:
        """Return a running pod on a node, unless `changed` overrides the node."""
        made, namespace = pod_body(number, 1), self.namespace(number)
        made["metadata"] |= {"namespace": namespace}
        made["metadata"]["ownerReferences"] = [] if self.bare else [{**made["metadata"]["ownerReferences"][0], "uid": f"job-{namespace}"}]
        made["metadata"].pop("resourceVersion")
        made["spec"] |= {"nodeName": f"node-{number // PODS_A_NODE}", "priorityClassName": SMALL_CLASS} | changed
        return made

    def jobs(self) -> Iterator[JsonObject]:
        """Yield the Jobs that have these pods; none if they are bare."""
        template = {"metadata": {"labels": {SIZE_LABEL: SMALL}}, "spec": {"containers": self.pod(0)["spec"]["containers"]}}
        counts = Counter(self.namespace(number) for number in range(0 if self.bare else self.pods))
        for namespace, count in counts.items():
            metadata = {"name": "work", "namespace": namespace, "uid": f"job-{namespace}", "creationTimestamp": MOMENT}
            spec = {"parallelism": count, "completions": 100 * count, "template": template}
            yield {"metadata": metadata, "spec": spec, "status": {"startTime": MOMENT, "active": count}}


def measured(work: Work, events: int, settle: float, rest: float) -> Iterator[Measurement]:
    """Run the operator over that cluster and yield its figures."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(work, theirs), daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder, operator(Path(folder), ours.recv()) as (pid, port):
            settled(port, settle)
            label = f"{work.queues:,} queues, {work.pods:,} {'bare ' if work.bare else ''}pods"
            yield figure(f"sizing {label}: start", processor_seconds(pid), "s")
            began, used = time.monotonic(), processor_seconds(pid)
            time.sleep(rest)
            yield figure(f"sizing {label}: at rest", 1e3 * (processor_seconds(pid) - used) / (time.monotonic() - began), "m cpu")
            used = processor_seconds(pid)
            ours.send(events)
            ours.recv()
            time.sleep(settle)  # the operator writes the consequences of the changes meanwhile
            yield figure(f"sizing {label}: an event", 1e3 * (processor_seconds(pid) - used) / events, "ms")
            yield figure(f"sizing {label}: memory", resident_mib(pid, "VmRSS"), "MiB")
            yield figure(f"sizing {label}: memory at most", resident_mib(pid, "VmHWM"), "MiB")
            for name, value in ({} if work.bare else dashboard(Path(folder))).items():
                yield figure(f"sizing {label}: {name}", value, "MiB")
    finally:
        server.kill()
        server.join()


@contextlib.contextmanager
def operator(folder: Path, server: int) -> Iterator[tuple[int, int]]:
    """Run `fairburst run` until it is ready, and yield its process id and its port."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "users": [{"name": "one", "user": {"token": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": f"http://127.0.0.1:{server}"}}],
    }
    port = free_port()
    config = {
        "kubeconfig": str(folder / "kubeconfig"),
        "metrics": {"host": "127.0.0.1", "port": port},
        "leaderElection": {"enabled": False},
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "fairburst", "run", "--config", str(folder / "config.yaml")]
        running = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not ready(port):
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"expected an operator that is ready, found: {(folder / 'log').read_text()[-1000:]}")
            time.sleep(0.2)
        yield running.pid, port
    finally:
        running.kill()
        running.wait()


def dashboard(folder: Path) -> dict[str, float]:
    """Return the memory of `fairburst dashboard` at its start, and at most while it answers two questions."""
    command = [sys.executable, "-m", "fairburst", "dashboard", "--kubeconfig", str(folder / "kubeconfig"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            address = next(line.split()[2] for line in running.stdout or ())
            started = resident_mib(running.pid, "VmRSS")
            visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            for page in ("", "/ask/queue/ns-1/queue", "/ask/what-if?capacity=-50%25"):  # the first one gives the cookie
                with visitor.open(urllib.parse.urljoin(address, page), timeout=READY_SECONDS) as answer:
                    answer.read()
            return {"dashboard": started, "dashboard at most": resident_mib(running.pid, "VmHWM")}
        finally:
            running.terminate()


def ready(port: int) -> bool:
    """Return whether /readyz answers 200."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return asked(port, "/readyz")[0] == 200
    return False


def asked(port: int, path: str) -> tuple[int, str]:
    """Return the status and the text of the operator's answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def settled(port: int, seconds: float) -> None:
    """Wait until the operator has written nothing for that time."""
    before = -1.0
    while (now := written(port)) != before:
        before = now
        time.sleep(seconds)


def written(port: int) -> float:
    """Return the number of writes that the operator has sent."""
    samples = samples_by_name(asked(port, "/metrics")[1])
    return sum(value for name, value in samples.items() if name.startswith("fairburst_writes_total"))


def resident_mib(pid: int, name: str) -> float:
    """Return VmRSS or VmHWM of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def serve(work: Work, pipe: Connection) -> None:
    """Run the server in this process. For each number received, send that many changes of pods, and answer when they are sent."""
    asyncio.run(_serve(work, pipe))


async def _serve(work: Work, pipe: Connection) -> None:
    api = Server(*QUEUES, *CORE.values(), *WORK)
    for number in range(work.queues):
        namespace = f"ns-{number}"
        api.put(CORE["namespaces"], {"metadata": {"name": namespace}, "status": {"phase": "Active"}})
        spec = latency_spec("4") if number % 10 == 0 else None
        kind = "ThroughputQueue" if spec is None else "LatencyQueue"
        api.put(QUEUES[spec is None], stored_queue(kind, namespace, "queue", *([spec] if spec else [])))
    for number in range(work.pods // PODS_A_NODE + 1):
        status = {"allocatable": {"cpu": "16", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
        api.put(CORE["nodes"], {"metadata": {"name": f"node-{number}"}, "status": status})
    for job in work.jobs():
        api.put(JOBS, job)
    for number in range(work.pods):
        api.put(CORE["pods"], work.pod(number))
    await api.start()
    pipe.send(api.port)
    chance = random.Random(1)
    while True:
        count = await asyncio.to_thread(pipe.recv)
        for turn, ended in enumerate(chance.sample(range(work.pods), count // 3)):
            change(api, work, ended, work.successor(ended, turn))
            await asyncio.sleep(3 / EVENTS_A_SECOND)
        pipe.send(None)


def change(api: FakeApi, work: Work, ended: int, new: int) -> None:
    """End a pod, create another, and bind it: three events."""
    api.put(CORE["pods"], {**work.pod(ended), "status": {"phase": "Succeeded"}})
    waiting = work.pod(new)
    waiting["spec"].pop("nodeName")
    api.put(CORE["pods"], {**waiting, "status": {"phase": "Pending"}})
    api.put(CORE["pods"], work.pod(new, nodeName=f"node-{ended // PODS_A_NODE}"))
