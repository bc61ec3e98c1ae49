"""A plug-in of pytest that gives every namespace with an enforced queue a further, idle one: what holds of one queue holds beside another.

`make test-beside` runs the tests on a control plane with it (docs/decisions/0250-several-queues-in-a-namespace.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from e2e.objects import Objects
from fairburst.kube.names import API_VERSION, PLURALS

NAME = "zz-beside"  # the last by name, so that the other queue of the same second is the default queue
# What these say does not hold beside another queue, by their own numbers. By a part of the test's identifier, with the reason.
OTHER_BY_DESIGN = {
    "test_cli.py": "names a queue by its namespace alone",
    "test_restart.py": "its bursts fit the fair share of as many queues as it creates",
    "test_classes.py": "its classes are those of as many queues as it creates",
    "test_bad_input.py": "compares all quotas, and that of an idle queue follows the room that is left",
}


def beside(obj: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the further queue for an enforced queue, or for each in a list."""
    if obj.get("kind") == "List":
        for item in obj.get("items") or ():
            yield from beside(item)
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    if obj.get("kind") not in PLURALS or spec.get("enforcement") == "Observe" or metadata.get("name") == NAME:
        return
    where = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    pool = {"pool": spec["pool"]} if "pool" in spec else {}
    yield {"apiVersion": API_VERSION, "kind": "ThroughputQueue", "metadata": {"name": NAME, **where}, "spec": pool}


def in_documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the further queues for those in the input of kubectl."""
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return
    for one in documents:
        yield from beside(one) if isinstance(one, dict) else ()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for part, why in OTHER_BY_DESIGN.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"beside another queue: {why}"))


@pytest.fixture(autouse=True, scope="session")
def further_queues() -> Iterator[None]:
    """Create the further queue after each queue that a test creates or applies."""
    create, apply, kubectl = Objects.create, Objects.apply, Cluster.kubectl

    def creating(self: Objects, obj: dict[str, Any], **parameters: str) -> dict[str, Any]:
        stored = create(self, obj, **parameters)
        for one in beside(obj):
            apply(self, one)
        return stored

    def applying(self: Objects, obj: dict[str, Any]) -> None:
        for one in (obj, *beside(obj)):
            apply(self, one)

    def calling(self: Cluster, *arguments: str, input: str | None = None, timeout: float = 60) -> str:  # noqa: A002 - as Cluster.kubectl
        said = kubectl(self, *arguments, input=input, timeout=timeout)
        stores = arguments[0] in {"apply", "create"} and not any(one == "--raw" or one.startswith("--dry-run") for one in arguments)
        for one in in_documents(input) if input and stores else ():
            named = "namespace" in one["metadata"] or "-n" not in arguments
            where = () if named else ("-n", arguments[arguments.index("-n") + 1])
            kubectl(self, "apply", "-f", "-", *where, input=json.dumps(one))
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objects, "create", creating)
        patch.setattr(Objects, "apply", applying)
        patch.setattr(Cluster, "kubectl", calling)
        yield
