"""Objects of a cluster, read and written from within this process.

Each start of kubectl takes at least a tenth of a second of a core. Tests read all the time, from a cluster that shares the cores with them.
For what users do with kubectl, the tests use kubectl.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.config import new_client_from_config
from urllib3.exceptions import HTTPError

from e2e.cluster.errors import ClusterError

JsonObject = dict[str, Any]
Query = Mapping[str, str]
AS_KUBECTL = {"fieldValidation": "Strict", "fieldManager": "kubectl"}
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
METADATA = "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadataList"
REQUEST_SECONDS = 60


class RefusedError(ClusterError):
    """An answer of 400 or above, with the API server's words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Served:
    """Where the API server serves a kind. `group`: the path of its group and version."""

    group: str
    plural: str
    api_version: str
    kind: str
    namespaced: bool

    def path(self, namespace: str = "", *below: str) -> str:
        where = ["namespaces", namespace] if namespace and self.namespaced else []
        return "/".join([self.group, *where, self.plural, *filter(None, below)])


class Objects:
    """Requests as the user of a kubeconfig. Kinds as kubectl accepts them: singular, plural, or their short name.

    All raise ClusterError, with the API server's words if it refuses.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._client = new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._served: dict[str, Served] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> JsonObject:
        """Return the object; empty if there is none."""
        try:
            return self.request("GET", self._find(kind).path(namespace, name))
        except RefusedError as error:
            if error.status == 404:
                return {}
            raise

    def list(self, kind: str, namespace: str = "", labels: str = "", fields: str = "", accept: str = "") -> list[JsonObject]:
        """Return all objects of a namespace, or of all namespaces, that match."""
        served, chosen = self._find(kind), {"labelSelector": labels, "fieldSelector": fields}
        found = self.request("GET", served.path(namespace), accept=accept, query={key: text for key, text in chosen.items() if text})
        return [{"apiVersion": served.api_version, "kind": served.kind} | one for one in found["items"] or ()]

    def create(self, obj: JsonObject, **parameters: str) -> JsonObject:
        """Return the object as stored."""
        return self.request("POST", self._of(obj), obj, query=AS_KUBECTL | parameters)

    def apply(self, obj: JsonObject) -> None:
        """Apply an object as `kubectl apply --server-side --force-conflicts` does."""
        path = f"{self._of(obj)}/{obj['metadata']['name']}"
        self.request("PATCH", path, obj, form="apply-patch+yaml", query=AS_KUBECTL | {"force": "true"})

    def patch(self, kind: str, name: str, namespace: str, change: JsonObject, subresource: str = "") -> None:
        path = self._find(kind).path(namespace, name, subresource)
        self.request("PATCH", path, change, form="merge-patch+json", query=AS_KUBECTL)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Ask for the deletion of an object, and wait for nothing."""
        self.request("DELETE", self._find(kind).path(namespace, name), query={"propagationPolicy": "Background"})

    def request(
        self, method: str, path: str, body: JsonObject | None = None, *, form: str = "json", accept: str = "", query: Query | None = None
    ) -> JsonObject:
        """Return the answer. `form`: the body's media type below application/."""
        headers = {"Accept": accept or "application/json", "Content-Type": f"application/{form}"}
        sent = self._client.param_serialize(
            method, path, query_params=list((query or {}).items()), header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = self._client.call_api(*sent, _request_timeout=REQUEST_SECONDS)
            text = answer.read()
        except HTTPError as error:
            raise ClusterError(f"{method} {path}: {error}") from error
        found: JsonObject = json.loads(text) if text.startswith(b"{") else {"message": text.decode(errors="replace")}
        if answer.status >= 400:
            raise RefusedError(answer.status, f"{method} {path}: {answer.status} {found.get('message')}")
        return found

    def _of(self, obj: JsonObject) -> str:
        """Return the path of an object's collection."""
        return self._find(f"{obj['apiVersion']} {obj['kind']}").path(obj["metadata"].get("namespace", "default"))

    def _find(self, name: str) -> Served:
        if name.lower() not in self._served:
            self._served = self._discover()
        if name.lower() not in self._served:
            raise ClusterError(f"the API server does not serve {name}")
        return self._served[name.lower()]

    def _discover(self) -> dict[str, Served]:
        """Return all that is served, by every name; where several groups or versions use a name, the preferred one."""
        named: dict[str, Served] = {}
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=DISCOVERY)["items"]:
                for version in group["versions"]:
                    api_version = "/".join(filter(None, (group["metadata"].get("name"), version["version"])))
                    for one in version.get("resources", ()):
                        kind = one["responseKind"]["kind"]
                        served = Served(f"{root}/{api_version}", one["resource"], api_version, kind, one["scope"] == "Namespaced")
                        for name in (one["resource"], one["singularResource"], *one.get("shortNames", ()), f"{api_version} {kind}"):
                            named.setdefault(name.lower(), served)
        return named


def objects_of(kubeconfig: Path) -> Objects:
    """Return the objects of a kubeconfig's cluster, with the connections of earlier calls, unless the file has changed: a cluster that is
    started again has another port.
    """
    return _objects_of(kubeconfig, kubeconfig.read_text())


@functools.lru_cache(maxsize=16)
def _objects_of(kubeconfig: Path, _content: str) -> Objects:
    return Objects(kubeconfig)
