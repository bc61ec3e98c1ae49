"""The table of docs/workloads.md on a real control plane: each kind of work in each mode, in a namespace whose queue may have four pods at
a time. All namespaces side by side; the pool has room for all of them."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, NotInTimeError, until
from fairburst.kube.names import GATE
from tests.support import job_set_crd, leader_worker_set_crd
from tests.support.job_set_crd import job_set, jobs_of
from tests.support.leader_worker_set_crd import leader_worker_set, stateful_sets_of
from tests.support.live_cluster import LiveCluster, refusal
from tests.support.queues import queue
from tests.support.work import deployment, job, namespace, pod, pod_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JsonObject = dict[str, Any]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "workloads.md"
MODES = ("Quota", "Gate", "Suspend", "Observe")
LEVEL, WANTED = 4, 10
SPEC = pod_spec()


STATEFUL = {"serviceName": "served", "podManagementPolicy": "Parallel"}


def named(kind: str, api: str, where: str, name: str, spec: JsonObject, **metadata: Any) -> JsonObject:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": where, **metadata}, "spec": spec}


def group(where: str, pods: int) -> list[JsonObject]:
    labels = {"fairburst.dev/group": "team", "fairburst.dev/group-size": str(pods)}
    return [pod(where, f"{where}-{number}", labels=labels) for number in range(pods)]


def spark(where: str, pods: int) -> list[JsonObject]:
    """A driver. `_follow` creates its executors, as Spark does."""
    return [pod(where, f"{where}-driver", labels={"spark-role": "driver", "spark-app-selector": "app"})]


MAKERS: dict[str, Callable[[str, int], list[JsonObject]]] = {
    "Job": lambda where, pods: [job(where, "work", pods)],
    "CronJob": lambda where, pods: [
        named("CronJob", "batch/v1", where, "nightly", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job(where, "", pods)["spec"]}})
    ],
    "Bare pods": lambda where, pods: [pod(where, f"{where}-{number}") for number in range(pods)],
    "Pod group": group,
    "Deployment": lambda where, pods: [deployment(where, "served", pods)],
    "StatefulSet": lambda where, pods: [
        named("StatefulSet", "apps/v1", where, "served", deployment(where, "served", pods)["spec"] | STATEFUL)
    ],
    "Spark": spark,
    "JobSet": lambda where, pods: [job_set(where, "set", SPEC, pods // 2, 2)],
    "LeaderWorkerSet": lambda where, pods: [leader_worker_set(where, "groups", {**SPEC, "restartPolicy": "Always"}, 2, pods // 2)],
}
REFUSED_FOR_GOOD = {"Bare pods", "Pod group", "Spark"}  # no controller retries them
HELD_WHOLE = {"Job", "CronJob", "JobSet"}


@dataclass(frozen=True)
class Seen:
    """Pods of a namespace that run, pods that our gate holds, all its pods, and its suspended Jobs and JobSets."""

    running: int
    gated: int
    pods: int
    suspended: int


class EveryCase(LiveCluster):
    """A namespace for each case, with its queue and its work."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.refused: Counter[str] = Counter()
        cases = [(kind, mode, WANTED) for kind in MAKERS for mode in MODES] + [(kind, "Suspend", LEVEL) for kind in sorted(HELD_WHOLE)]
        cases.append(("Pod group", "Gate", LEVEL))
        places = {place(kind, mode, pods): (kind, mode, pods) for kind, mode, pods in cases}
        self.create(*map(namespace, places))
        limits = {"limits": {"cpu": str(LEVEL)}}
        self.create(*(queue("ThroughputQueue", {"enforcement": mode, **limits}, where) for where, (_, mode, _) in places.items()))
        until(lambda: self._settled(places), 2 * PATIENCE_SECONDS, "all queues to be in force")
        probes = [job(where, "probe", 1) for where, (_, mode, _) in places.items() if mode == "Suspend"]
        self.until(lambda: all(self.stored(one)["spec"]["suspend"] for one in probes), "Jobs to be held in Suspend mode")
        self._create_counting([one for where, (kind, _, pods) in places.items() for one in MAKERS[kind](where, pods)], places)
        self._follow(places)

    def _settled(self, places: Mapping[str, tuple[str, str, int]]) -> bool:
        """Return whether the quotas show that every mode is in force. Observe has no quota, and a gate's has no limits."""
        queues = self.statuses()
        quotas = {one["metadata"]["namespace"]: one for one in self.items("resourcequotas")}

        def settled(where: str, mode: str) -> bool:
            quota = quotas.get(where, {})
            limited, without = bool(quota.get("status", {}).get("hard")), bool(quota) and not quota["spec"].get("hard")
            return "class" in queues.get(where, {}) and (mode == "Observe" or (without if mode == "Gate" else limited))

        return all(settled(where, mode) for where, (_, mode, _) in places.items())

    def _follow(self, places: Mapping[str, tuple[str, str, int]]) -> None:
        """Create what other controllers create: a CronJob's Job, a driver's executors, a JobSet's Jobs, the StatefulSets of groups."""
        for where in (where for where, (kind, _, _) in places.items() if kind == "CronJob"):
            self.cluster.kubectl("create", "job", "now", "--from=cronjob/nightly", "-n", where)
        made = [one for job_set in self.items("jobsets") for one in jobs_of(job_set)]
        made += [one for groups in self.items("leaderworkersets") for one in stateful_sets_of(groups)]
        for driver in self.items("pods", labels="spark-role=driver"):
            metadata = driver["metadata"]
            where, labels = metadata["namespace"], {"spark-role": "executor", "spark-app-selector": "app"}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
            executors = range(1, places[where][2])
            made += [pod(where, f"{where}-exec-{number}", labels=labels, ownerReferences=[owner]) for number in executors]
        self._create_counting(made, places)

    def _create_counting(self, objects: Sequence[JsonObject], places: Iterable[str]) -> None:
        """Create all. Pods that a quota refuses are counted by namespace, with which their names begin."""
        said = [words for one in objects if (words := refusal(functools.partial(self.create, one)))]
        for where in places:
            self.refused[where] += sum(f'pods "{where}-' in words for words in said)
        assert all("is forbidden: exceeded quota" in words for words in said), said

    def see(self, where: str) -> Seen:
        found = self.items("pods,jobs,jobsets", where)
        pods = [one for one in found if one["kind"] == "Pod"]
        gated = sum(any(gate["name"] == GATE for gate in one["spec"].get("schedulingGates", ())) for one in pods)
        running = sum(one["status"].get("phase") == "Running" for one in pods)
        suspended = [one for one in found if one["spec"].get("suspend") and not of_a_job_set(one)]
        return Seen(running, gated, len(pods), len(suspended))

    def at_the_quota(self, where: str) -> bool:
        """Return whether the quota is used up to the level or a pod more, and all these pods run. More may run than it counts, but not
        all: kube-controller-manager counts again after a change of a quota, from a cache that may lack the newest pods, and then the API
        server admits as many others (docs/decisions/0240)."""
        used = int(self.enforced_cpu(where, "used"))
        return used in {LEVEL, LEVEL + 1} and used <= self.see(where).running < WANTED

    def wait(self, where: str, right: Callable[[Seen], bool], what: str) -> None:
        try:
            until(lambda: right(self.see(where)), 2 * PATIENCE_SECONDS, f"{what} in {where}")
        except NotInTimeError as error:
            quota = self.cluster.kubectl("get", "resourcequotas", "-n", where, "-o", "jsonpath={.items[*].status}")
            raise NotInTimeError(f"{error}; seen {self.see(where)}, quota {quota}") from error


