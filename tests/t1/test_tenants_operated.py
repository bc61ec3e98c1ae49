"""The attacks of test_tenants.py while the operator runs: after each, one check of what the attacker gained and what the others lost.

The cluster is full: the attacker's batch queue and another tenant's want all of it, and a third has a hard queue whose burst runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, install_manifests
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.attacks import bursty
from tests.support.attacks import job as endless_job
from tests.support.queues import queue
from tests.t1.test_tenants import ATTACKS, BATCH, BURSTS, FLOOR, FORBIDDEN, OTHERS, Attack, Site, prepared, refusal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JsonObject = dict[str, Any]
VICTIM, BURST_PODS, NODES, NODE_CPU = "victim", 4, 2, 8
ATTACKERS, OWNERS = (BATCH, BURSTS, FLOOR), (BATCH, BURSTS, OTHERS, VICTIM)
# In Quota mode the operator holds nothing: it has let go what was held, so that nothing is left to take off.
LET_GO = {
    "gate, by JSON patch",
    "all gates, by merge patch",
    "gate, by replacing the pod",
    "resuming a held Job",
    "making a held Job one's own",
}


@dataclass(frozen=True)
class Standing:
    """What must be the same after an attack: by namespace what is promised and granted, what runs of the others, what is labelled."""

    granted: dict[str, JsonObject]
    running: dict[str, int]
    labels: dict[str, JsonObject]


def objects(site: Site, kinds: str) -> list[JsonObject]:
    found: list[JsonObject] = json.loads(site.admin("get", kinds, "-A", "-o", "json"))["items"]
    return found


def running(pods: list[JsonObject], where: str) -> list[JsonObject]:
    """Pods of a namespace that occupy a node."""
    mine = [one for one in pods if one["metadata"]["namespace"] == where and one["spec"].get("nodeName")]
    return [one for one in mine if one["status"]["phase"] in {"Pending", "Running"}]


def standing(site: Site) -> Standing:
    queues = {one["metadata"]["namespace"]: one for one in objects(site, "latq,thrq") if one["metadata"]["namespace"] in OWNERS}
    granted = {}
    for where, one in queues.items():
        status, spec = one.get("status") or {}, one["spec"]
        window = {key: (status.get("window") or {}).get(key) for key in ("index", "opened", "deadline")}
        asked = {key: spec.get(key) for key in ("weight", "enforcement", "reclaim", "pool")}
        granted[where] = {key: status.get(key) for key in ("class", "stamp", "promise")} | asked | {"window": window}
    pods = objects(site, "pods")
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in objects(site, "namespaces")}
    others = {where: len(running(pods, where)) for where in (OTHERS, VICTIM)}
    return Standing(granted, others, {where: labels[where] for where in (*ATTACKERS, OTHERS, VICTIM)})


def beyond(site: Site) -> dict[str, tuple[float, float]]:
    """Attackers that occupy more cpu than their queue's level and one pod (without a queue: the quota), with both figures."""
    queues = {one["metadata"]["namespace"]: one for one in objects(site, "latq,thrq")}
    quotas = {one["metadata"]["namespace"]: one for one in objects(site, "resourcequota") if one["metadata"]["name"] == "fairburst"}
    pods, found = objects(site, "pods"), {}
    for where in ATTACKERS:
        sizes = [cores(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in running(pods, where)]
        hard = cores(quotas[where]["spec"]["hard"]["requests.cpu"])
        level = cores(queues[where]["status"].get("allocation", {}).get("cpu", "0")) if where in queues else hard
        if sum(sizes) > level + max(sizes, default=0.0) + 1e-6:
            found[where] = sum(sizes), level
    return found


def cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


@pytest.fixture(scope="module")
def operated(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cluster = fresh_cluster(nodes=NODES, node_cpu=str(NODE_CPU), node_memory="64Gi")
    config = tmp_path_factory.mktemp("operated") / "config.yaml"
    config.write_text("smallJobs: {enabled: true}")
    install_manifests(cluster, config)
    site = prepared(cluster)
    with OperatorProcess(cluster, {"smallJobs": {"enabled": True}}, name="operated", install=False):
        site.admin("create", "namespace", VICTIM)
        site.admin("create", "-f", "-", body=queue("LatencyQueue", bursty(BURST_PODS, 600), VICTIM))
        until(lambda: standing(site).granted[VICTIM]["class"] == "Hard", PATIENCE_SECONDS, "the victim's promise")
        site.admin("create", "-n", VICTIM, "-f", "-", body=endless_job("burst", BURST_PODS))
        until(lambda: standing(site).running[VICTIM] == BURST_PODS, PATIENCE_SECONDS, "the victim's burst to run")
        for where in (BATCH, OTHERS):
            site.admin("create", "-n", where, "-f", "-", body=endless_job("work", NODES * NODE_CPU))
        until(lambda: settled(site), PATIENCE_SECONDS, "the cluster to be full and calm")
        yield site


def settled(site: Site) -> bool:
    pods = objects(site, "pods")
    full = sum(len(running(pods, where)) for where in (BATCH, OTHERS, VICTIM)) >= NODES * NODE_CPU - 3
    return full and not beyond(site) and standing(site).granted[VICTIM]["window"]["opened"] is not None


@pytest.mark.parametrize(("attack", "want_message"), ATTACKS)
def test_an_attack_gains_nothing_and_costs_no_one_a_promise(
    operated: Site, request: pytest.FixtureRequest, attack: Attack, want_message: str
) -> None:
    before = standing(operated)
    said = refusal(lambda: attack(operated))
    if request.node.callspec.id not in LET_GO:
        assert re.search(r"cannot \w+ resource" if want_message is FORBIDDEN else re.escape(want_message), said), said or "it went through"
    assert standing(operated) == before, "what the others lost, or the attacker was given"
    assert beyond(operated) == {}, "what the attacker gained"


def test_the_operator_did_its_work_through_all_of_it(operated: Site) -> None:
    """Last: the check above would also hold where nothing moves any more."""
    operated.admin("delete", "job", "work", "-n", OTHERS)
    operated.admin("delete", "pod", "-l", "batch.kubernetes.io/job-name=work", "-n", OTHERS, "--grace-period=0", "--force")
    wanted = NODES * NODE_CPU - BURST_PODS - 3
    until(lambda: len(running(objects(operated, "pods"), BATCH)) >= wanted, PATIENCE_SECONDS, "the attacker to be lent what came free")
