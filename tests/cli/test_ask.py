"""The commands that ask a cluster, against a fake API server: their output, and their messages if it does not answer as needed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from fairburst.cli import kubectl_completion
from fairburst.cli import status as status_command
from fairburst.cli.cluster import advice_on, find_queue, queue_of_work
from fairburst.cli.errors import NO_CLUSTER, WRONG_ARGUMENTS, CommandError
from fairburst.cli.main import main
from fairburst.cli.queues import next_burst, seconds_text, waiting
from fairburst.cli.status import WAITS_FOR_ROOM
from fairburst.cli.work_findings import job_findings, pod_findings
from fairburst.kube.api.errors import ApiError, Forbidden, Unauthorized, Unavailable
from fairburst.kube.install.check import difference
from fairburst.kube.names import GATE, HELD_ANNOTATION, QUEUE_LABEL
from tests.support.fake_api import FakeApi
from tests.support.objects import latency_spec, stored_queue
from tests.support.work import job, pod, pod_spec

LQ, TQ = (f"/apis/fairburst.dev/v1alpha1/{plural}" for plural in ("latencyqueues", "throughputqueues"))
CORE = [f"/api/v1/{plural}" for plural in ("pods", "nodes", "namespaces", "resourcequotas", "limitranges", "configmaps", "events")]
WORK = ["/apis/batch/v1/jobs", *(f"/apis/apps/v1/{plural}" for plural in ("deployments", "replicasets", "statefulsets"))]
LEASES = "/apis/coordination.k8s.io/v1/leases"


class Served:
    """A fake API server in a thread of its own, because commands bring their own event loop; `arguments` choose it."""

    def __init__(self, folder: Path, *collections: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.api = FakeApi(*collections)
        self._run(self.api.start())
        self.kubeconfig = kubeconfig(folder, self.api.url)
        self.arguments = ("--kubeconfig", str(self.kubeconfig))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def put(self, collection: str, obj: dict[str, Any]) -> None:
        async def stored() -> None:
            self.api.put(collection, obj)

        self._run(stored())

    def stop(self) -> None:
        self._run(self.api.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


def kubeconfig(folder: Path, server: str) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A cluster with two nodes of 32 cpu, a latency queue and a throughput queue that no operator has decided on."""
    found = Served(tmp_path, LQ, TQ, LEASES, *CORE, *WORK)
    for number in range(2):
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "conditions": conditions}
        found.put("/api/v1/nodes", {"metadata": {"name": f"node-{number}", "labels": {}}, "status": status})
    for namespace in ("serving", "serving-2", "batch"):
        found.put("/api/v1/namespaces", {"metadata": {"name": namespace}, "status": {"phase": "Active"}})
    found.put(LQ, stored_queue("LatencyQueue", "serving", "lq", latency_spec("40")))
    found.put(LQ, stored_queue("LatencyQueue", "serving-2", "lq", latency_spec("40", interarrival=100), created="2026-01-01T00:00:01Z"))
    found.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z"))
    yield found
    found.stop()


def led(served: Served, ago: int) -> None:
    """Let an operator have renewed its Lease that many seconds ago."""
    renewed = (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "one", "renewTime": renewed, "leaseDurationSeconds": 8}
    served.put(LEASES, {"metadata": {"namespace": "fairburst-system", "name": "fairburst-default"}, "spec": spec})


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Served]:
    """A cluster without fairburst."""
    found = Served(tmp_path, *CORE)
    yield found
    found.stop()


COMMANDS = (["get"], ["status"], ["explain", "lq"], ["doctor"])
MORE_COMMANDS = (["eta", "job", "-n", "batch"], ["plan", "--capacity", "+1%"], ["recommend", "batch"], ["dashboard", "--port", "0"])
OTHERS_OF_A_CLUSTER = (["snapshot", "save", "/tmp/never-written"], ["uninstall"], ["run"])  # noqa: S108
PLUG_IN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never"}


