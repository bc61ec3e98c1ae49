"""The attacks of test_tenants.py while the operator runs: after each, one check of what the attacker gained and what the others lost.

The cluster is full: the attacker's batch queue and another tenant's want all of it, and a third has a hard queue whose burst runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, install_manifests
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.kube.names import GATE, HELD_ANNOTATION
from tests.support.attacks import bursty
from tests.support.attacks import job as endless_job
from tests.support.live_cluster import on_nodes, refusal
from tests.support.queues import queue
from tests.support.tenant_attacks import ATTACKS, FORBIDDEN, Attack
from tests.support.tenants import BATCH, BURSTS, OTHERS, TEAMS, TenantCluster, gated, job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JsonObject = dict[str, Any]
VICTIM, BURST_PODS, NODES, NODE_CPU = "victim", 4, 2, 8
OWNERS = (BATCH, BURSTS, OTHERS, VICTIM)
# The mode in which the operator holds the work that the attack would release. In Quota mode it holds nothing.
HELD_IN = {
    "gate, by JSON patch": "Gate",
    "all gates, by merge patch": "Gate",
    "gate, by replacing the pod": "Gate",
    "resuming a held Job": "Suspend",
    "making a held Job one's own": "Suspend",
}
OWN_GATE = "example.com/own"


@dataclass(frozen=True)
class Standing:
    """The state that an attack must not change: by namespace promises and grants, running pods of the others, and labels."""

    granted: dict[str, JsonObject]
    running: dict[str, int]
    labels: dict[str, JsonObject]


@dataclass(frozen=True)
class Operated:
    site: TenantCluster
    operator: OperatorProcess

    def rounds(self, count: int) -> None:
        """Wait for the end of so many more rounds that begin from now on; a change of the victim's annotations starts each."""
        for number in range(count + 1):  # the first may have begun before
            ended = self.operator.metrics()["fairburst_rounds_total"]
            self.site.admin("annotate", "latq", "queue", "-n", VICTIM, f"example.com/look={number}-{ended}", "--overwrite")
            until(lambda ended=ended: self.operator.metrics()["fairburst_rounds_total"] > ended, PATIENCE_SECONDS, "a round")  # type: ignore[misc]


def running(pods: list[JsonObject], where: str) -> list[JsonObject]:
    """Pods of a namespace that occupy a node."""
    return on_nodes([one for one in pods if one["metadata"]["namespace"] == where])


def standing(site: TenantCluster) -> Standing:
    queues = {one["metadata"]["namespace"]: one for one in site.items("latq,thrq") if one["metadata"]["namespace"] in OWNERS}
    granted = {}
    for where, one in queues.items():
        status, spec = one.get("status") or {}, one["spec"]
        window = {key: (status.get("window") or {}).get(key) for key in ("index", "opened", "deadline")}
        asked = {key: spec.get(key) for key in ("weight", "enforcement", "reclaim", "pool")}
        granted[where] = {key: status.get(key) for key in ("class", "podPriority", "promise")} | asked | {"window": window}
    pods = site.items("pods")
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in site.items("namespaces")}
    others = {where: len(running(pods, where)) for where in (OTHERS, VICTIM)}
    return Standing(granted, others, {where: labels[where] for where in (*TEAMS, OTHERS, VICTIM)})


@dataclass(frozen=True)
class Hold:
    """Cpu that an attacker occupies, and its bound: its queue's level (without a queue: the quota) and one pod."""

    occupied: float
    bound: float


