"""A pod in an unmanaged namespace is touched by none of us: not by policy, webhook, operator or extender. By the API server's audit log."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.certificates import write_certificates
from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, free_port
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.admission.server import AUTHORITY, PATH
from fairburst.kube.install.webhook import mutating_webhook
from tests.support.scheduling import asking, nodes_of
from tests.support.work import create, task_job

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
OURS = "fairburst"


def workloads(where: str) -> list[JsonObject]:
    """A bare pod, first since nobody tries again for it where a new queue's quota holds one, a Job and a Deployment."""
    job = task_job(where, "job", 2, 2)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": where}, "spec": job["spec"]["template"]["spec"]}
    labels = {"app": "served"}
    template = {"metadata": {"labels": labels}, "spec": {**job["spec"]["template"]["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return [pod, job, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "served", "namespace": where}, "spec": spec}]


class Site:
    """A cluster that writes an audit log, and whose scheduler asks our extender."""

    def __init__(self, cluster: Cluster, extender: OperatorProcess) -> None:
        self.cluster, self.extender = cluster, extender

    def furnish(self, managed: str, unmanaged: str) -> None:
        """Both namespaces, one with a queue, and the same work in each, once the queue's priority is given."""
        for where in (managed, unmanaged):
            create(self.cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
        queue = {"apiVersion": "fairburst.dev/v1alpha1", "kind": "ThroughputQueue", "metadata": {"name": "queue", "namespace": managed}}
        create(self.cluster, queue | {"spec": {"reserve": "Off"}})
        until(lambda: self.prioritized(managed), PATIENCE_SECONDS, f"the priority of {managed}")
        for where in (managed, unmanaged):
            create(self.cluster, *workloads(where))
        for where in (managed, unmanaged):
            until(lambda where=where: nodes_of(self.cluster, where).total() == 5, PATIENCE_SECONDS, f"the pods of {where} to be bound")  # type: ignore[misc]

    def prioritized(self, where: str) -> bool:
        pod, _, _ = workloads(where)
        stored = json.loads(self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(pod)))
        return bool(stored["spec"].get("priorityClassName"))

    def pods(self, where: str) -> list[JsonObject]:
        found: list[JsonObject] = json.loads(self.cluster.kubectl("get", "pods", "-n", where, "-o", "json"))["items"]
        return found

    def audited(self, where: str) -> list[JsonObject]:
        """Every write to an object of the namespace, and to the namespace itself."""
        assert self.cluster.audit_log is not None
        entries = [json.loads(line) for line in self.cluster.audit_log.read_text().splitlines()]
        references = [(entry, entry.get("objectRef", {})) for entry in entries]
        return [entry for entry, one in references if where in (one.get("namespace"), one.get("name"))]


def writers(entries: list[JsonObject]) -> set[str]:
    return {entry["user"]["username"] for entry in entries}


def webhooks(entries: list[JsonObject]) -> set[str]:
    """Names of the mutating webhooks that the API server called for these requests."""
    notes = [text for one in entries for key, text in one.get("annotations", {}).items() if key.startswith("mutation.webhook")]
    return {json.loads(text)["webhook"] for text in notes}


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[Site]:
    port = free_port()
    cluster = fresh_cluster(nodes=4, node_cpu="8", node_memory="64Gi", audit=True, scheduler_configuration=asking(port))
    with OperatorProcess(cluster, {}, "extender", command="extender", port=port) as extender:
        yield Site(cluster, extender)


def untouched(site: Site, where: str) -> None:
    """What is stored of the namespace's pods is what their templates say, and nobody of ours wrote anything."""
    assert OURS not in writers(site.audited(where))
    assert [one for one in site.pods(where) if "fairburst" in json.dumps(one)] == []
    (bare,) = [one for one in site.pods(where) if one["metadata"]["name"] == "bare"]
    asked, _, _ = workloads(where)
    assert {key: bare["spec"][key] for key in asked["spec"] if key != "containers"} == {
        key: value for key, value in asked["spec"].items() if key != "containers"
    }
    assert bare["spec"]["priority"] == 0
    assert "schedulingGates" not in bare["spec"]
    assert site.cluster.kubectl("get", "resourcequota", "-n", where, "-o", "name") == ""
    labels = json.loads(site.cluster.kubectl("get", "namespace", where, "-o", "json"))["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": where}


def test_with_policies_and_extender(site: Site) -> None:
    with OperatorProcess(site.cluster, {}, "by-policy"):
        before = neutral(site)
        site.furnish("managed-by-policy", "unmanaged-by-policy")
        untouched(site, "unmanaged-by-policy")
        assert neutral(site) >= before + 5, "the extender was asked about each of them, and changed nothing"
        assert len(nodes_of(site.cluster, "managed-by-policy")) == 1, "and of managed ones it packs"
        assert len(nodes_of(site.cluster, "unmanaged-by-policy")) > 1
    managed = site.audited("managed-by-policy")
    assert OURS in writers(managed), "the log does show what we write"
    assert {one["spec"]["priorityClassName"] for one in site.pods("managed-by-policy")} == {"fairburst-large"}


def neutral(site: Site) -> float:
    return site.extender.metrics().get('fairburst_extender_requests_total{result="neutral",verb="filter"}', 0.0)


def test_with_the_webhook(site: Site, tmp_path: Path) -> None:
    """Last in this module: the policies are gone from here on."""
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        site.cluster.kubectl("delete", kind, "--all")
    certificates = write_certificates(tmp_path)
    webhook = {"enabled": True, "host": "127.0.0.1", "port": free_port(), "certificates": str(certificates)}
    config = parse_config(json.dumps({"webhook": webhook}))
    with OperatorProcess(site.cluster, {"webhook": webhook}, "by-webhook"):
        bundle = base64.b64encode((certificates / AUTHORITY).read_bytes()).decode()
        client = {"url": f"https://127.0.0.1:{config.webhook.port}{PATH}", "caBundle": bundle}
        site.cluster.kubectl("apply", "-f", "-", input=json.dumps(mutating_webhook(config, client)))
        site.furnish("managed-by-webhook", "unmanaged-by-webhook")
        untouched(site, "unmanaged-by-webhook")
    assert webhooks(site.audited("managed-by-webhook")) == {"priority.default.fairburst.dev"}, "the log does show calls of the webhook"
    assert webhooks(site.audited("unmanaged-by-webhook")) == set()
