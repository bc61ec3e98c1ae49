"""Every alert of the chart on a live operator: quiet while all is well, firing within two minutes of its fault.

A Prometheus scrapes a real operator on a real control plane. Each alert's `for` is divided by 60, so half an hour is half a minute;
expressions and their ranges are the chart's. Three faults are within the operator's rounds and are planted there
(tests/support/planted_faults); the others are what goes wrong around it.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support.prometheus_server import RULES, PrometheusServer
from tests.support.promtool import NoPromtoolError, prometheus

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

FOR_DIVIDED_BY = 60.0
FIRES_SECONDS = 120.0  # after the fault
ROUNDS_STOPPED_SECONDS = 150.0  # its expression looks back two minutes, to which `for` and a scrape are added
QUIET_SECONDS = 120.0  # in which half an hour of `for` passes four times
API = "fairburst.dev/v1alpha1"
LEASE, HOME = "fairburst-default", "fairburst-system"
PLANTED = Path(__file__).parents[1] / "support" / "planted_faults"


class Site:
    """A cluster, an operator in whose rounds faults can be planted, and the Prometheus that watches it."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess, server: PrometheusServer, faults: Path) -> None:
        self.cluster, self.operator, self.server, self._faults = cluster, operator, server, faults

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))

    def queue(self, kind: str, namespace: str, spec: dict[str, Any]) -> None:
        """Create a namespace and its queue, and wait for the class."""
        self.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {"apiVersion": API, "kind": kind, "metadata": {"name": "queue", "namespace": namespace}, "spec": spec},
        )
        self.cluster.kubectl("wait", f"{kind.lower()}/queue", "-n", namespace, "--for=jsonpath={.status.class}", "--timeout=60s")

    @contextlib.contextmanager
    def planted(self, name: str) -> Iterator[None]:
        (self._faults / name).touch()
        yield
        (self._faults / name).unlink()

    def fires(self, alert: str, seconds: float = FIRES_SECONDS) -> None:
        """Wait until the alert fires, which it did not when the fault began."""
        assert alert not in self.server.firing()
        began = time.monotonic()
        until(lambda: alert in self.server.firing(), seconds, f"{alert} to fire")
        print(f"{alert} fired {time.monotonic() - began:.0f} s after its fault")


def latency(cpu: int, seconds: int = 20, deadline: int = 30) -> dict[str, Any]:
    burst = {"resources": {"cpu": str(cpu), "memory": f"{cpu}Gi"}, "durationSeconds": seconds, "deadlineSeconds": deadline}
    return {"burst": burst, "arrival": {"sporadic": {"minInterarrivalSeconds": 300}}}


def job(namespace: str, name: str, pods: int, cpu: int = 1, seconds: int | None = None, rounds: int = 1) -> dict[str, Any]:
    """A Job whose pods run for so many seconds, for ever without."""
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": str(cpu), "memory": f"{cpu}Gi"}}}
    annotations = {} if seconds is None else {"run-seconds": f"{seconds}s"}
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods * rounds, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two nodes of 16 cpu; a hard queue and batch work that leaves it room."""
    try:
        prometheus()
    except NoPromtoolError as error:
        pytest.skip(str(error))
    faults = tmp_path_factory.mktemp("faults")
    cluster = fresh_cluster(nodes=2, node_cpu="16", node_memory="64Gi")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FAIRBURST_FAULTS", str(faults))
        environment.setenv("PYTHONPATH", os.pathsep.join([str(PLANTED), *filter(None, [os.environ.get("PYTHONPATH")])]))
        operator = OperatorProcess(cluster, {"leaderElection": {"enabled": True}}, "alerts")
    with operator, PrometheusServer(tmp_path_factory.mktemp("prometheus"), operator.port, FOR_DIVIDED_BY) as server:
        found = Site(cluster, operator, server, faults)
        found.queue("LatencyQueue", "hard", latency(4))
        found.queue("ThroughputQueue", "batch", {})
        found.apply(job("batch", "work", 20, seconds=5, rounds=400))
        yield found


def test_nothing_fires_while_all_is_well(site: Site) -> None:
    """Batch work comes and goes, and a burst is met."""
    time.sleep(5)
    site.apply(job("hard", "met", 4, seconds=10))
    time.sleep(QUIET_SECONDS)
    queue = json.loads(site.cluster.kubectl("get", "latencyqueue", "queue", "-n", "hard", "-o", "json"))
    assert queue["status"]["class"] == "Hard"
    assert queue["status"]["history"]["met"] >= 1
    assert site.server.fired() == set()


def test_a_hard_queue_whose_pods_fit_the_nodes_only_in_sum_is_at_risk(site: Site) -> None:
    """27 cpu are promised, which is three pods of 9 at a time, and two nodes of 16 hold two. This burst takes no more than two."""
    site.queue("LatencyQueue", "wide", latency(27, deadline=20))
    site.apply(job("wide", "burst", 2, cpu=9, seconds=10))
    site.fires("FairburstPromiseAtRisk")
    site.cluster.kubectl("delete", "latencyqueue", "queue", "-n", "wide")  # it leaves no room for another hard queue


def test_a_job_that_starts_whole_and_is_larger_than_the_pool_waits(site: Site) -> None:
    site.queue("ThroughputQueue", "stuck", {"enforcement": "Suspend"})
    site.apply(job("stuck", "giant", 40))
    site.fires("FairburstQueueWaits")


def test_a_burst_on_a_cluster_full_of_work_that_never_ends_is_missed(site: Site) -> None:
    """The burst's deadline of 30 s is part of the time."""
    site.cluster.kubectl("delete", "job", "work", "-n", "batch")
    site.apply(job("batch", "endless", 32))
    until(lambda: running(site, "batch") >= 28, 60, "batch work everywhere")
    site.queue("LatencyQueue", "late", latency(8))
    site.apply(job("late", "burst", 8, seconds=10))
    site.fires("FairburstBurstMissed")
    site.cluster.kubectl("delete", "job", "endless", "-n", "batch")


