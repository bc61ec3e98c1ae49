"""What an installation needs besides the operator's process: CRDs, priority classes, admission policies, RBAC. Values, written as YAML.

The admission policies stamp pods at their creation, inside the API server: with the class of the queue that governs their
namespace (its status.stamp), else with the lowest class. Jobs get their size written into them (job_size.py), by which the pods of
throughput queues are stamped. They never fail closed: the quota is the net below them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from fairburst.config import Config
from fairburst.kube.api.objects import DISRUPTION, OWN_CONTROLLERS
from fairburst.kube.enforce.stamp import class_values
from fairburst.kube.install.crd import all_crds
from fairburst.kube.install.operator_rules import operator_policies
from fairburst.kube.install.scope import POLICY_API, Manifest, managed_namespaces, owned_by
from fairburst.kube.install.tenant_rules import OPERATE, RBAC_API, admin_role, edit_role, tenant_policies, view_role
from fairburst.kube.jobs.job_size import (
    IS_LABELLED,
    IS_NEW_OR_RELABELLED,
    SIZE_LABEL,
    SMALL,
    label_patches,
    size_variables,
    unlabel_patches,
)
from fairburst.kube.names import API_VERSION, GATE, GROUP, HELD_ANNOTATION, LOWEST_CLASS
from fairburst.kube.workloads.job_set import GROUP as JOB_SET_GROUP
from fairburst.kube.workloads.registry import KINDS

SERVICE_ACCOUNT = "fairburst"
_READ = ["get", "list", "watch"]


@dataclass(frozen=True)
class Subject:
    """Who the operator is to the API server: a user by name, or (None) the service account that comes with the manifests."""

    user: str | None = None

    def username(self, namespace: str) -> str:
        """The name that the API server knows the subject by."""
        return self.user or f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"

    def reference(self, namespace: str) -> Manifest:
        """The subject of a role binding."""
        if self.user is not None:
            return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.user}
        return {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}


def all_manifests(config: Config, subject: Subject) -> list[Manifest]:
    """Everything, in an order in which it can be applied."""
    stamps = [] if config.webhook.enabled else policies(config)  # the webhook is registered by the chart, which knows its certificate
    rules = [*stamps, *tenant_policies(config), *operator_policies(config, subject.username(config.namespace))]
    return [*all_crds().values(), *priority_classes(config), *rules, *access(config, subject), *tenant_roles(config)]


def to_yaml(manifests: list[Manifest]) -> str:
    """One multi-document text for `kubectl apply -f -`."""
    return yaml.safe_dump_all(manifests, sort_keys=False, width=140, explicit_start=True)


def priority_classes(config: Config) -> list[Manifest]:
    """The priority ladder. It orders the scheduler's queue; none of it ever preempts."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": False,
            "preemptionPolicy": "Never",
            "description": "Given by fairburst's admission policies to pods of managed namespaces.",
        }
        for name, value in class_values(config).items()
    ]


def policies(config: Config) -> list[Manifest]:
    """The policies with their bindings: stamps by queue kind, the default for namespaces without a valid queue, and the size of Jobs."""
    pool = config.pool.name
    sizes = []
    if config.small_jobs.enabled:
        sizes = [
            *_size_policy(f"fairburst-size-throughputqueue.{pool}", config),
            *_no_size_policy(f"fairburst-size-default.{pool}", config),
        ]
    return [
        *_queue_policy(f"fairburst-stamp-latencyqueue.{pool}", "LatencyQueue", config),
        *_queue_policy(f"fairburst-stamp-throughputqueue.{pool}", "ThroughputQueue", config),
        *_default_policy(f"fairburst-stamp-default.{pool}", config),
        *_hold_policy(f"fairburst-hold-latencyqueue.{pool}", "LatencyQueue", config),
        *_hold_policy(f"fairburst-hold-throughputqueue.{pool}", "ThroughputQueue", config),
        *_disruption_policy(f"fairburst-disruption.{pool}", config),
        *sizes,
    ]


