"""Pods and Jobs as tenants make them, for all that sets their priority: the policies of the API server, and the webhook."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from fairburst.kube.api.objects import Quantity
from fairburst.kube.enforce.namespace_labels import BY_SIZE
from fairburst.kube.enforce.namespace_labels import HARD as HARD_PODS
from fairburst.kube.enforce.namespace_labels import LARGE as LARGE_PODS
from fairburst.kube.enforce.namespace_labels import SOFT as SOFT_PODS
from fairburst.kube.enforce.quota_plan import QuotaWrite, WriteOrder
from fairburst.kube.enforce.size_note import size_note
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import GATE, HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL
from fairburst.kube.object_writes import quota_body
from fairburst.quantity import parse_quantity
from tests.support.job_set_crd import job_set
from tests.support.job_sizes import container, job_manifest

JsonObject = dict[str, Any]
SELECTOR = {"node.example.com/pool": "gpu"}
LARGE = {"className": "fairburst-large", "value": -2, "preemptionPolicy": "Never"}
SMALL = {"className": "fairburst-small", "value": -1, "preemptionPolicy": "Never"}
HARD = {"className": "fairburst-hard", "value": 2000, "preemptionPolicy": "Never"}


_OF_CLASS = {"fairburst-large": LARGE_PODS, "fairburst-soft": SOFT_PODS, "fairburst-hard": HARD_PODS}


def namespace_labels(status: JsonObject, pool: str = "default") -> dict[str, str]:
    """Return the labels that the operator gives the namespace of a queue with this status. In these tests no operator runs."""
    if "podPriority" not in status:
        return {MANAGED_LABEL: "true", POOL_LABEL: pool}
    priority = BY_SIZE if "smallPodPriority" in status else _OF_CLASS[status["podPriority"]["className"]]
    held = {HOLDS_LABEL: status["holds"]} if "holds" in status else {}
    return {MANAGED_LABEL: "true", POOL_LABEL: pool, PRIORITY_LABEL: priority} | held


def sized_quota(namespace: str, threshold: Mapping[str, Quantity], pool: str = "default") -> JsonObject:
    """Return the namespace quota as the operator writes it where Jobs up to the threshold are small; it permits anything."""
    write = QuotaWrite(
        namespace, {}, {}, (), create=True, replace=False, order=WriteOrder.RAISE, size=1.0,
        notes=size_note({name: parse_quantity(text) for name, text in threshold.items()}, {})[0],
    )  # fmt: skip
    return quota_body(write, pool)


def pod(metadata: JsonObject | None = None, **spec: Any) -> JsonObject:
    containers = [{"name": "c", "image": "work", **container()}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "p-", **(metadata or {})},
        "spec": {"containers": containers, **spec},
    }


def job(metadata: JsonObject | None = None, template: JsonObject | None = None, **spec: Any) -> JsonObject:
    body: JsonObject = job_manifest(**spec)
    body["metadata"] = {"generateName": "j-", **(metadata or {})}
    if template is not None:
        body["spec"]["template"]["metadata"] = copy.deepcopy(template)
    return body


# A Job's rules about failed pods as submitted, and as stored.
OWN_RULES = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def owner(kind: str, api: str, *, controller: bool = True) -> JsonObject:
    """An ownerReference to something that need not exist."""
    return {"apiVersion": api, "kind": kind, "name": "mine", "uid": "8d5e9b2c-0000-4000-8000-000000000000", "controller": controller}


_LIE = {"labels": {SIZE_LABEL: "small"}}
_OF_A_JOB = {"ownerReferences": [owner("Job", "batch/v1")]}
_OF_A_DAEMON_SET = {"ownerReferences": [owner("DaemonSet", "apps/v1")]}
PODS = [
    pytest.param(pod(), id="plain"),
    *(pytest.param(pod(priorityClassName=f"fairburst-{rung}"), id=f"names {rung}") for rung in ("large", "small", "soft", "hard")),
    pytest.param(pod(priorityClassName="fairburst-hard", priority=2000, preemptionPolicy="Never"), id="names hard with its value"),
    pytest.param(pod(priorityClassName="system-node-critical"), id="the system's"),
    pytest.param(pod(_OF_A_DAEMON_SET), id="a DaemonSet's"),
    pytest.param(pod({"ownerReferences": [owner("DaemonSet", "apps/v1", controller=False)]}), id="owned, not controlled, by a DaemonSet"),
    pytest.param(pod(_OF_A_JOB | _LIE), id="a small Job's"),
    pytest.param(pod(_OF_A_JOB | {"labels": {SIZE_LABEL: "large"}}), id="a large Job's"),
    pytest.param(pod(_LIE), id="small by its own word"),
    pytest.param(pod(nodeSelector={"disk": "fast"}), id="with a node selector"),
    pytest.param(pod(nodeSelector=dict.fromkeys(SELECTOR, "other")), id="with another node selector for the pool's label"),
    pytest.param(pod(schedulingGates=[{"name": "example.com/own"}]), id="with a gate of its own"),
    pytest.param(pod(schedulingGates=[{"name": GATE}]), id="with our gate"),
    pytest.param(pod(nodeName="elsewhere"), id="bound to a node"),
    pytest.param(pod({"labels": {"app": "mine"}, "annotations": {"a": "b"}}), id="with labels and annotations"),
]
JOBS = [
    pytest.param(job(), id="small"),
    pytest.param(job(parallelism=50), id="large"),
    pytest.param(job(_LIE, _LIE, parallelism=50), id="large, small by its own word"),
    pytest.param(
        job({"labels": {SIZE_LABEL: "large", "app": "mine"}}, {"labels": {SIZE_LABEL: "large", "app": "mine"}}), id="small, with labels"
    ),
    pytest.param(job({"annotations": {"a": "b"}}, suspend=True), id="suspended"),
    pytest.param(job({"ownerReferences": [owner("JobSet", "jobset.x-k8s.io/v1alpha2")]}), id="a JobSet's"),
    pytest.param(job({"ownerReferences": [owner("CronJob", "batch/v1")]}), id="a CronJob's"),
    pytest.param(job({"labels": {"kueue.x-k8s.io/queue-name": "q"}}), id="queued by Kueue"),
    pytest.param(job(managedBy="kueue.x-k8s.io/multikueue"), id="managed elsewhere"),
    pytest.param(job(managedBy="kubernetes.io/job-controller"), id="managed by the Job controller by name"),
    pytest.param(job(podFailurePolicy=OWN_RULES, podReplacementPolicy="Failed"), id="with rules of its own about failures"),
    pytest.param(job(podReplacementPolicy="TerminatingOrFailed"), id="that replaces pods as soon as they end"),
    pytest.param(job(pod={"restartPolicy": "OnFailure"}), id="whose containers are restarted"),
]


def _job_set(metadata: JsonObject | None = None, **spec: Any) -> JsonObject:
    body = job_set("", "", pod()["spec"] | {"restartPolicy": "Never"}, 2, 3)
    return body | {"metadata": {"generateName": "s-", **(metadata or {})}, "spec": body["spec"] | spec}


JOB_SETS = [
    pytest.param(_job_set(), id="plain"),
    pytest.param(_job_set({"annotations": {"a": "b"}}, suspend=True), id="suspended"),
    pytest.param(_job_set({"ownerReferences": [owner("CronJob", "batch/v1")]}), id="a CronJob's"),
    pytest.param(_job_set({"ownerReferences": [owner("Sweep", "example.com/v1")]}), id="that another controller starts"),
    pytest.param(_job_set({"labels": {"kueue.x-k8s.io/queue-name": "q"}}), id="queued by Kueue"),
]


def prioritized(body: JsonObject) -> JsonObject:
    """The part of a stored object that has a priority or is held."""
    metadata, spec = body["metadata"], body["spec"]
    if body["kind"] == "JobSet":
        return {name: metadata.get(name) for name in ("labels", "annotations")} | {"suspend": spec.get("suspend")}
    if body["kind"] == "Pod":
        fields = ("priorityClassName", "priority", "preemptionPolicy", "nodeSelector", "schedulingGates")
        return {name: spec[name] for name in fields if name in spec} | {"labels": metadata.get("labels")}
    template = {key: text for key, text in (spec["template"]["metadata"].get("labels") or {}).items() if key in {SIZE_LABEL, "app"}}
    own = {key: text for key, text in (metadata.get("labels") or {}).items() if "kubernetes" not in key and not key.endswith("-uid")}
    rules = [
        {name: value for name, value in rule.items() if value is not None} for rule in (spec.get("podFailurePolicy") or {}).get("rules", ())
    ]
    kept = {"labels": own, "annotations": metadata.get("annotations"), "template": template, "suspend": spec.get("suspend")}
    return kept | {"failures": rules, "replaces": spec.get("podReplacementPolicy")}
