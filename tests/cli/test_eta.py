"""`fairburst eta` against a fake API server: its requests, its answers, and its messages if it has no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairburst.cli.errors import FAILED, WRONG_ARGUMENTS
from fairburst.cli.main import main
from fairburst.kube.names import HELD_ANNOTATION
from tests.cli.test_ask import CORE, LEASES, LQ, TQ, WORK, Served
from tests.support.objects import stored_queue

JOBS, PODS = "/apis/batch/v1/jobs", "/api/v1/pods"


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}


def job(name: str, pods: int, created: float, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "batch", "uid": name, "creationTimestamp": ago(created)}
    return {"metadata": metadata, "spec": {"parallelism": pods, "completions": pods, "template": {"spec": template("1")}}, "status": status}


def pod(owner: str, number: int, started: float, ended: float | None = None) -> dict[str, Any]:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
    metadata = {"name": f"{owner}-{number}", "namespace": "batch", "uid": f"{owner}-{number}", "creationTimestamp": ago(started)}
    status: dict[str, Any] = {"phase": "Running", "startTime": ago(started)}
    if ended is not None:
        finished = {"name": "c", "state": {"terminated": {"finishedAt": ago(ended)}}}
        status = {"phase": "Succeeded", "startTime": ago(started), "containerStatuses": [finished]}
    return {"metadata": metadata | {"ownerReferences": [reference]}, "spec": template("1") | {"nodeName": "node-0"}, "status": status}


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Served]:
    """A node of 10 cpu that a Job fills since 40 s; pods of an earlier Job took 100 s; another Job waits."""
    found = Served(tmp_path, LQ, TQ, LEASES, "/apis/node.k8s.io/v1/runtimeclasses", *CORE, *WORK)
    status = {"allocatable": {"cpu": "10", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    found.put("/api/v1/nodes", {"metadata": {"name": "node-0", "labels": {}}, "status": status})
    for namespace in ("batch", "free"):
        found.put("/api/v1/namespaces", {"metadata": {"name": namespace}, "status": {"phase": "Active"}})
    found.put(TQ, stored_queue("ThroughputQueue", "batch", "tq"))
    complete = [{"type": "Complete", "status": "True"}]
    found.put(JOBS, job("earlier", 8, 500, succeeded=8, conditions=complete))
    found.put(JOBS, job("runs", 10, 41, active=10))
    found.put(JOBS, job("next", 4, 20))
    for number in range(8):
        found.put(PODS, pod("earlier", number, 400, 300))
    for number in range(10):
        found.put(PODS, pod("runs", number, 40))
    yield found
    found.stop()


def test_a_waiting_job_is_told_when_running_work_will_have_ended(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eta", "next", "-n", "batch", "-o", "json", "--runs", "10", *full.arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["state"], told["endedPods"], told["runs"]) == ("batch/next", "Waiting", 8, 10)
    assert told["medianSeconds"] == pytest.approx(60, abs=15)
    for low, high in told["intervalsSeconds"].values():
        assert low <= told["medianSeconds"] <= high
    assert main(["eta", "job/next", "-n", "batch", "--runs", "10", *full.arguments]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Job batch/next waits. It starts in about ")
    assert [line.split()[0] for line in said[1:3]] == ["50", "90"]
    assert said[3] == "From 10 forward runs with the durations of 8 ended pods."
    assert all(len(line) <= 80 for line in said)


def test_a_job_that_is_held_waits_for_room_for_all_of_its_pods(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of the ten cores are free: enough for its first pods, and not for all four."""
    full.put(JOBS, job("runs", 8, 41, active=8))
    for number in (8, 9):
        full.put(PODS, pod("runs", number, 40, 1))
    held = job("next", 4, 20)
    held["metadata"]["annotations"] = {HELD_ANNOTATION: "true"}
    held["spec"]["suspend"] = True
    full.put(JOBS, held)
    assert main(["eta", "next", "-n", "batch", "-o", "json", "--runs", "10", *full.arguments]) == 0
    assert json.loads(capsys.readouterr().out)["medianSeconds"] == pytest.approx(60, abs=15)


