"""The ValidatingAdmissionPolicies that keep a pod at the size for which its gate is removed. Values, as YAML.

In Gate mode the operator decides which pods start, and the quota is a ceiling far above the queue's level. The subresource `pods/resize`
would let a pod of 100m grow to 8 cpu once it runs, or while the patch that removes its gate is on its way. In the other modes the quota
bounds a resize as it bounds a creation. Where several queues share a namespace, the class of a pod says which one releases it.
"""

from __future__ import annotations

from fairburst.config import Config
from fairburst.kube.install.scope import POLICY_API, Manifest, denying, managed_namespaces
from fairburst.kube.names import GROUP, HOLDS_LABEL, LANE_CLASSES, LANE_LABELS, LANES_HOLD_LABEL, POOL_LABEL

_OPERATES = f"authorizer.group('{GROUP}').resource('latencyqueues').namespace(request.namespace).check('operate').allowed()"
_CONTAINERS = "spec.containers + {0}.spec.?initContainers.orValue([])"


def _requests(resources: str) -> str:
    return f"{resources}.?resources.?requests.orValue({{}})"


def _no_more(new: str, old: str) -> str:
    """Return CEL for whether every request of `new` is in `old` and no larger than there."""
    return (
        f"{_requests(new)}.all(name, name in {_requests(old)} && "
        f"!quantity({_requests(new)}[name]).isGreaterThan(quantity({_requests(old)}[name])))"
    )


def resize_policies(config: Config) -> list[Manifest]:
    """Return the policy with its bindings: to namespaces whose default queue holds pods, and to those of which further queues hold work."""
    name = f"fairburst-resize.{config.pool.name}"
    mine, before = "object." + _CONTAINERS.format("object"), "oldObject." + _CONTAINERS.format("oldObject")
    grows = f"!({_no_more('object.spec', 'oldObject.spec')}) || !({mine}).all(new, ({before}).exists(old, old.name == new.name && "
    grows += f"{_no_more('new', 'old')}))"
    sentence = (
        "spec.containers: expected requests to stay or to shrink, because the queue releases the pod for what it requests; delete the pod "
        "and create a larger one"
    )
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}]
        },
        "variables": [
            {"name": "labels", "expression": "namespaceObject.metadata.?labels.orValue({})"},
            {"name": "lane", "expression": f"object.spec.?priorityClassName.orValue('').replace('{LANE_CLASSES[1][:-1]}', '')"},
            {  # pods of a lane that no queue has belong to the default queue
                "name": "held",
                "expression": f"variables.labels[?'{LANE_LABELS[1][:-1]}' + variables.lane].hasValue() ? "
                f"(variables.lane + '-Pods') in variables.labels[?'{LANES_HOLD_LABEL}'].orValue('').split('.') : "
                f"variables.labels[?'{HOLDS_LABEL}'].orValue('') == 'Pods'",
            },
        ],
        "validations": [{"expression": f"!variables.held || !({grows}) || {_OPERATES}", "message": sentence, "reason": "Forbidden"}],
    }
    by_queue = f"fairburst-resize-by-queue.{config.pool.name}"
    return [
        {"apiVersion": POLICY_API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        _binding(name, name, {"key": HOLDS_LABEL, "operator": "In", "values": ["Pods"]}, config),
        _binding(by_queue, name, {"key": LANES_HOLD_LABEL, "operator": "Exists"}, config),
    ]


def _binding(name: str, policy: str, where: Manifest, config: Config) -> Manifest:
    """Bind the policy to the pool's namespaces whose labels fulfil `where`."""
    pool = {"key": POOL_LABEL, "operator": "In", "values": [config.pool.name]}
    return denying(name, policy, matchResources={"namespaceSelector": managed_namespaces(config, pool, where)})
