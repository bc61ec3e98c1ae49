"""Objects of an installation besides the operator's process: CRDs, priority classes, admission policies, RBAC. Values, written as YAML.

The admission policies are in `mutating_policies.py`, `tenant_rules.py` and `operator_rules.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from fairburst.config import Config
from fairburst.kube.enforce.pod_priority import class_values
from fairburst.kube.install.crd import all_crds
from fairburst.kube.install.mutating_policies import policies
from fairburst.kube.install.operator_rules import operator_policies
from fairburst.kube.install.scope import Manifest
from fairburst.kube.install.tenant_rules import OPERATE, RBAC_API, admin_role, edit_role, tenant_policies, view_role
from fairburst.kube.names import GROUP, PLURALS
from fairburst.kube.workloads.registry import KINDS

SERVICE_ACCOUNT = "fairburst"
_READ = ["get", "list", "watch"]


@dataclass(frozen=True)
class Subject:
    """Identity of the operator at the API server: a user by name, or (None) the service account that comes with the manifests."""

    user: str | None = None

    def username(self, namespace: str) -> str:
        """Return the name by which the API server knows the subject."""
        return self.user or f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"

    def reference(self, namespace: str) -> Manifest:
        """Return the subject of a role binding."""
        if self.user is not None:
            return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.user}
        return {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}


def all_manifests(config: Config, subject: Subject) -> list[Manifest]:
    """Return all objects, in an order in which they can be applied."""
    priorities = [] if config.webhook.enabled else policies(config)  # the webhook is registered by the chart, which knows its certificate
    rules = [*priorities, *tenant_policies(config), *operator_policies(config, subject.username(config.namespace))]
    return [*all_crds().values(), *priority_classes(config), *rules, *access(config, subject), *tenant_roles(config)]


def to_yaml(manifests: list[Manifest]) -> str:
    """Return one multi-document text for `kubectl apply -f -`."""
    return yaml.safe_dump_all(manifests, sort_keys=False, width=140, explicit_start=True)


def priority_classes(config: Config) -> list[Manifest]:
    """Return the priority classes. They order the scheduler's queue and never preempt."""
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


def access(config: Config, subject: Subject) -> list[Manifest]:
    """Return the operator's namespace and its rights: no wildcard, no secrets, nothing that its code does not do."""
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
    """Return the roles for people: additions to view, edit and admin, the role of administrators of queues, and that to read the Lease."""
    return [view_role(config), edit_role(config), admin_role(config), *heartbeat_roles(config)]


def heartbeat_roles(config: Config) -> list[Manifest]:
    """Return the role by which every authenticated client reads the operator's Lease, whose renewTime says whether it runs."""
    name, namespace = f"fairburst-heartbeat.{config.pool.name}", config.namespace
    rule = _rule("coordination.k8s.io", ["leases"], ["get"]) | {"resourceNames": [config.lease_name]}
    everyone = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    return [
        _named(RBAC_API, "Role", name, namespace) | {"rules": [rule]},
        _named(RBAC_API, "RoleBinding", name, namespace) | _grant("Role", name, everyone),
    ]


def cluster_rules() -> list[Manifest]:
    """Return the rights of the operator in every namespace."""
    queues = list(PLURALS.values())
    return [
        _rule("", ["nodes", "limitranges"], _READ),
        _rule("resource.k8s.io", ["deviceclasses"], _READ),  # extended resources that DRA drivers provide
        _rule("node.k8s.io", ["runtimeclasses"], _READ),  # overheads, which templates of pods do not have
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),  # a queue says so where one of ours is missing
        _rule("", ["pods"], [*_READ, "patch"]),  # removes the gate
        _rule("", ["pods/eviction"], ["create"]),  # for queues with reclaim: Evict; disruption budgets hold
        _rule("", ["namespaces"], [*_READ, "patch"]),  # sets our labels
        _rule("", ["resourcequotas"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["resourcequotas/status"], ["patch"]),
        *_workload_rules(),
        _rule("", ["events"], ["create"]),
        _rule(GROUP, queues, [*_READ, OPERATE]),  # the verb that tenants lack (tenant_rules.py)
        _rule(GROUP, [f"{one}/status" for one in queues], ["patch"]),
    ]


def _workload_rules() -> list[Manifest]:
    """Return the rights on the kinds of work: an annotation makes a controller try again, and a patch starts or resizes a Job."""
    groups = dict[tuple[str, bool], list[str]]()
    for kind in KINDS.values():
        groups.setdefault((kind.group, kind.patched), []).append(kind.plural)
    return [_rule(group, plurals, [*_READ, "patch"] if patched else _READ) for (group, patched), plurals in groups.items()]


def own_namespace_rules() -> list[Manifest]:
    """Return the rights of the operator in its own namespace, where its memory is kept."""
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
