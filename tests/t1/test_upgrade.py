"""From an earlier version to this one, back, and to this one again, while a promised window is open and batch work runs.

On a real control plane. The earlier version is a commit of this repository: its chart by Helm, its operator as a process. Helm changes
CRDs, policies, rights and configuration at once; the operator of the other version stands by, and takes over as in a rolling update.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.queues.former_places import in_present_places
from release.chart import CHART
from tests.support.accounts import account_kubeconfig
from tests.support.earlier import EARLIER, Version, problem, version_at
from tests.support.helm import Helm
from tests.t1.test_restart import job, latency, ledger_of, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JsonObject = dict[str, Any]
HOME, RELEASE = "fairburst-system", "fairburst"
HARD, NEXT = "hard", "next"  # the window of the first is open throughout; the other's bursts come while versions change
BATCH = ("batch-0", "batch-1")
MANAGED = (HARD, NEXT, *BATCH)
BURST_CPU, NEXT_CPU, NEXT_SECONDS = 4, 3, 10
SAMPLE_SECONDS = 0.25
LOST_SECONDS = 5.0  # the most that may be missing in the accounts


@dataclass
class Watcher:
    """Looks at quotas, pods and the class that a new pod would get, several times a second, from a thread of its own."""

    cluster: Cluster
    without_quota: list[tuple[float, str]] = field(default_factory=list)
    classes: list[tuple[float, str, str]] = field(default_factory=list)  # when, namespace, the class of a pod that is created now
    pods: dict[str, tuple[str, str]] = field(default_factory=dict)  # uid to namespace and class
    looks: int = 0

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)

    def _follow(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            now = time.time()
            quotas = self.cluster.request("GET", "/api/v1/resourcequotas")["items"]
            enforced = {one["metadata"]["namespace"] for one in quotas if one.get("status", {}).get("hard")}
            self.without_quota += [(now, name) for name in MANAGED if name not in enforced]
            for name in (HARD, NEXT):
                stored = self.cluster.request("POST", f"/api/v1/namespaces/{name}/pods?dryRun=All", probe())
                self.classes.append((now, name, stored["spec"].get("priorityClassName", "")))
            for pod in self.cluster.request("GET", "/api/v1/pods")["items"]:
                metadata = pod["metadata"]
                self.pods[metadata["uid"]] = metadata["namespace"], pod["spec"].get("priorityClassName", "")
            self.looks += 1

    def seconds_not_hard(self, since: float) -> float:
        """From the first to the last look since then at which a new pod of a hard queue got another class."""
        wrong = [at for at, _, name in self.classes if at >= since and name != "fairburst-hard"]
        return wrong[-1] - wrong[0] + SAMPLE_SECONDS if wrong else 0.0


def probe() -> JsonObject:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "0", "memory": "0"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"}, "spec": {"containers": [container]}}


@dataclass
class Site:
    """A cluster in which one version at a time is installed and leads."""

    cluster: Cluster
    helm: Helm
    folder: Path
    operator: OperatorProcess | None = None
    versions: int = 0

    def start(self, package: Path | None) -> OperatorProcess:
        """A replica of a version with the configuration and the account of the installed chart; it leads once no one else does."""
        self.versions += 1
        name = f"version-{self.versions}"
        (self.folder / name).mkdir()
        kubeconfig = account_kubeconfig(self.cluster, HOME, RELEASE, self.folder / name)
        mounted = json.loads(self.cluster.kubectl("get", "configmap", RELEASE, "-n", HOME, "-o", "json"))["data"]["fairburst.yaml"]
        config = yaml.safe_load(mounted) | {"kubeconfig": str(kubeconfig), "leaderElection": {"enabled": True}}
        return OperatorProcess(self.cluster, config, name, subject_user=None, install=False, package=package)

    def audited(self, since: float) -> list[JsonObject]:
        """Answered writes by the operator's account since then, refused ones too."""
        assert self.cluster.audit_log is not None
        entries = [json.loads(line) for line in self.cluster.audit_log.read_text().splitlines()]
        account = f"system:serviceaccount:{HOME}:{RELEASE}"
        return [one for one in entries if one["user"]["username"] == account and received(one) >= since]


def statuses(cluster: Cluster) -> dict[str, JsonObject]:
    """By namespace, every value in its present place. Short names differ between versions."""
    items = json.loads(cluster.kubectl("get", "latencyqueues,throughputqueues", "-A", "-o", "json"))["items"]
    return {item["metadata"]["namespace"]: dict(in_present_places(item.get("status") or {})) for item in items}


def received(entry: JsonObject) -> float:
    return datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()


@dataclass
class Move:
    """What was seen of one change of versions."""

    before: dict[str, JsonObject]
    after: dict[str, JsonObject]
    lost_seconds: float
    recovery_seconds: float
    helm_seconds: float
    watcher: Watcher
    began: float
    took_over: float
    audited: list[JsonObject]
    burst_missed: int


