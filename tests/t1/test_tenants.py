"""What tenants may not do, on a real control plane with RBAC: a table of attacks by their own service accounts, and what is permitted.

`team` has the cluster role edit in its namespaces. `landlord` has more than edit gives, as people who run their own namespaces often
have: everything about queues (status included) and quotas but the admin verbs, and changes to its namespaces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.install.manifests import Subject, all_manifests, to_yaml
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import GATE, HELD_ANNOTATION, HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, RELEASED_ANNOTATION
from fairburst.kube.queues.job_annotations import ORIGINAL
from tests.support.job_set_crd import install, job_set
from tests.support.job_sizes import THRESHOLD, container, job_manifest
from tests.support.prioritized_objects import namespace_labels
from tests.support.queues import queue

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
BATCH, BURSTS, FLOOR, OTHERS = "batch", "bursts", "floor", "others"  # the last is another tenant's
LARGE = {"className": "fairburst-large", "value": -2, "preemptionPolicy": "Never"}
SMALL = {"className": "fairburst-small", "value": -1, "preemptionPolicy": "Never"}
HARD = {"className": "fairburst-hard", "value": 2000, "preemptionPolicy": "Never"}
BURST = {
    "burst": {"resources": {"cpu": "8", "memory": "8Gi"}, "durationSeconds": 10},
    "arrival": {"sporadic": {"minInterarrivalSeconds": 60}},
}
LANDLORDS = [
    {
        "apiGroups": ["fairburst.dev"],
        "resources": ["*"],
        "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["resourcequotas", "resourcequotas/status"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers", "pods/status"], "verbs": ["*"]},
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]},
]


@dataclass(frozen=True)
class Account:
    """Somebody with a token of their own."""

    cluster: Cluster
    token: str = field(repr=False)

    def __call__(self, *arguments: str, body: JsonObject | None = None) -> str:
        """What kubectl says; raises ClusterError with the API server's words."""
        return self.cluster.kubectl(*arguments, f"--token={self.token}", input=None if body is None else json.dumps(body))

    def create(self, body: JsonObject, namespace: str) -> JsonObject:
        created: JsonObject = json.loads(self("create", "-n", namespace, "-f", "-", "-o", "json", body=body))
        return created

    def patch(self, kind: str, name: str, namespace: str, patch: Any, subresource: str = "", form: str = "merge") -> None:
        more = [f"--subresource={subresource}"] if subresource else []
        self("patch", kind, name, "-n", namespace, f"--type={form}", "-p", json.dumps(patch), *more)


