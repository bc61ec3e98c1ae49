"""ValidatingAdmissionPolicies that confine the operator's own account: a stolen token writes no more than the operator does.

RBAC says which kinds of objects the operator may write. These policies say where, and which fields: its marks on the work of managed
namespaces, its own quotas there, the labels by which a namespace is managed, and Events on what it decided about. Outside of managed
namespaces it may only release what it held. `tests/t1/test_stolen_token.py` has the abuses that they refuse, and
docs/decisions/0120-the-operators-account-is-confined.md says what remains.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairburst.config import Config
from fairburst.kube.install.scope import POLICY_API, Manifest, denying
from fairburst.kube.names import (
    GATE,
    GROUP,
    HELD_ANNOTATION,
    MANAGED_LABEL,
    NAMESPACE_LABELS,
    NAMESPACE_LABELS_TEXT,
    OUR_QUOTAS,
    OUR_QUOTAS_TEXT,
    POOL_LABEL,
)
from fairburst.kube.queues.queue_set import NEVER_MANAGED
from fairburst.kube.workloads.job_set import GROUP as JOB_SET_GROUP

_MANAGED = f"namespaceObject.metadata.?labels[?'{MANAGED_LABEL}'].orValue('') == 'true'"
_HELD = f"'{HELD_ANNOTATION}' in oldObject.metadata.?annotations.orValue({{}})"
_POD_FIELDS = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeSelector", "affinity")
# Fields of a Job that the API server lets change, except suspend and parallelism.
_JOB_FIELDS = (
    "completions", "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "ttlSecondsAfterFinished",
    "podFailurePolicy", "successPolicy", "completionMode", "podReplacementPolicy", "managedBy",
)  # fmt: skip
_JOB_SET_FIELDS = ("replicatedJobs", "network", "successPolicy", "failurePolicy", "startupPolicy", "managedBy", "ttlSecondsAfterFinished")


@dataclass(frozen=True)
class _Confinement:
    """One policy: the writes that it checks, and its rules in CEL by the sentence of a refusal."""

    name: str
    group: str
    resources: Sequence[str]
    operations: Sequence[str]
    rules: Mapping[str, str]

    def manifests(self, config: Config, user: str) -> list[Manifest]:
        name = f"fairburst-operator-{self.name}.{config.pool.name}"
        watched = {"apiGroups": [self.group], "apiVersions": ["*"], "operations": [*self.operations], "resources": [*self.resources]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [watched]},
            "matchConditions": [{"name": "operator", "expression": f"request.userInfo.username == {json.dumps(user)}"}],
            "validations": [
                {"expression": holds, "message": f"the operator's account: {sentence}", "reason": "Forbidden"}
                for sentence, holds in self.rules.items()
            ],
        }
        return [
            {"apiVersion": POLICY_API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
            denying(name, name),
        ]


def operator_policies(config: Config, user: str) -> list[Manifest]:
    """Return the policies with their bindings for the operator that the API server knows as `user`."""
    every = (_pods(), _evictions(), _namespaces(config), _quotas(), _jobs(), _job_sets(), _controllers(), _events())
    return [manifest for one in every for manifest in one.manifests(config, user)]


def _pods() -> _Confinement:
    """Permit patches that remove the scheduling gate, in any namespace: the operator also removes gates where no queue holds pods."""
    images = " && ".join(
        " == ".join(f"{one}.spec.?{kind}.orValue([]).map(one, one.?image.orValue(''))" for one in ("object", "oldObject"))
        for kind in ("containers", "initContainers")
    )
    gates = (
        "object.spec.?schedulingGates.orValue([]).map(one, one.name) == "
        f"oldObject.spec.?schedulingGates.orValue([]).map(one, one.name).filter(one, one != '{GATE}')"
    )
    return _Confinement(
        "pods",
        "",
        ["pods"],
        ["UPDATE"],
        {
            f"expected a patch of a pod to remove the scheduling gate {GATE} and nothing else": gates,
            "expected the metadata of a pod to stay": _same("metadata", ("labels", "annotations", "ownerReferences", "finalizers")),
            "expected the spec of a pod to stay, but for its gate": f"{_same('spec', _POD_FIELDS)} && {images}",
        },
    )


def _evictions() -> _Confinement:
    return _Confinement(
        "evictions", "", ["pods/eviction"], ["CREATE"], {"expected evictions in managed namespaces only": _MANAGED}
    )  # fmt: skip


def _namespaces(config: Config) -> _Confinement:
    ours = json.dumps(NAMESPACE_LABELS)
    labels, before = (f"{one}.metadata.?labels.orValue({{}})" for one in ("object", "oldObject"))
    never = json.dumps([*sorted(NEVER_MANAGED), config.namespace])
    return _Confinement(
        "namespaces",
        "",
        ["namespaces"],
        ["UPDATE"],
        {
            "expected namespaces of the system and of the operator to stay as they are": f"!(object.metadata.name in {never})",
            f"expected only the labels {NAMESPACE_LABELS_TEXT} of a namespace to change": (
                f"{labels}.all(key, key in {ours} || (key in {before} && {before}[key] == {labels}[key])) && "
                f"{before}.all(key, key in {ours} || key in {labels}) && "
                f"{_same('metadata', ('annotations', 'ownerReferences', 'finalizers'))} && {_same('spec', ('finalizers',))}"
            ),
        },
    )


def _quotas() -> _Confinement:
    named = f"(request.operation == 'DELETE' ? oldObject : object).metadata.name in {json.dumps(sorted(OUR_QUOTAS))}"
    left_behind = f"request.operation == 'DELETE' && '{POOL_LABEL}' in oldObject.metadata.?labels.orValue({{}})"
    return _Confinement(
        "quotas",
        "",
        ["resourcequotas", "resourcequotas/status"],
        ["CREATE", "UPDATE", "DELETE"],
        {
            f"expected quotas with the names {OUR_QUOTAS_TEXT}": named,
            "expected quotas in managed namespaces only; elsewhere only those left behind may be deleted": f"{_MANAGED} || ({left_behind})",
        },
    )


def _jobs() -> _Confinement:
    template = "object.spec.template.spec == oldObject.spec.template.spec"
    parallelism = "object.spec.?parallelism == oldObject.spec.?parallelism"
    return _Confinement(
        "jobs",
        "batch",
        ["jobs"],
        ["UPDATE"],
        {
            "expected Jobs to change in managed namespaces only; elsewhere only those that are held may be started": (
                f"{_MANAGED} || ({_HELD} && !object.spec.?suspend.orValue(false) && {parallelism})"
            ),
            "expected a Job to stay, but for suspend and parallelism": f"{_same('spec', _JOB_FIELDS)} && {template}",
            f"expected the metadata of a Job to stay, but for annotations of {GROUP}": _only_our_annotations(),
        },
    )


def _job_sets() -> _Confinement:
    return _Confinement(
        "jobsets",
        JOB_SET_GROUP,
        ["jobsets"],
        ["UPDATE"],
        {
            "expected JobSets to change in managed namespaces only; elsewhere only those that are held may be started": (
                f"{_MANAGED} || ({_HELD} && !object.spec.?suspend.orValue(false))"
            ),
            "expected a JobSet to stay, but for suspend": _same("spec", _JOB_SET_FIELDS),
            f"expected the metadata of a JobSet to stay, but for annotations of {GROUP}": _only_our_annotations(),
        },
    )


def _controllers() -> _Confinement:
    """Permit annotations: a changed annotation makes a controller retry the pods that a quota has refused."""
    return _Confinement(
        "controllers",
        "apps",
        ["replicasets", "deployments", "statefulsets"],
        ["UPDATE"],
        {
            "expected controllers to change in managed namespaces only": _MANAGED,
            "expected the spec of a controller to stay": "object.spec == oldObject.spec",
            f"expected the metadata of a controller to stay, but for annotations of {GROUP}": _only_our_annotations(),
        },
    )


def _events() -> _Confinement:
    about = f"object.?involvedObject.?apiVersion.orValue('').startsWith('{GROUP}/')"
    return _Confinement(
        "events", "", ["events"], ["CREATE"], {"expected Events on queues, or in managed namespaces": f"{about} || {_MANAGED}"}
    )  # fmt: skip


def _same(where: str, fields: Sequence[str]) -> str:
    return " && ".join(f"object.{where}.?{field} == oldObject.{where}.?{field}" for field in fields)


def _only_our_annotations() -> str:
    now, before = (f"{one}.metadata.?annotations.orValue({{}})" for one in ("object", "oldObject"))
    ours = f"key.startsWith('{GROUP}/')"
    return (
        f"{now}.all(key, {ours} || (key in {before} && {before}[key] == {now}[key])) && {before}.all(key, {ours} || key in {now}) && "
        f"{_same('metadata', ('labels', 'ownerReferences', 'finalizers'))}"
    )