def test_a_job_with_a_pod_that_no_node_can_hold_is_said_to_start_never(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    large = job("next", 4, 20)
    large["spec"]["template"] = {"spec": template("20")}
    full.put(JOBS, large)
    assert main(["eta", "batch/next", *full.arguments]) == 0
    assert capsys.readouterr().out == (
        "Job batch/next never starts as it is: no node of the pool could hold one of its pods, even if it were empty.\n"
        "Make its pods smaller, or add larger nodes.\n"
    )


def test_a_job_is_as_large_as_its_pods_with_the_overhead_of_their_class(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    full.put("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "sandbox"}, "overhead": {"podFixed": {"cpu": "10"}}})
    sandboxed = job("next", 4, 20)
    sandboxed["spec"]["template"] = {"spec": template("1") | {"runtimeClassName": "sandbox"}}
    full.put(JOBS, sandboxed)
    assert main(["eta", "batch/next", *full.arguments]) == 0
    assert capsys.readouterr().out.startswith("Job batch/next never starts as it is: no node of the pool could hold one of its pods")
    full.api.refuse("GET", "/apis/node.k8s.io/v1/runtimeclasses", 403)
    assert main(["eta", "batch/next", "--runs", "5", *full.arguments]) == 0
    assert "never" not in capsys.readouterr().out, "the classes may not be read"


def test_a_job_that_asks_for_a_resource_which_no_node_offers_is_said_to_start_never(
    full: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    on_gpu = job("next", 4, 20)
    on_gpu["spec"]["template"] = {"spec": template("1")}
    on_gpu["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    full.put(JOBS, on_gpu)
    assert main(["eta", "batch/next", *full.arguments]) == 0
    assert capsys.readouterr().out == (
        "Job batch/next never starts as it is: no node of the pool offers nvidia.com/gpu, which its pods ask for.\n"
        "Add nodes that do, or start their device plugin.\n"
    )


def test_a_job_whose_host_port_another_queue_has_on_each_node_gets_no_forecast(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    listens = template("1")
    listens["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    waits, holds = job("next", 4, 20), pod("theirs", 0, 40)
    waits["spec"]["template"] = {"spec": listens}
    holds["metadata"]["namespace"], holds["spec"] = "free", listens | {"nodeName": "node-0"}
    full.put(JOBS, waits)
    full.put(PODS, holds)
    assert main(["eta", "batch/next", *full.arguments]) == 0
    assert capsys.readouterr().out == (
        "Job batch/next waits for a port, and how long is not known: its pods ask for host port 8080/TCP, and pods outside its queue have "
        "that on each node that could hold one.\nLeave hostPort out, use another port, or have those pods moved.\n"
    )


def test_a_job_without_requests_is_said_to_start_never_where_the_queue_says_that_its_quota_refuses_them(
    full: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = job("next", 4, 20)
    bare["spec"]["template"] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    full.put(JOBS, bare)
    assert main(["eta", "batch/next", "--runs", "5", *full.arguments]) == 0
    assert "never" not in capsys.readouterr().out, "a LimitRange may supply requests"
    refused = {"conditions": [{"type": "Enforced", "status": "False", "reason": "PodsWithoutRequests", "message": "m"}]}
    full.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", status=refused))
    assert main(["eta", "batch/next", *full.arguments]) == 0
    assert capsys.readouterr().out == (
        "Job batch/next never starts as it is: the namespace's quota refuses its pods, because a container requests no cpu or no memory.\n"
        "Add requests, or a LimitRange with defaultRequest for both (type Container).\n"
    )


def test_a_job_that_starts_in_no_run_is_later_than_the_runs_reach(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """It is held until all of it fits, and together its pods are more than the pool has."""
    held = job("next", 20, 20)
    held["metadata"]["annotations"] = {HELD_ANNOTATION: "true"}
    held["spec"]["suspend"] = True
    full.put(JOBS, held)
    assert main(["eta", "next", "-n", "batch", "--runs", "5", *full.arguments]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "Job batch/next waits. It starts in more than a week.",
        "  50 %: in more than a week",
        "  90 %: in more than a week",
    ]


@pytest.mark.parametrize(("name", "want"), [("runs", "has started"), ("earlier", "has ended")])
def test_a_job_that_runs_or_has_ended_is_said_to(full: Served, name: str, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eta", name, "-n", "batch", *full.arguments]) == 0
    assert capsys.readouterr().out == f"Job batch/{name} {want}.\n"


def test_what_cannot_be_asked_is_said_in_one_line(full: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eta", "next", *full.arguments]) == WRONG_ARGUMENTS
    assert "expected the namespace of Job next, as next -n NAMESPACE, found none" in capsys.readouterr().err
    assert main(["eta", "absent", "-n", "batch", *full.arguments]) == WRONG_ARGUMENTS
    assert capsys.readouterr().err == "fairburst eta: expected Job absent in namespace batch, found none\n"
    full.put(JOBS, job("free", 1, 5) | {"metadata": {"name": "free", "namespace": "free", "uid": "free"}})
    assert main(["eta", "free", "-n", "free", *full.arguments]) == FAILED
    assert "expected a queue that governs namespace free, found none" in capsys.readouterr().err