def holds(site: TenantCluster) -> dict[str, Hold]:
    queues = {one["metadata"]["namespace"]: one for one in site.items("latq,thrq")}
    quotas = {one["metadata"]["namespace"]: one for one in site.items("resourcequota") if one["metadata"]["name"] == "fairburst"}
    pods, found = site.items("pods"), {}
    for where in TEAMS:
        sizes = [cores(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in running(pods, where)]
        if where in queues:
            level = cores(queues[where]["status"].get("allocation", {}).get("cpu", "0"))
        else:
            level = cores(quotas[where]["spec"]["hard"]["requests.cpu"])
        found[where] = Hold(sum(sizes), level + max(sizes, default=0.0))
    return found


def gained(before: dict[str, Hold], after: dict[str, Hold]) -> dict[str, Hold]:
    """Attackers that occupy more than before and more than their bound. A level that falls takes no pod that runs."""
    return {where: one for where, one in after.items() if one.occupied > max(before[where].occupied, one.bound) + 1e-6}


def beyond(site: TenantCluster) -> list[str]:
    return [where for where, one in holds(site).items() if one.occupied > one.bound + 1e-6]


def cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


@pytest.fixture(scope="module")
def operated(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    config = tmp_path_factory.mktemp("operated") / "config.yaml"
    config.write_text("smallJobs: {enabled: true}")
    install_manifests(cluster, config)
    site = TenantCluster(cluster)
    with OperatorProcess(cluster, {"smallJobs": {"enabled": True}}, name="operated", install=False) as operator:
        site.admin("create", "namespace", VICTIM)
        site.create(queue("LatencyQueue", bursty(BURST_PODS, 600), VICTIM))
        until(lambda: promised(site), PATIENCE_SECONDS, "the victim's promise")
        site.admin("create", "-n", VICTIM, "-f", "-", body=endless_job("burst", BURST_PODS))
        until(lambda: standing(site).running[VICTIM] == BURST_PODS, PATIENCE_SECONDS, "the victim's burst to run")
        for where in (BATCH, OTHERS):
            site.admin("create", "-n", where, "-f", "-", body=endless_job("work", NODES * NODE_CPU))
        made = Operated(site, operator)
        until(lambda: settled(made), PATIENCE_SECONDS, "the cluster to be full and calm")
        yield made


def promised(site: TenantCluster) -> bool:
    granted = standing(site).granted[VICTIM]
    return bool(granted["class"] == "Hard" and granted["podPriority"]["className"] == "fairburst-hard")


def settled(operated: Operated) -> bool:
    """End the pods for which an attacker was lent capacity before the others had work, as real work would end."""
    site = operated.site
    pods = site.items("pods")
    for where in beyond(site):
        spare = max(running(pods, where), key=lambda one: one["metadata"]["name"].startswith("work"))["metadata"]["name"]
        site.admin("delete", "pod", spare, "-n", where, "--grace-period=0", "--force")
    full = sum(len(running(pods, where)) for where in (BATCH, OTHERS, VICTIM)) >= NODES * NODE_CPU - 3
    before = standing(site)
    operated.rounds(2)
    return full and not beyond(site) and standing(site) == before and before.granted[VICTIM]["window"]["opened"] is not None


@pytest.mark.parametrize(("attack", "want_message"), ATTACKS)
def test_an_attack_gains_nothing_and_costs_no_one_a_promise(
    operated: Operated, request: pytest.FixtureRequest, attack: Attack, want_message: str
) -> None:
    assert_harmless(operated, attack, None if request.node.callspec.id in HELD_IN else want_message)


def assert_harmless(operated: Operated, attack: Attack, want_message: str | None) -> None:
    site = operated.site
    before, held = standing(site), holds(site)
    said = refusal(lambda: attack(site))
    if want_message is not None:
        assert re.search(r"cannot \w+ resource" if want_message is FORBIDDEN else re.escape(want_message), said), said or "it went through"
    operated.rounds(2)
    assert standing(site) == before, "what the others lost, or the attacker was given"
    assert gained(held, holds(site)) == {}


@pytest.fixture
def holding(operated: Operated, request: pytest.FixtureRequest) -> None:
    """The attacker's queue in a mode that holds work, with a pod or a Job that is held."""
    enforce(operated.site, request.param)
    until(lambda: is_held(operated.site, request.param), PATIENCE_SECONDS, "something to be held")
    until(lambda: settled(operated), PATIENCE_SECONDS, "the cluster to be full and calm")


def enforce(site: TenantCluster, mode: str) -> None:
    site.patch("thrq", "queue", BATCH, {"spec": {"enforcement": mode}})


def is_held(site: TenantCluster, mode: str) -> bool:
    """Make the pod or the Job again until the operator's policy holds it, which takes a moment after the mode has changed."""
    kind, name, body = ("pod", "waiting", gated("waiting", OWN_GATE)) if mode == "Gate" else ("job", "held", job("held"))
    site.admin("delete", kind, name, "-n", BATCH, "--ignore-not-found", "--grace-period=0", "--force")
    if refusal(lambda: site.admin("create", "-n", BATCH, "-f", "-", body=body)):  # by the quota of the previous mode
        return False
    stored = site.get(kind, name, BATCH)
    if mode == "Gate":
        return bool(stored["spec"]["schedulingGates"] == [{"name": OWN_GATE}, {"name": GATE}])
    return stored["spec"].get("suspend") is True and HELD_ANNOTATION in stored["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("holding", "attack", "want_message"),
    [pytest.param(HELD_IN[one.id], *one.values, id=one.id) for one in ATTACKS if one.id in HELD_IN],
    indirect=["holding"],
)
@pytest.mark.usefixtures("holding")
def test_nothing_that_the_operator_holds_is_let_go_by_its_tenant(operated: Operated, attack: Attack, want_message: str) -> None:
    assert_harmless(operated, attack, want_message)


def test_the_operator_did_its_work_through_all_of_it(operated: Operated) -> None:
    """Last: the check above would also hold where nothing moves any more. The work is that of a new Job: for the old one's deleted pods,
    which are failures to it, the Job controller waits up to ten minutes before it makes others."""
    site = operated.site
    enforce(site, "Quota")
    site.admin("delete", "job", "work", "-n", OTHERS)
    site.admin("delete", "pod", "-l", "batch.kubernetes.io/job-name=work", "-n", OTHERS, "--grace-period=0", "--force")
    site.admin("create", "-n", BATCH, "-f", "-", body=endless_job("more", NODES * NODE_CPU))
    wanted = NODES * NODE_CPU - BURST_PODS - 3
    until(lambda: len(running(site.items("pods"), BATCH)) >= wanted, PATIENCE_SECONDS, "the attacker to be lent what came free")