def _queue_policy(name: str, kind: str, config: Config) -> list[Manifest]:
    """Sets the priority of new pods from the queue's status. The match conditions keep the policy from patching a pod a second time: each
    patch costs the API server an encoding and a decoding of the pod, and every policy is called again after any of them has changed it."""
    stamp = "params.status.stamp"
    if kind == "ThroughputQueue" and config.small_jobs.enabled:
        stamp = f"(has(params.status.smallStamp) && {_OF_A_SMALL_JOB} ? params.status.smallStamp : params.status.stamp)"
    selector = config.pool.node_selector
    expression = f"{_stamp_patches(stamp)} + {_NOTE}{_node_selector_patches(selector)} + {_GATE_PATCHES}"
    done = f"{_NOTED} && {_has_stamp(stamp)} && {_GATED_AS_IT_SHOULD_BE}{_has_node_selector(selector)}"
    conditions = [
        *_NOT_OF_THE_SYSTEM,
        {"name": "governed", "expression": _governs(config)},
        {"name": "not-done", "expression": f"!({done})"},
    ]
    return _with_queue(_policy(name, [STAMPED_PODS], [expression], conditions), _binding(name, config), kind)


def _size_policy(name: str, config: Config) -> list[Manifest]:
    """Writes the size of each Job into it and into its pod template; also in updates, since a suspended Job's template can be edited."""
    conditions = [{"name": "governed", "expression": _governs(config)}, {"name": "new-or-relabelled", "expression": IS_NEW_OR_RELABELLED}]
    note = f"(request.operation == 'CREATE' ? {_NOTE} : [])"
    policy = _policy(name, [STAMPED_JOBS], [f"{label_patches()} + {note}"], conditions)
    policy["spec"]["variables"] = size_variables("params.?status.?sizeThreshold.orValue({})")
    return _with_queue(policy, _binding(name, config), "ThroughputQueue")


def _no_size_policy(name: str, config: Config) -> list[Manifest]:
    """Takes sizes that no queue has given off new Jobs; else one made before its namespace has a queue would be small by its own word."""
    conditions = [_NOT_NOTED, {"name": "labelled", "expression": IS_LABELLED}]
    return [_policy(name, [NEW_JOBS], [unlabel_patches()], conditions), _binding(name, config)]


def _hold_policy(name: str, kind: str, config: Config) -> list[Manifest]:
    """Suspends new Jobs and JobSets of queues in Suspend mode and notes that it is we who hold them, also those that their user had
    suspended."""
    key = _text(HELD_ANNOTATION)
    note = (
        "has(object.metadata.annotations) ? "
        f"JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey({key}), value: 'true'}} : "
        f"JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{{key}: 'true'}}}}"
    )
    conditions = [
        *_STARTED_BY_NOBODY_ELSE,
        {"name": "holds", "expression": f"{_governs(config)} && params.status.?holds.orValue('') == 'Jobs'"},
        {
            "name": "not-held",
            "expression": f"!(object.spec.?suspend.orValue(false) && object.metadata.?annotations[?{key}].orValue('') == 'true')",
        },
    ]
    expression = f"[JSONPatch{{op: 'add', path: '/spec/suspend', value: true}}, {note}]"
    policy = _policy(name, HELD_JOBS, [expression], conditions)
    return _with_queue(policy, _binding(name, config), kind)


def _disruption_policy(name: str, config: Config) -> list[Manifest]:
    """Keeps evictions from counting as failures of new Jobs that say nothing about failures themselves. Only a Job whose failed pods stay
    can have such a rule, and only one that replaces them no sooner than they have failed."""
    pattern = f"Object.spec.podFailurePolicy.rules.onPodConditions{{type: '{DISRUPTION}', status: 'True'}}"
    rule = f"Object.spec.podFailurePolicy.rules{{action: 'Ignore', onPodConditions: [{pattern}]}}"
    expression = (
        "[JSONPatch{op: 'add', path: '/spec/podReplacementPolicy', value: 'Failed'}, "
        f"JSONPatch{{op: 'add', path: '/spec/podFailurePolicy', value: Object.spec.podFailurePolicy{{rules: [{rule}]}}}}]"
    )
    condition = "!has(object.spec.podFailurePolicy) && object.spec.template.spec.?restartPolicy.orValue('') == 'Never'"
    return [_policy(name, [NEW_JOBS], [expression], [{"name": "has-no-rule", "expression": condition}]), _binding(name, config)]


