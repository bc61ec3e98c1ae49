"""`make demo`: one workload on a real control plane, without fairburst and then with it.

Environment: DEMO_SECONDS (length of a phase, default 180); MODE (how the queues are enforced: Quota, the default, Gate or Suspend);
TRACE (a stage list that replaces the generated batch work); KUBECONFIG_DEMO or E2E_KUBECONFIG (a cluster to use instead of starting one).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import Cluster, ClusterError
from e2e.demo.phase import DemoError, declare_queues, run_phase, wait_for_admission
from e2e.demo.scenario import BURST_SECONDS, BURST_TASK_SECONDS, LONGEST_TASK_SECONDS, SHORTEST_TASK_SECONDS, Scenario, arithmetic, scenario
from e2e.demo.summary import WARM_UP_SECONDS, summary
from e2e.demo.table import Screen
from e2e.harness import OperatorError, OperatorProcess, end_in_good_order, uninstall_manifests
from e2e.workload.driver import WorkloadError, cluster_capacity
from e2e.workload.metrics import Amounts, WorkloadRecord
from e2e.workload.stages import TraceError, read_stage_list
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, CredentialsError

NODES, NODE_CPU, NODE_MEMORY = 20, "32", "64Gi"
LEAD_SECONDS = 3.0  # from declaring to the start, so that nothing is late already
MODES = ("Quota", "Gate", "Suspend")
SHORTEST_PHASE_SECONDS = WARM_UP_SECONDS + 2 * BURST_SECONDS


def main() -> int:
    arguments = _arguments()
    end_in_good_order()
    screen = Screen()
    try:
        if arguments.trace is not None:
            read_stage_list(arguments.trace)  # complain before a cluster is started
        with _cluster(arguments.kubeconfig, screen) as cluster:
            _demo(cluster, arguments, screen)
    except (ClusterError, OperatorError, WorkloadError, TraceError, DemoError, ApiError, CredentialsError) as error:
        screen.say(f"demo: {error}")
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    environment = os.environ
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=_seconds, default=environment.get("DEMO_SECONDS", "180"), help="length of each phase")
    parser.add_argument("--trace", type=Path, default=environment.get("TRACE") or None, help="stage list to replay as batch work")
    given = environment.get("KUBECONFIG_DEMO") or environment.get("E2E_KUBECONFIG") or None
    parser.add_argument("--kubeconfig", type=Path, default=given, help="cluster to use instead of starting one")
    parser.add_argument("--phase", choices=("both", "without", "with"), default="both", help="run only one phase")
    mode = environment.get("MODE", "Quota")
    parser.add_argument("--mode", type=_mode, default=mode, help="how queues are enforced: Quota, Gate or Suspend")
    return parser.parse_args()


def _mode(text: str) -> str:
    if text in MODES:
        return text
    raise argparse.ArgumentTypeError(f"expected {', '.join(MODES)} (MODE), found {text!r}")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if SHORTEST_PHASE_SECONDS <= float(text) <= 3600:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected {SHORTEST_PHASE_SECONDS:g} to 3600 seconds a phase (DEMO_SECONDS), found {text!r}")


@contextlib.contextmanager
def _cluster(kubeconfig: Path | None, screen: Screen) -> Iterator[Cluster]:
    if kubeconfig is not None:
        screen.say(f"Using the cluster of {kubeconfig}.")
        yield Cluster.existing(kubeconfig)
        return
    screen.say(f"Starting a control plane with {NODES} simulated nodes of {NODE_CPU} cpu, {NODE_MEMORY} ...")
    with Cluster.start(f"demo-{os.getpid()}", nodes=NODES, node_cpu=NODE_CPU, node_memory=NODE_MEMORY) as cluster:
        yield cluster


def _demo(cluster: Cluster, arguments: argparse.Namespace, screen: Screen) -> None:
    of = scenario(asyncio.run(_capacity(cluster.kubeconfig)), arguments.seconds, arguments.trace, mode=arguments.mode)
    _explain(of, screen)
    with _namespaces(cluster, of, deleted=arguments.kubeconfig is not None):
        without = with_fairburst = None
        if arguments.phase != "with":
            screen.say("Phase 1, without fairburst: same Jobs, same namespaces, same cluster, no quotas.")
            started = time.time() + LEAD_SECONDS
            without = asyncio.run(run_phase(of, cluster.kubeconfig, "without fairburst", screen, start_at=started, operated=False))
            screen.say()
        if arguments.phase != "without":
            with_fairburst = _operated_phase(of, cluster, screen, ours=arguments.kubeconfig is None)
        for line in summary(of, without, with_fairburst):
            screen.say(line)


def _operated_phase(of: Scenario, cluster: Cluster, screen: Screen, *, ours: bool) -> WorkloadRecord:
    screen.say("Phase 2, with fairburst: installing CRDs, PriorityClasses, policies and rights; starting the operator ...")
    subject = "fairburst" if ours else None
    with OperatorProcess(cluster, {}, "demo", subject_user=subject) as operator:
        try:
            # Windows are counted from the declared first arrival, so the start is fixed before the queues are declared.
            # Whole seconds, since that is how they are declared.
            started = math.ceil(time.time() + 2 * LEAD_SECONDS)
            declare_queues(of, cluster, started)
            statuses = asyncio.run(wait_for_admission(of.queues, cluster.kubeconfig))
            for queue in of.queues:
                message = (statuses[queue].get("admission") or {}).get("message", "")
                screen.say(f"  {queue}: {statuses[queue].get('class')}. {message}")
            record = asyncio.run(run_phase(of, cluster.kubeconfig, "with fairburst", screen, start_at=started, operated=True))
            screen.say()
        except (DemoError, WorkloadError, ApiError) as error:
            raise DemoError(f"{error}\nLast lines of the operator:\n{operator.log_tail()}") from error
        finally:
            if not ours:
                cluster.kubectl("delete", "namespace", *of.queues, "--ignore-not-found", "--wait=false")
                operator.stop()
                uninstall_manifests(cluster, operator.config, subject)
        return record


@contextlib.contextmanager
def _namespaces(cluster: Cluster, of: Scenario, *, deleted: bool) -> Iterator[None]:
    """The queues' namespaces; taken away again where the cluster outlives the demo."""
    for queue in of.queues:
        cluster.kubectl("create", "namespace", queue)
    try:
        yield
    finally:
        if deleted:
            cluster.kubectl("delete", "namespace", *of.queues, "--ignore-not-found", timeout=120)