class TestBadInput:
    """One line each that says what to do."""

    @pytest.mark.parametrize("command", [*COMMANDS, *MORE_COMMANDS], ids=lambda command: command[0])
    def test_no_kubeconfig(
        self, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert main(command) == NO_CLUSTER
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "expected a kubeconfig in --kubeconfig, $KUBECONFIG or ~/.kube/config, found none" in said[0]

    @pytest.mark.parametrize("command", [*COMMANDS, *MORE_COMMANDS], ids=lambda command: command[0])
    def test_no_cluster(self, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*command, "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:9"))]) == NO_CLUSTER
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "the API server does not answer" in said[0]
        assert "check the kubeconfig, --context and the network" in said[0]

    def test_a_folder_is_no_kubeconfig(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for option in ("--kubeconfig", "--config"):
            assert main(["status", option, str(tmp_path)]) == WRONG_ARGUMENTS
            assert f"expected a readable file, found the folder {tmp_path}" in capsys.readouterr().err

    @pytest.mark.parametrize("command", [["get"], ["explain", "lq"]], ids=lambda command: command[0])
    def test_no_definitions(self, bare: Served, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*command, *bare.arguments]) == NO_CLUSTER
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "fairburst is not installed in this cluster" in said[0]
        assert "helm install" in said[0]

    @pytest.mark.parametrize(
        ("command", "forbidden"),
        [
            pytest.param(["get"], "/latencyqueues", id="get"),
            pytest.param(["explain", "lq"], "/throughputqueues", id="explain"),
            pytest.param(["status"], "/api/v1/nodes", id="status"),
            pytest.param(["plan", "--capacity", "+1%"], "/api/v1/pods", id="plan"),
            pytest.param(["snapshot", "save", "/tmp/never-written"], "/api/v1/nodes", id="snapshot"),  # noqa: S108
        ],
    )
    def test_no_rights(self, served: Served, command: list[str], forbidden: str, capsys: pytest.CaptureFixture[str]) -> None:
        served.api.refuse("GET", forbidden, 403)
        assert main([*command, *served.arguments]) == NO_CLUSTER
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "this user may not do that" in said[0]
        assert "`fairburst get -n NAMESPACE` and `fairburst explain QUEUE -n NAMESPACE` need less" in said[0]

    @pytest.mark.parametrize("methods", [("GET", "POST"), ("POST",)], ids=["that sees nothing", "that sees what all may see"])
    def test_doctor_knows_nothing_of_the_cluster_of_an_anonymous_user(
        self, served: Served, methods: Sequence[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        for method in methods:
            served.api.refuse(method, "", 403, 'x is forbidden: User "system:anonymous" cannot do that')
        assert main(["doctor", *served.arguments]) == NO_CLUSTER
        printed = capsys.readouterr()
        (said,) = printed.err.splitlines()
        assert "the API server does not know this user" in said
        assert "log in again, or choose another --context" in said
        assert not printed.out

    def test_a_wrong_context(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["get", *served.arguments, "--context", "two"]) == NO_CLUSTER
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "context 'two'" in said[0]

    @pytest.mark.parametrize("command", [*COMMANDS, *MORE_COMMANDS, *OTHERS_OF_A_CLUSTER], ids=lambda command: command[0])
    @pytest.mark.parametrize(
        ("change", "want"),
        [
            pytest.param({"current-context": ""}, "found no current-context; choose one with --context: one", id="no current context"),
            pytest.param({"current-context": "two"}, "found no context 'two'; choose one with --context: one", id="a context that is gone"),
            pytest.param({"user": {"exec": PLUG_IN}}, "No such file or directory: 'no-such-plugin'; install it,", id="no plug-in"),
            pytest.param(
                {"user": {"exec": {**PLUG_IN, "command": "sh", "args": ["-c", "echo log in first >&2; exit 3"]}}},
                "exec: process returned 3. log in first; install it, log in with it,",
                id="a plug-in that refuses",
            ),
            pytest.param(
                {"cluster": {"server": "https://127.0.0.1:9", "certificate-authority": "/no/such/ca.crt"}},
                "File does not exist: /no/such/ca.crt; correct the kubeconfig, or choose another --context",
                id="no certificate authority",
            ),
        ],
    )
    def test_a_kubeconfig_that_lacks_something(
        self, tmp_path: Path, command: list[str], change: dict[str, Any], want: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """A plug-in that failed was logged and forgotten: an anonymous user was told to ask for rights."""
        path = kubeconfig(tmp_path, "http://127.0.0.1:9")
        content = yaml.safe_load(path.read_text())
        content["users"][0]["user"] = change.get("user", {"token": "t"})
        content["clusters"][0]["cluster"] |= change.get("cluster", {})
        content["current-context"] = change.get("current-context", "one")
        path.write_text(yaml.safe_dump(content))
        assert main([*command, "--kubeconfig", str(path)]) == NO_CLUSTER
        (said,) = capfd.readouterr().err.splitlines()
        assert want in said

    @pytest.mark.parametrize(
        "error",
        [
            Unauthorized(401, "Unauthorized", "GET /x: Unauthorized"),
            Forbidden(403, "Forbidden", 'GET /x: queues is forbidden: User "system:anonymous" cannot list resource "queues"'),
        ],
        ids=["refused", "taken for no account"],
    )
    def test_an_expired_certificate_is_told_whether_or_not_the_api_server_admits_anonymous_requests(self, error: ApiError) -> None:
        said = advice_on(error)
        assert said.startswith("the API server does not know this user (GET /x: ")
        assert said.endswith("); its token or client certificate is missing, wrong or expired: log in again, or choose another --context")

    def test_a_certificate_that_the_kubeconfig_does_not_trust_is_no_silent_server(self) -> None:
        failed = "GET /x: Cannot connect to host 127.0.0.1:9 ssl:True [SSLCertVerificationError: (1, 'certificate verify failed')]"
        said = advice_on(Unavailable(0, "Unavailable", failed))
        assert said.startswith("the kubeconfig does not trust the API server's certificate (GET /x: ")
        assert said.endswith("); check server and certificate-authority in it, or choose another --context")

    @pytest.mark.parametrize("content", ["not: [a kubeconfig", "[1]", ""])
    def test_a_malformed_kubeconfig(self, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "broken").write_text(content)
        assert main(["get", "--kubeconfig", str(tmp_path / "broken")]) == NO_CLUSTER
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "expected a kubeconfig" in said[0]

    @pytest.mark.parametrize(
        ("content", "want"),
        [
            pytest.param(b"[1]", "found a list", id="a list"),
            pytest.param(b"some text", "found plain text", id="text"),
            pytest.param(b"7", "found 7", id="a number"),
            pytest.param(b"", "found an empty file", id="empty"),
            pytest.param(b"apiVersion: v1\nkind: Pod\ncontexts: 3", "found a Pod", id="another kind"),
            pytest.param(b"contexts: 3\ncurrent-context: a\nclusters: []\nusers: []", "found contexts: 3", id="contexts"),
            pytest.param(b"\xa9\xff\x00", "found no text", id="binary"),
            pytest.param(b"not: [a kubeconfig", "found no YAML", id="no YAML"),
        ],
    )
    def test_a_file_that_is_no_kubeconfig_is_told_in_plain_words(
        self, tmp_path: Path, content: bytes, want: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "broken").write_bytes(content)
        assert main(["get", "--kubeconfig", str(tmp_path / "broken")]) == NO_CLUSTER
        (said,) = capsys.readouterr().err.splitlines()
        assert f"expected a kubeconfig with the current context at {tmp_path / 'broken'}, {want}" in said
        assert said.endswith("choose another file with --kubeconfig or $KUBECONFIG")

    def test_a_missing_kubeconfig(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["get", "--kubeconfig", str(tmp_path / "absent")]) == WRONG_ARGUMENTS
        assert "expected a readable file" in capsys.readouterr().err

    def test_a_malformed_recording(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "rounds").write_text("{}\n")
        assert main(["explain", "lq", "--from", str(tmp_path / "rounds")]) == 1
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "rounds:1: expected the header" in said[0]

    @pytest.mark.parametrize("command", [["get", "-n"], ["explain", "lq", "-n"], ["plan", "--remove", "lq", "-n"], ["recommend"]])
    @pytest.mark.parametrize("name", ["../x", "a b", ""])
    def test_no_name_of_a_namespace(self, command: list[str], name: str, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*command, name, *served.arguments]) == WRONG_ARGUMENTS
        assert f"expected the name of a namespace, found {name!r}" in capsys.readouterr().err

    def test_an_unknown_queue_names_those_that_are_there(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "nothing", *served.arguments]) == WRONG_ARGUMENTS
        assert "found none called nothing; there are: batch/tq, serving/lq" in capsys.readouterr().err

    def test_a_pod_wants_its_namespace(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "pod/x"]) == WRONG_ARGUMENTS
        assert "expected the namespace of pod/x with -n" in capsys.readouterr().err