def _with_queue(policy: Manifest, binding: Manifest, kind: str) -> list[Manifest]:
    """The pair with the queues of the object's namespace as parameters; where there is none, nothing is done."""
    policy["spec"]["paramKind"] = {"apiVersion": API_VERSION, "kind": kind}
    binding["spec"]["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return [policy, binding]


def _governs(config: Config) -> str:
    """CEL for whether the parameter is a queue of this pool that is in force."""
    return f"has(params.status) && has(params.status.stamp) && params.spec.pool == {_text(config.pool.name)}"


def _default_policy(name: str, config: Config) -> list[Manifest]:
    """Gives the lowest class to what no queue has stamped, whatever class it names. In either order the queue's stamp is what remains."""
    patches = _class_patches(str(class_values(config)[LOWEST_CLASS]), "'Never'", _text(LOWEST_CLASS))
    return [_policy(name, [STAMPED_PODS], [patches], [*_NOT_OF_THE_SYSTEM, _NOT_NOTED]), _binding(name, config)]


# A note from a queue's policy to the default one that no tenant can forge: the API server empties metadata.uid before any policy sees an
# object that is created, and gives it its own when all have.
_NOTE = '[JSONPatch{op: "add", path: "/metadata/uid", value: "fairburst-stamped"}]'
_NOTED = "object.metadata.?uid.orValue('') == 'fairburst-stamped'"
_NOT_NOTED = {"name": "not-stamped", "expression": f"!({_NOTED})"}
STAMPED_PODS: Manifest = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
STAMPED_JOBS: Manifest = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]}
NEW_JOBS: Manifest = STAMPED_JOBS | {"operations": ["CREATE"]}
NEW_JOB_SETS: Manifest = {"apiGroups": [JOB_SET_GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobsets"]}
HELD_JOBS = (NEW_JOBS, NEW_JOB_SETS)
# A controller that makes Jobs suspends and resumes them as it sees fit (JobSet does); a CronJob only creates them. Kueue holds its own.
_STARTED_BY_NOBODY_ELSE = [
    {
        "name": "not-controlled",
        "expression": "!has(object.metadata.ownerReferences) || "
        "!object.metadata.ownerReferences.exists(one, has(one.controller) && one.controller && one.kind != 'CronJob')",
    },
    {"name": "not-queued-by-kueue", "expression": "!object.metadata.?labels[?'kueue.x-k8s.io/queue-name'].hasValue()"},
    {"name": "not-managed-elsewhere", "expression": f"!has(object.spec.managedBy) || object.spec.managedBy in {list(OWN_CONTROLLERS)}"},
]
_NOT_OF_THE_SYSTEM = [
    {
        "name": "not-system",
        "expression": "!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')",
    },
    {
        "name": "not-daemonset",
        "expression": f"!({owned_by('DaemonSet')})",
    },
]
# Once, whatever other gates the pod has; a pod that names its node can have no gate.
_OUR_GATE = f"Object.spec.schedulingGates{{name: '{GATE}'}}"
_GATED_AS_IT_SHOULD_BE = (
    "(params.status.?holds.orValue('') != 'Pods' || has(object.spec.nodeName) || "
    f"object.spec.?schedulingGates.orValue([]).exists(one, one.name == '{GATE}'))"
)
_GATE_PATCHES = (
    f"({_GATED_AS_IT_SHOULD_BE} ? [] : [has(object.spec.schedulingGates) ? "
    f"JSONPatch{{op: 'add', path: '/spec/schedulingGates/-', value: {_OUR_GATE}}} : "
    f"JSONPatch{{op: 'add', path: '/spec/schedulingGates', value: [{_OUR_GATE}]}}])"
)
# Only a Job's template is labelled by us: a label on a pod of another kind has no effect.
_OF_A_SMALL_JOB = f"object.metadata.?labels[?'{SIZE_LABEL}'].orValue('') == '{SMALL}' && {owned_by('Job')}"


def _policy(name: str, rules: Sequence[Manifest], expressions: list[str], conditions: list[Manifest]) -> Manifest:
    return {
        "apiVersion": POLICY_API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Ignore",  # a pod that is not stamped is still held by the quota; one that is refused is lost
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": list(rules)},
            "matchConditions": conditions,
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}} for expression in expressions],
        },
    }


def _binding(name: str, config: Config) -> Manifest:
    return {
        "apiVersion": POLICY_API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "matchResources": {"namespaceSelector": managed_namespaces(config)},
        },
    }


def _stamp_patches(stamp: str) -> str:
    return _class_patches(f"{stamp}.value", f"{stamp}.preemptionPolicy", f"{stamp}.className")


def _class_patches(value: str, preemption_policy: str, name: str) -> str:
    """The Priority plugin has run before and does not run again: class, value and preemption policy must be set together."""
    return (
        f'[JSONPatch{{op: "add", path: "/spec/priority", value: {value}}}, '
        f'JSONPatch{{op: "add", path: "/spec/preemptionPolicy", value: {preemption_policy}}}, '
        f'JSONPatch{{op: "add", path: "/spec/priorityClassName", value: {name}}}]'
    )


