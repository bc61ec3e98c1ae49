"""The ValidatingAdmissionPolicy that ends a quota's temporary part while no operator runs. It needs no process of ours.

A quota may permit more than its queue's lasting level for a while: the rate of an open window, or room for late releases. Two annotations
on such a quota hold the end of the temporary part and the lasting amounts. After that time the API server compares the quota's own
`status.used` with the lasting amounts, and refuses new pods while any is reached. A live operator rewrites both in time, so the policy then
refuses nothing (docs/decisions/0122-a-quota-that-expires.md).
"""

from __future__ import annotations

from fairburst.config import Config
from fairburst.kube.install.scope import POLICY_API, Manifest, denying, managed_namespaces
from fairburst.kube.names import EXPIRES_ANNOTATION, LASTING_ANNOTATION, POOL_LABEL

_NOTES = "params.metadata.?annotations.orValue({})"
# Quotas are scoped by priority class: a namespace may have several, and each pod counts for one.
_COUNTED = (
    "params.spec.?scopeSelector.?matchExpressions.orValue([])"
    ".all(one, (object.spec.?priorityClassName.orValue('') in one.?values.orValue([])) == (one.operator == 'In'))"
)
# The API server sets the creation time before it validates. No other clock is readable in an expression.
_EXPIRED = (
    f"'{EXPIRES_ANNOTATION}' in {_NOTES} && timestamp({_NOTES}['{EXPIRES_ANNOTATION}']) < timestamp(object.metadata.creationTimestamp)"
    f" && {_COUNTED}"
)
# Lasting amounts have the form "requests.cpu=2,requests.memory=4Gi".
_PAIRS = f"{_NOTES}['{LASTING_ANNOTATION}'].split(',').map(pair, pair.split('='))"
_USED = "params.status.?used.orValue({})"
_ROOM = f"{_PAIRS}.all(one, !(one[0] in {_USED}) || quantity({_USED}[one[0]]).isLessThan(quantity(one[1])))"


def expiry_policy(config: Config) -> list[Manifest]:
    """Return the policy with its binding to all quotas of the pool in managed namespaces."""
    name = f"fairburst-expiry.{config.pool.name}"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    message = (
        f"'the quota ' + params.metadata.name + ' of the namespace has had a temporary part until ' + {_NOTES}['{EXPIRES_ANNOTATION}'] + "
        f"', and now permits no more than ' + {_NOTES}['{LASTING_ANNOTATION}'] + ': no operator has renewed it. Look at the operator'"
    )
    spec = {
        "failurePolicy": "Ignore",  # unreadable annotations are no reason to refuse work; the quota still applies
        "paramKind": {"apiVersion": "v1", "kind": "ResourceQuota"},
        "matchConstraints": {"resourceRules": [pods]},
        "matchConditions": [{"name": "expired", "expression": _EXPIRED}],
        "validations": [{"expression": _ROOM, "messageExpression": message, "reason": "Forbidden"}],
    }
    quotas = {"selector": {"matchLabels": {POOL_LABEL: config.pool.name}}, "parameterNotFoundAction": "Allow"}
    binding = denying(name, name, paramRef=quotas, matchResources={"namespaceSelector": managed_namespaces(config)})
    return [{"apiVersion": POLICY_API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}, binding]
