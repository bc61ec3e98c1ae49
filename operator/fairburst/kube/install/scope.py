"""The scope of all admission policies: managed namespaces, never the system's or the operator's own.

The API server parses the namespaceSelector of every binding again for each request, at 2 µs for each requirement. Policies for pods
therefore select namespaces by as few labels as possible.
"""

from __future__ import annotations

import json
from typing import Any

from fairburst.config import Config
from fairburst.kube.names import MANAGED_LABEL

Manifest = dict[str, Any]

POLICY_API = "admissionregistration.k8s.io/v1"


def managed_namespaces(config: Config, *where: Manifest) -> Manifest:
    """Return the namespaceSelector of managed namespaces whose labels fulfil `where`."""
    system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted({"kube-system", config.namespace})}
    return {"matchLabels": {MANAGED_LABEL: "true"}, "matchExpressions": [system, *where]}


def outside_system(config: Config) -> str:
    """Return CEL for whether a request is for none of the namespaces that `managed_namespaces` never selects."""
    return " && ".join(f"request.namespace != {json.dumps(name)}" for name in ("kube-system", config.namespace))


def denying(name: str, policy: str, **scope: Manifest) -> Manifest:
    """Return the binding by which a validating policy refuses requests. `scope`: its matchResources, paramRef."""
    spec = {"policyName": policy, "validationActions": ["Deny"], **scope}
    return {"apiVersion": POLICY_API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def owned_by(kind: str, subject: str = "object") -> str:
    """Return CEL for whether the object, or `subject`, names a controller of this kind as its owner."""
    return (
        f"has({subject}.metadata.ownerReferences) && {subject}.metadata.ownerReferences.exists(one, one.kind == '{kind}' && "
        "has(one.controller) && one.controller)"
    )
