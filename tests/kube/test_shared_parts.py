"""Pods of one controller share equal parts in memory, and say the same as before."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.objects import Pod
from fairburst.kube.usage.shared_parts import MOST_MODELS, READ_CONDITIONS, SharedParts, sharing

ROOT = Path(__file__).parents[2]
CONDITIONS = ("Ready", "PodScheduled", "ContainersReady", "PodResizePending", "DisruptionTarget")

PARTS: dict[str, Any] = {
    "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
    "finalizers": st.one_of(st.none(), st.lists(st.sampled_from(["one", "two"]), max_size=2)),
    "ownerReferences": st.one_of(
        st.none(),
        st.lists(
            st.builds(lambda uid, name: {"uid": uid, "name": name, "controller": True}, st.sampled_from("uv"), st.sampled_from("jk")),
            max_size=1,
        ),
    ),
}
SPECS: dict[str, Any] = {
    "containers": st.lists(
        st.builds(lambda cpu: {"name": "c", "resources": {"requests": {"cpu": cpu}}}, st.sampled_from(["1", "2", 1])), max_size=2
    ),
    "tolerations": st.one_of(st.none(), st.lists(st.builds(lambda key: {"key": key}, st.sampled_from("ab")), max_size=2)),
}
BODIES = st.builds(
    lambda metadata, spec: {"metadata": {"namespace": "team", **metadata}, "spec": spec},
    st.fixed_dictionaries(PARTS),
    st.fixed_dictionaries(SPECS),
)


def read(body: dict[str, Any]) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def of_job(uid: str = "u", cpu: str = "1") -> Pod:
    owner = {"uid": uid, "kind": "Job", "name": "job", "controller": True}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return read({"metadata": {"namespace": "team", "labels": {"a": "b"}, "ownerReferences": [owner]}, "spec": {"containers": [container]}})


@given(st.lists(BODIES, max_size=8))
def test_every_pod_says_what_was_read(bodies: list[dict[str, Any]]) -> None:
    parts, pods = SharedParts(), [read(body) for body in bodies]
    before = copy.deepcopy(pods)
    for pod in pods:
        parts.share(pod)
    assert pods == before
    assert [msgspec.json.encode(pod) for pod in pods] == [msgspec.json.encode(pod) for pod in before]


def test_equal_parts_of_one_controllers_pods_are_the_same_objects() -> None:
    parts, (one, two, other) = SharedParts(), (of_job(), of_job(), of_job(cpu="2"))
    for pod in (one, two, other):
        parts.share(pod)
    assert one.spec.containers is two.spec.containers
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.owner_references is two.metadata.owner_references
    assert other.spec.containers is not one.spec.containers
    assert other.metadata.labels is one.metadata.labels


def test_the_conditions_that_are_read_stay_and_the_others_go() -> None:
    said = [{"type": kind, "status": "True", "lastTransitionTime": f"2026-01-01T00:00:0{at}Z"} for at, kind in enumerate(CONDITIONS)]
    pod = read({"metadata": {"namespace": "team"}, "status": {"phase": "Running", "conditions": said}})
    SharedParts().share(pod)
    left = [(one.type, one.status, one.last_transition_time) for one in pod.status.conditions or ()]
    assert left == [("PodScheduled", "True", "2026-01-01T00:00:01Z"), ("PodResizePending", "True", "2026-01-01T00:00:03Z")]


def test_the_resources_of_a_pod_as_a_whole_stay_only_where_it_requests_as_a_whole() -> None:
    """The kubelet reports them of every pod."""
    for resources in (None, {"requests": {"cpu": "2"}}):
        status = {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}
        pod = read({"metadata": {"namespace": "team"}, "spec": {"resources": resources}, "status": status})
        SharedParts().share(pod)
        assert (pod.status.resources is None, pod.status.allocated_resources is None) == (resources is None,) * 2


def test_no_condition_is_dropped_that_the_operator_reads() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "operator/fairburst/kube").rglob("*.py"))
    about_pods = {kind for kind in re.findall(r'\.type == "(\w+)"', source) if kind.startswith("Pod")}
    assert about_pods == READ_CONDITIONS


def test_no_more_controllers_are_remembered_than_a_bound() -> None:
    parts = SharedParts()
    for number in range(3 * MOST_MODELS):
        parts.share(of_job(f"uid-{number}"))
    assert len(parts._models) <= MOST_MODELS


def test_the_handler_is_told_of_the_shared_pod() -> None:
    told: list[tuple[str, Pod | None, Pod | None]] = []
    hook = sharing(lambda kind, old, new: told.append((kind, old, new)))
    one, two = of_job(), of_job()
    hook("ADDED", None, one)
    hook("MODIFIED", one, two)
    hook("DELETED", two, None)
    assert [(kind, old is one or old is two, new) for kind, old, new in told] == [
        ("ADDED", False, one),
        ("MODIFIED", True, two),
        ("DELETED", True, None),
    ]
    assert two.spec.containers is one.spec.containers
