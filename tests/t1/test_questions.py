"""Questions of a tenant, each with the one command that answers it, in each mode: `kubectl describe`, `kubectl get`, or one of ours.

Two nodes of eight cpu. Each throughput queue has work for more than its share, so that something of it waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, NotInTimeError, until
from tests.support import work
from tests.support.live_cluster import LiveCluster
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import namespace, pod_spec

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
MODES = {"quota": "Quota", "gate": "Gate", "suspend": "Suspend"}
OTHERS, URGENT = "payroll", "urgent"  # other teams' namespaces, which no answer may name


def job(where: str, name: str, pods: int) -> JsonObject:
    """A Job whose pods run until they are deleted, and then take half a minute to end."""
    return work.job(where, name, pods, pod_spec(grace_seconds=30), pod_metadata={"annotations": {"stop-seconds": "30s"}})


class Answers(LiveCluster):
    """The answers of kubectl to a tenant."""

    def describe(self, kind: str, name: str, where: str, *wanted: str) -> str:
        """Return what `kubectl describe` says once it says all that is wanted. Nothing it says names another team."""
        said = ""

        def told() -> bool:
            nonlocal said
            said = self.cluster.kubectl("describe", kind, name, "-n", where)
            return all(text in " ".join(said.split()) for text in wanted)

        try:
            until(told, PATIENCE_SECONDS, f"`kubectl describe {kind} {name} -n {where}` to say {wanted}")
        except NotInTimeError as error:
            raise AssertionError(f"{error}; it said:\n{said}") from error
        assert not [team for team in {OTHERS, URGENT} - {where} if team in said]
        return " ".join(said.split())

    def table(self, kind: str, where: str, *flags: str) -> str:
        """Return what `kubectl get` prints."""
        return self.cluster.kubectl("get", kind, "-n", where, *flags)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Answers]:
    made = Answers(fresh_cluster(nodes=2, node_cpu="8", node_memory="64Gi"))
    settings = {"leaderElection": {"enabled": True}, "reclaim": {"minimumRunSeconds": 1, "graceSeconds": 5}}
    with OperatorProcess(made.cluster, settings, "questions"):
        for where in (*MODES, OTHERS, "dashboard", "greedy", URGENT):
            made.create(namespace(where))
        bursts = {"dashboard": latency_spec("4", 20, 600), "greedy": latency_spec("16", 300, 310)}
        made.create(*(queue("LatencyQueue", spec, where) for where, spec in bursts.items()))
        batch = {OTHERS: "Quota"} | MODES
        made.create(*(queue("ThroughputQueue", {"enforcement": mode}, where) for where, mode in batch.items()))
        for where, label in {"quota": "pod-priority", "gate": "holds=Pods", "suspend": "holds=Jobs"}.items():
            listed = ["get", "namespace", "-l", f"fairburst.dev/{label}", "-o", "name"]
            until(lambda where=where, listed=listed: where in made.cluster.kubectl(*listed), PATIENCE_SECONDS, label)  # type: ignore[misc]
        until(lambda: made.stored(job("suspend", "probe", 1))["spec"].get("suspend"), PATIENCE_SECONDS, "the policies to hold Jobs")
        made.create(job("suspend", "small", 1))  # the others there exceed the level, and without a running pod the week would be 0 %
        until(lambda: made.items("pods", "suspend"), PATIENCE_SECONDS, "the small Job to start")
        made.create(job(OTHERS, "salaries", 16))
        for where in MODES:
            made.create(job(where, "first", 6), job(where, "second", 6), job(where, "third", 6))
        yield made


def waiting(site: Answers, where: str) -> str:
    """Return a Job whose pods do not all exist."""
    found: list[str] = []

    def some() -> bool:
        jobs = site.items("jobs", where)
        found[:] = [one["metadata"]["name"] for one in jobs if one["status"].get("active", 0) < one["spec"]["parallelism"]]
        return bool(found)

    until(some, PATIENCE_SECONDS, "a Job that lacks pods")
    return found[-1]


def gated(site: Answers) -> list[str]:
    """Return the gated pods of the other Jobs, the oldest first. Pods of the first Job may start at any moment, and the last ones of all
    have no Events yet: of which Job they are depends on the Job controller."""
    pods = [one["metadata"] for one in site.items("pods", "gate", "job-name!=first") if one["spec"].get("schedulingGates")]
    return [one["name"] for one in sorted(pods, key=lambda one: (one["creationTimestamp"], one["name"]))]


def test_why_are_there_no_pods(site: Answers) -> None:
    said = site.describe("job", waiting(site, "quota"), "quota", "WaitsForFairShare")
    assert re.search(r"of 6 pods do not exist yet, each asks for 1 cpu, 128Mi memory, in queue quota/queue\.", said)
    assert re.search(r"the queue has [\d.m]+ of \d+ cpu, its fair share and what others leave", said)


def test_why_is_the_pod_scheduling_gated_and_who_is_ahead(site: Answers) -> None:
    until(lambda: len(gated(site)) > 2, PATIENCE_SECONDS, "pods behind gates")
    said = [site.describe("pod", name, "gate", "Behind the scheduling gate until it may start") for name in gated(site)[:3]]
    assert all(re.search(r"place \d+ of \d+ in queue gate/queue", text) for text in said)


def test_why_is_the_job_suspended_and_who_is_ahead(site: Answers) -> None:
    said = site.describe("job", "third", "suspend", "Suspended until all of it fits: it asks for 6 cpu, 768Mi memory")
    assert re.search(r"place \d of \d in queue suspend/queue", said)


@pytest.mark.parametrize("where", list(MODES))
def test_when_does_it_start(site: Answers, where: str) -> None:
    """No pod has ended yet, so the intervals are wide."""
    if where == "gate":
        until(lambda: len(gated(site)) > 2, PATIENCE_SECONDS, "pods behind gates")
        kind, name = "pod", gated(site)[0]
    else:
        kind, name = "job", "third" if where == "suspend" else waiting(site, where)
    said = site.describe(kind, name, where, "It starts in", "with 90 % confidence")
    assert re.search(r"It starts in (about )?\d+ \w*", said)
    said = site.describe("thrq", "queue", where, "Type: StartForecast")
    assert re.search(r"the first that waits, starts (between \S+Z and \S+Z with 90 % confidence|later than can be foreseen)", said)


def test_why_is_the_queue_elastic_and_what_should_change(site: Answers) -> None:
    said = site.describe("latq", "queue", "greedy", "Elastic")
    assert re.search(r"Reason: \w+", said)
    assert "fair share" in said


def test_will_the_deadline_hold(site: Answers) -> None:
    """By the sum of the delays, and by forward runs from the present state."""
    said = site.describe("latq", "queue", "dashboard", "Type: Attainable", "Forward runs", "the deadline of a burst that came now holds")
    assert re.search("One that takes all of it and finds (no )?room is expected after", said)
    assert re.search(r"deadline of a burst that came now holds with a probability of \d+ %\.", said)


@pytest.mark.parametrize("where", list(MODES))
def test_what_may_the_queue_use_now_and_what_waits(site: Answers, where: str) -> None:
    until(lambda: "cpu" in site.status(where).get("waiting", {}), PATIENCE_SECONDS, "work that waits")
    assert set(site.status(where)["allocation"]) >= {"cpu", "memory"}
    header, row = (line.split() for line in site.table("thrq", where).splitlines())
    told = {name: row[header.index(name)] for name in ("FAIR-SHARE", "ALLOCATED", "USED", "WAITING")}
    assert all(re.fullmatch(r"\d+\.\d%", share) for share in told.values()), told
    assert float(told["ALLOCATED"][:-1]) > 0
    assert float(told["WAITING"][:-1]) > 0
    said = site.describe("thrq", "queue", where, "Explanation:")
    assert re.search(r"cpu, [\w.]+ memory wait: the queue has [\d.m]+ of \d+ cpu, its fair share and what others leave", said)


def test_is_fairburst_alive(site: Answers) -> None:
    """A tenant without any right can read the Lease, and cannot change it."""
    lease = ["lease", "fairburst-default", "-n", "fairburst-system"]
    renewed = site.cluster.kubectl("get", *lease, "-o", "jsonpath={.spec.renewTime}", "--as=tenant")
    age = (datetime.now(UTC) - datetime.fromisoformat(renewed.replace("Z", "+00:00"))).total_seconds()
    assert age < PATIENCE_SECONDS
    with pytest.raises(ClusterError, match="forbidden"):
        site.cluster.kubectl("delete", *lease, "--as=tenant")


def test_is_what_the_queue_says_current(site: Answers) -> None:
    """The answer is for the present spec: one describe shows both generations."""
    site.patch("thrq", "queue", "gate", {"spec": {"weight": 2}})
    until(lambda: same_generations(site.describe("thrq", "queue", "gate")), PATIENCE_SECONDS, "an answer to the changed spec")


def same_generations(said: str) -> bool:
    spec, answered = re.search(r"(?<!Observed )Generation: (\d+)", said), re.findall(r"Observed Generation: (\d+)", said)
    return spec is not None and spec.group(1) == "2" and set(answered) == {"2"}


@pytest.mark.parametrize("where", list(MODES))
def test_what_did_the_queue_get_this_week_against_its_share(site: Answers, where: str) -> None:
    """The figures come after a minute."""
    until(lambda: "Used Percent:" in site.describe("thrq", "queue", where), 3 * PATIENCE_SECONDS, "a week")
    said = site.describe("thrq", "queue", where)
    found = re.search(r" Week: (Served Percent: (?P<served>\d+) )?Since: (?P<since>\S+) Used Percent: (?P<used>\d+)", said)
    assert found is not None, said
    assert 0 < int(found["used"]) <= 700, "a seventh of the pool at least is its fair share"
    assert 0 < int(found["served"]) <= 100
    since = datetime.fromisoformat(found["since"].replace("Z", "+00:00"))
    assert since <= datetime.now(UTC)
    assert site.status(where)["week"]["usedPercent"] > 0


def test_an_object_that_waits_is_told_once(site: Answers) -> None:
    """All objects have waited for long by now, and each has one Event for each cause."""
    for where in MODES:
        events = site.items("events", where)
        ours = [(one["involvedObject"]["uid"], one["reason"]) for one in events if one["source"].get("component") == "fairburst"]
        of_work = [key for key, one in zip(ours, events, strict=False) if key[1].startswith(("Waits", "LargerThan"))]
        assert len(of_work) == len(set(of_work)), f"twice in {where}: {of_work}"


def test_why_was_my_pod_evicted(site: Answers) -> None:
    """The Job says so after the pod has gone, and the pod's own condition while it ends."""
    site.create(queue("LatencyQueue", latency_spec("4", 60, 600, reclaim="Evict"), URGENT))
    site.wait_class(URGENT, "Hard")
    site.create(job(URGENT, "burst", 4))

    def evicted() -> JsonObject | None:
        events = site.items("events")
        return next(
            (one["involvedObject"] for one in events if one["reason"] == "Reclaimed" and one["involvedObject"]["kind"] == "Pod"), None
        )

    pod = until(evicted, PATIENCE_SECONDS, "an eviction")
    said = site.describe("pod", pod["name"], pod["namespace"], "DisruptionTarget True")
    assert "Reclaimed" in said
    owner = site.get("pod", pod["name"], pod["namespace"])["metadata"]["ownerReferences"][0]["name"]
    site.cluster.kubectl("delete", "pod", pod["name"], "-n", pod["namespace"], "--grace-period=0", "--force")
    said = site.describe("job", owner, pod["namespace"], "Evicted for a burst of another queue that came at")
    assert re.search(r"Reclaimed .* Pod \S+( and \d+ more)?: Evicted for a burst of another queue", said)
