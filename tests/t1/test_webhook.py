"""Pod priority by policy and by our webhook, on real API servers: the same objects come out the same."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.certificates import write_certificates
from e2e.cluster import Cluster
from e2e.cluster.build import missing
from e2e.cluster.versions import tools
from e2e.harness import OperatorProcess, free_port
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import Config, parse_config
from fairburst.kube.admission.mutation import Object, Patch
from fairburst.kube.admission.server import AUTHORITY, PATH, AdmissionServer
from fairburst.kube.install.webhook import mutating_webhook
from fairburst.kube.names import HOLDS_LABEL, MANAGED_LABEL
from fairburst.telemetry.metrics import Metrics
from tests.support import job_set_crd, live_cluster
from tests.support.job_sizes import THRESHOLD
from tests.support.live_cluster import LiveCluster, refusal
from tests.support.prioritized_objects import (
    HARD,
    JOB_SETS,
    JOBS,
    LARGE,
    PODS,
    SELECTOR,
    SMALL,
    namespace_labels,
    pod,
    prioritized,
    sized_quota,
)
from tests.support.queues import queue

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
BURST = {"burst": {"resources": {"cpu": 1}, "durationSeconds": 10}, "arrival": {"sporadic": {"minInterarrivalSeconds": 60}}}
SIZED = {"podPriority": LARGE, "smallPodPriority": SMALL, "sizeThreshold": THRESHOLD}
# Kind, spec and status of the queue of each namespace.
QUEUES: dict[str, tuple[str, JsonObject, JsonObject] | None] = {
    "sized": ("ThroughputQueue", {}, SIZED),
    "unsized": ("ThroughputQueue", {}, {"podPriority": LARGE}),
    "hard": ("LatencyQueue", BURST, {"podPriority": HARD}),
    "gated": ("LatencyQueue", BURST, {"podPriority": HARD, "holds": "Pods"}),
    "held": ("ThroughputQueue", {}, SIZED | {"holds": "Jobs"}),
    "pending": ("LatencyQueue", BURST, {}),
    "elsewhere": ("LatencyQueue", BURST | {"pool": "another"}, {"podPriority": HARD}),
    "none": None,
}
WEBHOOK = "mutatingwebhookconfiguration/fairburst-priority.default"


class Webhook(AdmissionServer):
    """The server in a thread of its own, which notes for which namespaces it was asked."""

    def __init__(self, config: Config, queues: dict[tuple[str, str, str], JsonObject]) -> None:
        self.metrics = Metrics()
        super().__init__(config, self.metrics, lambda _: queues)
        self.asked: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def patch_of(self, review: Object) -> Patch | None:
        self.asked.append(review["namespace"])
        return super().patch_of(review)

    def __enter__(self) -> Webhook:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()


def settings(certificates: Path, port: int, webhook: bool = True) -> Config:
    return parse_config(
        json.dumps(
            {
                "smallJobs": {"enabled": True},
                "pool": {"nodeSelector": SELECTOR},
                "webhook": {"enabled": webhook, "host": "127.0.0.1", "port": port, "certificates": str(certificates)},
            }
        )
    )


def register(cluster: Cluster, config: Config, authority: Path) -> None:
    bundle = base64.b64encode((authority / AUTHORITY).read_bytes()).decode()
    client = {"url": f"https://127.0.0.1:{config.webhook.port}{PATH}", "caBundle": bundle}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(mutating_webhook(config, client)))


def install(cluster: Cluster, config: Config) -> None:
    """Install fairburst together with the JobSet kind."""
    job_set_crd.install(cluster)
    live_cluster.install(cluster, config)


def furnish(cluster: Cluster) -> dict[tuple[str, str, str], JsonObject]:
    """The namespaces with their queues, as stored."""
    found = {}
    for where, governed in QUEUES.items():
        cluster.kubectl("create", "namespace", where)
        kind, spec, status = governed or ("", {}, {})
        labels = namespace_labels(status, spec.get("pool", "default"))
        cluster.kubectl("label", "namespace", where, *(f"{key}={value}" for key, value in labels.items()))
        if kind:
            cluster.kubectl("create", "-f", "-", input=json.dumps(queue(kind, spec, where)))
            patch = ["patch", kind, "queue", "-n", where, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})]
            found[kind, where, "queue"] = json.loads(cluster.kubectl(*patch, "-o", "json"))
        if "sizeThreshold" in status:
            quota = sized_quota(where, status["sizeThreshold"], spec.get("pool", "default"))
            cluster.kubectl("create", "-f", "-", input=json.dumps(quota))
    return found


def outcomes(cluster: Cluster) -> dict[str, JsonObject]:
    """Return the outcome for every object of the table in every namespace, by an id."""
    found = {}
    for where in QUEUES:
        items, ids = [], []
        for case in (*PODS, *JOBS, *JOB_SETS):
            body = copy.deepcopy(case.values[0])
            body["metadata"] |= {"namespace": where, "name": f"object-{len(items)}"}
            items.append(body)
            ids.append(f"{where}: {body['kind']} {case.id}")
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        printed = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=listed, timeout=120)
        bodies = [json.loads("{" + one) for one in ("\n" + printed).split("\n{")[1:]]  # one object after the other
        found |= {name: prioritized(body) for name, body in zip(ids, bodies, strict=True)}
    return found


def class_of(cluster: Cluster, where: str, **spec: Any) -> str | None:
    """The class that a pod gets there; raises ClusterError where it is refused."""
    probe = pod(**spec)
    return LiveCluster(cluster).priority_of(probe | {"metadata": probe["metadata"] | {"namespace": where}})


def wait_for_priorities(cluster: Cluster) -> None:
    """Wait until the API server has noticed policies, registrations and queues, each of which takes it a second or so."""
    until(lambda: class_of(cluster, "hard") == "fairburst-hard", PATIENCE_SECONDS, "the queue's priority")
    until(lambda: class_of(cluster, "none") == "fairburst-large", PATIENCE_SECONDS, "the default priority")
    until(lambda: outcomes(cluster)["sized: Job small"]["labels"], PATIENCE_SECONDS, "sizes")
    until(lambda: outcomes(cluster)["held: JobSet plain"]["suspend"], PATIENCE_SECONDS, "JobSets to be held")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def by_policy(fresh_cluster: Callable[..., Cluster], certificates: Path) -> tuple[Cluster, dict[str, JsonObject]]:
    """A cluster of 1.37.1, its policies gone again, and what they made of the table."""
    cluster = fresh_cluster(kubernetes="1.37.1", nodes=1)
    install(cluster, settings(certificates, free_port(), webhook=False))
    furnish(cluster)
    wait_for_priorities(cluster)
    found = outcomes(cluster)
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        cluster.kubectl("delete", kind, "--all")
    until(lambda: class_of(cluster, "hard") is None, PATIENCE_SECONDS, "the policies to be gone")
    return cluster, found


@pytest.fixture(scope="module", params=["1.37.1", "1.34.4"])
def hooked(
    request: pytest.FixtureRequest, fresh_cluster: Callable[..., Cluster], certificates: Path
) -> Iterator[tuple[Cluster, Webhook, Config]]:
    """A cluster whose pods get their priority from the webhook alone."""
    if missing(tools(request.param)):
        pytest.skip(f"WEBHOOK NOT TESTED ON {request.param}: `python -m e2e.cluster build --kubernetes {request.param}` builds it")
    config = settings(certificates, free_port())
    if request.param == "1.37.1":
        cluster = request.getfixturevalue("by_policy")[0]
        kinds = {"latencyqueues": "LatencyQueue", "throughputqueues": "ThroughputQueue"}
        listed = [
            (kinds[plural], one) for plural in kinds for one in json.loads(cluster.kubectl("get", plural, "-A", "-o", "json"))["items"]
        ]
        queues = {(kind, one["metadata"]["namespace"], "queue"): one for kind, one in listed}
    else:
        cluster = fresh_cluster(kubernetes=request.param, nodes=1)
        install(cluster, config)
        queues = furnish(cluster)
    with Webhook(config, queues) as webhook:
        register(cluster, config, certificates)
        wait_for_priorities(cluster)
        yield cluster, webhook, config


def test_the_webhook_makes_of_every_object_what_the_policies_make_of_it(
    hooked: tuple[Cluster, Webhook, Config], by_policy: tuple[Cluster, dict[str, JsonObject]]
) -> None:
    _, want = by_policy
    found = outcomes(hooked[0])
    assert {name: (found[name], want[name]) for name in want if found[name] != want[name]} == {}
    assert len(found) == len(QUEUES) * len((*PODS, *JOBS, *JOB_SETS))


def test_a_job_keeps_its_size_in_updates_under_the_webhook(hooked: tuple[Cluster, Webhook, Config]) -> None:
    cluster, _, _ = hooked
    body = copy.deepcopy(next(case.values[0] for case in JOBS if case.id == "large"))
    body["metadata"] = {"name": "keeps"}
    body["spec"]["suspend"] = True
    cluster.kubectl("create", "-n", "sized", "-f", "-", input=json.dumps(body))
    lie = {"labels": {"fairburst.dev/size": "small"}}
    patch = {"metadata": lie, "spec": {"template": {"metadata": lie}, "parallelism": 1}}
    cluster.kubectl("patch", "job", "keeps", "-n", "sized", "--type=merge", "-p", json.dumps(patch))
    kept = prioritized(json.loads(cluster.kubectl("get", "job", "keeps", "-n", "sized", "-o", "json")))
    assert (kept["labels"], kept["template"]) == ({"fairburst.dev/size": "large"}, {"fairburst.dev/size": "large"})


def test_the_webhook_is_not_even_asked_about_other_namespaces(hooked: tuple[Cluster, Webhook, Config]) -> None:
    """Unmanaged namespaces, and kube-system and the operator's own, whatever their labels say."""
    cluster, webhook, config = hooked
    cluster.kubectl("create", "namespace", "unmanaged")
    cluster.kubectl("create", "namespace", config.namespace, "--dry-run=client", "-o", "name")
    for where in ("kube-system", config.namespace):
        cluster.kubectl("label", "namespace", where, f"{MANAGED_LABEL}=true")
    webhook.asked.clear()
    for where in ("unmanaged", "kube-system", config.namespace):
        assert class_of(cluster, where) is None
    assert class_of(cluster, "hard") == "fairburst-hard"
    assert set(webhook.asked) == {"hard"}


