"""Rules for tenants, enforced by the API server: ValidatingAdmissionPolicies, and the roles that go with them. Values, as YAML.

Tenants declare bursts and arrivals; admission control answers those. A client may change a field that decides between tenants only with
a verb of its own on the queues of that namespace: `weigh`, `enforce`, `reclaim`, `assign` and `remove` for people, `operate` for the
operator's own changes. Verbs are RBAC's own, so they are granted as any other right, and cluster administrators have all of them.

Most pods may name any priority class, because the mutating policies overwrite it. Only pods that never get one of ours are refused for
theirs. docs/decisions/0060-what-tenants-may-not-do.md gives the reason for each rule, tests/t1/test_tenants.py its attack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairburst.config import Config
from fairburst.kube.enforce.pod_priority import class_values
from fairburst.kube.install.expiry_policy import expiry_policy
from fairburst.kube.install.resize_rules import held_by_gate, requests_of, resize_policies
from fairburst.kube.install.scope import POLICY_API, Manifest, denying, managed_namespaces, owned_by
from fairburst.kube.jobs.job_size import SIZE_LABEL, SMALL
from fairburst.kube.names import (
    GATE,
    GROUP,
    HELD_ANNOTATION,
    NAMESPACE_LABELS,
    OUR_QUOTAS,
    OUR_QUOTAS_TEXT,
    PLURALS,
    POOL_LABEL,
    RELEASED_ANNOTATION,
)
from fairburst.kube.queues.job_annotations import CHANGED_AT, GIVEN, ORIGINAL
from fairburst.kube.queues.specs import QueueSettings
from fairburst.kube.usage.effective_requests import MUST_BE_NAMED
from fairburst.kube.workloads.job_set import GROUP as JOB_SET_GROUP

RBAC_API = "rbac.authorization.k8s.io/v1"
QUEUES = tuple(PLURALS.values())
OPERATE = "operate"
REMOVE = "remove"
# Settings of a queue that weigh it against others, and the verb for changing each; at creation, for anything but the default.
SETTING_VERBS = {"weight": "weigh", "enforcement": "enforce", "reclaim": "reclaim", "pool": "assign"}
ADMIN_VERBS = (*SETTING_VERBS.values(), REMOVE)
_MARKS = (ORIGINAL, GIVEN, CHANGED_AT, RELEASED_ANNOTATION)

# The API server's own identity is of system:masters; controllers are service accounts of kube-system unless they share one identity.
_CONTROL_PLANE = (
    "request.userInfo.?groups.orValue([]).exists(one, one in ['system:masters', 'system:serviceaccounts:kube-system', 'system:nodes']) || "
    "request.userInfo.?username.orValue('') in ['system:kube-controller-manager', 'system:kube-scheduler']"
)

_GATED = f"spec.?schedulingGates.orValue([]).exists(one, one.name == '{GATE}')"

_REPELS_OTHERS = (  # CEL: a required anti-affinity to pods of other namespaces
    "object.spec.?affinity.?podAntiAffinity.?requiredDuringSchedulingIgnoredDuringExecution.orValue([]).exists(term, "
    "has(term.namespaceSelector) || has(term.namespaces) && term.namespaces.exists(name, name != request.namespace))"
)


def _allowed(verb: str, resource: str = "'latencyqueues'", namespace: str = "request.namespace") -> str:
    return f"authorizer.group('{GROUP}').resource({resource}).namespace({namespace}).name(request.name).check('{verb}').allowed()"


@dataclass(frozen=True)
class _Rule:
    """A rule in CEL, and the message for a refused client, in CEL too."""

    holds: str
    sentence: str

    def validation(self) -> Manifest:
        return {"expression": self.holds, "messageExpression": self.sentence, "reason": "Forbidden"}


@dataclass(frozen=True)
class _Guard:
    """One policy with its binding: the writes that it checks, its conditions and its rules. `managed`: only in managed namespaces."""

    name: str
    group: str
    resources: Sequence[str]
    operations: Sequence[str]
    conditions: Mapping[str, str]
    variables: Mapping[str, str]
    rules: Sequence[_Rule]
    managed: bool

    def manifests(self, config: Config) -> list[Manifest]:
        name = f"fairburst-tenants-{self.name}.{config.pool.name}"
        version = "*" if self.group in {GROUP, JOB_SET_GROUP} else "v1"
        watched = {"apiGroups": [self.group], "apiVersions": [version], "operations": [*self.operations], "resources": [*self.resources]}
        spec = {
            "failurePolicy": "Fail",  # no rule has parameters or reads a field that may be missing: one that fails was tampered with
            "matchConstraints": {"resourceRules": [watched]},
            "matchConditions": [{"name": key, "expression": cel} for key, cel in self.conditions.items()],
            "variables": [{"name": key, "expression": cel} for key, cel in self.variables.items()],
            "validations": [rule.validation() for rule in self.rules],
        }
        scope: Manifest = {"matchResources": {"namespaceSelector": managed_namespaces(config)}} if self.managed else {}
        return [
            {"apiVersion": POLICY_API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
            denying(name, name, **scope),
        ]


def tenant_policies(config: Config) -> list[Manifest]:
    """Return the policies with their bindings."""
    guards = (_pods(config), _daemon_sets(), _jobs(), _job_sets(), _quotas(), _queues(), _statuses(), _namespaces())
    return [
        *(manifest for guard in guards for manifest in guard.manifests(config)),
        *resize_policies(config),
        *expiry_policy(config),
    ]


def _pods(config: Config) -> _Guard:
    variables = held_by_gate() | {
        "created": "request.operation == 'CREATE'",
        "class": "object.spec.?priorityClassName.orValue('')",
        "labels": "object.metadata.?labels.orValue({})",
        "unnamed": _lacks_requests(config),
        "daemon": owned_by("DaemonSet"),
        "onNode": "'system:nodes' in request.userInfo.?groups.orValue([])",
        "controlPlane": _CONTROL_PLANE,
        "operates": _allowed(OPERATE),
    }
    conditions = {"concerned": _pods_that_may_break_a_rule(config)}
    return _Guard("pods", "", ["pods"], ["CREATE", "UPDATE"], conditions, variables, _pod_rules(config), managed=True)


def _lacks_requests(config: Config) -> str:
    """CEL: whether a container requests no amount of a resource that a quota demands of all. Requests of the whole pod satisfy it."""
    demanded, counted = json.dumps(MUST_BE_NAMED), json.dumps(config.pool.counted_resources, separators=(",", ":"))  # as Helm writes it
    lacks = f"exists(one, {demanded}.exists(name, name in {counted} && !(name in {requests_of('one')})))"
    return (
        f"{requests_of('object.spec')}.size() == 0 && object.spec.?resources.?limits.orValue({{}}).size() == 0 && "
        f"(object.spec.containers + object.spec.?initContainers.orValue([])).{lacks}"
    )


def _pods_that_may_break_a_rule(config: Config) -> str:
    """CEL: any other pod keeps all rules. The API server evaluates each rule and each message for every pod that fulfils this."""
    size = f"metadata.?labels[?'{SIZE_LABEL}']"
    created = (
        "object.spec.?priorityClassName.orValue('').startsWith('system-')",
        owned_by("DaemonSet"),
        "object.spec.?nodeName.orValue('') != ''",
        f"object.{size}.hasValue() && !({_CONTROL_PLANE})",
        _REPELS_OTHERS,
        _lacks_requests(config),
    )
    changed = (
        f"object.{size} != oldObject.{size}",
        f"oldObject.{_GATED} && !object.{_GATED}",
        f"{owned_by('DaemonSet')} && !({owned_by('DaemonSet', 'oldObject')})",
    )
    return f"request.operation == 'CREATE' ? {_any(created)} : {_any(changed)}"


def _pod_rules(config: Config) -> tuple[_Rule, ...]:
    ours = json.dumps(list(class_values(config)))
    return (
        _Rule(
            "!variables.created || !variables.class.startsWith('system-') || variables.operates",
            "'spec.priorityClassName: expected none in a managed namespace, found ' + variables.class + "
            "': its pods are counted by no queue. Leave it out, or run the pod in a namespace that is not managed'",
        ),
        _Rule(
            f"!variables.created || !variables.daemon || !(variables.class in {ours})",
            "'spec.priorityClassName: expected none of the queues\\' classes on a DaemonSet\\'s pod, found ' + variables.class + "
            "': such pods belong to no queue. Leave it out'",
        ),
        _Rule(
            f"!variables.daemon || !variables.created && {owned_by('DaemonSet', 'oldObject')} || variables.controlPlane || "
            "variables.operates",
            "'metadata.ownerReferences: expected a DaemonSet only on pods that its controller creates, found one on a pod ' + "
            "(variables.created ? 'created' : 'changed') + ' by ' + request.userInfo.username",
        ),
        _Rule(  # such a pod bypasses the scheduler and can have no gate
            "!variables.created || object.spec.?nodeName.orValue('') == '' || variables.daemon || variables.onNode || variables.operates",
            "'spec.nodeName: expected none in a managed namespace, found ' + object.spec.nodeName + ': it would bypass the "
            "queue\\'s gate. Use nodeSelector or affinity'",
        ),
        _Rule(  # the scheduler heeds it for pods of others, too: one small pod would keep them all off a node, or out of a zone
            f"!variables.created || !({_REPELS_OTHERS}) || variables.daemon || variables.operates",
            "'spec.affinity.podAntiAffinity: expected required terms about the namespace of the pod alone, found one with a "
            "namespaceSelector or another namespace: it would keep others\\' pods off the node. Leave both out, or use a preferred term'",
        ),
        _Rule(  # no quota with limits refuses it, and the gate would let it go for nothing
            "!variables.created || !variables.unnamed || !variables.held || variables.class.startsWith('system-')",
            "'spec.containers: expected requests of cpu and memory in each container, found one without: the queue releases a pod for what "
            "it requests. Set resources.requests, or have a LimitRange set them'",
        ),
        _Rule(
            f"!variables.created || !('{SIZE_LABEL}' in variables.labels) || variables.controlPlane || variables.operates",
            f"'metadata.labels: expected no {SIZE_LABEL}, which is written into Jobs when they are created, found ' + "
            f"variables.labels['{SIZE_LABEL}'] + ' on a pod created by ' + request.userInfo.username",
        ),
        _Rule(
            f"variables.created || variables.labels[?'{SIZE_LABEL}'] == oldObject.metadata.?labels[?'{SIZE_LABEL}'] || variables.operates",
            f"'metadata.labels: expected {SIZE_LABEL} to stay what it was: a size is fixed when a Job is created'",
        ),
        _Rule(
            f"variables.created || !oldObject.{_GATED} || object.{_GATED} || variables.operates",
            f"'spec.schedulingGates: expected {GATE} to stay: the operator removes it when the pod\\'s queue has room for it'",
        ),
    )


def _any(cases: Sequence[str]) -> str:
    return "(" + " || ".join(f"({case})" for case in cases) + ")"


def _daemon_sets() -> _Guard:
    """No queue is charged for a DaemonSet's pods, and no gate holds them: only administrators may run them in managed namespaces."""
    rule = _Rule(
        "variables.operates || (request.operation == 'UPDATE' && object.spec == oldObject.spec)",
        "'expected no DaemonSet in a managed namespace, found ' + object.metadata.name + ': its pods would be counted by no queue. Use a "
        "Deployment, or ask an administrator to run it in a namespace that is not managed'",
    )
    clients = {"not-control-plane": f"!({_CONTROL_PLANE})"}
    variables = {"operates": _allowed(OPERATE)}
    return _Guard("daemonsets", "apps", ["daemonsets"], ["CREATE", "UPDATE"], clients, variables, [rule], managed=True)


