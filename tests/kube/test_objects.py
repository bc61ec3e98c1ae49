"""Decoding: the fields that we read are there, others are skipped, and oddities do not break it."""

from __future__ import annotations

import gc
import json
from typing import Any

import msgspec
import pytest

from fairburst.kube.api.decoding import event_decoder, list_decoder
from fairburst.kube.api.objects import Job, Namespace, Node, Object, Pod, controller_of
from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.workloads.replicas import Deployment, ReplicaSet, StatefulSet

FULL_POD = {
    "metadata": {
        "name": "p",
        "namespace": "a",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}],
        "ownerReferences": [
            {"kind": "ConfigMap", "name": "c", "uid": "u1", "apiVersion": "v1"},
            {"kind": "Job", "name": "j", "uid": "u2", "apiVersion": "batch/v1", "controller": True, "blockOwnerDeletion": True},
        ],
    },
    "spec": {
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "claims": []}}],
        "nodeName": "n",
        "priorityClassName": "batch",
        "schedulingGates": [{"name": "fairburst.dev/queue"}],
        "tolerations": [{"operator": "Exists"}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True", "observedGeneration": 3}], "hostIP": "::1"},
}


def test_a_pod_is_read_and_its_unknown_fields_skipped() -> None:
    pod = msgspec.json.decode(json.dumps(FULL_POD), type=Pod)
    assert (pod.metadata.name, pod.metadata.resource_version, pod.spec.node_name, pod.spec.priority_class_name) == ("p", "7", "n", "batch")
    assert pod.spec.containers[0].resources is not None
    assert pod.spec.containers[0].resources.requests == {"cpu": 1, "memory": "1Gi"}
    assert (pod.bound, pod.ended, pod.gated, pod.unmanaged) == (True, False, True, False)
    owner = controller_of(pod.metadata)
    assert owner is not None
    assert (owner.kind, owner.uid) == ("Job", "u2")


@pytest.mark.parametrize("kind", [Pod, Node, Job, ReplicaSet, Deployment, StatefulSet, ResourceQuota, LimitRange, Namespace])
def test_an_object_with_nothing_but_a_version_can_be_read_as_bookmarks_are(kind: type[Object]) -> None:
    event = event_decoder(kind).decode(b'{"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"12"}}}')
    assert (event.type, event.object.metadata.resource_version) == ("BOOKMARK", "12")


@pytest.mark.parametrize("items", [None, [], [FULL_POD]])
def test_a_page_is_read_also_where_its_items_are_null(items: list[Any] | None) -> None:
    page = list_decoder(Pod).decode(json.dumps({"metadata": {"resourceVersion": "5", "continue": "t"}, "items": items}))
    assert (page.metadata.resource_version, page.metadata.continue_token) == ("5", "t")
    assert len(page.items or []) == len(items or [])


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        ({}, [("Ready", "True")], True),
        ({"unschedulable": True}, [("Ready", "True")], False),
        ({}, [("Ready", "False")], False),
        ({}, [("Ready", "Unknown")], False),
        ({}, [], False),
    ],
)
def test_a_node_takes_pods_while_ready_and_not_cordoned(spec: dict[str, Any], status: list[tuple[str, str]], want: bool) -> None:
    conditions = [{"type": kind, "status": value} for kind, value in status]
    assert msgspec.convert({"spec": spec, "status": {"conditions": conditions}}, Node).schedulable is want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], False),
        ([("Complete", "True")], True),
        ([("FailureTarget", "True")], True),
        ([("Suspended", "True")], False),
        ([("Failed", "False")], False),
    ],
)
def test_a_job_is_finished_by_its_conditions(conditions: list[tuple[str, str]], want: bool) -> None:
    job = msgspec.convert({"status": {"conditions": [{"type": kind, "status": value} for kind, value in conditions]}}, Job)
    assert job.finished is want


@pytest.mark.parametrize(("replicas", "want"), [(None, 1), (0, 0), (3, 3)])
def test_replicas_that_are_not_named_are_one(replicas: int | None, want: int) -> None:
    deployment = msgspec.convert({"spec": {"replicas": replicas, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}}, Deployment)
    assert deployment.wanted == want


def test_structs_are_no_work_for_the_garbage_collector() -> None:
    pod = msgspec.json.decode(json.dumps(FULL_POD), type=Pod)
    assert not any(gc.is_tracked(each) for each in (pod, pod.metadata, pod.spec, pod.spec.containers[0]))