def test_an_expired_certificate_leaves_pods_without_a_priority_and_refuses_them_only_where_a_gate_must_not_be_missed(
    hooked: tuple[Cluster, Webhook, Config], tmp_path: Path
) -> None:
    """The operator reports it, and takes up a good certificate without a restart of any process."""
    cluster, _, _ = hooked
    expired = write_certificates(tmp_path, days=0)
    config = settings(expired, free_port())
    with Webhook(config, {}) as late:
        until(lambda: certificate_valid(late) == 0.0 and late.problem, PATIENCE_SECONDS, "the server's own check")
        assert "expired" in (late.problem or "")
        register(cluster, config, expired)
        cluster.kubectl("label", "namespace", "gated", f"{HOLDS_LABEL}=Pods", "--overwrite")
        until(lambda: class_of(cluster, "hard") is None, PATIENCE_SECONDS, "the registration to be noticed")
        said = until(lambda: refusal(lambda: class_of(cluster, "gated")), PATIENCE_SECONDS, "a refusal where a gate must not be missed")
        assert "certificate has expired" in said
        for where, claim in claims():
            assert "certificate has expired" in refusal(lambda where=where, claim=claim: create_in(cluster, where, claim)), claim  # type: ignore[misc]
        assert late.asked == []
        for name, text in good_certificates(tmp_path).items():
            (expired / name).write_text(text)
        register(cluster, config, expired)
        until(
            lambda: class_of(cluster, "hard") == "fairburst-large", PATIENCE_SECONDS, "priorities with the new certificate (no queue known)"
        )
        assert class_of(cluster, "gated") == "fairburst-large"
    cluster.kubectl("label", "namespace", "gated", f"{HOLDS_LABEL}-")