def _jobs() -> _Guard:
    same_size = " && ".join(
        f"object.{metadata}.?labels[?'{SIZE_LABEL}'] == oldObject.{metadata}.?labels[?'{SIZE_LABEL}']"
        for metadata in ("metadata", "spec.template.metadata")
    )
    same_resources = " && ".join(
        f"object.spec.template.spec.{field} == oldObject.spec.template.spec.{field}"
        for field in ("containers", "?initContainers", "?resources")
    )
    rules = (
        _same_marks(),
        _Rule(
            f"request.operation == 'CREATE' || ({same_size}) || variables.operates",
            f"'metadata.labels: expected {SIZE_LABEL} to stay what it was: a size is fixed when a Job is created'",
        ),
        _Rule(  # Kubernetes permits other resources in the template of a suspended Job
            f"request.operation == 'CREATE' || oldObject.spec.template.metadata.?labels[?'{SIZE_LABEL}'].orValue('') != '{SMALL}' || "
            f"({same_resources}) || variables.operates",
            "'spec.template.spec: expected the containers of a small Job to stay what they were, because a size is fixed when a Job is "
            "created. Delete the Job and create it again'",
        ),
        _stays_held(),
    )
    clients = {"not-control-plane": f"!({_CONTROL_PLANE})"}
    return _Guard("jobs", "batch", ["jobs"], ["CREATE", "UPDATE"], clients, _notes(), rules, managed=True)