class TestCompletion:
    """Names of queues, from the cluster that the words before choose."""

    @pytest.mark.parametrize(
        ("words", "want"),
        [
            pytest.param("get ser", ["serving/lq", "serving-2/lq"], id="get"),
            pytest.param("explain b", ["batch/tq"], id="explain"),
            pytest.param("get -n serving-2 s", ["serving-2/lq"], id="a namespace"),
            pytest.param("get --context none s", [], id="no cluster"),
        ],
    )
    def test_queues(
        self, served: Served, words: str, want: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", str(served.kubeconfig))
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-fairburst", *words.split()])
        for name in ("_FAIRBURST_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
            monkeypatch.setenv(name, "")
        assert kubectl_completion.main() == 0
        said = capsys.readouterr()
        assert sorted(said.out.split()) == sorted([*want, ":4"])
        assert not said.err


class TestWorkOfSeveralQueues:
    """A pod belongs to a queue by its class, and a Job's next pods by their label."""

    QUEUES: ClassVar = {
        (kind, "team", name): {"status": {"podPriority": {"className": class_name}}}
        for kind, name, class_name in (
            ("LatencyQueue", "bursts", "fairburst-hard"),
            ("ThroughputQueue", "nightly", "fairburst-queue-1"),
            ("ThroughputQueue", "weekly", "fairburst-queue-3"),
        )
    }

    @pytest.mark.parametrize(
        ("asked", "class_name", "want"),
        [
            pytest.param("weekly", None, "weekly", id="a Job that asks for a queue"),
            pytest.param("", None, "bursts", id="a Job that asks for none"),
            pytest.param("missing", None, "bursts", id="a Job that asks for no queue of the namespace"),
            pytest.param("", "fairburst-queue-1", "nightly", id="a pod"),
            pytest.param("", "fairburst-hard", "bursts", id="a pod of the default queue"),
            pytest.param("", "fairburst-queue-2", "bursts", id="a pod of a deleted queue"),
            pytest.param("", "", "bursts", id="a pod without a class"),
        ],
    )
    def test_the_queue(self, asked: str, class_name: str | None, want: str) -> None:
        assert queue_of_work(self.QUEUES, "team", asked, class_name) == f"team/{want}"

    def test_a_jobs_label_that_names_no_queue_is_told(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        """Its pods belong to the default queue, and nothing said that the label is wrong."""
        served.put("/apis/batch/v1/jobs", job("batch", "lost", 2, pod_spec(), pod_metadata={"labels": {QUEUE_LABEL: "nothing"}}))
        assert main(["explain", "job/lost", "-n", "batch", *served.arguments]) == 0
        said = capsys.readouterr().out
        assert "Its pods ask for queue nothing (label fairburst.dev/queue), and namespace batch has none of that name" in said
        assert "so they belong to queue batch/tq. Correct the label in its template, or leave it out." in said
        served.put("/apis/batch/v1/jobs", job("batch", "found", 2, pod_spec(), pod_metadata={"labels": {QUEUE_LABEL: "tq"}}))
        assert main(["explain", "job/found", "-n", "batch", *served.arguments]) == 0
        assert "Its pods ask for queue" not in capsys.readouterr().out

    def test_a_label_changed_after_a_pods_creation_is_not_believed(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        for (kind, namespace, name), queue in self.QUEUES.items():
            spec = latency_spec() if kind == "LatencyQueue" else {}
            served.put(LQ if kind == "LatencyQueue" else TQ, stored_queue(kind, namespace, name, spec) | queue)
        served.put("/api/v1/namespaces", {"metadata": {"name": "team"}, "status": {"phase": "Active"}})
        moved = pod("team", "moved", pod_spec() | {"priorityClassName": "fairburst-queue-1"}, labels={"fairburst.dev/queue": "weekly"})
        served.put("/api/v1/pods", moved | {"status": {"phase": "Pending"}})
        assert main(["explain", "pod/moved", "-n", "team", "-o", "json", *served.arguments]) == 0
        assert json.loads(capsys.readouterr().out)["queue"] == "team/nightly"


class TestQuestions:
    def test_doctor_finds_what_is_missing(self, bare: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["doctor", *bare.arguments]) == 1
        said = capsys.readouterr().out
        assert "latencyqueues.fairburst.dev, throughputqueues.fairburst.dev missing" in said
        assert said.count("fairburst-priority-hard.default") == 1  # a policy and its binding have one name
        assert "definitions: fairburst manifests | kubectl apply --server-side -f -" in said

    def test_get_lists_every_queue_and_one_of_them(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["get", *served.arguments, "-o", "json"]) == 0
        assert [one["namespace"] for one in json.loads(capsys.readouterr().out)] == ["batch", "serving", "serving-2"]
        assert main(["get", *served.arguments, "-n", "serving"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
        assert main(["get", "batch", *served.arguments, "-o", "yaml"]) == 0
        assert [one["name"] for one in yaml.safe_load(capsys.readouterr().out)] == ["tq"]

    def test_explain_advises_what_the_operator_would_grant(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "serving-2", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["headline"] == "LatencyQueue serving-2/lq: Soft"
        assert {one["knob"] for one in found["advice"]} >= {"deadline", "demand", "capacity"}
        assert found["facts"]["Status"].startswith("no operator has written one")
        assert main(["explain", "serving-2", *served.arguments]) == 0
        assert "kubectl patch latencyqueue lq -n serving-2 --type merge -p" in capsys.readouterr().out

    def test_a_tenant_is_told_what_the_status_says(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        served.api.refuse("GET", "/api/v1/nodes", 403)
        assert main(["explain", "serving/lq", *served.arguments]) == 0
        said = capsys.readouterr().out
        assert "no operator has decided on it" in said
        assert "it takes the right to read the whole cluster" in said

    def test_a_tenant_is_told_why_work_waits(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        explanation = "3 cpu wait: the queue has 1 of 4 cpu, its fair share and what others leave."
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "the queue is admitted and served."}
        status = {"class": "Elastic", "explanation": explanation, "conditions": [ready]}
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z", status=status))
        served.api.refuse("GET", "/api/v1/nodes", 403)
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["facts"]["Why"] == explanation

    def test_a_queue_in_observe_mode_is_of_the_pool_that_is_asked(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        served.put(TQ, stored_queue("ThroughputQueue", "free", "tq", {"enforcement": "Observe"}))
        served.put(TQ, stored_queue("ThroughputQueue", "far", "tq", {"pool": "gpus"}))
        assert main(["explain", "free/tq", *served.arguments]) == 0
        assert "--system-namespace" not in capsys.readouterr().out
        assert main(["explain", "far/tq", *served.arguments]) == 0
        assert "gpus; this is a look at pool default. Choose its operator with --system-namespace" in capsys.readouterr().out

    def test_what_stands_in_the_way_of_a_quota_is_not_left_to_the_controller(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        obstacle = {
            "type": "Enforced",
            "status": "False",
            "reason": "ForeignQuotaBelowPromise",
            "message": "ResourceQuota mine limits cpu to 1.",
        }
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z", status={"conditions": [obstacle]}))
        served.put("/apis/batch/v1/jobs", job("batch", "train", 4, pod_spec(memory="1Gi")))
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["facts"]["Not Enforced"] == "ResourceQuota mine limits cpu to 1."
        assert found["goal"] == "The obstacle above (Not Enforced) keeps pods from being created, whatever the level is."

    def test_work_that_starts_whole_gets_no_advice_on_its_next_pod(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        larger = {"type": "JobsFit", "status": "False", "reason": "LargerThanLevel", "message": "Job batch/train starts whole."}
        whole = stored_queue("ThroughputQueue", "batch", "tq", {"enforcement": "Suspend"}, status={"conditions": [larger]})
        served.put(TQ, whole)
        held = {"annotations": {HELD_ANNOTATION: "true"}}
        served.put("/apis/batch/v1/jobs", job("batch", "train", 70, pod_spec(memory="1Gi"), metadata=held, suspend=True))
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (
            found["goal"]
            == "Its work starts whole and needs more than its level (Not JobsFit above); room for one more pod starts nothing."
        )
        assert not found["advice"]

    def test_a_pod_that_no_node_can_hold_gets_no_advice_on_the_level(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        served.put("/api/v1/pods", {**pod("batch", "train", pod_spec(48, "1Gi")), "status": {"phase": "Pending"}})
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["goal"] == "No node can hold its largest pods: 48 cores, 1 GiB each. Make them smaller, or add larger nodes."
        assert not found["advice"]

    def test_a_pod_that_asks_for_a_resource_which_no_node_offers_is_told_which(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        on_gpu = pod("batch", "train", pod_spec(2, "1Gi"))
        on_gpu["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
        served.put("/api/v1/pods", {**on_gpu, "status": {"phase": "Pending"}})
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["goal"] == (
            "No node of the pool offers nvidia.com/gpu, which some of its pods ask for. Add nodes that do, or start their device plugin."
        )
        assert not found["advice"]
        served.api.refuse("GET", "/apis/resource.k8s.io/v1/deviceclasses", 403)
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        assert "offers nvidia.com/gpu" not in capsys.readouterr().out, "a DRA driver may provide it"

    def test_work_that_no_node_can_hold_hides_no_advice_on_the_rest(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        larger = {"type": "JobsFit", "status": "False", "reason": "LargerThanNodes", "message": "Job batch/huge: no node could hold it."}
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z", status={"conditions": [larger]}))
        served.put("/api/v1/pods", {**pod("batch", "huge", pod_spec(48, "1Gi")), "status": {"phase": "Pending"}})
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["goal"].startswith("No node can hold its largest pods: 48 cores, 1 GiB each.")
        served.put("/api/v1/pods", {**pod("batch", "fits", pod_spec(2, "1Gi")), "status": {"phase": "Pending"}})
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["goal"].startswith("Its level admits its next pod.")
        assert found["facts"]["Not JobsFit"] == "Job batch/huge: no node could hold it."

    def test_status_tells_work_without_a_node_from_work_beyond_what_the_nodes_hold(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        waiting = {"demand": {"cpu": "2"}, "usage": {"cpu": "0"}}
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z", status=waiting))
        served.put("/api/v1/pods", {**pod("batch", "train", pod_spec(2, "1Gi")), "status": {"phase": "Pending"}})
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        (queue,) = json.loads(capsys.readouterr().out)["waiting"]
        assert queue["why"] == WAITS_FOR_ROOM
        served.put("/api/v1/pods", {**pod("batch", "train", pod_spec(48, "1Gi")), "status": {"phase": "Pending"}})
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        (queue,) = json.loads(capsys.readouterr().out)["waiting"]
        assert queue["why"] == "No node can hold its largest pods: 48 cores, 1 GiB each. Make them smaller, or add larger nodes."
        larger = {"type": "JobsFit", "status": "False", "reason": "LargerThanNodes", "message": "Job batch/train: no node could hold it."}
        told = waiting | {"conditions": [larger]}
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z", status=told))
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        (queue,) = json.loads(capsys.readouterr().out)["waiting"]
        assert queue["why"] == larger["message"]

    def test_status_says_of_an_observed_queue_why_its_work_waits_and_that_its_pods_are_no_part_of_the_capacity(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        explanation = "2 cpu wait: the queue has 1 of 3 cpu, its fair share and what others leave."
        status = {"demand": {"cpu": "3"}, "usage": {"cpu": "1"}, "explanation": explanation}
        served.put(TQ, stored_queue("ThroughputQueue", "free", "tq", {"enforcement": "Observe"}, status=status))
        for namespace in ("free", "elsewhere"):
            served.put("/api/v1/namespaces", {"metadata": {"name": namespace}, "status": {"phase": "Active"}})
            running = pod(namespace, "runs", pod_spec(1, "1Gi"))
            running["spec"]["nodeName"] = "node-0"
            served.put("/api/v1/pods", {**running, "status": {"phase": "Running"}})
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [one["why"] for one in found["waiting"]] == [explanation]
        assert (list(found["outside"]), list(found["observed"])) == (["elsewhere"], ["free"])
        assert main(["status", *served.arguments]) == 0
        said = capsys.readouterr().out
        assert "Outside the queues, and no part of the capacity: elsewhere (1 cpu, 1Gi memory)." in said
        assert "Of queues in Observe mode, and no part of the capacity: free (1 cpu, 1Gi memory)." in said

    def test_status_says_why_capacity_is_idle_while_queues_want_it(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z"))
        assert main(["status", *served.arguments]) == 0
        assert "Idle:" not in capsys.readouterr().out, "no queue wants it"
        served.put("/api/v1/pods", {**pod("batch", "train", pod_spec(16, "1Gi")), "status": {"phase": "Pending"}})
        assert main(["status", *served.arguments]) == 0
        assert "Idle: cpu 25% beside pods without a node, " in capsys.readouterr().out
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["capacity"][0]["idleParts"]["unbound"] == 0.25

    def test_a_burst_that_no_node_can_hold_does_not_wait_for_work_of_others(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It stays in the demand of its latency queue, so that it can be missed."""
        status = {"demand": {"cpu": "2"}, "usage": {"cpu": "0"}}
        served.put(LQ, stored_queue("LatencyQueue", "serving", "lq", latency_spec("40"), status=status))
        on_gpu = pod("serving", "burst", pod_spec(2, "1Gi"))
        on_gpu["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
        served.put("/api/v1/pods", {**on_gpu, "status": {"phase": "Pending"}})
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        (queue,) = json.loads(capsys.readouterr().out)["waiting"]
        assert queue["why"].startswith("No node of the pool offers nvidia.com/gpu, which some of its pods ask for.")
        assert main(["explain", "serving/lq", *served.arguments, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["goal"] == queue["why"]

    def test_pods_whose_host_port_others_have_on_each_node_get_no_advice_on_the_level(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        listens = pod_spec(1, "1Gi")
        listens["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        for number in range(2):
            holder = pod("elsewhere", f"holder-{number}", listens | {"nodeName": f"node-{number}"})
            served.put("/api/v1/pods", {**holder, "status": {"phase": "Running"}})
        served.put("/api/v1/pods", {**pod("batch", "waits", listens), "status": {"phase": "Pending"}})
        status = {"demand": {"cpu": "1"}, "usage": {"cpu": "0"}}
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", created="2026-01-01T00:00:02Z", status=status))
        assert main(["explain", "batch/tq", *served.arguments, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["goal"].startswith("pods without a known controller: a pod asks for host port 8080/TCP. Pods outside the queue have")
        assert not found["advice"]
        assert main(["status", *served.arguments, "-o", "json"]) == 0
        (queue,) = json.loads(capsys.readouterr().out)["waiting"]
        assert queue["why"] == found["goal"]

    def test_status_wraps_its_sentences_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        outside = {f"a-namespace-of-some-length-{number}": {"cpu": "1500m", "memory": "1234Mi"} for number in range(5)}
        leads = {"holder": "fairburst-5d8f9c7b6d-abcde_0123456789abcdef", "renewedSecondsAgo": 1.0, "leaseSeconds": 15}
        shown = {"pool": "default", "nodes": 2, "operator": leads, "capacity": [], "outside": outside, "observed": {}, "classes": {}}
        status_command.show(shown | {"queues": [], "bursts": [], "waiting": [], "problems": []})
        lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
        assert max(map(len, lines)) <= 80
        assert "and 2 more namespaces." in " ".join(lines)

    @pytest.mark.parametrize(("ago", "warns"), [(1, True), (90, False)], ids=["leads", "gone"])
    def test_uninstall_warns_while_an_operator_leads_which_would_write_all_again(
        self, served: Served, ago: int, warns: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        led(served, ago)
        assert main(["uninstall", *served.arguments]) == 0
        printed = capsys.readouterr()
        assert ("one still leads and will write all this again" in printed.err) == warns
        assert "deleted leases fairburst-system/fairburst-default" in printed.out

    def test_status_says_which_namespaces_outside_the_queues_use_the_nodes(
        self, served: Served, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Otherwise a pool without capacity has no explanation."""
        running = {"status": {"phase": "Running"}}
        for number, (namespace, cpu) in enumerate(
            [("kube-system", 2), ("kube-system", 1), ("monitoring", 5), ("batch", 7), ("elsewhere", 9)]
        ):
            made = pod(namespace, f"p{number}", pod_spec(cpu, "1Gi")) | running
            made["spec"]["nodeName"] = "node-0" if namespace != "elsewhere" else "node-of-another-pool"
            served.put("/api/v1/pods", made)
        assert main(["status", *served.arguments]) == 0
        said = capsys.readouterr().out
        assert "Outside the queues, and no part of the capacity: monitoring (5 cpu, 1Gi memory), kube-system (3 cpu, 2Gi memory).\n" in said
        assert "cpu             56" in said, "of 64"

    def test_get_takes_the_option_of_kubectl_for_all_namespaces(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["get", *served.arguments]) == 0
        whole = capsys.readouterr().out
        assert main(["get", "-A", *served.arguments]) == 0
        assert capsys.readouterr().out == whole
        assert main(["get", "-A", "-n", "batch", *served.arguments]) == WRONG_ARGUMENTS
        assert "expected one of -A and -n, found both" in capsys.readouterr().err

    def test_status_says_that_no_operator_runs(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["status", *served.arguments]) == 0
        said = capsys.readouterr().out
        assert "2 nodes, 3 queues" in said
        assert "no operator leads, and none has" in said

    @pytest.mark.parametrize(
        ("ago", "want"),
        [
            pytest.param(1, "Operator: one leads, renewed 1 s ago.", id="leads"),
            pytest.param(90, "Operator: one renewed its Lease 90 s ago: it hangs or is gone.", id="gone"),
        ],
    )
    def test_status_tells_an_operator_that_leads_from_one_that_is_gone(
        self, served: Served, ago: int, want: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        led(served, ago)
        assert main(["status", *served.arguments]) == 0
        assert want in capsys.readouterr().out

    def test_a_namespace_without_a_queue_is_not_limited(self, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
        served.put(
            "/api/v1/pods", {"metadata": {"namespace": "free", "name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
        )
        assert main(["explain", "pod/p", "-n", "free", *served.arguments]) == 0
        assert "No queue governs namespace free" in capsys.readouterr().out


def queues(*names: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {("LatencyQueue", *name.split("/")): {} for name in names}  # type: ignore[misc]


def test_a_queue_is_found_by_name_or_by_its_namespace() -> None:
    some = queues("a/one", "b/two", "c/two")
    assert find_queue(some, "one", None)[1:] == ("a", "one")
    assert find_queue(some, "two", "b")[1:] == ("b", "two")
    assert find_queue(some, "c/two", None)[1:] == ("c", "two")
    assert find_queue(some, "a", None)[1:] == ("a", "one")
    assert find_queue(some, "a", "a")[1:] == ("a", "one")
    with pytest.raises(CommandError, match=r"found 2 with the name two: b/two, c/two; say NAMESPACE/NAME"):
        find_queue(some, "two", None)


@pytest.mark.parametrize(
    ("pod", "events", "want"),
    [
        pytest.param({"spec": {"schedulingGates": [{"name": GATE}]}}, [], "SchedulingGated: fairburst holds the pod", id="our gate"),
        pytest.param({"spec": {"schedulingGates": [{"name": "x"}]}}, [], "not a gate of fairburst", id="another's gate"),
        pytest.param({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}, [], "it does not wait", id="runs"),
        pytest.param({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}, [], "is bound to node n", id="starts"),
        pytest.param(
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]}},
            [{"reason": "FailedScheduling", "message": "0/2  nodes"}],
            "Unschedulable: the quota admitted the pod, and the scheduler finds no node for it: 0/2 nodes",
            id="no node",
        ),
        pytest.param({}, [], "the scheduler has not looked at it yet", id="new"),
    ],
)
def test_what_a_pod_waits_for(pod: dict[str, Any], events: list[dict[str, Any]], want: str) -> None:
    found = pod_findings(pod, events)
    assert want in found[0]
    assert len(found) == 1 + len(events)


def test_a_job_is_explained_by_the_operators_last_event_and_not_by_former_ones() -> None:
    told = [("WaitsForFairShare", "at 1"), ("LargerThanLevel", "at 3"), ("NotAdmitted", "at 2"), ("SuccessfulCreate", "at 4")]
    told.append(("Suspended", "Job suspended"))  # by the Job controller
    events = [{"reason": reason, "message": text, "lastTimestamp": f"2026-01-01T00:00:0{text[-1]}Z"} for reason, text in told]
    assert job_findings(HELD, events)[1:] == ["Event LargerThanLevel: at 3"]


@pytest.mark.parametrize(
    ("told", "want"),
    [
        pytest.param([("LargerThanNodes", "at 1"), ("StartForecast", "at 2")], ["LargerThanNodes: at 1", "StartForecast: at 2"], id="both"),
        pytest.param([("StartForecast", "at 1"), ("WaitsForFairShare", "at 2")], ["WaitsForFairShare: at 2"], id="a later cause"),
        pytest.param([("LargerThanNodes", "at 1"), ("WaitsForFairShare", "at 2")], ["WaitsForFairShare: at 2"], id="a larger node came"),
    ],
)
def test_a_forecast_does_not_hide_the_cause_of_the_wait(told: list[tuple[str, str]], want: list[str]) -> None:
    events = [{"reason": reason, "message": text, "lastTimestamp": f"2026-01-01T00:00:0{text[-1]}Z"} for reason, text in told]
    assert job_findings(HELD, events)[1:] == [f"Event {one}" for one in want]


HELD = {"spec": {"suspend": True}, "metadata": {"annotations": {HELD_ANNOTATION: "true"}}}


@pytest.mark.parametrize(
    ("job", "events", "want"),
    [
        pytest.param(
            {"spec": {"suspend": True}, "metadata": {"annotations": {HELD_ANNOTATION: "true"}}}, [], "fairburst holds the Job", id="held"
        ),
        pytest.param({"spec": {"suspend": True}}, [], "not by fairburst", id="suspended"),
        pytest.param(
            {"spec": {"parallelism": 4}, "status": {"active": 1}},
            [{"reason": "FailedCreate", "message": "exceeded quota: fairburst"}],
            "1 of 4 pods: the next exceeds the namespace's quota",
            id="quota",
        ),
        pytest.param(
            {"spec": {"parallelism": 4}, "status": {"active": 1}},
            [{"reason": "FailedCreate", "message": "exceeded quota: mine, requested: requests.cpu=1"}],
            "1 of 4 pods: the next exceeds ResourceQuota mine, which is not fairburst's; raise or delete it.",
            id="a quota of its own",
        ),
        pytest.param({"spec": {"parallelism": 4}, "status": {"active": 1}}, [], "has not created the others yet", id="slow"),
        pytest.param(
            {"spec": {"parallelism": 4}},
            [{"reason": "FailedCreate", "message": 'Error creating: pods "a" is forbidden: maximum cpu usage per Container is 1'}],
            "0 of 4 pods: the API server refuses the next, and not because of a quota: maximum cpu usage per Container is 1",
            id="a LimitRange",
        ),
        pytest.param(
            {"spec": {"parallelism": 4}},
            [{"reason": "FailedCreate", "message": 'pods "a" is forbidden: no PriorityClass with name fairburst-small was found'}],
            "no PriorityClass with name fairburst-small was found. An administrator applies `fairburst manifests` again",
            id="our class is missing",
        ),
        pytest.param(
            {"spec": {"parallelism": 4}},
            [
                {"reason": "FailedCreate", "message": "exceeded quota: mine", "lastTimestamp": "2026-01-01T00:00:00Z"},
                {"reason": "FailedCreate", "message": "no webhook", "lastTimestamp": "2026-01-01T00:00:01Z"},
            ],
            "not because of a quota: no webhook",
            id="the last refusal decides",
        ),
        pytest.param(
            {"spec": {"parallelism": 4, "completions": 10}, "status": {"active": 1, "ready": 1, "succeeded": 9}},
            [],
            "has all 1 pods that it wants at once",
            id="the last of its pods",
        ),
        pytest.param(
            {"spec": {"parallelism": 9, "completions": 3}, "status": {"active": 1}},
            [],
            "has 1 of 3 pods",
            id="fewer completions than at once",
        ),
        pytest.param({"spec": {"parallelism": 4}, "status": {"active": 4}}, [], "has all 4 pods", id="all"),
        pytest.param({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, [], "has ended: Complete", id="ended"),
    ],
)
def test_what_a_job_waits_for(job: dict[str, Any], events: list[dict[str, Any]], want: str) -> None:
    assert want in job_findings(job, events)[0]


def test_a_job_whose_pods_all_exist_and_do_not_run_is_told_where_to_look_and_of_no_refusal_that_is_over() -> None:
    """It named a quota that had refused a pod before, as if that were why nothing runs."""
    refused = {"reason": "FailedCreate", "message": "exceeded quota: fairburst", "lastTimestamp": "2026-01-01T00:00:00Z"}
    made = {"metadata": {"name": "train", "namespace": "batch"}, "spec": {"parallelism": 4}, "status": {"active": 4, "ready": 1}}
    assert job_findings(made, [refused]) == [
        "The Job has all 4 pods that it wants at once, 1 of them ready. Why one waits: `fairburst explain pod/NAME -n batch`, of those "
        "that `kubectl get pods -n batch -l job-name=train` lists."
    ]
    assert job_findings({**made, "status": {"active": 4, "ready": 4}}, [refused]) == [
        "The Job has all 4 pods that it wants at once, 4 of them ready."
    ]
    assert len(job_findings({**made, "status": {"active": 3}}, [refused])) == 2, "it still explains why a pod lacks"


def test_times_and_amounts_in_words() -> None:
    assert [seconds_text(value) for value in (0, 59.6, 3660, 90061)] == ["0s", "1m", "1h 1m", "1d 1h"]
    assert waiting({"demand": {"cpu": "2", "memory": "1Gi"}, "usage": {"cpu": "1500m", "memory": "1Gi"}}) == {"cpu": "500m"}
    now = 1_767_225_600.0
    assert next_burst({"state": "Open", "deadline": "2026-01-01T00:00:12Z"}, now) == "open, 12s left"
    assert next_burst({"state": "Closed", "armsAt": "2026-01-01T00:05:00Z"}, now) == "in 5m"
    assert next_burst({"state": "Armed"}, now) == "any time"
    assert next_burst({"state": "Armed", "opensBy": "2026-01-01T00:00:30Z"}, now) == "within 30s"
    assert next_burst(None, now) == "-"


def test_a_difference_ignores_defaults_of_the_api_server_and_names_its_place() -> None:
    wanted = {"spec": {"names": ["a", "b"], "served": False, "list": [], "deep": {"x": 1}}}
    assert difference(wanted, {"spec": {"names": ["a", "b"], "deep": {"x": 1, "more": 2}}, "status": {}}) is None
    assert difference(wanted, {"spec": {"names": ["a"], "deep": {"x": 1}}}) == "spec.names"
    assert difference(wanted, {"spec": {"names": ["a", "b"], "deep": {"x": 2}}}) == "spec.deep.x"
