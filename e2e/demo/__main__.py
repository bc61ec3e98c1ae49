"""`make demo`: one workload on a real control plane, without fairburst and then with it.

Environment: CLUSTER (kind: real nodes as containers; kwok: simulated nodes, no containers; by default kind where Docker runs and has a node
image, else kwok); DEMO_SECONDS (length of a phase, default 180); MODE (how the queues are enforced: Quota, the default, Gate or Suspend);
TRACE (a stage list that replaces the generated batch work); KUBECONFIG_DEMO or E2E_KUBECONFIG (a cluster to use instead of starting one).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from e2e.cluster import Cluster, ClusterError
from e2e.demo.phase import WARM_UP_SECONDS, DemoError, Phase, declare_queues, run_phase, wait_for_admission
from e2e.demo.scenario import PLAYED, REAL, Scenario, Tempo, arithmetic, scenario
from e2e.demo.summary import summary
from e2e.demo.table import Screen
from e2e.harness import OperatorError, OperatorProcess, end_in_good_order, uninstall_manifests
from e2e.kind.cluster import KindCluster, KindError, at_hand
from e2e.workload.capacity import cluster_capacity
from e2e.workload.driver import WorkloadError
from e2e.workload.metrics import Amounts
from e2e.workload.stages import read_stage_list
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, CredentialsError
from fairburst.sim.errors import TraceError

NODES, NODE_CPU, NODE_MEMORY = 20, "32", "64Gi"
LEAD_SECONDS = 3.0  # between declaration and start, so that no burst is late at once
MODES = ("Quota", "Gate", "Suspend")
CLUSTERS = ("kind", "kwok")


def main() -> int:
    arguments = _arguments()
    end_in_good_order()
    screen = Screen()
    try:
        if arguments.trace is not None:
            read_stage_list(arguments.trace)  # report errors before starting a cluster
        with _cluster(arguments, screen) as cluster:
            _demo(cluster, arguments, screen)
    except (KindError, ClusterError, OperatorError, WorkloadError, TraceError, DemoError, ApiError, CredentialsError) as error:
        screen.say(f"demo: {error}")
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    environment = os.environ
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", default=environment.get("DEMO_SECONDS", "180"), help="length of each phase")
    parser.add_argument("--trace", type=Path, default=environment.get("TRACE") or None, help="stage list to replay as batch work")
    given = environment.get("KUBECONFIG_DEMO") or environment.get("E2E_KUBECONFIG") or None
    parser.add_argument("--kubeconfig", type=Path, default=given, help="cluster to use instead of starting one")
    kinds = _one_of(CLUSTERS, "CLUSTER")
    parser.add_argument("--cluster", type=kinds, default=environment.get("CLUSTER") or None, help="what to start: kind or kwok")
    parser.add_argument("--phase", choices=("both", "without", "with"), default="both", help="run only one phase")
    mode = environment.get("MODE", "Quota")
    parser.add_argument("--mode", type=_one_of(MODES, "MODE"), default=mode, help="how queues are enforced: Quota, Gate or Suspend")
    other, checked = environment.get("BURST_MODE") or None, _one_of(MODES, "BURST_MODE")
    parser.add_argument("--burst-mode", type=checked, default=other, help="how latency queues are, if not in the same way")
    arguments = parser.parse_args()
    arguments.cluster_asked_for = arguments.cluster is not None
    if arguments.cluster is None:
        arguments.cluster = "kind" if arguments.kubeconfig is None and at_hand() else "kwok"
    try:
        arguments.seconds = _seconds(arguments.seconds, _tempo(arguments))
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return arguments


def _one_of(choices: Sequence[str], variable: str) -> Callable[[str], str]:
    def checked(text: str) -> str:
        if text in choices:
            return text
        raise argparse.ArgumentTypeError(f"expected {', '.join(choices)} ({variable}), found {text!r}")

    return checked


def _tempo(arguments: argparse.Namespace) -> Tempo:
    return REAL if arguments.cluster == "kind" else PLAYED


def _seconds(text: str, tempo: Tempo) -> float:
    shortest = WARM_UP_SECONDS + 2 * tempo.burst
    with contextlib.suppress(ValueError):
        if shortest <= float(text) <= 3600:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected {shortest:g} to 3600 seconds a phase (DEMO_SECONDS), found {text!r}")


@contextlib.contextmanager
def _cluster(arguments: argparse.Namespace, screen: Screen) -> Iterator[Cluster]:
    if arguments.kubeconfig is not None:
        screen.say(f"Using the cluster of {arguments.kubeconfig}.")
        yield Cluster.existing(arguments.kubeconfig)
    elif arguments.cluster == "kind":
        screen.say("Starting a kind cluster with two workers ...")
        with tempfile.TemporaryDirectory(prefix="fairburst-demo-") as folder, contextlib.ExitStack() as made:
            nodes = _nodes(arguments, Path(folder), made, screen)
            if nodes is not None:
                yield nodes
                return
        arguments.cluster = "kwok"
        with _cluster(arguments, screen) as cluster:
            yield cluster
    else:
        screen.say(f"Starting a control plane with {NODES} simulated nodes of {NODE_CPU} cpu, {NODE_MEMORY} ...")
        with Cluster.start(f"demo-{os.getpid()}", nodes=NODES, node_cpu=NODE_CPU, node_memory=NODE_MEMORY) as cluster:
            yield cluster


def _nodes(arguments: argparse.Namespace, folder: Path, made: contextlib.ExitStack, screen: Screen) -> Cluster | None:
    """Return a kind cluster, which `made` deletes. Return None, for simulated nodes, if kind was only the default and can't create one."""
    try:
        nodes = made.enter_context(KindCluster.create(f"fairburst-demo-{os.getpid()}", folder))
        nodes.load()
        nodes.wait_ready()
    except KindError as error:
        if arguments.cluster_asked_for:
            raise
        screen.say(f"No kind cluster could be made here: {error}")
        screen.say("Going on with simulated nodes (CLUSTER=kind insists on kind).")
        return None
    return Cluster.existing(nodes.kubeconfig)