def _job_sets() -> _Guard:
    rules = (_same_marks(), _stays_held())
    return _Guard("jobsets", JOB_SET_GROUP, ["jobsets"], ["CREATE", "UPDATE"], {}, _notes(), rules, managed=True)


def _notes() -> dict[str, str]:
    """Return the CEL variables of the rules about Jobs."""
    return {
        "notes": "object.metadata.?annotations.orValue({})",
        "before": "request.operation == 'CREATE' ? {} : oldObject.metadata.?annotations.orValue({})",
        "operates": _allowed(OPERATE),
    }


def _same_marks() -> _Rule:
    marks = json.dumps(_MARKS)
    return _Rule(
        f"{marks}.all(key, !(key in variables.notes) || variables.notes[?key] == variables.before[?key]) || variables.operates",
        f"'metadata.annotations: expected ' + {marks}.filter(key, key in variables.notes && variables.notes[?key] != "
        "variables.before[?key]).join(', ') + ' to be left to the operator, which notes there what it has done'",
    )


def _stays_held() -> _Rule:
    return _Rule(
        f"!('{HELD_ANNOTATION}' in variables.before) || variables.operates || "
        f"(variables.notes[?'{HELD_ANNOTATION}'] == variables.before[?'{HELD_ANNOTATION}'] && "
        "(object.spec.?suspend.orValue(false) || !oldObject.spec.?suspend.orValue(false)))",
        "'spec.suspend: expected the Job to stay suspended: the operator releases it when its whole demand fits its queue'",
    )


