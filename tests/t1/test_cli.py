"""The commands that ask a cluster, on a control plane with an operator; the test carries out their advice, and it holds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, run_command
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.live_cluster import LiveCluster
from tests.support.objects import latency_spec
from tests.support.queues import queue
from tests.support.work import job, namespace, pod_spec

ONE_GI = pod_spec(memory="1Gi", grace_seconds=30)


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[LiveCluster]:
    """Two nodes of 32 cpu, an operator, a hard and a soft queue, and batch work that wants more than there is."""
    cluster = fresh_cluster(nodes=2, node_cpu="32", node_memory="64Gi")
    with OperatorProcess(cluster, {"leaderElection": {"enabled": True}}, "cli"):
        made = LiveCluster(cluster)
        for number, interarrival in enumerate((180, 300)):
            declare(made, queue("LatencyQueue", latency_spec("40", 20, interarrival), f"lq-{number}"))
        declare(made, queue("ThroughputQueue", {}, "batch"))
        made.create(job("batch", "train", 200, ONE_GI))
        until(lambda: "cpu" in get(made, "batch")["used"] and get(made, "batch")["waiting"], PATIENCE_SECONDS, "work that waits")
        yield made


def declare(site: LiveCluster, obj: dict[str, Any]) -> None:
    """Create a queue in a namespace of its own, and wait until it has a class."""
    where = obj["metadata"]["namespace"]
    site.create(namespace(where), obj)
    site.wait_class(where)


def run(site: LiveCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(site.cluster.kubeconfig))
        return run_command(*arguments)


def asked(site: LiveCluster, *arguments: str) -> Any:
    done = run(site, *arguments, "-o", "json")
    assert not done.stderr, done.stderr
    return json.loads(done.stdout)


def get(site: LiveCluster, name: str) -> dict[str, Any]:
    (found,) = asked(site, "get", name)
    return found


def test_get_and_status_show_what_is(site: LiveCluster) -> None:
    classes = {one["namespace"]: one["class"] for one in asked(site, "get")}
    assert classes == {"lq-0": "Hard", "lq-1": "Soft", "batch": "Elastic"}
    shown = run(site, "get", "-n", "batch").stdout.splitlines()
    assert len(shown) == 2
    assert shown[0].split()[:4] == ["QUEUE", "CLASS", "WAITING", "SHARE"]
    status = asked(site, "status")
    assert status["nodes"] == 2
    assert status["capacity"][0]["capacity"] == "64"
    assert status["operator"]["renewedSecondsAgo"] < 30
    assert [one["namespace"] for one in status["waiting"]] == ["batch"]
    assert all(len(line) < 200 for line in run(site, "status").stdout.splitlines())


def test_doctor_finds_a_sound_installation_and_names_what_is_taken_away(site: LiveCluster) -> None:
    found = asked(site, "doctor")
    assert {one["check"]: one["ok"] for one in found} == {
        "version": True, "rights": True, "definitions": True, "classes": True, "policies": True, "lease": True, "queues": True,
        "pools": True, "tried pod": True,
    }, found  # fmt: skip
    site.admin("patch", "crd", "latencyqueues.fairburst.dev", "--type=json", "-p", json.dumps([
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/weight/maximum", "value": 7}
    ]))  # fmt: skip
    try:
        done = run(site, "doctor")
    finally:
        site.admin("apply", "--server-side", "--force-conflicts", "-f", "crds")
    assert done.returncode == 1
    assert "latencyqueues.fairburst.dev (spec.versions[0]" in done.stdout
    assert "definitions: fairburst manifests | kubectl apply" in done.stdout


def test_explain_says_what_a_job_and_its_pods_wait_for(site: LiveCluster) -> None:
    """The Job is a late one: of a Job that has had more than 25 pods, kube-controller-manager drops the Event on the refusal."""
    site.create(job("batch", "refused", 3, ONE_GI))
    asking = ("explain", "job/refused", "-n", "batch")
    try:
        until(lambda: "exceeds the namespace's quota" in run(site, *asking).stdout, PATIENCE_SECONDS, "an Event on the refusal")
    finally:
        site.admin("delete", "job", "refused", "-n", "batch")
    names = [one["metadata"]["name"] for one in site.items("pods", "batch")]
    name = next(one for one in names if one.startswith("train-"))  # pods of the deleted Job may go at any time
    said = run(site, "explain", f"pod/{name}", "-n", "batch").stdout
    assert "ThroughputQueue batch/queue: Elastic" in said
    done = run(site, "explain", "pod/none", "-n", "batch")
    assert (done.returncode, done.stderr) == (2, "fairburst explain: expected pod none in namespace batch, found none\n")


def test_eta_tells_an_interval_for_a_job_that_waits_and_that_another_has_started(site: LiveCluster) -> None:
    """No pod has ended here, so all durations are guesses, and the command says so."""
    assert asked(site, "eta", "train", "-n", "batch")["state"] == "Started"
    until(lambda: site.enforced_cpu("batch") - site.enforced_cpu("batch", "used") < 1, PATIENCE_SECONDS, "the quota to be full")
    site.create(job("batch", "later", 3, ONE_GI))
    try:
        told = asked(site, "eta", "later", "-n", "batch", "--runs", "5")
        assert (told["state"], told["endedPods"]) == ("Waiting", 0)
        assert told["medianSeconds"] > 0
        (low, high), (lower, higher) = told["intervalsSeconds"]["50"], told["intervalsSeconds"]["90"]
        assert lower <= low <= high <= higher
        assert "all durations are guesses" in run(site, "eta", "later", "-n", "batch", "--runs", "5").stdout
    finally:
        site.admin("delete", "job", "later", "-n", "batch")


def test_a_user_without_rights_is_told_so_in_one_line(site: LiveCluster, tmp_path: Path) -> None:
    anonymous = yaml.safe_load(Path(site.cluster.kubeconfig).read_text())
    for user in anonymous["users"]:
        user["user"] = {"token": "wrong"}
    (tmp_path / "config").write_text(yaml.safe_dump(anonymous))
    done = run(site, "get", "--kubeconfig", str(tmp_path / "config"))
    assert done.returncode == 3
    assert done.stderr.startswith("fairburst get: the API server does not know this user")
    assert len(done.stderr.splitlines()) == 1
    done = run(site, "get", "--context", "other")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "expected a kubeconfig with context 'other'" in done.stderr


def test_what_plan_foretells_is_what_then_happens(site: LiveCluster, tmp_path: Path) -> None:
    """A new queue joins the others: foretold and real classes are equal, shares of the pool within 3 %, and bursts met.

    Batch pods hold the pool, so that bursts of as many seconds as they have until their deadlines miss these. test_plan.py has met ones.
    """
    more = queue("ThroughputQueue", {"weight": 3}, "more")
    more["metadata"].pop("creationTimestamp")
    (tmp_path / "queue.yaml").write_text(yaml.safe_dump(more))
    told = {one["queue"]: one for one in asked(site, "plan", "-f", str(tmp_path / "queue.yaml"), "--hours", "0.04")}
    assert told["more/queue"]["change"] == "new"
    assert run(site, "snapshot", "save", str(tmp_path / "now.jsonl")).returncode == 0
    offline = {one["queue"]: one for one in asked(site, "plan", "-f", str(tmp_path / "queue.yaml"), "--from", str(tmp_path / "now.jsonl"))}
    declare(site, more)

    def shares() -> dict[str, float] | None:
        found = {f"{one['namespace']}/{one['name']}": one["share"] for one in asked(site, "get")}
        settled = sum(float(text.rstrip("%")) for text in found.values() if text)
        return {name: float(text.rstrip("%")) / 100 for name, text in found.items()} if 99 < settled < 101 else None

    happened = until(shares, PATIENCE_SECONDS, "shares of all queues")
    classes = {f"{one['namespace']}/{one['name']}": one["class"] for one in asked(site, "get")}
    assert {name: one["class"]["after"] for name, one in told.items()} == classes
    for name, share in happened.items():
        assert abs(told[name]["share"]["after"] - share) < 0.03
        assert abs(offline[name]["share"]["after"] - share) < 0.03
    latency_queues = ("lq-0", "lq-1")
    site.create(*(job(where, "burst", 40, ONE_GI, seconds=20) for where in latency_queues))

    def counted() -> dict[str, dict[str, int]] | None:
        found = {where: site.status(where).get("history", {}) for where in latency_queues}
        return found if all(one.get("bursts") for one in found.values()) else None

    history = until(counted, PATIENCE_SECONDS, "bursts to be counted")
    for where in latency_queues:
        site.delete_jobs(where)
        foretold = told[f"{where}/queue"]["bursts"]["after"]
        assert (history[where].get("met", 0), history[where]["bursts"]) == (foretold["met"], foretold["due"]) == (0, 1)


def test_what_explain_advises_makes_the_queue_hard(site: LiveCluster) -> None:
    """This test must be the last, since it changes a queue."""
    advice = asked(site, "explain", "lq-1")["advice"]
    first = next(one for one in advice if one["patch"])
    site.patch("latencyqueue", "queue", "lq-1", {"spec": first["patch"]})
    until(lambda: site.status("lq-1").get("class") == "Hard", PATIENCE_SECONDS, f"Hard by {first['change']}")
    assert site.status("lq-0")["class"] == "Hard"
