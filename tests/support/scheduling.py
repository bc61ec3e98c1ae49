"""kube-scheduler with our extender, as examples/kube-scheduler.yaml configures it, and the nodes of its pods."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import Cluster

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kube-scheduler.yaml"


def asking(port: int) -> dict[str, Any]:
    """Return the example's configuration for an extender on a loopback port, with a long timeout: the machine may be busy with tests."""
    configuration: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    (extender,) = configuration["extenders"]
    extender |= {"urlPrefix": f"http://127.0.0.1:{port}", "httpTimeout": "30s"}
    return configuration


def nodes_of(cluster: Cluster, namespace: str) -> Counter[str]:
    """Count a namespace's pods by node."""
    items = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
    return Counter(item["spec"]["nodeName"] for item in items if item["spec"].get("nodeName"))