def _quotas() -> _Guard:
    ours = (
        f"request.name in {json.dumps(sorted(OUR_QUOTAS))} || "
        f"[object, oldObject].exists(one, one != null && '{POOL_LABEL}' in one.metadata.?labels.orValue({{}}))"
    )
    rule = _Rule(
        _allowed(OPERATE),
        f"'expected the quotas {OUR_QUOTAS_TEXT} and the label {POOL_LABEL} to be left to the operator, which holds the "
        "namespace to its queue\\'s level by them'",
    )
    return _Guard(
        "quotas",
        "",
        ["resourcequotas", "resourcequotas/status"],
        ["CREATE", "UPDATE", "DELETE"],
        {"not-control-plane": f"!({_CONTROL_PLANE})", "ours": ours},
        {},
        [rule],
        managed=True,
    )


def _queues() -> _Guard:
    kind = "request.resource.resource"
    rules = [_setting_rule(setting, verb) for setting, verb in SETTING_VERBS.items()]
    rules.append(
        _Rule(
            f"variables.present || {_allowed(REMOVE, kind)}",
            f"'expected the queue to stay: deleting it takes the verb {REMOVE} on ' + {kind} + ', which an administrator grants'",
        )
    )
    rules.append(  # an owner of the queue could have it deleted by the garbage collector
        _Rule(
            "!variables.present || object.metadata.?ownerReferences.orValue([]) == "
            f"(variables.created ? [] : oldObject.metadata.?ownerReferences.orValue([])) || {_allowed(REMOVE, kind)}",
            "'metadata.ownerReferences: expected them to stay what they were, because a queue is deleted with its owner: changing them "
            f"takes the verb {REMOVE} on ' + {kind} + ', which an administrator grants'",
        )
    )
    variables = {"created": "request.operation == 'CREATE'", "present": "request.operation != 'DELETE'"}
    return _Guard(
        "queues",
        GROUP,
        QUEUES,
        ["CREATE", "UPDATE", "DELETE"],
        {"not-control-plane": f"!({_CONTROL_PLANE})"},
        variables,
        rules,
        managed=False,
    )


