"""An upgrade from an earlier version, the way back, and the upgrade again, while a promised window is open and batch work runs.

On a real control plane. The earlier version is a commit of this repository: its chart by Helm, its operator as a process. Helm changes
CRDs, policies, rights and configuration at once; the operator of the other version stands by, and takes over as in a rolling update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from typing_extensions import override

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.queues.former_places import in_present_places
from release.chart import CHART
from tests.support.accounts import account_kubeconfig
from tests.support.audit import Entry, at, audited
from tests.support.earlier import EARLIER, Version, problem, version_at
from tests.support.helm import Helm
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.repeating import repeating
from tests.support.restarts import job, latency, ledger_of
from tests.support.work import namespace, pod, pod_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JsonObject = dict[str, Any]
HOME, RELEASE = "fairburst-system", "fairburst"
HARD, NEXT = "hard", "next"  # the window of the first is open throughout; the other's bursts come while versions change
BATCH = ("batch-0", "batch-1")
MANAGED = (HARD, NEXT, *BATCH)
BURST_CPU, NEXT_CPU, NEXT_SECONDS = 4, 3, 10
SAMPLE_SECONDS = 0.25
LOST_SECONDS = 5.0  # the longest gap in the accounts


@dataclass
class Watcher:
    """Records quotas, pods and the class that a new pod would get, at each look."""

    cluster: Cluster
    without_quota: list[tuple[float, str]] = field(default_factory=list)
    classes: list[tuple[float, str, str]] = field(default_factory=list)  # when, namespace, the class of a pod that is created now
    pods: dict[str, tuple[str, str]] = field(default_factory=dict)  # uid to namespace and class
    looks: int = 0

    def look(self) -> None:
        now = time.time()
        quotas = self.cluster.request("GET", "/api/v1/resourcequotas")["items"]
        enforced = {one["metadata"]["namespace"] for one in quotas if one.get("status", {}).get("hard")}
        self.without_quota += [(now, name) for name in MANAGED if name not in enforced]
        for name in (HARD, NEXT):
            stored = self.cluster.request("POST", f"/api/v1/namespaces/{name}/pods?dryRun=All", pod(name, "probe", pod_spec(0, "0")))
            self.classes.append((now, name, stored["spec"].get("priorityClassName", "")))
        for found in self.cluster.request("GET", "/api/v1/pods")["items"]:
            metadata = found["metadata"]
            self.pods[metadata["uid"]] = metadata["namespace"], found["spec"].get("priorityClassName", "")
        self.looks += 1

    def seconds_not_hard(self, since: float) -> float:
        """Return the time between the first and the last look since then at which a new pod of a hard queue got another class."""
        wrong = [at for at, _, name in self.classes if at >= since and name != "fairburst-hard"]
        return wrong[-1] - wrong[0] + SAMPLE_SECONDS if wrong else 0.0


class VersionedCluster(LiveCluster):
    """A cluster in which one version at a time is installed and leads."""

    def __init__(self, cluster: Cluster, helm: Helm, folder: Path) -> None:
        super().__init__(cluster)
        self.helm, self.folder, self.versions = helm, folder, 0
        self.operator: OperatorProcess | None = None

    def start(self, package: Path | None) -> OperatorProcess:
        """A replica of a version with the configuration and the account of the installed chart; it leads once no one else does."""
        self.versions += 1
        name = f"version-{self.versions}"
        (self.folder / name).mkdir()
        kubeconfig = account_kubeconfig(self.cluster, HOME, RELEASE, self.folder / name)
        mounted = self.get("configmap", RELEASE, HOME)["data"]["fairburst.yaml"]
        config = yaml.safe_load(mounted) | {"kubeconfig": str(kubeconfig), "leaderElection": {"enabled": True}}
        return OperatorProcess(self.cluster, config, name, subject_user=None, install=False, package=package)

    def audited(self, since: float) -> list[Entry]:
        """Return the answered writes of the operator's account since then, including refused ones."""
        account = f"system:serviceaccount:{HOME}:{RELEASE}"
        return [one for one in audited(self.cluster) if one["user"]["username"] == account and at(one, "requestReceivedTimestamp") >= since]

    @override
    def statuses(self) -> dict[str, JsonObject]:
        """Return the statuses by namespace, with every value in its present place."""
        return {where: dict(in_present_places(status)) for where, status in super().statuses().items()}


