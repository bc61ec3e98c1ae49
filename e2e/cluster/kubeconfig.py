"""A minimal reader for kubeconfigs from other tools, with only the fields that this package needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.errors import ClusterError


def current_context(path: Path) -> tuple[str, str | None]:
    """Return the server of a kubeconfig's current context and, if its user has one, the token."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _by_name(config["contexts"], config["current-context"])["context"]
        server = _by_name(config["clusters"], context["cluster"])["cluster"]["server"]
        user = _by_name(config.get("users") or [], context["user"])["user"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ClusterError(f"{path}: expected a kubeconfig with a current context, found {type(error).__name__}: {error}") from error
    return str(server), user.get("token")


def _by_name(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for item in items:
        if item["name"] == name:
            return item
    raise KeyError(name)