def _setting_rule(setting: str, verb: str) -> _Rule:
    default = json.dumps(QueueSettings.model_fields[setting].default)
    now, was = (f"{one}.spec.?{setting}.orValue({default})" for one in ("object", "oldObject"))
    before = f"(variables.created ? {default} : {was})"
    kind = "request.resource.resource"
    return _Rule(
        f"!variables.present || {now} == {before} || {_allowed(verb, kind)}",
        f"'spec.{setting}: expected ' + string({before}) + ', found ' + string({now}) + "
        f"'; another value takes the verb {verb} on ' + {kind} + ', which an administrator grants'",
    )


def _statuses() -> _Guard:
    rule = _Rule(
        _allowed(OPERATE, "request.resource.resource"), "'expected the status to be left to the operator, which keeps its decisions there'"
    )
    resources = [f"{one}/status" for one in QUEUES]
    return _Guard("status", GROUP, resources, ["UPDATE"], {"not-control-plane": f"!({_CONTROL_PLANE})"}, {}, [rule], managed=False)


def _namespaces() -> _Guard:
    """Guard our labels of all namespaces: a namespaceSelector looks at the new labels, from which ours may be missing."""
    rules, changes = [], []
    for label in NAMESPACE_LABELS:
        now, was = (f"{one}.metadata.?labels[?'{label}']" for one in ("object", "oldObject"))
        changes.append(f"{now} != {was}")
        rules.append(
            _Rule(
                f"{now} == {was} || variables.operates",
                f"'metadata.labels: expected {label} to stay ' + {was}.orValue('absent') + ', found ' + {now}.orValue('absent') + "
                "': how a namespace is managed is its administrators\\' decision'",
            )
        )
    variables = {"operates": _allowed(OPERATE, namespace="object.metadata.name").replace(".name(request.name)", "")}
    conditions = {"changed": " || ".join(changes), "not-control-plane": f"!({_CONTROL_PLANE})"}
    resources = ["namespaces", "namespaces/status", "namespaces/finalize"]
    return _Guard("namespaces", "", resources, ["UPDATE"], conditions, variables, rules, managed=False)


def view_role(config: Config) -> Manifest:
    """Return the role to read queues, part of the cluster roles view, edit and admin."""
    return _role(f"fairburst-queues-view.{config.pool.name}", ["get", "list", "watch"], ("view", "edit", "admin"))


def edit_role(config: Config) -> Manifest:
    """Return the role to change queues, part of the cluster roles edit and admin. It creates and deletes none, and writes no status."""
    return _role(f"fairburst-queues-edit.{config.pool.name}", ["update", "patch"], ("edit", "admin"))


def admin_role(config: Config) -> Manifest:
    """Return the role of people who weigh tenants against each other: every right on queues except writing their status."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", *ADMIN_VERBS]
    return _role(f"fairburst-queues-admin.{config.pool.name}", verbs, ())


def _role(name: str, verbs: list[str], aggregated_to: Sequence[str]) -> Manifest:
    metadata: Manifest = {"name": name}
    if aggregated_to:
        metadata["labels"] = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in aggregated_to}
    rules = [{"apiGroups": [GROUP], "resources": [*QUEUES], "verbs": verbs}]
    return {"apiVersion": RBAC_API, "kind": "ClusterRole", "metadata": metadata, "rules": rules}
