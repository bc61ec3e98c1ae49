"""Every example, and every queue in the documentation, can be applied unchanged and gets the documented class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.objects import JsonObject
from e2e.promises.site import PATIENCE_SECONDS, SUITE_CONFIG, Site, namespace_object
from e2e.waiting import until
from tests.t1.test_examples import EXAMPLES, FILES, documents, promised

ROOT = EXAMPLES.parent
# The cluster of the examples, with 20 nodes of 32 cpu and 64Gi and two with GPUs. Its nodes do not exist yet.
DECLARED = {"cpu": "768", "memory": "2304Gi", "nvidia.com/gpu": "16"}


@pytest.fixture(scope="module")
def large(bare_site: Site) -> Site:
    """The release on a pool that declares this size, with nodes from an autoscaler."""
    pool = {**SUITE_CONFIG["pool"], "declaredCapacity": DECLARED, "countedResources": list(DECLARED), "autoscaled": True}
    bare_site.install({**SUITE_CONFIG, "pool": pool})
    return bare_site


@pytest.fixture
def applied(large: Site) -> Iterator[Any]:
    """A function that applies documents. All of them are deleted afterwards, with their namespaces."""
    namespaces: set[str] = set()

    def apply(*bodies: JsonObject) -> None:
        new = {one["metadata"]["name"] for one in bodies if one["kind"] == "Namespace"} - namespaces
        if new:
            large.wait_free(*new)
        namespaces.update(new)
        large.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(bodies))

    yield apply
    large.forget(*sorted(namespaces))


def classes(site: Site, wanted: dict[str, str]) -> dict[str, str]:
    """Return the classes of these queues that have been decided."""
    found = {one["metadata"]["name"]: one.get("status", {}).get("class", "") for one in (*site.list("latq"), *site.list("thrq"))}
    return {name: found.get(name, "") for name in wanted}


@pytest.mark.parametrize("file", FILES)
def test_an_example_is_applied_as_it_stands(large: Site, applied: Any, file: str) -> None:
    wanted = promised(file)
    bodies = documents(file)
    bare_pods = [one for one in bodies if one["kind"] == "Pod"]
    applied(*(one for one in bodies if one not in bare_pods))
    until(lambda: classes(large, wanted) == wanted, PATIENCE_SECONDS, f"classes {wanted}")
    for one in bare_pods:  # a new queue in Gate mode accepts bare pods once they are sure to get the gate
        until(lambda one=one: large.stored(one), PATIENCE_SECONDS, f"{one['metadata']['name']} to be accepted")  # type: ignore[misc]
    applied(*bodies)


def queues_in(page: Path) -> list[JsonObject]:
    """Return the complete queues in the YAML blocks of a page."""
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    found = [one for block in blocks for one in yaml.safe_load_all(block) if isinstance(one, dict)]
    return [one for one in found if str(one.get("apiVersion", "")).startswith("fairburst.dev/") and "namespace" in one["metadata"]]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if queues_in(page)]


def test_the_documentation_shows_queues() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_queues_of_a_page_can_be_applied(large: Site, applied: Any, page: Path) -> None:
    """A page at a time: two pages may show queues for the same namespace."""
    shown = queues_in(page)
    wanted = {one["metadata"]["name"]: {"LatencyQueue": "Hard", "ThroughputQueue": "Elastic"}[one["kind"]] for one in shown}
    applied(*(namespace_object(name) for name in sorted({one["metadata"]["namespace"] for one in shown})))
    applied(*shown)
    until(lambda: classes(large, wanted) == wanted, PATIENCE_SECONDS, f"classes {wanted}")