def _demo(cluster: Cluster, arguments: argparse.Namespace, screen: Screen) -> None:
    capacity, tempo = asyncio.run(_capacity(cluster.kubeconfig)), _tempo(arguments)
    of = scenario(capacity, arguments.seconds, arguments.trace, tempo, mode=arguments.mode, burst_mode=arguments.burst_mode)
    _explain(of, screen)
    lasting = arguments.kubeconfig is not None
    with _namespaces(cluster, of, deleted=lasting):
        without = with_fairburst = None
        if arguments.phase != "with":
            screen.say("Phase 1, without fairburst: same Jobs, same namespaces, same cluster, no quotas.")
            started = time.time() + LEAD_SECONDS
            without = asyncio.run(run_phase(of, cluster.kubeconfig, "without fairburst", screen, start_at=started, operator=None))
            screen.say()
        if arguments.phase != "without":
            # The user that our own control plane knows. On other clusters, the kubeconfig's user.
            subject = "fairburst" if not lasting and arguments.cluster == "kwok" else None
            with_fairburst = _operated_phase(of, cluster, screen, subject, lasting=lasting)
        for line in summary(of, without, with_fairburst):
            screen.say(line)


def _operated_phase(of: Scenario, cluster: Cluster, screen: Screen, subject: str | None, *, lasting: bool) -> Phase:
    """Run the phase with the operator. `lasting`: the cluster outlives the demo, so nothing may remain in it."""
    screen.say("Phase 2, with fairburst: installing CRDs, PriorityClasses, policies and rights; starting the operator ...")
    with OperatorProcess(cluster, {}, "demo", subject_user=subject) as operator:
        try:
            # Windows are counted from the declared first arrival, so the start is fixed before the queues are declared. Declarations hold
            # whole seconds.
            started = math.ceil(time.time() + 2 * LEAD_SECONDS)
            declare_queues(of, cluster, started)
            statuses = asyncio.run(wait_for_admission(of.queues, cluster.kubeconfig))
            for queue in of.queues:
                message = (statuses[queue].get("admission") or {}).get("message", "")
                screen.say(f"  {queue}: {statuses[queue].get('class')}. {message}")
            phase = asyncio.run(run_phase(of, cluster.kubeconfig, "with fairburst", screen, start_at=started, operator=operator))
            screen.say()
        except (DemoError, WorkloadError, ApiError) as error:
            raise DemoError(f"{error}\nLast lines of the operator:\n{operator.log_tail()}") from error
        finally:
            if lasting:
                cluster.kubectl("delete", "namespace", *of.queues, "--ignore-not-found", "--wait=false")
                operator.stop()
                uninstall_manifests(cluster, operator.config, subject)
        return phase


@contextlib.contextmanager
def _namespaces(cluster: Cluster, of: Scenario, *, deleted: bool) -> Iterator[None]:
    """Create the queues' namespaces, and delete them again if the cluster outlives the demo."""
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
    tempo = of.tempo
    longest, shortest, own = f"{tempo.longest_task:g} s", f"{tempo.shortest_task:g} s", f"{tempo.burst_task:g} s"
    for line in (
        f"Two latency queues and three throughput queues share {of.capacity.cpu:g} cpu. Batch work: {work}, one Job a stage,",
        f"compressed to tasks of {shortest} to {longest} that ask for {of.task.cpu:g} cpu each; every queue has more than fit.",
        f"Nothing is ever evicted, so a burst may wait for running tasks to end. The declared {tempo.burst} s allow for that:",
        f"{longest} for the longest running task, {own} for the burst's own tasks, and {tempo.spare:g} s to create and bind its pods.",
    ):
        screen.say(line)
    for line in arithmetic(of):
        screen.say(f"  {line}")
    screen.say()


if __name__ == "__main__":
    sys.exit(main())
