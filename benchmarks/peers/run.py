"""One run: one contender, one scenario, one fresh control plane; and its figures."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.peers import figures
from benchmarks.peers.audit import FEEDER, POLICY, AuditLog, Record
from benchmarks.peers.contender import CLIENT_BURST, CLIENT_QPS, Contender, PeerError, Site, in_groups
from benchmarks.peers.feed import Feed
from benchmarks.peers.machine import Spent, load
from benchmarks.peers.scenarios import Scenario
from e2e.cluster import Cluster
from fairburst.kube.api.client import ApiClient

PREPARED_SECONDS = 12.0  # from the start of the contender to the first Job, where a declaration names a time
SETTLED_SECONDS = 2.0  # otherwise: from ready to the first Job


@dataclass(frozen=True, slots=True)
class Run:
    """Figures by name (seconds, fractions of the cluster, counts; infinite where something never happened), and requests by user."""

    figures: dict[str, float]
    requests: Counter[str]
    spent: Spent
    load: float


def run(contender: Contender, scenario: Scenario, name: str, keep: Path | None = None) -> Run:
    """Run a scenario under a contender on a control plane of its own. `keep`: a file that receives the audit log."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        policy = Path(folder) / "audit.json"
        policy.write_text(json.dumps(POLICY))
        options: dict[str, Any] = {
            "nodes": scenario.nodes,
            "node_cpu": str(scenario.node_places),
            "node_memory": f"{scenario.node_places}Gi",
            "audit": True,
            "apiserver_flags": [f"--audit-policy-file={policy}", "--audit-log-maxsize=4000"],
            "controller_manager_flags": [f"--kube-api-qps={CLIENT_QPS}", f"--kube-api-burst={CLIENT_BURST}"],
            **contender.cluster_options(),
        }
        before = load()
        with Cluster.start(name, **options, report=lambda _: None) as cluster:
            try:
                return asyncio.run(_run(cluster, contender, scenario, Path(folder), before))
            finally:
                contender.stop()
                if keep is not None and cluster.audit_log is not None:
                    keep.write_bytes(cluster.audit_log.read_bytes())


async def _run(cluster: Cluster, contender: Contender, scenario: Scenario, folder: Path, before: float) -> Run:
    if cluster.audit_log is None:
        raise PeerError("the control plane keeps no audit log")
    async with await ApiClient.connect(str(cluster.kubeconfig), write_rate=CLIENT_QPS, write_burst=CLIENT_BURST) as client:
        await in_groups([client.create("/api/v1/namespaces", {"metadata": {"name": queue.name}}) for queue in scenario.queues])
        site = Site(cluster, client, scenario, folder, time.time() + PREPARED_SECONDS + 0.15 * len(scenario.queues))
        await contender.start(site)
        if not any(queue.promise is not None and queue.promise.first_at is not None for queue in scenario.queues):
            site = replace(site, start=time.time() + SETTLED_SECONDS)  # no declaration depends on the start
        log, spent = AuditLog(cluster.audit_log), Spent()
        log.skip()
        components = {name: pid for name, pid in cluster.status().items() if pid is not None}
        spent.mark(components | contender.processes())
        feed = Feed(site, contender, log, lambda: spent.add(contender.processes()))
        await feed.run()
        spent.add(components | contender.processes())
        return Run(measure(scenario, log.record, feed, site.start), log.record.requests_by(), spent, before)


def measure(scenario: Scenario, record: Record, feed: Feed, start: float) -> dict[str, float]:
    """Return every figure that the scenario has."""
    found: dict[str, float] = {
        "pods": float(sum(1 for pod in record.pods.values() if pod.killed is None)),
        "refused": float(record.refused),
    }
    ours = sum(count for user, count in record.requests_by().items() if user != FEEDER)
    found["requests_per_pod"] = ours / max(1.0, found["pods"])
    found["lost_seconds"] = figures.lost_seconds(record.pods.values())
    found |= _of_bursts(record, feed)
    if scenario.given:
        found |= _of_given(scenario, record)
    else:
        found |= _of_shares(scenario, record, start, feed.now)
    return found


def _of_bursts(record: Record, feed: Feed) -> dict[str, float]:
    times = [figures.burst_times(burst, record.jobs) for burst in feed.sent]
    if not times:
        return {}
    found = {
        "bound": statistics.median(each.bound for each in times),
        "done": statistics.median(each.done for each in times),
        "bound_p95": figures.percentile([each.bound for each in times], 0.95),
        "done_p95": figures.percentile([each.done for each in times], 0.95),
        "hits": sum(each.met for each in times) / len(times),
    }
    waits = [wait for each in times for wait in each.pod_waits]
    if waits:
        found["pod_wait"], found["pod_wait_p95"] = statistics.median(waits), figures.percentile(waits, 0.95)
    for queue in sorted({each.queue for each in times}):
        of = [each for each in times if each.queue == queue]
        found[f"hits_{queue}"] = sum(each.met for each in of) / len(of)
    return found


def _of_given(scenario: Scenario, record: Record) -> dict[str, float]:
    jobs = list(record.jobs.values())
    found = {"bound_per_second": figures.bound_per_second(jobs), "last_bound": _last_bound(record)}
    sizes = {work.pods for works in scenario.given.values() for work in works}
    if not scenario.until_bound:
        found["makespan"] = figures.last_end(jobs)
        works = {work for each in scenario.given.values() for work in each}
        area = sum(work.pods * work.seconds for each in scenario.given.values() for work in each)
        found["use"] = area / (scenario.places * found["makespan"])
        if len(works) > 1:
            found["small_job"] = figures.mean_job_seconds(jobs, min(sizes))
            found["large_job"] = figures.mean_job_seconds(jobs, max(sizes))
    return found


def _last_bound(record: Record) -> float:
    bound = [pod.bound for pod in record.pods.values() if pod.bound is not None]
    return max(bound) - min(job.created for job in record.jobs.values()) if bound else float("inf")


def _of_shares(scenario: Scenario, record: Record, start: float, seconds: float) -> dict[str, float]:
    begin, end = start + scenario.measured_from, start + seconds
    capacity = scenario.places * (end - begin)
    held = figures.place_seconds(record.pods.values(), begin, end)
    weights = {queue.name: float(queue.weight) for queue in scenario.queues}
    errors = figures.fairness_errors(held, weights, scenario.backlog, capacity)
    found = {"use": sum(held.values()) / capacity, "fairness_error": max(errors.values()), "measured_seconds": end - begin}
    for queue in scenario.queues:
        if queue.promise is not None:
            found[f"share_{queue.name}"] = held.get(queue.name, 0.0) / capacity
            found[f"excess_{queue.name}"] = figures.excess_over_fair(held.get(queue.name, 0.0), queue.weight, weights.values(), capacity)
    return found