@dataclass(frozen=True)
class Site:
    cluster: Cluster
    team: Account
    landlord: Account
    steward: Account

    def admin(self, *arguments: str, body: JsonObject | None = None) -> str:
        return self.cluster.kubectl(*arguments, input=None if body is None else json.dumps(body))

    def get(self, kind: str, name: str, namespace: str) -> JsonObject:
        found: JsonObject = json.loads(self.admin("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    def events(self, namespace: str, involved: str) -> str:
        listed = json.loads(self.admin("get", "events", "-n", namespace, "-o", "json"))["items"]
        return "\n".join(one["message"] for one in listed if one["involvedObject"]["name"] == involved)


def pod(name: str = "", class_name: str | None = None, **metadata: Any) -> JsonObject:
    spec: JsonObject = {"containers": [{"name": "c", "image": "work", **container()}]}
    if class_name is not None:
        spec["priorityClassName"] = class_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": ({"name": name} if name else {"generateName": "p-"}) | metadata, "spec": spec}


def gated(name: str, *gates: str) -> JsonObject:
    body = pod(name)
    body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return body


def placed(node: str) -> JsonObject:
    body = pod()
    body["spec"]["nodeName"] = node
    return body


def placed_job(name: str) -> JsonObject:
    body = job(name)
    body["spec"]["template"]["spec"]["nodeName"] = "node-000"
    return body


def owner(kind: str, api: str) -> JsonObject:
    """An ownerReference to something that need not exist."""
    return {"apiVersion": api, "kind": kind, "name": "mine", "uid": "8d5e9b2c-0000-4000-8000-000000000000", "controller": True}


def quota(name: str, **labels: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "labels": labels}, "spec": {"hard": {"pods": "900"}}}


def daemon_set(name: str, class_name: str) -> JsonObject:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(class_name=class_name)["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def job(name: str, suspend: bool = False, class_name: str | None = None, **annotations: str) -> JsonObject:
    body = job_manifest(suspend=suspend)
    body["metadata"] = {"name": name, "annotations": annotations}
    if class_name is not None:
        body["spec"]["template"]["spec"]["priorityClassName"] = class_name
    return body


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> Site:
    """Managed namespaces with a queue of each kind and with none; no operator runs, so what is found was not put back by one."""
    cluster = fresh_cluster(nodes=2)
    config = parse_config("smallJobs: {enabled: true}")
    cluster.kubectl("apply", "-f", "-", input=to_yaml(all_manifests(config, Subject(user="fairburst"))))
    cluster.kubectl("wait", "--for=condition=Established", "crd/throughputqueues.fairburst.dev", "--timeout=60s")
    return prepared(cluster)


def prepared(cluster: Cluster) -> Site:
    """The namespaces, their queues and the accounts, in a cluster where fairburst is installed and no operator runs.

    Its kubeconfig's own user must have a token: a client certificate would go before that of an account.
    """
    for name in (BATCH, BURSTS, FLOOR, OTHERS):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("label", "namespace", name, f"{MANAGED_LABEL}=true")
    mine = (BATCH, BURSTS, FLOOR)
    made = Site(cluster, *(account(cluster, name) for name in ("team", "landlord", "steward")))
    grant(cluster, "team", "edit", mine)
    grant(cluster, "landlord", "edit", mine)
    cluster_role(cluster, "landlords", LANDLORDS)
    grant(cluster, "landlord", "landlords", mine)
    namespaces = ["namespaces", "namespaces/status", "namespaces/finalize"]
    rule = {"apiGroups": [""], "resources": namespaces, "resourceNames": [*mine], "verbs": ["get", "update", "patch"]}
    cluster_role(cluster, "own-namespaces", [rule])
    cluster.kubectl("create", "clusterrolebinding", "own-namespaces", "--clusterrole=own-namespaces", f"--serviceaccount={OTHERS}:landlord")
    grant(cluster, "steward", "fairburst-queues-admin.default", mine)
    for kind, where, spec, status in (
        ("ThroughputQueue", BATCH, {}, {"podPriority": LARGE, "smallPodPriority": SMALL, "sizeThreshold": THRESHOLD}),
        ("LatencyQueue", BURSTS, BURST, {"podPriority": HARD}),
        ("ThroughputQueue", OTHERS, {}, {}),
    ):
        made.admin("create", "-f", "-", body=queue(kind, spec, where))
        if status:
            made.admin("label", "namespace", where, "--overwrite", *(f"{key}={value}" for key, value in namespace_labels(status).items()))
        made.admin("patch", kind, "queue", "-n", where, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    for where in mine:
        made.admin("create", "-n", where, "-f", "-", body=quota("fairburst", **{POOL_LABEL: "default"}))
    made.admin("create", "-n", BATCH, "-f", "-", body=gated("waiting", "example.com/own", GATE))
    made.admin("create", "-n", BATCH, "-f", "-", body=job("held", suspend=True, **{HELD_ANNOTATION: "true"}))
    until(lambda: everything_acts(made), PATIENCE_SECONDS, "roles, queues and policies to be known everywhere")
    return made


def account(cluster: Cluster, name: str) -> Account:
    cluster.kubectl("create", "serviceaccount", name, "-n", OTHERS)
    return Account(cluster, cluster.kubectl("create", "token", name, "-n", OTHERS, "--duration=2h").strip())


def cluster_role(cluster: Cluster, name: str, rules: list[JsonObject]) -> None:
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    cluster.kubectl("create", "-f", "-", input=json.dumps(body))


def grant(cluster: Cluster, who: str, role: str, namespaces: tuple[str, ...]) -> None:
    for where in namespaces:
        binding = f"{who}-{role}".replace(".", "-")
        cluster.kubectl("create", "rolebinding", binding, "-n", where, f"--clusterrole={role}", f"--serviceaccount={OTHERS}:{who}")


def everything_acts(site: Site) -> bool:
    """Roles are aggregated and policies noticed within a second or so, each by itself."""
    try:
        site.team.patch("thrq", "queue", BATCH, {"metadata": {"labels": {"seen": "yes"}}})
    except ClusterError:
        return False
    prioritized = site.team.create(pod(), BURSTS)["spec"].get("priorityClassName")
    floor = site.team.create(pod(class_name="fairburst-hard"), FLOOR)["spec"].get("priorityClassName")
    sized = site.team.create(job_manifest() | {"metadata": {"generateName": "j-"}}, BATCH)["metadata"].get("labels", {}).get(SIZE_LABEL)
    probes: tuple[Callable[[], object], ...] = (
        lambda: site.team.create(pod(labels={SIZE_LABEL: "small"}), BATCH),
        lambda: site.team.create(job_manifest() | {"metadata": {"generateName": "j-", "annotations": {ORIGINAL: "9"}}}, BATCH),
        lambda: site.landlord.create(quota("fairburst-small"), BATCH),
        lambda: site.landlord.patch("thrq", "queue", BATCH, {"spec": {"weight": 2}}),
        lambda: site.landlord.patch("thrq", "queue", BATCH, {"status": {"share": "1%"}}, "status"),
        lambda: site.landlord.patch("namespace", BATCH, "", {"metadata": {"labels": {MANAGED_LABEL: "no"}}}),
    )
    refused = [refusal(probe) for probe in probes]
    if not all(refused):  # not yet: take back what went through
        site.admin("patch", "thrq", "queue", "-n", BATCH, "--type=merge", "-p", '{"spec": {"weight": 1}}')
        site.admin("label", "namespace", BATCH, f"{MANAGED_LABEL}=true", "--overwrite")
        site.admin("delete", "resourcequota", "fairburst-small", "-n", BATCH, "--ignore-not-found")
    return (prioritized, floor, sized) == ("fairburst-hard", "fairburst-large", "small") and all(refused)


def refusal(attempt: Callable[[], object]) -> str:
    """What the API server says to it; empty if it goes through."""
    try:
        attempt()
    except ClusterError as error:
        return str(error)
    return ""


def weigh(weight: int) -> JsonObject:
    return {"spec": {"weight": weight}}


def finalize_without_label(site: Site) -> None:
    """The subresource by which namespaces end writes labels too."""
    body = site.get("namespace", BATCH, "")
    body["metadata"]["labels"].pop(MANAGED_LABEL)
    site.landlord("replace", "--raw", f"/api/v1/namespaces/{BATCH}/finalize", "-f", "-", body=body)


def replace_without_gate(site: Site) -> None:
    body = site.get("pod", "waiting", BATCH)
    body["spec"]["schedulingGates"] = [{"name": "example.com/own"}]
    site.team("replace", "-f", "-", body=body)


def two_steps(site: Site) -> None:
    """A queue that belongs to something of the tenant's own could be deleted by deleting that."""
    mine = site.team.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "owner-"}}, BATCH)["metadata"]
    owned = {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": mine["name"], "uid": mine["uid"]}]}
    site.team.patch("thrq", "queue", BATCH, {"metadata": owned})


NODE = "spec.nodeName: expected none in a managed namespace, found node-000"
LIE = {"metadata": {"labels": {SIZE_LABEL: "small"}}}
CLASS = "spec.priorityClassName: expected none"
SIZE = f"expected {SIZE_LABEL} to stay what it was"
STAYS = f"expected {GATE} to stay"
QUOTAS = "expected the quotas fairburst, fairburst-large, fairburst-small"
LABEL = f"expected {MANAGED_LABEL} to stay true, found"
STATUS = "expected the status to be left to the operator"
FORBIDDEN = "cannot {} resource"
Attack = Callable[[Site], object]
GATE_OFF = [{"op": "remove", "path": "/spec/schedulingGates/1"}]

ATTACKS: list[Any] = [
    # Pods
    pytest.param(lambda s: s.team.create(pod(class_name="system-node-critical"), BATCH), CLASS, id="the system's class"),
    pytest.param(lambda s: s.team.create(pod(class_name="system-cluster-critical"), FLOOR), CLASS, id="the system's class at the floor"),
    pytest.param(
        lambda s: s.team.create(pod(ownerReferences=[owner("DaemonSet", "apps/v1")]), BATCH),
        "expected a DaemonSet only on pods that its controller creates, found one on a pod created by system:serviceaccount:others:team",
        id="a pod that says it is a DaemonSet's",
    ),
    pytest.param(
        lambda s: s.team.create(pod(ownerReferences=[owner("Job", "batch/v1")], labels={SIZE_LABEL: "small"}), BATCH),
        f"expected no {SIZE_LABEL}",
        id="a pod that says it is a small Job's",
    ),
    pytest.param(lambda s: s.team.create(placed("node-000"), BATCH), NODE, id="a pod on a node of its choice, past the gate"),
    pytest.param(lambda s: s.team.patch("pod", "waiting", BATCH, LIE), SIZE, id="size label of a pod"),
    pytest.param(lambda s: s.team.patch("pod", "waiting", BATCH, GATE_OFF, form="json"), STAYS, id="gate, by JSON patch"),
    pytest.param(
        lambda s: s.team.patch("pod", "waiting", BATCH, {"spec": {"schedulingGates": None}}), STAYS, id="all gates, by merge patch"
    ),
    pytest.param(replace_without_gate, STAYS, id="gate, by replacing the pod"),
    # DaemonSets
    pytest.param(
        lambda s: s.team.create(daemon_set("mine", ""), BATCH),
        "expected no DaemonSet in a managed namespace, found mine: its pods would be counted by no queue. Use a Deployment",
        id="a DaemonSet",
    ),
    # Jobs
    pytest.param(lambda s: s.team.create(job("marked", **{ORIGINAL: "500"}), BATCH), f"expected {ORIGINAL} to be left", id="mark of a Job"),
    pytest.param(
        lambda s: s.team.patch("job", "held", BATCH, {"metadata": {"annotations": {RELEASED_ANNOTATION: "now"}}}),
        f"expected {RELEASED_ANNOTATION} to be left",
        id="a Job that says it was released",
    ),
    pytest.param(lambda s: s.team.patch("job", "held", BATCH, {"spec": {"suspend": False}}), "stay suspended", id="resuming a held Job"),
    pytest.param(
        lambda s: s.team.patch("job", "held", BATCH, {"metadata": {"annotations": {HELD_ANNOTATION: None}}}),
        "stay suspended",
        id="making a held Job one's own",
    ),
    # Quotas
    pytest.param(
        lambda s: s.team.patch("quota", "fairburst", BATCH, {"spec": {"hard": {"pods": "999"}}}), FORBIDDEN, id="quota, with edit alone"
    ),
    pytest.param(lambda s: s.landlord.patch("quota", "fairburst", BATCH, {"spec": {"hard": {"pods": "999"}}}), QUOTAS, id="quota"),
    pytest.param(
        lambda s: s.landlord.patch("quota", "fairburst", BATCH, {"status": {"hard": {"pods": "999"}}}, "status"),
        QUOTAS,
        id="what the quota enforces",
    ),
    pytest.param(
        lambda s: s.landlord.patch("quota", "fairburst", BATCH, {"metadata": {"labels": {POOL_LABEL: None}}}), QUOTAS, id="pool label"
    ),
    pytest.param(lambda s: s.landlord("delete", "quota", "fairburst", "-n", BATCH), QUOTAS, id="deleting the quota"),
    pytest.param(lambda s: s.landlord("delete", "quota", "--all", "-n", BATCH), QUOTAS, id="deleting all quotas"),
    pytest.param(lambda s: s.landlord.create(quota("fairburst-small"), BATCH), QUOTAS, id="a quota under our name"),
    pytest.param(lambda s: s.landlord.create(quota("mine", **{POOL_LABEL: "default"}), BATCH), QUOTAS, id="a quota with our label"),
    # Queues
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, weigh(5)),
        "spec.weight: expected 1, found 5; another value takes the verb weigh on throughputqueues",
        id="weight",
    ),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, weigh(5)), "takes the verb weigh on latencyqueues", id="weight of a latency queue"
    ),
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"enforcement": "Observe"}}), "the verb enforce", id="leaving enforcement"
    ),
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"reclaim": "Evict"}}),
        "spec.reclaim: expected Never, found Evict; another value takes the verb reclaim on throughputqueues",
        id="taking by eviction",
    ),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, {"spec": {"reclaim": "Evict"}}),
        "takes the verb reclaim on latencyqueues",
        id="a burst that takes by eviction",
    ),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", {"reclaim": "Evict"}, FLOOR), FLOOR),
        "the verb reclaim",
        id="a new queue that takes by eviction",
    ),
    pytest.param(lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"pool": "gpu"}}), "pool", id="moving to another pool"),
    pytest.param(two_steps, "the verb remove", id="an owner to delete the queue with"),
    pytest.param(lambda s: s.team("delete", "thrq", "queue", "-n", BATCH), FORBIDDEN, id="deleting the queue, with edit alone"),
    pytest.param(lambda s: s.landlord("delete", "thrq", "queue", "-n", BATCH), "the verb remove", id="deleting the queue"),
    pytest.param(lambda s: s.landlord("delete", "thrq", "--all", "-n", BATCH), "the verb remove", id="deleting all queues"),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", weigh(7)["spec"], FLOOR), FLOOR), "the verb weigh", id="a new heavy queue"
    ),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", {"enforcement": "Observe"}, FLOOR), FLOOR),
        "the verb enforce",
        id="a new queue that nothing holds",
    ),
    pytest.param(
        lambda s: s.landlord.create(queue("ThroughputQueue", {"pool": "nobodys"}, FLOOR), FLOOR),
        "the verb assign",
        id="a new queue of a pool that nobody serves",
    ),
    pytest.param(lambda s: s.landlord.create(queue("LatencyQueue", BURST, OTHERS, "claim"), OTHERS), FORBIDDEN, id="another's namespace"),
    pytest.param(lambda s: s.landlord.create(queue("LatencyQueue", BURST, "kube-system"), "kube-system"), FORBIDDEN, id="kube-system"),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, {"status": {"podPriority": HARD}}, "status"),
        FORBIDDEN,
        id="status, with edit alone",
    ),
    pytest.param(lambda s: s.landlord.patch("latq", "queue", BURSTS, {"status": {"class": "Hard"}}, "status"), STATUS, id="status"),
    pytest.param(lambda s: s.landlord.patch("thrq", "queue", BATCH, {"status": {"podPriority": HARD}}, "status"), STATUS, id="podPriority"),
    # Namespaces
    pytest.param(lambda s: s.team("label", "namespace", BATCH, f"{MANAGED_LABEL}-"), FORBIDDEN, id="managed label, with edit alone"),
    pytest.param(lambda s: s.landlord("label", "namespace", BATCH, f"{MANAGED_LABEL}-"), LABEL, id="taking the managed label off"),
    pytest.param(
        lambda s: s.landlord("label", "namespace", BATCH, f"{MANAGED_LABEL}=false", "--overwrite"), LABEL, id="changing the managed label"
    ),
    pytest.param(
        lambda s: s.landlord("label", "namespace", BATCH, f"{HOLDS_LABEL}=Pods"),
        f"expected {HOLDS_LABEL} to stay absent, found Pods",
        id="a label by which creations would wait for the webhook",
    ),
    pytest.param(finalize_without_label, LABEL, id="taking the managed label off by a subresource"),
]


