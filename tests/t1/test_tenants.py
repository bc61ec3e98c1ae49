"""Attacks by tenants' own service accounts on a real control plane with RBAC, and actions that are permitted.

tests/support/tenants.py describes the accounts, tests/support/tenant_attacks.py has the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import GATE, HELD_ANNOTATION, MANAGED_LABEL, RELEASED_ANNOTATION
from tests.support import live_cluster
from tests.support.job_set_crd import install, job_set
from tests.support.live_cluster import refusal
from tests.support.queues import queue
from tests.support.tenant_attacks import ATTACKS, CLASS, FORBIDDEN, LIE, NODE, SIZE, Attack, weigh
from tests.support.tenants import (
    BATCH,
    BURST,
    BURSTS,
    FLOOR,
    HARD,
    LARGE,
    TenantCluster,
    daemon_set,
    gated,
    job,
    placed_job,
    pod,
    quota,
)  # fmt: skip

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster]) -> TenantCluster:
    """Managed namespaces with a queue of each kind and with none; no operator runs that could put changes back."""
    cluster = fresh_cluster(nodes=2)
    live_cluster.install(cluster, parse_config("smallJobs: {enabled: true}"))
    return TenantCluster(cluster)


@pytest.mark.parametrize(("attack", "want_message"), ATTACKS)
def test_an_attack_is_refused_with_a_message_that_says_why(site: TenantCluster, attack: Attack, want_message: str) -> None:
    said = refusal(lambda: attack(site))
    pattern = r"cannot \w+ resource" if want_message is FORBIDDEN else re.escape(want_message)
    assert re.search(pattern, said), said or "it went through"


@pytest.fixture(scope="module")
def with_job_sets(site: TenantCluster) -> TenantCluster:
    """The same with the JobSet kind, and a JobSet that we hold. Not in `TenantCluster`: a user's cluster may have the real kind."""
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
def test_a_held_job_set_is_let_go_by_the_operator_alone(with_job_sets: TenantCluster, patch: JsonObject, want_message: str) -> None:
    assert want_message in refusal(lambda: with_job_sets.landlord.patch("jobset", "held-set", BATCH, patch))


def test_a_job_set_that_nobody_holds_is_its_owners(with_job_sets: TenantCluster) -> None:
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
    site: TenantCluster, request: pytest.FixtureRequest, make: Callable[[str], JsonObject], want_message: str
) -> None:
    name = f"attack-{abs(hash(request.node.name))}"
    site.admin("create", "-n", BATCH, "-f", "-", body=make(name))
    until(lambda: want_message in site.events(BATCH, name), PATIENCE_SECONDS, f"an event on {name} with {want_message!r}")
    pods = site.items("pods", BATCH)
    assert [one for one in pods if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences", ()))] == []


@pytest.mark.parametrize("named", ["fairburst-hard", "fairburst-soft", "fairburst-small", "fairburst-large", None])
@pytest.mark.parametrize(("where", "want"), [(BURSTS, HARD), (BATCH, LARGE), (FLOOR, LARGE)])
def test_whatever_class_a_pod_names_it_gets_that_of_its_queue_or_the_lowest(
    site: TenantCluster, named: str | None, where: str, want: JsonObject
) -> None:
    """The class is overwritten, not refused: users who copy a pod from elsewhere need not know our classes."""
    spec = site.team.create(pod(class_name=named), where)["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (*want.values(),)


def test_a_size_that_no_queue_has_given_is_taken_off_a_job(site: TenantCluster) -> None:
    """Otherwise a Job that is created before its namespace has a queue could declare itself small."""
    liar = job("liar")
    liar["metadata"]["labels"] = {SIZE_LABEL: "small"}
    liar["spec"]["template"]["metadata"] = {"labels": {SIZE_LABEL: "small", "app": "mine"}}
    stored = site.team.create(liar, FLOOR)
    assert SIZE_LABEL not in stored["metadata"].get("labels", {})
    assert stored["spec"]["template"]["metadata"]["labels"].get("app") == "mine"
    assert SIZE_LABEL not in stored["spec"]["template"]["metadata"]["labels"]
    assert SIZE in refusal(lambda: site.team.patch("job", "liar", FLOOR, LIE))


def test_a_status_in_a_new_queue_counts_for_nothing(site: TenantCluster) -> None:
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
def test_what_is_permitted_passes(site: TenantCluster, action: Attack) -> None:
    assert refusal(lambda: action(site)) == ""


def test_a_debugging_container_is_permitted_and_carries_nothing_else_in(site: TenantCluster) -> None:
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
def operated(site: TenantCluster) -> Iterator[TenantCluster]:
    """The same with the operator running; the tests below come last in this file."""
    with OperatorProcess(site.cluster, {"smallJobs": {"enabled": True}}, name="tenants"):
        yield site


def test_the_operator_does_its_work_under_the_rules(operated: TenantCluster) -> None:
    """It replaces the quota, writes statuses and priorities, and a Job's pods start through the controllers."""
    until(lambda: operated.status(BURSTS).get("class") == "Hard", PATIENCE_SECONDS, "the burst to be promised")
    until(lambda: "requests.cpu" in operated.hard(BURSTS), PATIENCE_SECONDS, "the operator's own quota")
    operated.team.create(job("works"), BURSTS)
    until(lambda: operated.get("job", "works", BURSTS)["status"].get("active"), PATIENCE_SECONDS, "the Job's pods")
    operated.admin("label", "namespace", BURSTS, f"{MANAGED_LABEL}-")
    until(
        lambda: operated.get("namespace", BURSTS)["metadata"]["labels"].get(MANAGED_LABEL) == "true",
        PATIENCE_SECONDS,
        "the operator to put the label back",
    )


def test_garbage_and_namespaces_are_still_collected(operated: TenantCluster) -> None:
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


def uid_of(site: TenantCluster, kind: str, name: str, namespace: str) -> str:
    """Return the uid of an object; empty if there is none."""
    return str(site.get(kind, name, namespace).get("metadata", {}).get("uid", ""))