def of_a_job_set(job: JsonObject) -> bool:
    return any(owner["kind"] == "JobSet" for owner in job["metadata"].get("ownerReferences", ()))


def place(kind: str, mode: str, pods: int) -> str:
    return f"{kind}-{mode}-{pods}".lower().replace(" ", "-")


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[EveryCase]:
    cluster = fresh_cluster(nodes=8, node_cpu="64", node_memory="64Gi")
    job_set_crd.install(cluster)
    leader_worker_set_crd.install(cluster)
    with OperatorProcess(cluster, {"log": {"level": "DEBUG"}, "smallJobs": {"enabled": False}}, "kinds"):
        yield EveryCase(cluster)


@pytest.mark.parametrize("kind", MAKERS)
def test_quota_lets_in_the_level_and_one_pod_more_and_what_nobody_tries_again_for_is_lost(site: EveryCase, kind: str) -> None:
    where = place(kind, "Quota", WANTED)
    if kind in REFUSED_FOR_GOOD:
        assert site.refused[where] > 0
        assert site.see(where).pods == WANTED - site.refused[where]
    else:
        site.wait(where, lambda _: site.at_the_quota(where), "what the level permits to run")
        assert site.refused[where] == 0
        assert site.see(where).pods < WANTED


@pytest.mark.parametrize("kind", MAKERS)
def test_gate_lets_the_level_go_and_loses_nothing_and_a_group_goes_whole_or_not_at_all(site: EveryCase, kind: str) -> None:
    where = place(kind, "Gate", WANTED)
    goes = 0 if kind == "Pod group" else LEVEL
    site.wait(where, lambda seen: (seen.running, seen.gated) == (goes, WANTED - goes), f"{goes} of {WANTED} to run and the rest to wait")
    assert site.refused[where] == 0
    if kind == "Pod group":
        until(lambda: site.condition(where, "JobsFit").get("reason") == "LargerThanLevel", PATIENCE_SECONDS, "the queue to name the group")
        assert f"needs {WANTED} cpu, the queue's level is {LEVEL}." in site.condition(where, "JobsFit")["message"]
        fits = place(kind, "Gate", LEVEL)
        site.wait(fits, lambda seen: seen.running == LEVEL, "a group that fits to run whole")