@dataclass
class Move:
    """The record of one change of versions."""

    before: dict[str, JsonObject]
    after: dict[str, JsonObject]
    lost_seconds: float
    recovery_seconds: float
    watcher: Watcher
    began: float
    took_over: float
    audited: list[JsonObject]
    burst_missed: int


def move(site: VersionedCluster, change: Callable[[], object], package: Path | None, number: int) -> Move:
    """Change the installation, start the other version and end the leader. Return the record."""
    assert site.operator is not None
    former = site.operator
    watcher = Watcher(site.cluster)
    with repeating(watcher.look, SAMPLE_SECONDS):
        until(lambda: watcher.looks >= 2, PATIENCE_SECONDS, "the first looks")
        before = site.statuses()
        ledger, read_at = ledger_of(former, HARD), time.time()
        rate = before[HARD]["internal"]["ledger"]["rateMicro"] / 1e6
        began = time.time()
        change()
        site.operator = site.start(package)
        site.create(job(NEXT, f"burst-{number}", NEXT_CPU, NEXT_SECONDS))
        stopped = time.time()
        assert former.stop() == 0, former.log_tail()
        leads = lambda: site.operator and site.operator.metrics().get("fairburst_leader") == 1.0  # noqa: E731
        until(leads, PATIENCE_SECONDS, "the other version to lead")
        until(lambda: site.operator and site.operator.metrics()["fairburst_rounds_total"] >= 2, PATIENCE_SECONDS, "two of its rounds")
        took_over = time.time()
        found, now = ledger_of(site.operator, HARD), time.time()
        until(lambda: site.statuses()[NEXT]["history"]["bursts"] >= number, PATIENCE_SECONDS, "the burst to be counted")
        until(lambda: watcher.classes[-1][2] == "fairburst-hard", PATIENCE_SECONDS, "the class of a hard queue's new pods")
        after = site.statuses()
    lost = abs(ledger + rate * (now - read_at) - found) / rate
    return Move(before, after, lost, took_over - stopped, watcher, began, took_over, site.audited(began), after[NEXT]["history"]["missed"])


Moves = dict[str, Move]  # by the way, in order