def claims() -> list[tuple[str, JsonObject]]:
    """Return objects by which a tenant takes another place among the queues while no webhook answers, with their namespaces."""
    job = copy.deepcopy(next(case.values[0] for case in JOBS if case.id == "large"))
    job["metadata"] = {"name": "liar"}
    job["spec"]["template"]["metadata"] = {"labels": {"fairburst.dev/size": "small"}}
    return [
        ("hard", pod(priorityClassName="fairburst-queue-1")),
        ("sized", pod(priorityClassName="fairburst-hard")),
        ("sized", job),
    ]


def create_in(cluster: Cluster, where: str, body: JsonObject) -> str:
    return cluster.kubectl("create", "-n", where, "-f", "-", input=json.dumps(body))


def good_certificates(folder: Path) -> dict[str, str]:
    made = write_certificates(folder / "good")
    return {name: (made / name).read_text() for name in ("ca.crt", "tls.crt", "tls.key")}


def certificate_valid(webhook: Webhook) -> float | None:
    return webhook.metrics.registry.get_sample_value("fairburst_admission_certificate_valid")


def test_a_replica_that_stands_by_serves_the_webhook_too(hooked: tuple[Cluster, Webhook, Config], certificates: Path) -> None:
    """Whole processes: one decides, pods get their priority from the other. While none serves, pods are created all the same."""
    cluster, _, _ = hooked
    configs = [settings(certificates, free_port()) for _ in range(2)]
    shared = {"smallJobs": {"enabled": True}, "leaderElection": {"enabled": True}}
    overrides = [shared | {"webhook": config.webhook.model_dump(by_alias=True) | {"serverName": "localhost"}} for config in configs]
    with (
        OperatorProcess(cluster, overrides[0], name="webhook-0") as first,
        OperatorProcess(cluster, overrides[1], name="webhook-1", install=False) as second,
    ):
        until(lambda: first.metrics()["fairburst_leader"] == 1.0, PATIENCE_SECONDS, "the first to lead")
        assert second.metrics()["fairburst_leader"] == 0.0
        register(cluster, configs[1], certificates)
        cluster.kubectl("create", "namespace", "served")
        cluster.kubectl("create", "-f", "-", input=json.dumps(queue("LatencyQueue", BURST, "served")))
        until(lambda: class_of(cluster, "served") == "fairburst-hard", PATIENCE_SECONDS, "the priority of a promised queue")
        until(lambda: second.metrics()["fairburst_admission_certificate_valid"] == 1.0, PATIENCE_SECONDS, "the certificate's check")
        assert second.metrics()['fairburst_admission_reviews_total{result="patched"}'] > 0
        second.stop()
        assert class_of(cluster, "served") is None
