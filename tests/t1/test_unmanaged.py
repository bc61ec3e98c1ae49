"""Policy, webhook, operator and extender leave pods of unmanaged namespaces alone, as the API server's audit log shows."""

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
from tests.support.audit import Entry, audited
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.scheduling import asking, nodes_of
from tests.support.work import deployment, job, namespace, pod, pod_spec

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
OURS = "fairburst"


def workloads(where: str) -> list[JsonObject]:
    """A bare pod, a Job and a Deployment. The bare pod is first, since a new quota may hold only one and no controller retries it."""
    spec = pod_spec(memory="1Gi", grace_seconds=30)
    return [pod(where, "bare", spec), job(where, "job", 2, spec), deployment(where, "served", 2, spec)]


class AuditedCluster(LiveCluster):
    """A cluster that writes an audit log, and whose scheduler asks our extender."""

    def __init__(self, cluster: Cluster, extender: OperatorProcess) -> None:
        super().__init__(cluster)
        self.extender = extender

    def furnish(self, managed: str, unmanaged: str) -> None:
        """Create both namespaces, one with a queue, and the same work in each once new pods get the queue's priority."""
        self.create(namespace(managed), namespace(unmanaged), queue("ThroughputQueue", {"reserve": "Off"}, managed))
        until(lambda: self.priority_of(pod(managed, "probe")), PATIENCE_SECONDS, f"the priority of {managed}")
        for where in (managed, unmanaged):
            self.create(*workloads(where))
        for where in (managed, unmanaged):
            until(lambda where=where: self.occupying(where) == 5, PATIENCE_SECONDS, f"the pods of {where} to be bound")  # type: ignore[misc]

    def audited(self, where: str) -> list[Entry]:
        """Every write to an object of the namespace, and to the namespace itself."""
        references = [(entry, entry.get("objectRef", {})) for entry in audited(self.cluster)]
        return [entry for entry, one in references if where in (one.get("namespace"), one.get("name"))]


def writers(entries: list[Entry]) -> set[str]:
    return {entry["user"]["username"] for entry in entries}


def webhooks(entries: list[Entry]) -> set[str]:
    """Return the names of the mutating webhooks that the API server called for these requests."""
    notes = [text for one in entries for key, text in one.get("annotations", {}).items() if key.startswith("mutation.webhook")]
    return {json.loads(text)["webhook"] for text in notes}


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Iterator[AuditedCluster]:
    port = free_port()
    cluster = fresh_cluster(nodes=4, node_cpu="8", node_memory="64Gi", audit=True, scheduler_configuration=asking(port))
    with OperatorProcess(cluster, {}, "extender", command="extender", port=port) as extender:
        yield AuditedCluster(cluster, extender)


def untouched(site: AuditedCluster, where: str) -> None:
    """The namespace's pods are stored as their templates say, and none of our processes wrote anything."""
    assert OURS not in writers(site.audited(where))
    assert [one for one in site.items("pods", where) if "fairburst" in json.dumps(one)] == []
    (bare,) = [one for one in site.items("pods", where) if one["metadata"]["name"] == "bare"]
    asked, _, _ = workloads(where)
    assert {key: bare["spec"][key] for key in asked["spec"] if key != "containers"} == {
        key: value for key, value in asked["spec"].items() if key != "containers"
    }
    assert bare["spec"]["priority"] == 0
    assert "schedulingGates" not in bare["spec"]
    assert site.cluster.kubectl("get", "resourcequota", "-n", where, "-o", "name") == ""
    labels = site.get("namespace", where)["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": where}


def test_with_policies_and_extender(site: AuditedCluster) -> None:
    with OperatorProcess(site.cluster, {}, "by-policy"):
        before = neutral(site)
        site.furnish("managed-by-policy", "unmanaged-by-policy")
        untouched(site, "unmanaged-by-policy")
        assert neutral(site) >= before + 5, "the extender was asked about each of them, and changed nothing"
        assert len(nodes_of(site.cluster, "managed-by-policy")) == 1, "and of managed ones it packs"
        assert len(nodes_of(site.cluster, "unmanaged-by-policy")) > 1
    managed = site.audited("managed-by-policy")
    assert OURS in writers(managed), "the log does show what we write"
    assert {one["spec"]["priorityClassName"] for one in site.items("pods", "managed-by-policy")} == {"fairburst-large"}


def neutral(site: AuditedCluster) -> float:
    return site.extender.metrics().get('fairburst_extender_requests_total{result="neutral",verb="filter"}', 0.0)


def test_with_the_webhook(site: AuditedCluster, tmp_path: Path) -> None:
    """This test must be the last: it deletes the policies."""
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        site.cluster.kubectl("delete", kind, "--all")
    certificates = write_certificates(tmp_path)
    webhook = {"enabled": True, "host": "127.0.0.1", "port": free_port(), "certificates": str(certificates)}
    config = parse_config(json.dumps({"webhook": webhook}))
    with OperatorProcess(site.cluster, {"webhook": webhook}, "by-webhook"):
        bundle = base64.b64encode((certificates / AUTHORITY).read_bytes()).decode()
        client = {"url": f"https://127.0.0.1:{config.webhook.port}{PATH}", "caBundle": bundle}
        site.create(mutating_webhook(config, client))
        site.furnish("managed-by-webhook", "unmanaged-by-webhook")
        untouched(site, "unmanaged-by-webhook")
    assert webhooks(site.audited("managed-by-webhook")) == {"priority.default.fairburst.dev"}, "the log does show calls of the webhook"
    assert webhooks(site.audited("unmanaged-by-webhook")) == set()