@pytest.fixture(scope="module", params=EARLIER, ids=lambda name: name.replace(" ", "-"))
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Version:
    commit = EARLIER[request.param]
    if missing := problem(commit):
        pytest.skip(f"UPGRADE NOT TESTED: {missing}")
    return version_at(commit, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def moves(earlier: Version, fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moves]:
    """To this version, back, and to it again."""
    cluster = fresh_cluster(nodes=4, node_cpu="8", node_memory="64Gi", audit=True)
    folder = tmp_path_factory.mktemp("upgrade")
    site = VersionedCluster(cluster, Helm(folder, cluster.kubeconfig), folder)
    site.helm.on_chart("install", RELEASE, "--create-namespace", namespace=HOME, chart=earlier.chart)
    site.operator = site.start(earlier.package)
    try:
        furnish(site)
        upgrade = lambda: site.helm.on_chart("upgrade", RELEASE, namespace=HOME, chart=CHART)  # noqa: E731
        to = move(site, upgrade, None, 1)
        until(lambda: site.statuses()[NEXT]["window"]["state"] == "Armed", 120.0, "the next burst to be due")
        back = move(site, lambda: site.helm.run("rollback", RELEASE, "1", namespace=HOME), earlier.package, 2)
        until(lambda: site.statuses()[NEXT]["window"]["state"] == "Armed", 120.0, "the next burst to be due")
        again = move(site, upgrade, None, 3)
        yield {"to this version": to, "back": back, "to this version again": again}
    finally:
        site.operator.stop()
        cluster.down()


def furnish(site: VersionedCluster) -> None:
    """Two hard queues, the window of one open, and two batch queues that want more than the cluster has."""
    site.create(*map(namespace, MANAGED))
    site.create(latency(HARD, BURST_CPU, 3600, 900), latency(NEXT, NEXT_CPU, 60, NEXT_SECONDS, deadlineSeconds=50))
    site.create(*(queue("ThroughputQueue", {}, name) for name in BATCH))
    until(lambda: [s.get("class") for s in site.statuses().values()].count("Hard") == 2, PATIENCE_SECONDS, "two hard queues")
    site.create(job(HARD, "burst", BURST_CPU, 3600))
    site.wait_running(HARD, BURST_CPU, "the burst to run")
    site.create(*(job(name, "work", 30, 12, completions=9999) for name in BATCH))
    until(lambda: sum(len(site.running(name)) for name in BATCH) >= 20, PATIENCE_SECONDS, "batch work to fill the cluster")
    rate = lambda: site.statuses()[HARD].get("internal", {}).get("ledger", {}).get("rateMicro", 0) > 50_000  # noqa: E731
    until(rate, PATIENCE_SECONDS, "the burst's rate in the status")


def test_no_promise_is_lost(moves: Moves) -> None:
    for way, one in moves.items():
        for name in (HARD, NEXT):
            was, now = one.before[name], one.after[name]
            assert now["class"] == was["class"] == "Hard", (way, name)
            assert {key: now["promise"].get(key) for key in was["promise"]} == was["promise"], (way, name)
        was, now = one.before[HARD]["window"], one.after[HARD]["window"]
        assert was["state"] == "Open"
        assert {key: now[key] for key in ("state", "opened", "deadline")} == {key: was[key] for key in ("state", "opened", "deadline")}, way
        budgets = [status[HARD]["internal"]["window"]["budgetMilliseconds"] for status in (one.before, one.after)]
        assert budgets[0] == budgets[1], way
        assert one.burst_missed == 0, f"{way}: the burst that came while versions changed"


def test_no_more_than_five_seconds_of_accounts_are_lost(moves: Moves) -> None:
    """Also on the way back: an earlier version reads the copies in the places that it knows (decision 0251)."""
    for way, one in moves.items():
        print(f"{way}: {one.lost_seconds:.2f} s of accounts lost, the other version led {one.recovery_seconds:.1f} s after SIGTERM")
    assert {way: one.lost_seconds for way, one in moves.items() if one.lost_seconds > LOST_SECONDS} == {}


def test_no_namespace_is_without_a_quota(moves: Moves) -> None:
    for way, one in moves.items():
        assert one.watcher.looks > 10
        assert one.watcher.without_quota == [], way


def test_no_pod_is_without_a_class(moves: Moves) -> None:
    for way, one in moves.items():
        print(f"{way}: new pods of hard queues had another class for {one.watcher.seconds_not_hard(one.began):.1f} s")
        assert [pod for pod in one.watcher.pods.values() if pod[0] in MANAGED and not pod[1].startswith("fairburst-")] == [], way
        assert [look for look in one.watcher.classes if not look[2].startswith("fairburst-")] == [], way


def test_the_operators_write_nothing_elsewhere(moves: Moves) -> None:
    for way, one in moves.items():
        assert one.audited
        stored = [entry for entry in one.audited if entry["responseStatus"]["code"] < 300]
        assert {place(entry) for entry in stored} <= {*MANAGED, HOME}, way
        refused = sorted(
            {(*words(entry), entry["responseStatus"]["code"]) for entry in one.audited if entry["responseStatus"]["code"] == 403}
        )
        print(f"{way}: {len(stored)} writes, refused by policy or rights: {refused}")
        assert refused == [], way


def place(entry: Entry) -> str:
    """The namespace that a request is about."""
    about = entry["objectRef"]
    return str(about["name"] if about["resource"] == "namespaces" else about.get("namespace", about["resource"]))


def words(entry: Entry) -> tuple[str, str, str]:
    return entry["verb"], entry["objectRef"]["resource"], entry["objectRef"].get("subresource", "")