def move(site: Site, change: Callable[[], object], package: Path | None, number: int) -> Move:
    """Change the installation, start the other version, end the one that leads, and look."""
    assert site.operator is not None
    cluster, former = site.cluster, site.operator
    with Watcher(cluster) as watcher:
        until(lambda: watcher.looks >= 2, PATIENCE_SECONDS, "the first looks")
        before = statuses(cluster)
        ledger, read_at = ledger_of(former, HARD), time.time()
        rate = before[HARD]["internal"]["ledger"]["rateMicro"] / 1e6
        began = time.time()
        change()
        changed = time.time()
        site.operator = site.start(package)
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(job(NEXT, f"burst-{number}", NEXT_CPU, NEXT_SECONDS)))
        stopped = time.time()
        assert former.stop() == 0, former.log_tail()
        leads = lambda: site.operator and site.operator.metrics().get("fairburst_leader") == 1.0  # noqa: E731
        until(leads, PATIENCE_SECONDS, "the other version to lead")
        until(lambda: site.operator and site.operator.metrics()["fairburst_rounds_total"] >= 2, PATIENCE_SECONDS, "two of its rounds")
        took_over = time.time()
        found, now = ledger_of(site.operator, HARD), time.time()
        until(lambda: statuses(cluster)[NEXT]["history"]["bursts"] >= number, PATIENCE_SECONDS, "the burst to be counted")
        until(lambda: watcher.classes[-1][2] == "fairburst-hard", PATIENCE_SECONDS, "the class of a hard queue's new pods")
        after = statuses(cluster)
    lost = abs(ledger + rate * (now - read_at) - found) / rate
    return Move(
        before,
        after,
        lost,
        took_over - stopped,
        changed - began,
        watcher,
        began,
        took_over,
        site.audited(began),
        after[NEXT]["history"]["missed"],
    )


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
    site = Site(cluster, Helm(folder, cluster.kubeconfig), folder)
    site.helm.on_chart("install", RELEASE, "--create-namespace", namespace=HOME, chart=earlier.chart)
    site.operator = site.start(earlier.package)
    try:
        furnish(site)
        upgrade = lambda: site.helm.on_chart("upgrade", RELEASE, namespace=HOME, chart=CHART)  # noqa: E731
        to = move(site, upgrade, None, 1)
        until(lambda: statuses(cluster)[NEXT]["window"]["state"] == "Armed", 120.0, "the next burst to be due")
        back = move(site, lambda: site.helm.run("rollback", RELEASE, "1", namespace=HOME), earlier.package, 2)
        until(lambda: statuses(cluster)[NEXT]["window"]["state"] == "Armed", 120.0, "the next burst to be due")
        again = move(site, upgrade, None, 3)
        yield {"to this version": to, "back": back, "to this version again": again}
    finally:
        site.operator.stop()
        cluster.down()


def furnish(site: Site) -> None:
    """Two hard queues, the window of one open, and two batch queues that want more than the cluster has."""
    cluster = site.cluster
    for name in MANAGED:
        cluster.kubectl("create", "namespace", name)
    open_one, next_one = latency(HARD, BURST_CPU, 3600), latency(NEXT, NEXT_CPU, 60)
    open_one["spec"]["burst"]["durationSeconds"] = 900
    next_one["spec"]["burst"] |= {"durationSeconds": NEXT_SECONDS, "deadlineSeconds": 50}
    batch = [{**latency(name, 1, 1), "kind": "ThroughputQueue", "spec": {}} for name in BATCH]
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([open_one, next_one, *batch]))
    until(lambda: [s.get("class") for s in statuses(cluster).values()].count("Hard") == 2, PATIENCE_SECONDS, "two hard queues")
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(job(HARD, "burst", BURST_CPU, 3600)))
    until(lambda: running(cluster, HARD) == BURST_CPU, PATIENCE_SECONDS, "the burst to run")
    for name in BATCH:
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(job(name, "work", 30, 12, completions=9999)))
    until(lambda: sum(running(cluster, name) for name in BATCH) >= 20, PATIENCE_SECONDS, "batch work to fill the cluster")
    rate = lambda: statuses(cluster)[HARD].get("internal", {}).get("ledger", {}).get("rateMicro", 0) > 50_000  # noqa: E731
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
    """Back too: an earlier version goes on from the copies in the places that it knows (decision 0251)."""
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


def place(entry: JsonObject) -> str:
    """The namespace that a request is about."""
    about = entry["objectRef"]
    return str(about["name"] if about["resource"] == "namespaces" else about.get("namespace", about["resource"]))


def words(entry: JsonObject) -> tuple[str, str, str]:
    return entry["verb"], entry["objectRef"]["resource"], entry["objectRef"].get("subresource", "")
