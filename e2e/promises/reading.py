"""Objects as the API server has them, read from within this process.

Each start of kubectl takes a quarter of a second of a core. These tests read all the time, from a cluster that shares the cores with them.
For what users do with kubectl, the tests use kubectl.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubernetes.config import new_client_from_config

JsonObject = dict[str, Any]

_KINDS = {
    "/api/v1": {"event", "node", "pod", "resourcequota"},
    "/apis/apiextensions.k8s.io/v1": {"customresourcedefinition"},
    "/apis/apps/v1": {"deployment"},
    "/apis/batch/v1": {"job"},
    "/apis/coordination.k8s.io/v1": {"lease"},
    "/apis/fairburst.dev/v1alpha1": {"latencyqueue", "throughputqueue"},
    "/apis/policy/v1": {"poddisruptionbudget"},
}
_SHORT = {"crd": "customresourcedefinition", "latq": "latencyqueue", "pdb": "poddisruptionbudget", "thrq": "throughputqueue"}


class Reader:
    """Reads as the user of a kubeconfig. Kinds as kubectl accepts them: singular, plural, or their short name."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = new_client_from_config(str(kubeconfig))

    def get(self, kind: str, name: str, namespace: str = "") -> JsonObject:
        """Return the object; empty if there is none."""
        return self._ask(f"{_path(kind, namespace)}/{name}", "") or {}

    def list(self, kind: str, namespace: str = "", labels: str = "") -> Sequence[JsonObject]:
        """Return all objects of a namespace, or of all namespaces, that have these labels."""
        found = self._ask(_path(kind, namespace), labels)
        assert found is not None, f"the API server does not know {kind}"
        items: Sequence[JsonObject] = found["items"]
        return items

    def _ask(self, path: str, labels: str) -> JsonObject | None:
        """Return the answer, or None if nothing is found."""
        selection = [("labelSelector", labels)] if labels else []
        request = self._client.param_serialize("GET", path, query_params=selection, auth_settings=["BearerToken"])
        answer = self._client.call_api(*request, _request_timeout=30)
        text = answer.read()
        if answer.status == 404:
            return None
        assert answer.status == 200, f"GET {path}: {answer.status} {text[:500]!r}"
        found: JsonObject = json.loads(text)
        return found


def _path(kind: str, namespace: str) -> str:
    singular = _SHORT.get(kind.lower(), kind.lower().removesuffix("s"))
    (group,) = [group for group, kinds in _KINDS.items() if singular in kinds]
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}{where}/{singular}s"
