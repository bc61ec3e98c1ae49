"""Every alert of the chart on a live operator: quiet while all is well, firing within two minutes of its fault.

A Prometheus scrapes a real operator on a real control plane. Each alert's `for` is divided by 60, so half an hour is half a minute;
expressions and their ranges are the chart's. Three faults are within the operator's rounds and are planted there
(tests/support/planted_faults); the others are faults of its surroundings.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import until
from tests.support import work
from tests.support.live_cluster import OperatedCluster
from tests.support.objects import latency_spec
from tests.support.prometheus_server import RULES, PrometheusServer
from tests.support.promtool import NoPromtoolError, prometheus
from tests.support.queues import queue
from tests.support.repeating import repeating
from tests.support.work import namespace, pod_spec

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

FOR_DIVIDED_BY = 60.0
FIRES_SECONDS = 120.0  # after the fault
ROUNDS_STOPPED_SECONDS = 150.0  # its expression looks back two minutes, to which `for` and a scrape are added
QUIET_SECONDS = 120.0  # in which half an hour of `for` passes four times
JsonObject = dict[str, Any]
LEASE, HOME = "fairburst-default", "fairburst-system"
PLANTED = Path(__file__).parents[1] / "support" / "planted_faults"


class WatchedCluster(OperatedCluster):
    """A cluster with an operator in whose rounds faults can be planted, and the Prometheus that watches it."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess, server: PrometheusServer, faults: Path) -> None:
        super().__init__(cluster, operator)
        self.server, self._faults = server, faults

    def queue(self, kind: str, where: str, spec: JsonObject) -> None:
        """Create a namespace and its queue, and wait for the class."""
        self.create(namespace(where), queue(kind, spec, where))
        self.wait_class(where)

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


def latency(cpu: int, deadline: int = 30) -> JsonObject:
    spec = latency_spec(str(cpu), 20, 300)
    return spec | {"burst": spec["burst"] | {"deadlineSeconds": deadline}}


def job(where: str, name: str, pods: int, cpu: int = 1, seconds: int | None = None, rounds: int = 1) -> JsonObject:
    return work.job(where, name, pods, pod_spec(cpu, f"{cpu}Gi"), seconds=seconds, completions=pods * rounds)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedCluster]:
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
        found = WatchedCluster(cluster, operator, server, faults)
        found.queue("LatencyQueue", "hard", latency(4))
        found.queue("ThroughputQueue", "batch", {})
        found.create(job("batch", "work", 20, seconds=5, rounds=400))
        yield found


def test_nothing_fires_while_all_is_well(site: WatchedCluster) -> None:
    """Batch work comes and goes, and a burst is met."""
    time.sleep(5)
    site.create(job("hard", "met", 4, seconds=10))
    time.sleep(QUIET_SECONDS)
    status = site.status("hard")
    assert status["class"] == "Hard"
    assert status["history"]["met"] >= 1
    assert site.server.fired() == set()


def test_a_hard_queue_whose_pods_fit_the_nodes_only_in_sum_is_at_risk(site: WatchedCluster) -> None:
    """27 cpu are promised, which is three pods of 9 at a time, and two nodes of 16 hold two. This burst takes no more than two."""
    site.queue("LatencyQueue", "wide", latency(27, deadline=20))
    site.create(job("wide", "burst", 2, cpu=9, seconds=10))
    site.fires("FairburstPromiseAtRisk")
    site.cluster.kubectl("delete", "latencyqueue", "queue", "-n", "wide")  # it leaves no room for another hard queue


def test_a_job_that_starts_whole_and_is_larger_than_the_pool_waits(site: WatchedCluster) -> None:
    site.queue("ThroughputQueue", "stuck", {"enforcement": "Suspend"})
    site.create(job("stuck", "giant", 40))
    site.fires("FairburstQueueWaits")


def test_a_burst_on_a_cluster_full_of_work_that_never_ends_is_missed(site: WatchedCluster) -> None:
    """The burst's deadline of 30 s is part of the time."""
    site.cluster.kubectl("delete", "job", "work", "-n", "batch")
    site.create(job("batch", "endless", 32))
    until(lambda: len(site.running("batch")) >= 28, 60, "batch work everywhere")
    site.queue("LatencyQueue", "late", latency(8))
    site.create(job("late", "burst", 8, seconds=10))
    site.fires("FairburstBurstMissed")
    site.cluster.kubectl("delete", "job", "endless", "-n", "batch")


def test_writes_that_the_api_server_refuses_are_told(site: WatchedCluster) -> None:
    """The operator loses the right to write quotas while a queue's weight changes all the time."""
    for number in range(6):
        site.queue("ThroughputQueue", f"more-{number}", {})
    with without_right_to_write(site, "resourcequotas"), edits(site, "batch"):
        site.fires("FairburstWritesFail")


def test_quotas_that_no_one_puts_into_force_differ(site: WatchedCluster) -> None:
    """The operator writes `status.hard` itself and kube-controller-manager copies it there: neither can."""
    site.cluster.stop("kube-controller-manager")
    with without_right_to_write(site, "resourcequotas/status"), edits(site, "batch"):
        site.fires("FairburstQuotasDiffer")
    site.cluster.start_component("kube-controller-manager")


@contextlib.contextmanager
def without_right_to_write(site: WatchedCluster, resource: str) -> Iterator[None]:
    """Take the operator's right to write a resource away, and give it back."""
    roles = [one for one in site.items("clusterroles") if grants(one, resource)]
    assert roles, resource

    def replace(role: JsonObject, rules: list[JsonObject]) -> None:
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


def grants(role: JsonObject, resource: str) -> bool:
    ours = role["metadata"]["name"].startswith("fairburst")
    return ours and any(resource in rule.get("resources", ()) for rule in role.get("rules") or ())


def edits(site: WatchedCluster, where: str) -> AbstractContextManager[None]:
    """Give a throughput queue another weight twice a second."""
    weights = itertools.cycle((3, 2))
    return repeating(lambda: site.patch("throughputqueue", "queue", where, {"spec": {"weight": next(weights)}}), 0.5)


def test_rounds_that_raise_fail(site: WatchedCluster) -> None:
    with site.planted("fail"):
        site.fires("FairburstRoundsFail")


def test_rounds_that_take_longer_than_a_second_are_slow(site: WatchedCluster) -> None:
    with site.planted("slow"):
        site.fires("FairburstRoundsSlow")


def test_a_leader_whose_round_never_ends_has_stopped(site: WatchedCluster) -> None:
    with site.planted("hang"):
        site.fires("FairburstRoundsStopped", ROUNDS_STOPPED_SECONDS)


def test_an_operator_that_cannot_have_the_lease_is_no_leader(site: WatchedCluster) -> None:
    """Another holder renews the Lease and does nothing else."""

    def hold() -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {"holderIdentity": "another", "renewTime": now, "acquireTime": now}
        site.patch("lease", LEASE, HOME, {"spec": spec})

    with repeating(hold, 0.5):
        site.fires("FairburstNoLeader")


def test_an_operator_that_is_killed_is_silent(site: WatchedCluster) -> None:
    site.operator.kill()
    site.fires("FairburstSilent")
    site.operator.start()


def test_every_alert_of_the_chart_has_a_test_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    names = [alert["alert"] for alert in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]]
    assert [name for name in names if f'fires("{name}"' not in text] == []
