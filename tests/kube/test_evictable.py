"""Pods that may be evicted without a failed Job, and nodes on which the scheduler may put a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fairburst.kube.api.objects import Job, Node, Pod
from fairburst.kube.enforce.evictable import evictable
from fairburst.kube.names import RECLAIMABLE_ANNOTATION
from fairburst.kube.usage.placement import Placement, has_rules_of_its_own
from tests.support.objects import job, node, owned_by, pod

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
ON_EXIT = {"onExitCodes": {"operator": "In", "values": [143]}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"podFailurePolicy": {"rules": [IGNORE]}}, True, id="disruptions are ignored"),
        pytest.param({}, False, id="no rules: every failure counts"),
        pytest.param({"podFailurePolicy": {"rules": []}}, False, id="no rule"),
        pytest.param({"podFailurePolicy": {"rules": [{"action": "Ignore", **ON_EXIT}, IGNORE]}}, True, id="other failures are, too"),
        pytest.param({"podFailurePolicy": {"rules": [IGNORE, {"action": "FailJob", **ON_EXIT}]}}, True, id="disruptions come first"),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"action": "FailJob", **ON_EXIT}, IGNORE]}},
            False,
            id="what a pod ends with may fail the Job first",
        ),
        pytest.param({"podFailurePolicy": {"rules": [IGNORE | {"action": "Count"}]}}, False, id="disruptions count"),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]}]}},
            False,
            id="what is no disruption is ignored",
        ),
        pytest.param({"podFailurePolicy": {"rules": [IGNORE]}, "activeDeadlineSeconds": 60}, False, id="lost time may fail it"),
    ],
)
def test_a_jobs_pod_goes_only_if_the_job_ignores_disruptions(spec: dict[str, Any], want: bool) -> None:
    assert evictable(pod("batch", "p", owner=("Job", "work"), node="n"), job("batch", "work", **spec)) is want


def test_a_pod_whose_job_is_not_known_or_another_of_its_name_stays() -> None:
    one = pod("batch", "p", owner=("Job", "work"), node="n")
    namesake = msgspec.structs.replace(job("batch", "work", podFailurePolicy={"rules": [IGNORE]}))
    body = msgspec.to_builtins(namesake)
    body["metadata"]["uid"] = "another"
    assert not evictable(one, None)
    assert not evictable(one, msgspec.convert(body, Job))


@pytest.mark.parametrize("owner", [None, ("ReplicaSet", "rs"), ("StatefulSet", "ss"), ("SparkApplication", "s")])
def test_other_pods_go_only_if_they_say_so(owner: tuple[str, str] | None) -> None:
    def one(annotations: dict[str, str]) -> Pod:
        return pod("batch", "p", owner=owner, node="n", annotations=annotations)

    assert evictable(one({RECLAIMABLE_ANNOTATION: "true"}), None)
    assert not evictable(one({RECLAIMABLE_ANNOTATION: "false"}), None)
    assert not evictable(one({}), None)


def test_the_systems_pods_stay_whatever_they_say() -> None:
    willing = {"annotations": {RECLAIMABLE_ANNOTATION: "true"}}
    daemon = pod("batch", "p", node="n", **willing, **owned_by("DaemonSet", "agent"))
    body = msgspec.to_builtins(pod("batch", "p", node="n", **willing))
    body["spec"]["priorityClassName"] = "system-node-critical"
    assert not evictable(daemon, None)
    assert not evictable(msgspec.convert(body, Pod), None)


# Placement --------------------------------------------------------------------------------------------------------------


def asking(**spec: Any) -> Pod:
    body = msgspec.to_builtins(pod("burst", "p"))
    body["spec"] |= spec
    return msgspec.convert(body, Pod)


def tainted(name: str, effect: str, **labels: str) -> Node:
    body = msgspec.to_builtins(node(name, labels=labels))
    body["spec"] = {"taints": [{"key": "team", "value": "red", "effect": effect}]}
    return msgspec.convert(body, Node)


NODES = [node("plain"), node("fast", labels={"disk": "fast"}), tainted("red", "NoSchedule"), tainted("soft", "PreferNoSchedule")]
ANYWHERE = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ["plain", "fast", "soft"], id="a taint keeps it off"),
        pytest.param({"nodeSelector": {"disk": "fast"}}, ["fast"], id="a node selector"),
        pytest.param({"nodeSelector": {"disk": "slow"}}, [], id="a node selector that no node has"),
        pytest.param({"tolerations": [{"key": "team", "value": "red"}]}, ["plain", "fast", "red", "soft"], id="tolerated"),
        pytest.param({"tolerations": [{"key": "team", "value": "blue"}]}, ["plain", "fast", "soft"], id="another value"),
        pytest.param({"tolerations": [{"key": "team", **ANYWHERE}]}, ["plain", "fast", "red", "soft"], id="whatever value"),
        pytest.param({"tolerations": [ANYWHERE]}, ["plain", "fast", "red", "soft"], id="whatever taint"),
        pytest.param({"tolerations": [{"key": "team", "effect": "NoExecute", **ANYWHERE}]}, ["plain", "fast", "soft"], id="another effect"),
        pytest.param({"tolerations": [{"value": "red"}]}, ["plain", "fast", "soft"], id="a value without a key"),
    ],
)
def test_a_pod_may_run_where_its_selector_and_tolerations_say(spec: dict[str, Any], want: list[str]) -> None:
    found = Placement(NODES).nodes_for(asking(**spec))
    allowed = np.ones(len(NODES), dtype=bool) if found is None else found
    assert [one.metadata.name for one, here in zip(NODES, allowed, strict=True) if here] == want
    assert (found is None) == (len(want) == len(NODES))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, False, id="none"),
        pytest.param({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, False, id="a preference"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}, True, id="nodes"
        ),
        pytest.param({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, True, id="other pods"),
        pytest.param({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, True, id="spread"),
        pytest.param({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, False, id="spread if it can be"),
    ],
)
def test_rules_that_only_the_scheduler_knows_to_apply_are_seen(spec: dict[str, Any], want: bool) -> None:
    assert has_rules_of_its_own(asking(**spec)) is want
