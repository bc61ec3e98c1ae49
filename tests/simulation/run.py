"""Run a seed: build the cluster, let work and faults come, check the invariants, and return the figures."""

from __future__ import annotations

import asyncio
import hashlib
import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from fairburst.kube.process import Operator
from fairburst.telemetry.metrics import Metrics
from tests.simulation import controllers
from tests.simulation.api_server import BOOKMARK_SECONDS, ApiServer
from tests.simulation.faults import Chosen, FaultPlan
from tests.simulation.invariants import Invariants
from tests.simulation.measures import Measures
from tests.simulation.replica import PROBE_SECONDS, STAND_INS, Replica
from tests.simulation.scenario import Scenario
from tests.simulation.virtual_time import VirtualLoop, stand_ins

CONVERGE_SECONDS = 30.0
QUIET_RUN_SECONDS = 120.0


@dataclass
class Result:
    """Figures of one run. `digest` covers all requests in their order: two runs of a seed have the same."""

    seed: int
    broken: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    rounds: int = 0
    writes: int = 0
    requests: int = 0
    failed_rounds: int = 0
    bursts: int = 0
    missed: int = 0
    wrong_writes: int = 0
    # Set only if `measured`, from `Measures`.
    promised: int = 0
    late: int = 0
    beyond: int = 0
    late_beyond: int = 0
    waited_late: int = 0
    lost_seconds: float = 0.0
    unseen_seconds: float = 0.0
    recovered_seconds: float = 0.0
    digest: str = ""


def simulate(
    seed: int,
    *,
    with_faults: bool = True,
    chosen: Chosen | None = None,
    converge_seconds: float = CONVERGE_SECONDS,
    shape: Callable[[Scenario], None] = lambda scenario: None,
    measured: bool = False,
) -> Result:
    """Run one seed. Faults may be `chosen` instead of drawn, and `shape` may change the cluster. `measured`: with `Measures`."""
    loop = VirtualLoop()
    result = Result(seed)
    try:
        with stand_ins(loop, str(seed), **STAND_INS):
            loop.run_until_complete(_run(loop, result, chosen, converge_seconds, shape, with_faults=with_faults, measured=measured))
    except Exception:
        result.broken.append(f"the simulation failed: {traceback.format_exc(limit=-6)}")
    finally:
        close(loop)
    return result


async def _run(
    loop: VirtualLoop,
    result: Result,
    chosen: Chosen | None,
    converge_seconds: float,
    shape: Callable[[Scenario], None],
    *,
    with_faults: bool,
    measured: bool,
) -> None:
    def source(part: str) -> random.Random:
        return random.Random(f"{part} {result.seed}")

    scenario = Scenario(source("scenario"))
    shape(scenario)
    server = ApiServer(loop, scenario.config, source("server"))
    digest = hashlib.sha256()

    def on_request(who: str, method: str, path: str, body: object) -> None:
        result.requests += 1
        digest.update(f"{loop.now:.6f} {who} {method} {path} ".encode() + msgspec.json.encode(body))

    server.requests.append(on_request)
    replicas = [Replica(f"operator-{number}", scenario.config, server, source(f"link {number}")) for number in range(2)]
    invariants = Invariants(server, replicas, scenario)
    failures = failed_rounds(replicas)
    plan = FaultPlan(server, replicas, scenario, source("faults"), chosen) if with_faults else None
    over = plan.over if plan is not None else QUIET_RUN_SECONDS - converge_seconds
    end = plan.over + converge_seconds if plan is not None else QUIET_RUN_SECONDS
    measures = Measures(server, replicas, invariants, scenario.tenants, over) if measured else None
    watching = [] if measures is None else [loop.create_task(measures.recovery(end)), loop.create_task(measures.reach(end))]

    scenario.populate(server)
    controllers.Controllers(server, source("controllers")).start()
    scenario.start(server, end)
    for replica in replicas:
        replica.start()
    if plan is not None:
        plan.start()
        result.faults = [f"{fault.name} at {fault.at:.1f} s for {fault.seconds:.1f} s" for fault in plan.faults]

    next_probe = PROBE_SECONDS
    next_bookmark = BOOKMARK_SECONDS
    while loop.now < end:
        await asyncio.sleep(min(1.0, end - loop.now))
        if loop.now >= next_probe:
            next_probe += PROBE_SECONDS
            for replica in replicas:
                replica.probe()
        if loop.now >= next_bookmark:
            next_bookmark += BOOKMARK_SECONDS
            server.bookmark()
    invariants.converged()
    invariants.failures()
    result.failed_rounds = failures()
    if result.failed_rounds:
        invariants.note(f"{result.failed_rounds} rounds failed")
    for queue in (one for collection in ("latencyqueues",) for one in server.of(f"/apis/fairburst.dev/v1alpha1/{collection}")):
        history = (queue.get("status") or {}).get("history") or {}
        if (queue.get("status") or {}).get("class") == "Hard" and queue["spec"].get("enforcement") != "Observe":
            result.bursts += history.get("bursts", 0)
            result.missed += history.get("missed", 0)
    if measures is not None:
        await asyncio.gather(*watching)
        result.promised, result.late = measures.bursts(end, within_reach=True)
        result.beyond, result.late_beyond = measures.bursts(end, within_reach=False)
        result.waited_late = measures.waited_late(end)
        result.lost_seconds, result.unseen_seconds = measures.lost_seconds, measures.unseen_seconds
        result.recovered_seconds = measures.recovered_seconds
    result.broken, result.seconds, result.wrong_writes = invariants.broken, loop.now, invariants.wrong_writes
    result.rounds, result.writes, result.digest = invariants.rounds, invariants.writes, digest.hexdigest()[:16]


def failed_rounds(replicas: Sequence[Replica]) -> Callable[[], int]:
    """Return a function that sums the metric over all processes that start from now on; each process has its own metrics."""
    metrics: list[Metrics] = []
    for replica in replicas:
        before = replica.on_start

        def on_start(one: Replica, operator: Operator, before: Callable[[Replica, Operator], None] = before) -> None:
            metrics.append(operator.metrics)
            before(one, operator)

        replica.on_start = on_start
    return lambda: int(sum(one.round_failures._value.get() for one in metrics))


def close(loop: VirtualLoop) -> None:
    """Cancel all tasks without letting time pass."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    for _ in range(50):
        if not loop._ready:
            break
        loop.call_soon(loop.stop)
        loop.run_forever()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.close()