def running(site: Site, namespace: str) -> int:
    pods = json.loads(site.cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
    return sum(1 for one in pods if one["status"]["phase"] == "Running")


def test_writes_that_the_api_server_refuses_are_told(site: Site) -> None:
    """The operator loses the right to write quotas while a queue's weight changes all the time."""
    for number in range(6):
        site.queue("ThroughputQueue", f"more-{number}", {})
    with without_right_to_write(site, "resourcequotas"), edits(site, "batch"):
        site.fires("FairburstWritesFail")


def test_quotas_that_no_one_puts_into_force_differ(site: Site) -> None:
    """The operator writes `status.hard` itself and kube-controller-manager copies it there: neither can."""
    site.cluster.stop("kube-controller-manager")
    with without_right_to_write(site, "resourcequotas/status"), edits(site, "batch"):
        site.fires("FairburstQuotasDiffer")
    site.cluster.start_component("kube-controller-manager")


@contextlib.contextmanager
def without_right_to_write(site: Site, resource: str) -> Iterator[None]:
    """Take the operator's right to write a resource away, and give it back."""
    roles = [one for one in json.loads(site.cluster.kubectl("get", "clusterroles", "-o", "json"))["items"] if grants(one, resource)]
    assert roles, resource

    def replace(role: dict[str, Any], rules: list[dict[str, Any]]) -> None:
        kept = {key: role["metadata"][key] for key in ("name", "labels", "annotations") if key in role["metadata"]}
        site.cluster.kubectl("replace", "-f", "-", input=json.dumps({**role, "rules": rules, "metadata": kept}))

    for role in roles:
        replace(
            role, [rule | {"verbs": ["get", "list", "watch"]} if resource in rule.get("resources", ()) else rule for rule in role["rules"]]
        )
    try:
        yield
    finally:
        for role in roles:
            replace(role, role["rules"])


def grants(role: dict[str, Any], resource: str) -> bool:
    ours = role["metadata"]["name"].startswith("fairburst")
    return ours and any(resource in rule.get("resources", ()) for rule in role.get("rules") or ())


@contextlib.contextmanager
def edits(site: Site, namespace: str) -> Iterator[None]:
    """Give a throughput queue another weight twice a second."""
    stop = threading.Event()

    def edit() -> None:
        weight = 2
        while not stop.wait(0.5):
            weight = 5 - weight
            patch = json.dumps({"spec": {"weight": weight}})
            site.cluster.kubectl("patch", "throughputqueue", "queue", "-n", namespace, "--type=merge", "-p", patch)

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def test_rounds_that_raise_fail(site: Site) -> None:
    with site.planted("fail"):
        site.fires("FairburstRoundsFail")


def test_rounds_that_take_longer_than_a_second_are_slow(site: Site) -> None:
    with site.planted("slow"):
        site.fires("FairburstRoundsSlow")


def test_a_leader_whose_round_never_ends_has_stopped(site: Site) -> None:
    with site.planted("hang"):
        site.fires("FairburstRoundsStopped", ROUNDS_STOPPED_SECONDS)


def test_an_operator_that_cannot_have_the_lease_is_no_leader(site: Site) -> None:
    """Another holder renews it, and does nothing else."""
    stop = threading.Event()

    def hold() -> None:
        while not stop.wait(0.5):
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            spec = {"holderIdentity": "another", "renewTime": now, "acquireTime": now}
            site.cluster.kubectl("patch", "lease", LEASE, "-n", HOME, "--type=merge", "-p", json.dumps({"spec": spec}))

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        site.fires("FairburstNoLeader")
    finally:
        stop.set()
        thread.join(60)


def test_an_operator_that_is_killed_is_silent(site: Site) -> None:
    site.operator.kill()
    site.fires("FairburstSilent")
    site.operator.start()


def test_every_alert_of_the_chart_has_a_test_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    names = [alert["alert"] for alert in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]]
    assert [name for name in names if f'fires("{name}"' not in text] == []
