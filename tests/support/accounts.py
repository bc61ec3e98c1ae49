"""Acting as a service account."""

from __future__ import annotations

from pathlib import Path

import yaml

from e2e.cluster import Cluster


def account_kubeconfig(cluster: Cluster, home: str, account: str, folder: Path) -> Path:
    """A kubeconfig of a service account, with a token from the API server."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", account, "-n", home).strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