@pytest.mark.parametrize(("attack", "want_message"), ATTACKS)
def test_an_attack_is_refused_with_a_message_that_says_why(site: Site, attack: Attack, want_message: str) -> None:
    said = refusal(lambda: attack(site))
    pattern = r"cannot \w+ resource" if want_message is FORBIDDEN else re.escape(want_message)
    assert re.search(pattern, said), said or "it went through"


@pytest.fixture(scope="module")
def with_job_sets(site: Site) -> Site:
    """The same with the JobSet kind, and a JobSet that we hold. Not in `prepared`: a cluster of users may have the real kind."""
    install(site.cluster, BATCH)
    held = job_set(BATCH, "held-set", pod()["spec"] | {"restartPolicy": "Never"}, 2, 3)
    held["metadata"]["annotations"], held["spec"]["suspend"] = {HELD_ANNOTATION: "true"}, True
    site.admin("create", "-f", "-", body=held)
    forged = {"metadata": {"annotations": {RELEASED_ANNOTATION: "now"}}}
    until(
        lambda: refusal(lambda: site.landlord.patch("jobset", "held-set", BATCH, forged)), PATIENCE_SECONDS, "the rules about the new kind"
    )
    return site


@pytest.mark.parametrize(
    ("patch", "want_message"),
    [
        pytest.param({"spec": {"suspend": False}}, "stay suspended", id="resuming it"),
        pytest.param({"metadata": {"annotations": {HELD_ANNOTATION: None}}}, "stay suspended", id="making it one's own"),
        pytest.param(
            {"metadata": {"annotations": {RELEASED_ANNOTATION: "now"}}},
            f"expected {RELEASED_ANNOTATION} to be left",
            id="saying that it was released",
        ),
    ],
)
def test_a_held_job_set_is_let_go_by_the_operator_alone(with_job_sets: Site, patch: JsonObject, want_message: str) -> None:
    assert want_message in refusal(lambda: with_job_sets.landlord.patch("jobset", "held-set", BATCH, patch))


