"""A quota's temporary part ends by itself when no operator renews it, on a real control plane in which no operator runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import Cluster
from e2e.objects import objects_of
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.enforce.expiry import expiry_annotations
from fairburst.kube.enforce.namespace_labels import BY_QUEUE, HARD
from fairburst.kube.enforce.quota_scope import SCOPES, Scope, default_scope
from fairburst.kube.install.expiry_policy import expiry_policy
from fairburst.kube.names import LANE_CLASSES, LANE_QUOTAS, MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL, QUOTA_NAME
from tests.support import work
from tests.support.job_sizes import container
from tests.support.live_cluster import refusal

pytestmark = pytest.mark.t1

LASTING = {"requests.cpu": "1", "requests.memory": "100Gi"}
REFUSED = "no operator has renewed it"


class Namespace:
    """A managed namespace with a quota of 10 cores, of which one lasts; each pod requests one."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.objects, self.name = objects_of(cluster.kubeconfig), name
        self.objects.create(work.namespace(name, **{MANAGED_LABEL: "true"}))

    def quota(self, expires: float | None, name: str = QUOTA_NAME, scope: Scope | None = None) -> None:
        """Write the quota; it is enforced when this returns."""
        annotations = {} if expires is None else expiry_annotations(expires, LASTING)
        metadata = {"name": name, "namespace": self.name, "annotations": annotations, "labels": {POOL_LABEL: "default"}}
        hard = {"requests.cpu": "10", "requests.memory": "100Gi"}
        spec = {"hard": hard} | ({} if scope is None else {"scopeSelector": scope.body()})
        self.objects.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})
        counted = lambda: "used" in self.objects.get("resourcequota", name, self.name).get("status", {})  # noqa: E731
        until(counted, PATIENCE_SECONDS, "the quota to be counted")

    def pod(self, priority_class: str = "") -> None:
        """Create a pod; raises ClusterError with the API server's words."""
        spec = {"containers": [{"name": "c", "image": "work", **container()}], "priorityClassName": priority_class}
        metadata = {"generateName": "p-", "namespace": self.name}
        self.objects.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def refusal(self, priority_class: str = "") -> str:
        """Return the API server's words if it refuses another pod, else an empty text."""
        return refusal(lambda: self.pod(priority_class))


@pytest.fixture(scope="module")
def cluster(fresh_cluster: Callable[..., Cluster]) -> Cluster:
    made: Cluster = fresh_cluster(nodes=1)
    work.create(made, *expiry_policy(parse_config("")))
    probe = Namespace(made, "probe")
    probe.quota(time.time() - 60)
    until(lambda: REFUSED in probe.refusal(), PATIENCE_SECONDS, "the policy to be known to the API server")
    return made


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    made = Namespace(cluster, request.node.name.replace("_", "-")[5:60].strip("-"))
    yield made
    cluster.kubectl("delete", "namespace", made.name, "--wait=false")


def test_before_it_expires_a_quota_permits_its_temporary_part(namespace: Namespace) -> None:
    namespace.quota(time.time() + 600)
    for _ in range(3):
        namespace.pod()


def test_after_it_has_expired_the_lasting_part_is_still_permitted_and_no_more(namespace: Namespace) -> None:
    namespace.quota(time.time() - 1)
    namespace.pod()
    until(lambda: REFUSED in namespace.refusal(), PATIENCE_SECONDS, "pods above the lasting part to be refused")


def test_it_expires_while_nothing_is_written(namespace: Namespace) -> None:
    namespace.quota(time.time() + 4)
    namespace.pod()
    namespace.pod()
    time.sleep(5)
    assert REFUSED in namespace.refusal()


def test_a_renewed_quota_permits_its_temporary_part_again(namespace: Namespace) -> None:
    namespace.quota(time.time() - 1)
    namespace.pod()
    until(lambda: REFUSED in namespace.refusal(), PATIENCE_SECONDS, "pods above the lasting part to be refused")
    namespace.quota(time.time() + 600)
    until(lambda: not namespace.refusal(), PATIENCE_SECONDS, "pods to be permitted again")


def test_a_quota_without_a_temporary_part_never_expires(namespace: Namespace) -> None:
    namespace.quota(None)
    for _ in range(3):
        namespace.pod()


def test_annotations_that_cannot_be_read_refuse_no_pod(namespace: Namespace) -> None:
    namespace.quota(time.time() - 1)
    change = {"metadata": {"annotations": {"fairburst.dev/lasting": "nonsense"}}}
    namespace.objects.patch("resourcequota", QUOTA_NAME, namespace.name, change)
    time.sleep(1)
    for _ in range(3):
        namespace.pod()


def test_where_queues_share_a_namespace_each_ones_quota_expires_for_its_own_pods(cluster: Cluster, namespace: Namespace) -> None:
    cluster.kubectl("create", "priorityclass", LANE_CLASSES[1], "--value=1")
    cluster.kubectl("label", "namespace", namespace.name, f"{PRIORITY_LABEL}={BY_QUEUE[HARD]}")
    namespace.quota(time.time() - 1, scope=default_scope([1]))
    namespace.quota(time.time() + 600, LANE_QUOTAS[1], SCOPES[LANE_QUOTAS[1]])
    until(lambda: f"the quota {QUOTA_NAME} of" in namespace.refusal(), PATIENCE_SECONDS, "the default queue's pods to be refused")
    for _ in range(2):
        namespace.pod(LANE_CLASSES[1])
    namespace.quota(time.time() - 1, LANE_QUOTAS[1], SCOPES[LANE_QUOTAS[1]])
    until(lambda: f"the quota {LANE_QUOTAS[1]} of" in namespace.refusal(LANE_CLASSES[1]), PATIENCE_SECONDS, "those of the lane, too")
    namespace.quota(time.time() + 600, scope=default_scope([1]))
    until(lambda: not namespace.refusal(), PATIENCE_SECONDS, "the default queue's pods to be permitted again")
    assert LANE_QUOTAS[1] in namespace.refusal(LANE_CLASSES[1])
