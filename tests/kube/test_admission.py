"""The webhook's patches and its server. tests/t1/test_webhook.py tests that the policies write the same."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from e2e.certificates import write_certificates
from fairburst.config import Config, parse_config
from fairburst.kube.admission.mutation import another_pools, asked_queue, first_template, governing, held_patch, job_patch, pod_patch
from fairburst.kube.admission.server import PATH, AdmissionServer
from fairburst.kube.api.served_certificate import CertificateError
from fairburst.kube.install.webhook import mutating_webhook
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import GATE, HELD_ANNOTATION, HOLDS_LABEL, MANAGED_LABEL
from fairburst.telemetry.metrics import Metrics
from tests.support.fake_api import json_patch
from tests.support.job_sizes import THRESHOLD
from tests.support.measured import value
from tests.support.prioritized_objects import HARD, IGNORED, JOB_SETS, JOBS, LARGE, PODS, SELECTOR, SMALL, job, owner, pod
from tests.support.queues import queue

CONFIG = parse_config(json.dumps({"smallJobs": {"enabled": True}, "pool": {"nodeSelector": SELECTOR}}))
SIZED = ("ThroughputQueue", {"podPriority": LARGE, "smallPodPriority": SMALL, "sizeThreshold": THRESHOLD})
PROMISED = ("LatencyQueue", {"podPriority": HARD})
Patch = list[dict[str, Any]]


def values(patch: Patch) -> dict[str, Any]:
    """Return the values that a patch adds, by the last part of their path."""
    return {one["path"].rpartition("/")[2]: one.get("value") for one in patch}


class TestPods:
    def test_a_priority_is_written_whole_whatever_the_pod_names(self) -> None:
        for case in PODS:
            body = case.values[0]
            for governed, priority in ((PROMISED, HARD), (None, LARGE)):
                patch = pod_patch(body, governed, CONFIG)
                if patch:
                    spec = json_patch(body, patch)["spec"]
                    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (*priority.values(),), case.id

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(pod(priorityClassName="system-node-critical"), id="the system's"),
            pytest.param(pod({"ownerReferences": [owner("DaemonSet", "apps/v1")]}), id="a DaemonSet's"),
        ],
    )
    def test_pods_of_the_system_and_of_daemon_sets_are_left_alone(self, body: dict[str, Any]) -> None:
        assert pod_patch(body, PROMISED, CONFIG) == pod_patch(body, None, CONFIG) == []

    def test_only_pods_of_a_small_job_are_small(self) -> None:
        label, of_a_job = {"labels": {SIZE_LABEL: "small"}}, {"ownerReferences": [owner("Job", "batch/v1")]}
        classes = [values(pod_patch(pod(metadata), SIZED, CONFIG))["priorityClassName"] for metadata in (label | of_a_job, label, of_a_job)]
        assert classes == ["fairburst-small", "fairburst-large", "fairburst-large"]

    def test_a_second_call_changes_nothing(self) -> None:
        """The API server calls again after other mutations."""
        gated = "LatencyQueue", {"podPriority": HARD, "holds": "Pods"}
        for case in PODS:
            once = json_patch(case.values[0], pod_patch(case.values[0], gated, CONFIG))
            assert json_patch(once, pod_patch(once, gated, CONFIG)) == once, case.id

    def test_the_gate_is_put_beside_others_once_and_never_on_a_pod_that_names_its_node(self) -> None:
        gated = "LatencyQueue", {"podPriority": HARD, "holds": "Pods"}
        for body, want in (
            (pod(), [GATE]),
            (pod(schedulingGates=[{"name": "own"}]), ["own", GATE]),
            (pod(schedulingGates=[{"name": GATE}]), [GATE]),
            (pod(nodeName="n"), []),
        ):
            spec = json_patch(body, pod_patch(body, gated, CONFIG))["spec"]
            assert [gate["name"] for gate in spec.get("schedulingGates", ())] == want

    def test_the_pools_node_selector_is_added_to_the_pods_own(self) -> None:
        body = pod(nodeSelector={"disk": "fast"})
        assert json_patch(body, pod_patch(body, PROMISED, CONFIG))["spec"]["nodeSelector"] == {"disk": "fast"} | SELECTOR


class TestJobs:
    @pytest.mark.parametrize("body", JOBS)
    def test_a_size_comes_from_the_queues_threshold_or_not_at_all(self, body: dict[str, Any]) -> None:
        body["spec"]["template"].setdefault("metadata", {})  # as the API server sends it
        size = "large" if body["spec"].get("parallelism") == 50 else "small"
        for governed, want in ((SIZED, size), (PROMISED, None), (None, None)):
            found = json_patch(body, job_patch(body, None, governed, CONFIG))
            for metadata in (found["metadata"], found["spec"]["template"].get("metadata") or {}):
                assert (metadata.get("labels") or {}).get(SIZE_LABEL) == want

    def test_in_an_update_a_size_stays_what_it_was(self) -> None:
        before, lie = job({"labels": {SIZE_LABEL: "large"}}, {"labels": {SIZE_LABEL: "large"}}), {"labels": {SIZE_LABEL: "small"}}
        after = job(lie, lie)
        found = json_patch(after, job_patch(after, before, SIZED, CONFIG))
        assert found["metadata"]["labels"] == found["spec"]["template"]["metadata"]["labels"] == {SIZE_LABEL: "large"}
        assert job_patch(before, before, SIZED, CONFIG) == []

    def test_without_small_jobs_nothing_is_sized(self) -> None:
        config = parse_config("smallJobs: {enabled: false}")
        for case in JOBS:
            assert not [one for one in job_patch(case.values[0], None, SIZED, config) if "labels" in one["path"]], case.id

    def test_evictions_are_made_no_failures_where_a_job_says_nothing_about_failures_and_it_can_be_said(self) -> None:
        given = {case.id: values(job_patch(case.values[0], None, None, CONFIG)) for case in JOBS}
        without = {"with rules of its own about failures", "whose containers are restarted", "managed elsewhere"}
        assert {name for name, added in given.items() if "podFailurePolicy" not in added} == without
        assert all(
            (added["podFailurePolicy"], added["podReplacementPolicy"]) == (IGNORED, "Failed")
            for name, added in given.items()
            if name not in without
        )

    def test_what_a_job_says_about_failures_later_stands(self) -> None:
        assert job_patch(job(suspend=True), job(suspend=True), None, CONFIG) == []

    def test_jobs_are_held_unless_somebody_else_starts_them(self) -> None:
        holding = "ThroughputQueue", {"podPriority": LARGE, "holds": "Jobs"}
        held = [
            case.id
            for case in JOBS
            if HELD_ANNOTATION
            in (json_patch(case.values[0], job_patch(case.values[0], None, holding, CONFIG))["metadata"].get("annotations") or {})
        ]
        assert set(held) == {case.id for case in JOBS} - {"a JobSet's", "queued by Kueue", "managed elsewhere"}
        assert HELD_ANNOTATION not in values(job_patch(job(), job(), holding, CONFIG)), "one that exists is not held again"


def test_job_sets_are_held_unless_somebody_else_starts_them() -> None:
    holding = "ThroughputQueue", {"podPriority": LARGE, "holds": "Jobs"}
    held = {case.id: json_patch(case.values[0], held_patch(case.values[0], holding)) for case in JOB_SETS}
    noted = {name for name, body in held.items() if HELD_ANNOTATION in (body["metadata"].get("annotations") or {})}
    assert noted == {name for name, body in held.items() if body["spec"].get("suspend")} == {"plain", "suspended", "a CronJob's"}


def test_pods_of_another_pools_namespace_are_left_to_its_operator() -> None:
    def prioritized_in(pool: str) -> dict[str, Any]:
        return queue("LatencyQueue", {"pool": pool}, "here") | {"status": {"podPriority": HARD}}

    theirs = {("LatencyQueue", "here", "queue"): prioritized_in("another")}
    assert another_pools(theirs, "here", "default")
    assert not another_pools(theirs, "there", "default")
    assert not another_pools({}, "here", "default")
    assert not another_pools(theirs | {("ThroughputQueue", "here", "mine"): prioritized_in("default")}, "here", "default")


def test_a_queue_governs_in_its_own_namespace_and_pool_once_it_has_a_priority() -> None:
    def found(status: dict[str, Any], spec: dict[str, Any] | None = None) -> bool:
        one = queue("LatencyQueue", spec or {}, "here") | {"status": status}
        return governing({("LatencyQueue", "here", "queue"): one}, "here", "default") is not None

    assert found({"podPriority": HARD})
    assert not found({})
    assert not found({"podPriority": HARD}, {"pool": "another"})
    assert (
        governing(
            {("LatencyQueue", "here", "queue"): queue("LatencyQueue", {}, "here") | {"status": {"podPriority": HARD}}}, "there", "default"
        )
        is None
    )


def test_a_pod_gets_the_class_of_the_further_queue_that_it_asks_for_and_otherwise_the_default_queues() -> None:
    classes = {"bursts": "fairburst-hard", "nightly": "fairburst-queue-1"}
    queues = {
        (kind, "team", name): {"spec": {}, "status": {"podPriority": {"className": classes[name], "value": 1, "preemptionPolicy": "Never"}}}
        for kind, name in (("LatencyQueue", "bursts"), ("ThroughputQueue", "nightly"))
    }

    def given(label: str | None, where: str = "team") -> str | None:
        body = {"metadata": {} if label is None else {"labels": {"fairburst.dev/queue": label}}}
        found = asked_queue(queues, body, where, "default")
        return None if found is None else found[1]["podPriority"]["className"]

    assert given("nightly") == "fairburst-queue-1"
    assert {given(label) for label in (None, "", "missing", "bursts")} == {"fairburst-hard"}
    assert given("nightly", "rival") is None, "a queue of another namespace"


def test_pods_of_small_jobs_get_their_class_in_the_default_queue_and_not_in_a_further_one() -> None:
    lane = {"className": "fairburst-queue-1", "value": -2, "preemptionPolicy": "Never"}
    statuses = {"batch": SIZED[1], "nightly": {"podPriority": lane}}
    queues = {("ThroughputQueue", "team", name): {"spec": {}, "status": status} for name, status in statuses.items()}

    def given(asked: str, size: str) -> str:
        labels = {SIZE_LABEL: size, "fairburst.dev/queue": asked}
        body = pod({"ownerReferences": [owner("Job", "batch/v1")], "labels": labels})
        name: str = values(pod_patch(body, asked_queue(queues, body, "team", "default"), CONFIG))["priorityClassName"]
        return name

    assert (given("missing", "small"), given("missing", "large")) == ("fairburst-small", "fairburst-large")
    assert {given("nightly", size) for size in ("small", "large")} == {"fairburst-queue-1"}


def test_a_job_is_held_by_the_queue_that_its_pods_ask_for() -> None:
    priority = {"value": 1, "preemptionPolicy": "Never"}

    def held(label: str, default: str | None, further: str | None, body: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
        queues = {
            (kind, "team", name): {"spec": {}, "status": {"podPriority": priority | {"className": class_name}, "holds": holds}}
            for kind, name, class_name, holds in (
                ("LatencyQueue", "bursts", "fairburst-hard", default),
                ("ThroughputQueue", "nightly", "fairburst-queue-1", further),
            )
        }
        made = body({"metadata": {"labels": {"fairburst.dev/queue": label}}, "spec": {}})
        return bool(held_patch(made, asked_queue(queues, first_template(made), "team", "default")))

    def one_job(template: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {}, "spec": {"template": template}}

    def job_set(template: dict[str, Any]) -> dict[str, Any]:
        others = {"template": {"spec": {"template": {"metadata": {"labels": {"fairburst.dev/queue": "bursts"}}, "spec": {}}}}}
        return {"metadata": {}, "spec": {"replicatedJobs": [{"template": {"spec": {"template": template}}}, others]}}

    for body in (one_job, job_set):
        assert held("nightly", None, "Jobs", body)
        assert not held("nightly", "Jobs", None, body)
        assert not held("nightly", None, "Pods", body)
        assert held("missing", "Jobs", None, body)
        assert not held("missing", None, "Jobs", body)


@pytest.mark.parametrize("spec", [{}, {"replicatedJobs": []}, {"template": {}}])
def test_work_without_a_template_asks_for_no_queue(spec: dict[str, Any]) -> None:
    assert first_template({"metadata": {}, "spec": spec}) == {}


def test_the_registration_fails_closed_only_where_a_gate_must_not_be_missed() -> None:
    webhooks = mutating_webhook(Config(), {"url": "https://localhost/mutate"})["webhooks"]
    by_name = {one["name"]: one for one in webhooks}
    priority, hold = by_name["priority.default.fairburst.dev"], by_name["hold.default.fairburst.dev"]
    assert (priority["failurePolicy"], hold["failurePolicy"]) == ("Ignore", "Fail")
    for one, holds in ((priority, "NotIn"), (hold, "In")):
        selector = one["namespaceSelector"]
        assert one["timeoutSeconds"] == 2
        assert selector["matchLabels"] == {MANAGED_LABEL: "true"}
        assert selector["matchExpressions"][0]["values"] == ["fairburst-system", "kube-system"]
        assert selector["matchExpressions"][1] == {"key": HOLDS_LABEL, "operator": holds, "values": ["Pods"]}
    assert {operation for rule in hold["rules"] for operation in rule["operations"]} == {"CREATE"}


# The server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


class Served:
    """A running server, and requests to it."""

    def __init__(self, folder: Path, server_name: str = "") -> None:
        webhook = {"enabled": True, "host": "127.0.0.1", "port": 0, "certificates": str(folder), "serverName": server_name}
        self.folder, self.metrics = folder, Metrics()
        self.queues: dict[tuple[str, str, str], dict[str, Any]] | None = {}
        self.server = AdmissionServer(parse_config(json.dumps({"webhook": webhook})), self.metrics, lambda _: self.queues)
        self.port = 0

    async def ask(self, body: bytes, authority: Path | None = None) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str((authority or self.folder) / "ca.crt"))
        context.verify_flags = ssl.VERIFY_DEFAULT
        url = f"https://localhost:{self.port}{PATH}"
        async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=context) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if answer.status == 200 else text.decode()

    def count(self, result: str) -> float:
        return value(self.metrics, "fairburst_admission_reviews_total", result=result)


@pytest.fixture
async def served(certificates: Path, tmp_path: Path) -> AsyncIterator[Served]:
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_text((certificates / name).read_text())
    one = Served(tmp_path, "localhost")
    one.port = await one.server.start()
    yield one
    await one.server.stop()


def review(body: dict[str, Any], resource: str = "pods", operation: str = "CREATE") -> bytes:
    group = {"group": "", "version": "v1", "resource": resource}
    request = {"uid": "u-1", "namespace": "here", "resource": group, "operation": operation, "object": body}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


async def test_a_review_is_answered_with_a_patch(served: Served) -> None:
    served.queues = {("LatencyQueue", "here", "queue"): queue("LatencyQueue", {}, "here") | {"status": {"podPriority": HARD}}}
    status, answer = await served.ask(review(pod()))
    assert (status, answer["response"]["uid"], answer["response"]["allowed"]) == (200, "u-1", True)
    assert values(json.loads(base64.b64decode(answer["response"]["patch"])))["priorityClassName"] == "fairburst-hard"
    assert served.count("patched") == 1.0


async def test_while_the_queues_are_not_known_the_failure_policy_decides(served: Served) -> None:
    served.queues = None
    assert (await served.ask(review(pod())))[0] == 503
    assert served.count("not ready") == 1.0


@pytest.mark.parametrize("body", [b"", b"[]", b'{"request": {}}', b'{"request": 5}', b"\xff", b'{"request": {"namespace": "n"}}'])
async def test_what_is_no_review_is_an_error_and_the_server_lives_on(served: Served, body: bytes) -> None:
    assert (await served.ask(body))[0] == 400
    assert (await served.ask(review(pod())))[0] == 200


async def test_a_review_of_something_else_is_let_through(served: Served) -> None:
    status, answer = await served.ask(review({"metadata": {}}, "configmaps"))
    assert (status, "patch" in answer["response"]) == (200, False)


async def test_the_server_finds_its_own_certificate_good_or_says_what_is_wrong(served: Served, tmp_path: Path) -> None:
    assert await served.server.self_check() is None
    other = Served(served.folder, "webhook.example.com")
    await other.server.start()
    problem = await other.server.self_check()
    await other.server.stop()
    assert "webhook.example.com" in (problem or "")
    expired = Served(write_certificates(tmp_path / "expired", days=0), "localhost")
    await expired.server.start()
    problem = await expired.server.self_check()
    await expired.server.stop()
    assert "expired" in (problem or "")


async def test_a_new_certificate_is_taken_up_while_running_and_half_a_pair_is_not(served: Served, tmp_path: Path) -> None:
    new = write_certificates(tmp_path / "new")
    (served.folder / "tls.crt").write_text((new / "tls.crt").read_text())
    with pytest.raises(ssl.SSLError):
        served.server.certificate.reload()
    assert (await served.ask(review(pod())))[0] == 200, "the old pair is still served"
    (served.folder / "tls.key").write_text((new / "tls.key").read_text())
    served.server.certificate.reload()
    assert (await served.ask(review(pod()), new))[0] == 200


async def test_without_a_certificate_the_server_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"expected tls\.crt and tls\.key"):
        await Served(tmp_path).server.start()
