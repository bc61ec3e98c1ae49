"""Requests with the credentials of an account instead of the administrator's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import Cluster
from e2e.objects import objects_of

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Account:
    """kubectl with other credentials: a flag such as `--token=...`. Its calls raise ClusterError with the API server's words."""

    cluster: Cluster
    credentials: str = field(repr=False)

    def __call__(self, *arguments: str, body: JsonObject | None = None) -> str:
        """Return what kubectl prints."""
        return self.cluster.kubectl(*arguments, self.credentials, input=None if body is None else json.dumps(body), timeout=120)

    def create(self, body: JsonObject, namespace: str) -> JsonObject:
        """Return the object as stored."""
        created: JsonObject = json.loads(self("create", "-n", namespace, "-f", "-", "-o", "json", body=body))
        return created

    def patch(self, kind: str, name: str, namespace: str, patch: Any, subresource: str = "", form: str = "merge") -> None:
        more = [f"--subresource={subresource}"] if subresource else []
        self("patch", kind, name, "-n", namespace, f"--type={form}", "-p", json.dumps(patch), *more)


def service_account(cluster: Cluster, name: str, home: str) -> Account:
    """Create a service account, and return it with a token of two hours."""
    objects = objects_of(cluster.kubeconfig)
    objects.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}})
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    answer = objects.request("POST", f"/api/v1/namespaces/{home}/serviceaccounts/{name}/token", wish)
    return Account(cluster, f"--token={answer['status']['token']}")


def account_kubeconfig(cluster: Cluster, home: str, account: str, folder: Path) -> Path:
    """A kubeconfig of a service account, with a token from the API server."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", account, "-n", home).strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
