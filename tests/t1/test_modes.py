"""The same work in each mode of enforcement: the same classes and, in the long run, the same shares. Minutes a mode.

Held Jobs start whole, so no Job here is wider than any queue's fair share: bursts come as several Jobs.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.demo.phase import wait_for_admission
from e2e.demo.scenario import PLAYED, plans, queue_objects, scenario
from e2e.harness import OperatorProcess
from e2e.workload.driver import WorkloadDriver
from e2e.workload.metrics import Amounts, average_dominant_shares
from e2e.workload.plans import LatencyPlan, PlannedBurst, ThroughputPlan
from e2e.workload.stages import GIB, DagJob, Stage
from fairburst.kube.api.client import ApiClient

pytestmark = pytest.mark.long

MODES = ("Quota", "Gate", "Suspend")
CAPACITY = Amounts(20 * 32.0, 20 * 64 * GIB)
FILLING = 80  # tasks of BoPF 5.2.5 that fill the cluster: 8 start and end a second, which two shared cores carry
TASK = CAPACITY.times(1 / FILLING)
TASK_SECONDS, WARM_UP_SECONDS, LEAD_SECONDS = 10.0, 20.0, 5.0
TOLERANCE, GATE_TOLERANCE = 0.05, 0.02  # of the cluster; between Quota and Gate mode


@dataclasses.dataclass
class Workload:
    """The declared queues and the work that is submitted. `objects` by mode and start, seconds since the epoch."""

    seconds: float
    names: list[str]
    objects: Callable[[str, float], list[dict[str, Any]]]
    plans: Callable[[], tuple[list[LatencyPlan], list[ThroughputPlan]]]


def demo() -> Workload:
    """`make demo`, with narrow Jobs in every mode."""
    of = dataclasses.replace(scenario(CAPACITY, 180.0), widest=PLAYED.widest_held)
    return Workload(180.0, of.queues, lambda mode, start: queue_objects(dataclasses.replace(of, mode=mode), start), lambda: plans(of))


def multi() -> Workload:
    """BoPF §5.2.5: identical demand, periods of 150, 110 and 60 s, first at 50, 100 and 150 s; one throughput queue, admitted first."""
    seconds, on, first_and_period = 300.0, 27, {"lq-0": (50, 150), "lq-1": (100, 110), "lq-2": (150, 60)}
    rate = int(0.92 * 0.9 * FILLING)
    burst = DagJob("burst", tuple(_stage(f"part-{n}", min(6, rate - 6 * n)) for n in range(math.ceil(rate / 6))))

    def objects(mode: str, start: float) -> list[dict[str, Any]]:
        resources = {"cpu": f"{rate * TASK.cpu:g}", "memory": str(round(rate * TASK.memory))}
        made = [_queue("ThroughputQueue", "tq-0", {"enforcement": mode})]
        for name, (first, period) in first_and_period.items():
            arrival = {"periodSeconds": period, "firstArrival": f"{dt.datetime.fromtimestamp(start + first, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"}
            spec = {"burst": {"resources": resources, "durationSeconds": on}, "arrival": {"periodic": {**arrival, "jitterSeconds": 2}}}
            made.append(_queue("LatencyQueue", name, {"enforcement": mode, **spec}))
        return made

    def fed() -> tuple[list[LatencyPlan], list[ThroughputPlan]]:
        latency = [
            LatencyPlan(name, [PlannedBurst(float(at), burst, on) for at in range(first, int(seconds - on), period)])
            for name, (first, period) in first_and_period.items()
        ]
        batch = iter(lambda: DagJob("batch", (_stage("work", 6),)), None)
        # As many tasks wait as can run. Work that is created only when other work ends would measure the speed of its creation.
        return latency, [ThroughputPlan("tq-0", batch, active_jobs=FILLING, backlog_tasks=2 * FILLING)]

    return Workload(seconds, ["tq-0", *first_and_period], objects, fed)


def _stage(name: str, tasks: int) -> Stage:
    return Stage(name, tasks, TASK_SECONDS, TASK.cpu, TASK.memory, ())


def _queue(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": name}, "spec": spec}


@dataclasses.dataclass
class Outcome:
    """The result of a mode. `met`: bursts whose work was done by their deadline, of how many."""

    classes: dict[str, str]
    shares: dict[str, float]
    met: tuple[int, int]


def outcome(cluster: Cluster, work: Workload, mode: str) -> Outcome:
    with OperatorProcess(cluster, {"pool": {"headRoomPercent": 10}} if "tq-0" in work.names else {}, f"mode-{mode.lower()}"):
        for name in work.names:
            cluster.kubectl("create", "namespace", name)
        start = math.ceil(time.time() + LEAD_SECONDS)
        for one in work.objects(mode, start):  # admission goes by the order of creation
            cluster.kubectl("apply", "-f", "-", input=json.dumps(one))
        statuses = asyncio.run(wait_for_admission(work.names, cluster.kubeconfig))
        return asyncio.run(_fed(cluster, work, start, {name: statuses[name]["class"] for name in work.names}))


async def _fed(cluster: Cluster, work: Workload, start: float, classes: dict[str, str]) -> Outcome:
    async with await ApiClient.connect(str(cluster.kubeconfig)) as client:
        driver = WorkloadDriver(client, "mode", *work.plans(), CAPACITY)
        record = await driver.run(work.seconds, start_at=start, drain_seconds=30.0)
    shares = average_dominant_shares(record.samples, CAPACITY, WARM_UP_SECONDS, work.seconds)
    return Outcome(classes, shares, (sum(burst.met for burst in record.bursts), len(record.bursts)))


@pytest.fixture(scope="module", params=[pytest.param(multi(), id="BoPF 5.2.5"), pytest.param(demo(), id="demo")])
def outcomes(request: pytest.FixtureRequest, fresh_cluster: Callable[..., Cluster]) -> dict[str, Outcome]:
    """Return the outcome of each mode, each on a new control plane."""
    found: dict[str, Outcome] = {}
    for mode in MODES:
        cluster = fresh_cluster(node_cpu="32", node_memory="64Gi")
        found[mode] = outcome(cluster, request.param, mode)
        cluster.down()
        shares = (f"{name} {found[mode].classes[name]} {share:.1%}" for name, share in found[mode].shares.items())
        print(mode, f"met {found[mode].met[0]} of {found[mode].met[1]};", *shares)
    return found


def shares_of(one: Outcome, *, promised: bool) -> dict[str, float]:
    """Return the shares of the queues with a guaranteed burst, or of the others."""
    return {name: share for name, share in one.shares.items() if (one.classes[name] in {"Hard", "Soft"}) is promised}


@pytest.mark.timeout(2400)
def test_classes_and_the_shares_of_those_with_a_promise_are_the_same_in_every_mode(outcomes: dict[str, Outcome]) -> None:
    quota = outcomes["Quota"]
    for one in outcomes.values():
        assert one.classes == quota.classes
        assert shares_of(one, promised=True) == pytest.approx(shares_of(quota, promised=True), abs=TOLERANCE)


@pytest.mark.timeout(2400)
def test_the_shares_of_elastic_queues_are_the_same_in_every_mode(outcomes: dict[str, Outcome]) -> None:
    shares = {mode: shares_of(one, promised=False) for mode, one in outcomes.items()}
    assert shares["Quota"] == pytest.approx(shares["Gate"], abs=GATE_TOLERANCE)
    assert shares["Suspend"] == pytest.approx(shares["Quota"], abs=TOLERANCE)