def _has_stamp(stamp: str) -> str:
    """CEL for whether the pod has the class, value and preemption policy of a stamp."""
    return (
        f"object.spec.?priorityClassName.orValue('') == {stamp}.className && object.spec.?priority.orValue(0) == {stamp}.value && "
        f"object.spec.?preemptionPolicy.orValue('') == {stamp}.preemptionPolicy"
    )


def _has_node_selector(selector: dict[str, str]) -> str:
    """CEL, to be added to a condition, for whether the pod is bound to the pool's nodes."""
    labels = ", ".join(f"{_text(key)}: {_text(value)}" for key, value in sorted(selector.items()))
    mine = "object.spec.?nodeSelector.orValue({})"
    return f" && {{{labels}}}.all(key, key in {mine} && {mine}[key] == {{{labels}}}[key])" if selector else ""


def _node_selector_patches(selector: dict[str, str]) -> str:
    if not selector:
        return ""
    whole = ", ".join(f"{_text(key)}: {_text(value)}" for key, value in sorted(selector.items()))
    single = ", ".join(
        f'JSONPatch{{op: "add", path: "/spec/nodeSelector/" + jsonpatch.escapeKey({_text(key)}), value: {_text(value)}}}'
        for key, value in sorted(selector.items())
    )
    return f' + (has(object.spec.nodeSelector) ? [{single}] : [JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {{{whole}}}}}])'


def _text(value: str) -> str:
    """A CEL string literal; JSON's is one."""
    return json.dumps(value)


def access(config: Config, subject: Subject) -> list[Manifest]:
    """The operator's namespace and its rights: no wildcard, no secrets, nothing that its code does not do."""
    name = f"fairburst-operator.{config.pool.name}"
    namespace = config.namespace
    account = [] if subject.user is not None else [_named("v1", "ServiceAccount", SERVICE_ACCOUNT, namespace)]
    return [
        _named("v1", "Namespace", namespace),
        *account,
        _named(RBAC_API, "ClusterRole", name) | {"rules": cluster_rules()},
        _named(RBAC_API, "ClusterRoleBinding", name) | _grant("ClusterRole", name, subject.reference(namespace)),
        _named(RBAC_API, "Role", name, namespace) | {"rules": own_namespace_rules()},
        _named(RBAC_API, "RoleBinding", name, namespace) | _grant("Role", name, subject.reference(namespace)),
    ]


def tenant_roles(config: Config) -> list[Manifest]:
    """Roles about queues, for people: parts of view, edit and admin, and one that weighs tenants against each other."""
    return [view_role(config), edit_role(config), admin_role(config)]


def cluster_rules() -> list[Manifest]:
    """What the operator may do in every namespace."""
    queues = ["latencyqueues", "throughputqueues"]
    return [
        _rule("", ["nodes", "limitranges"], _READ),
        _rule("", ["pods"], [*_READ, "patch"]),  # takes the gate off
        _rule("", ["pods/eviction"], ["create"]),  # for queues with reclaim: Evict; disruption budgets hold
        _rule("", ["namespaces"], [*_READ, "patch"]),  # puts the managed label back
        _rule("", ["resourcequotas"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["resourcequotas/status"], ["patch"]),
        *_workload_rules(),
        _rule("", ["events"], ["create"]),
        _rule(GROUP, queues, [*_READ, OPERATE]),  # what tenants are refused (tenant_rules.py)
        _rule(GROUP, [f"{one}/status" for one in queues], ["patch"]),
    ]


def _workload_rules() -> list[Manifest]:
    """Rules about the kinds of work: all are read; an annotation makes a controller try again, and a patch starts or resizes a Job."""
    groups = dict[tuple[str, bool], list[str]]()
    for kind in KINDS.values():
        groups.setdefault((kind.group, kind.patched), []).append(kind.plural)
    return [_rule(group, plurals, [*_READ, "patch"] if patched else _READ) for (group, patched), plurals in groups.items()]


def own_namespace_rules() -> list[Manifest]:
    """What the operator may do in its own namespace, where its memory is kept."""
    return [
        _rule("", ["configmaps"], ["get", "create", "update", "patch"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "watch", "create", "update"]),
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _grant(role_kind: str, role: str, subject: Manifest) -> Manifest:
    return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}, "subjects": [subject]}


def _named(api_version: str, kind: str, name: str, namespace: str | None = None) -> Manifest:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