async def _capacity(kubeconfig: Path) -> Amounts:
    async with await ApiClient.connect(str(kubeconfig)) as client:
        return await cluster_capacity(client)


def _explain(of: Scenario, screen: Screen) -> None:
    work = f"the jobs of {of.trace}" if of.trace else "jobs shaped like TPC-H queries"
    longest, shortest, own = f"{LONGEST_TASK_SECONDS:g} s", f"{SHORTEST_TASK_SECONDS:g} s", f"{BURST_TASK_SECONDS:g} s"
    spare = f"{BURST_SECONDS - LONGEST_TASK_SECONDS - BURST_TASK_SECONDS:g} s"
    for line in (
        f"Two latency queues and three throughput queues share {of.capacity.cpu:g} cpu. Batch work: {work}, one Job a stage,",
        f"compressed to tasks of {shortest} to {longest} that ask for {of.task.cpu:g} cpu each; every queue has more than fit.",
        f"Nothing is ever evicted, so a burst may wait for running tasks to end. The declared {BURST_SECONDS} s allow for that:",
        f"{longest} for the longest running task, {own} for the burst's own tasks, and {spare} to create and bind its pods.",
    ):
        screen.say(line)
    for line in arithmetic(of):
        screen.say(f"  {line}")
    screen.say()


if __name__ == "__main__":
    sys.exit(main())