def test_a_job_set_that_nobody_holds_is_its_owners(with_job_sets: Site) -> None:
    own = job_set(BATCH, "own-set", pod()["spec"] | {"restartPolicy": "Never"}, 2, 3)
    with_job_sets.landlord.create(own | {"spec": own["spec"] | {"suspend": True}}, BATCH)
    with_job_sets.landlord.patch("jobset", "own-set", BATCH, {"spec": {"suspend": False}})
    with_job_sets.landlord("delete", "jobset", "own-set", "held-set", "-n", BATCH)


@pytest.mark.parametrize(
    ("make", "want_message"),
    [
        pytest.param(lambda name: job(name, class_name="system-node-critical"), CLASS, id="a Job naming the system's class"),
        pytest.param(placed_job, NODE, id="a Job that names its node"),
        pytest.param(lambda name: daemon_set(name, "system-node-critical"), CLASS, id="an admin's DaemonSet naming the system's class"),
        pytest.param(
            lambda name: daemon_set(name, "fairburst-hard"),
            "expected none of the queues' classes on a DaemonSet's pod, found fairburst-hard",
            id="an admin's DaemonSet naming a queue's class",
        ),
    ],
)
def test_pods_from_a_template_are_refused_too_and_their_controller_says_why(
    site: Site, request: pytest.FixtureRequest, make: Callable[[str], JsonObject], want_message: str
) -> None:
    name = f"attack-{abs(hash(request.node.name))}"
    site.admin("create", "-n", BATCH, "-f", "-", body=make(name))
    until(lambda: want_message in site.events(BATCH, name), PATIENCE_SECONDS, f"an event on {name} with {want_message!r}")
    pods = json.loads(site.admin("get", "pods", "-n", BATCH, "-o", "json"))["items"]
    assert [one for one in pods if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences", ()))] == []


@pytest.mark.parametrize("named", ["fairburst-hard", "fairburst-soft", "fairburst-small", "fairburst-large", None])
@pytest.mark.parametrize(("where", "want"), [(BURSTS, HARD), (BATCH, LARGE), (FLOOR, LARGE)])
def test_whatever_class_a_pod_names_it_gets_that_of_its_queue_or_the_lowest(
    site: Site, named: str | None, where: str, want: JsonObject
) -> None:
    """Overwritten, not refused: who copies a pod from elsewhere should not have to know our classes."""
    spec = site.team.create(pod(class_name=named), where)["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (*want.values(),)


def test_a_size_that_no_queue_has_given_is_taken_off_a_job(site: Site) -> None:
    """Else a Job made before its namespace has a queue would be small by its own word."""
    liar = job("liar")
    liar["metadata"]["labels"] = {SIZE_LABEL: "small"}
    liar["spec"]["template"]["metadata"] = {"labels": {SIZE_LABEL: "small", "app": "mine"}}
    stored = site.team.create(liar, FLOOR)
    assert SIZE_LABEL not in stored["metadata"].get("labels", {})
    assert stored["spec"]["template"]["metadata"]["labels"].get("app") == "mine"
    assert SIZE_LABEL not in stored["spec"]["template"]["metadata"]["labels"]
    assert SIZE in refusal(lambda: site.team.patch("job", "liar", FLOOR, LIE))


def test_a_status_in_a_new_queue_counts_for_nothing(site: Site) -> None:
    born_hard = queue("LatencyQueue", BURST, FLOOR, "born-hard") | {"status": {"class": "Hard", "podPriority": HARD}}
    assert "status" not in site.landlord.create(born_hard, FLOOR)
    site.admin("delete", "latq", "born-hard", "-n", FLOOR)


PERMITTED: list[Any] = [
    pytest.param(lambda s: s.team.patch("latq", "queue", BURSTS, {"spec": {"burst": {"durationSeconds": 9}}}), id="another burst"),
    pytest.param(
        lambda s: s.team.patch("latq", "queue", BURSTS, {"spec": {"arrival": {"sporadic": {"minInterarrivalSeconds": 90}}}}), id="arrival"
    ),
    pytest.param(
        lambda s: s.team.patch("thrq", "queue", BATCH, {"spec": {"limits": {"cpu": "30"}, "suspended": True}}), id="less for oneself"
    ),
    pytest.param(lambda s: s.team.patch("thrq", "queue", BATCH, weigh(1)), id="the weight that it has"),
    pytest.param(lambda s: s.landlord.create(queue("ThroughputQueue", {}, FLOOR, "plain"), FLOOR), id="a queue with nothing special"),
    pytest.param(
        lambda s: s.team.patch("pod", "waiting", BATCH, {"metadata": {"labels": {"mine": "yes"}, "annotations": {"a": "b"}}}),
        id="labels and annotations of one's own",
    ),
    pytest.param(lambda s: s.team.create(gated("own-gate", "example.com/own"), BATCH), id="a gate of one's own"),
    pytest.param(
        lambda s: s.team.patch("pod", "own-gate", BATCH, {"spec": {"schedulingGates": None}}), id="taking a gate of one's own off"
    ),
    pytest.param(lambda s: s.team.create(job("permitted", suspend=True), BATCH), id="a suspended Job"),
    pytest.param(lambda s: s.team.patch("job", "permitted", BATCH, {"spec": {"suspend": False, "parallelism": 3}}), id="resuming it"),
    pytest.param(lambda s: s.team("delete", "job", "permitted", "-n", BATCH), id="deleting it"),
    pytest.param(lambda s: s.team("delete", "job", "held", "-n", BATCH, "--dry-run=server"), id="deleting a held Job"),
    pytest.param(lambda s: s.team("delete", "pod", "waiting", "-n", BATCH, "--dry-run=server"), id="deleting a gated pod"),
    pytest.param(lambda s: s.landlord.create(quota("own"), BATCH), id="a quota of one's own"),
    pytest.param(lambda s: s.landlord("delete", "quota", "own", "-n", BATCH), id="deleting it too"),
    pytest.param(lambda s: s.landlord("label", "namespace", BATCH, "mine=yes"), id="labels of a namespace of one's own"),
    pytest.param(lambda s: s.steward.patch("thrq", "queue", BATCH, weigh(5)), id="weight, by an administrator of queues"),
    pytest.param(
        lambda s: s.steward.patch("latq", "queue", BURSTS, {"spec": {"reclaim": "Evict"}}), id="reclaim, by an administrator of queues"
    ),
    pytest.param(
        lambda s: s.steward.patch("thrq", "queue", BATCH, {"spec": {"enforcement": "Observe"}}),
        id="enforcement, by an administrator of queues",
    ),
    pytest.param(
        lambda s: s.steward("delete", "thrq", "queue", "-n", BATCH, "--dry-run=server"), id="deletion, by an administrator of queues"
    ),
    pytest.param(lambda s: s.admin("label", "namespace", FLOOR, f"{MANAGED_LABEL}-", "--dry-run=server"), id="anything, by cluster-admin"),
]


@pytest.mark.parametrize("action", PERMITTED)
def test_what_is_permitted_passes(site: Site, action: Attack) -> None:
    assert refusal(lambda: action(site)) == ""


def test_a_debugging_container_is_permitted_and_carries_nothing_else_in(site: Site) -> None:
    site.team.create(gated("debugged", GATE), BATCH)
    body = site.get("pod", "debugged", BATCH)
    body["spec"] |= {"ephemeralContainers": [{"name": "debug", "image": "work"}], "schedulingGates": []}
    body["metadata"]["labels"] = {SIZE_LABEL: "small"}
    site.landlord("replace", "--raw", f"/api/v1/namespaces/{BATCH}/pods/debugged/ephemeralcontainers", "-f", "-", body=body)
    found = site.get("pod", "debugged", BATCH)
    assert found["spec"]["ephemeralContainers"][0]["name"] == "debug"
    assert found["spec"]["schedulingGates"] == [{"name": GATE}]
    assert SIZE_LABEL not in found["metadata"].get("labels", {})


@pytest.fixture(scope="module")
def operated(site: Site) -> Iterator[Site]:
    """The same with the operator running; the tests below come last in this file."""
    with OperatorProcess(site.cluster, {"smallJobs": {"enabled": True}}, name="tenants"):
        yield site


def test_the_operator_does_its_work_under_the_rules(operated: Site) -> None:
    """It writes the quota in place of what was there, statuses and priorities; a Job's pods start through the controllers."""
    until(lambda: operated.get("latq", "queue", BURSTS)["status"].get("class") == "Hard", PATIENCE_SECONDS, "the burst to be promised")
    until(
        lambda: "requests.cpu" in operated.get("quota", "fairburst", BURSTS)["spec"]["hard"], PATIENCE_SECONDS, "the operator's own quota"
    )
    operated.team.create(job("works"), BURSTS)
    until(lambda: operated.get("job", "works", BURSTS)["status"].get("active"), PATIENCE_SECONDS, "the Job's pods")
    operated.admin("label", "namespace", BURSTS, f"{MANAGED_LABEL}-")
    until(
        lambda: operated.get("namespace", BURSTS, "")["metadata"]["labels"].get(MANAGED_LABEL) == "true",
        PATIENCE_SECONDS,
        "the operator to put the label back",
    )


def test_garbage_and_namespaces_are_still_collected(operated: Site) -> None:
    """Deleting a queue leaves its quota, deleting a namespace takes everything, which controllers do."""
    where = "ending"
    operated.admin("create", "namespace", where)
    operated.admin("create", "-f", "-", body=queue("ThroughputQueue", {}, where))
    first = until(lambda: uid_of(operated, "quota", "fairburst", where), PATIENCE_SECONDS, "the queue's quota")
    operated.admin("delete", "thrq", "queue", "-n", where)
    until(lambda: not uid_of(operated, "thrq", "queue", where), PATIENCE_SECONDS, "the queue to be gone")
    assert uid_of(operated, "quota", "fairburst", where) == first
    operated.admin("delete", "namespace", where, "--wait=false")
    until(lambda: not uid_of(operated, "namespace", where, ""), PATIENCE_SECONDS, "the namespace to be gone")


def uid_of(site: Site, kind: str, name: str, namespace: str) -> str:
    """Empty where there is none."""
    return site.admin("get", kind, name, "-n", namespace, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
