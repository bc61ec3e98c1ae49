"""The ValidatingAdmissionPolicy that keeps a resized pod within what its queue permits. Values, as YAML.

In Gate mode the operator decides which pods start, and the quota has no limits. The subresource `pods/resize` would let a pod of 100m grow
to 8 cpu once it runs, or while the patch that removes its gate is on its way. Where several queues share a namespace, the class of a pod
says which one releases it.

In the other modes the quota bounds a resize as it bounds a creation, unless the last resize is infeasible. The quota then counts what the
kubelet has allocated, before and after the next resize, so that it would permit one to any size.
"""

from __future__ import annotations

from fairburst.config import Config
from fairburst.kube.install.scope import POLICY_API, Manifest, denying, managed_namespaces
from fairburst.kube.names import GROUP, HOLDS_LABEL, LANE_CLASSES, LANE_LABELS, LANES_HOLD_LABEL, POOL_LABEL

_OPERATES = f"authorizer.group('{GROUP}').resource('latencyqueues').namespace(request.namespace).check('operate').allowed()"
_CONTAINERS = "spec.containers + {0}.spec.?initContainers.orValue([])"


def requests_of(resources: str) -> str:
    """Return CEL for the requests of a container or a pod, a map that may be empty."""
    return f"{resources}.?resources.?requests.orValue({{}})"


def _no_more(new: str, most: str) -> str:
    """Return CEL for whether every request of `new` is in the map `most` and no larger than there."""
    return f"{requests_of(new)}.all(name, name in {most} && !quantity({requests_of(new)}[name]).isGreaterThan(quantity({most}[name])))"


def held_by_gate() -> dict[str, str]:
    """Return CEL variables: `held` says whether a gate holds the new pods of the object's queue; it takes the others."""
    return {
        "namespaceLabels": "namespaceObject.metadata.?labels.orValue({})",
        "lane": f"object.spec.?priorityClassName.orValue('').replace('{LANE_CLASSES[1][:-1]}', '')",
        # pods of a lane that no queue has belong to the default queue
        "held": f"variables.namespaceLabels[?'{LANE_LABELS[1][:-1]}' + variables.lane].hasValue() ? "
        f"(variables.lane + '-Pods') in variables.namespaceLabels[?'{LANES_HOLD_LABEL}'].orValue('').split('.') : "
        f"variables.namespaceLabels[?'{HOLDS_LABEL}'].orValue('') == 'Pods'",
    }


def _variables() -> dict[str, str]:
    return held_by_gate() | {
        "infeasible": "oldObject.?status.?conditions.orValue([]).exists(one, one.type == 'PodResizePending' && "
        "one.?reason.orValue('') == 'Infeasible')",
        "statuses": "oldObject.?status.?containerStatuses.orValue([]) + oldObject.?status.?initContainerStatuses.orValue([])",
    }


def resize_policies(config: Config) -> list[Manifest]:
    """Return the policy and its binding to the pool's namespaces."""
    name = f"fairburst-resize.{config.pool.name}"
    mine, before = "object." + _CONTAINERS.format("object"), "oldObject." + _CONTAINERS.format("oldObject")
    stays = f"{_no_more('object.spec', requests_of('oldObject.spec'))} && ({mine}).all(new, ({before}).exists(old, old.name == new.name && "
    stays += f"{_no_more('new', requests_of('old'))}))"
    allocated = "one.?allocatedResources.or(one.?resources.?requests).orValue({})"
    fits = f"({mine}).all(new, variables.statuses.exists(one, one.name == new.name && {_no_more('new', allocated)}))"
    released = (
        "spec.containers: expected requests to stay or to shrink, because the queue releases the pod for what it requests; delete the pod "
        "and create a larger one"
    )
    infeasible = (
        "spec.containers: expected requests of no more than status.containerStatuses[].allocatedResources, because the node cannot do the "
        "last resize (condition PodResizePending, reason Infeasible) and the quota does not count it; resize the pod to the allocated "
        "resources first"
    )
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}]
        },
        "variables": [{"name": key, "expression": cel} for key, cel in _variables().items()],
        "validations": [
            {"expression": f"!variables.held || {stays} || {_OPERATES}", "message": released, "reason": "Forbidden"},
            {"expression": f"!variables.infeasible || {fits} || {_OPERATES}", "message": infeasible, "reason": "Forbidden"},
        ],
    }
    pool = {"key": POOL_LABEL, "operator": "In", "values": [config.pool.name]}
    return [
        {"apiVersion": POLICY_API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        denying(name, name, matchResources={"namespaceSelector": managed_namespaces(config, pool)}),
    ]
