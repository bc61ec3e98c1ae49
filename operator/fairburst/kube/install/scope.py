"""Where admission policies apply, whichever they are: in managed namespaces, and never in the system's or the operator's own."""

from __future__ import annotations

from typing import Any

from fairburst.config import Config
from fairburst.kube.names import MANAGED_LABEL

Manifest = dict[str, Any]

POLICY_API = "admissionregistration.k8s.io/v1"


def managed_namespaces(config: Config) -> Manifest:
    """A namespaceSelector."""
    return {
        "matchLabels": {MANAGED_LABEL: "true"},
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted({"kube-system", config.namespace})}
        ],
    }


def owned_by(kind: str) -> str:
    """CEL for whether a controller of this kind says that the object is its own."""
    return (
        f"has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(one, one.kind == '{kind}' && "
        "has(one.controller) && one.controller)"
    )