@pytest.mark.parametrize("kind", MAKERS)
def test_suspend_starts_jobs_and_job_sets_whole_and_names_those_that_cannot_and_all_else_is_as_with_a_quota(
    site: EveryCase, kind: str
) -> None:
    where = place(kind, "Suspend", WANTED)
    if kind not in HELD_WHOLE:
        if kind in REFUSED_FOR_GOOD:
            assert site.refused[where] > 0
        else:
            site.wait(where, lambda _: site.at_the_quota(where), "what the level permits to run")
        return
    until(lambda: site.condition(where, "JobsFit").get("reason") == "LargerThanLevel", PATIENCE_SECONDS, "the queue to name it")
    assert f"needs {WANTED} cpu, the queue's level is {LEVEL}." in site.condition(where, "JobsFit")["message"]
    assert site.see(where) == Seen(0, 0, 0, suspended=1)
    fits = place(kind, "Suspend", LEVEL)
    if kind == "JobSet":
        until(lambda: not site.items("jobsets", fits)[0]["spec"]["suspend"], PATIENCE_SECONDS, "it to be started")
        for one in site.items("jobs", fits):  # as its controller does then
            site.patch("job", one["metadata"]["name"], fits, {"spec": {"suspend": False}})
    site.wait(fits, lambda seen: (seen.running, seen.suspended) == (LEVEL, 0), "one that fits to run whole")


@pytest.mark.parametrize("kind", MAKERS)
def test_observe_holds_nothing(site: EveryCase, kind: str) -> None:
    where = place(kind, "Observe", WANTED)
    site.wait(where, lambda seen: seen.running == WANTED, "all to run")
    assert site.refused[where] == 0
    assert site.items("resourcequotas", where) == []


def test_the_page_has_a_row_for_each_kind_and_a_column_for_each_mode() -> None:
    header, _, *rows = re.findall(r"^\|.*\|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [cell.strip(" `") for cell in header.strip("|").split("|")[1:]] == list(MODES)
    assert [row.strip("|").split("|")[0].strip() for row in rows[: len(MAKERS)]] == list(MAKERS)
