"""Every example works as it stands: its queues get the class that examples/README.md says, and its pods get their class and run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster, ClusterError
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFIGURATIONS = {"fairburst.yaml", "kube-scheduler.yaml"}  # configurations of programs, which are not applied
FILES = sorted(path.name for path in EXAMPLES.glob("*.yaml") if path.name not in CONFIGURATIONS)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def operated(fresh_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster with an operator, and with GPUs on two nodes."""
    cluster = fresh_cluster()
    cluster.add_nodes(2, cpu="64", memory="512Gi", extended={"nvidia.com/gpu": "8"}, name_prefix="gpu")
    with OperatorProcess(cluster, {}, "examples"):
        yield cluster


def documents(file: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((EXAMPLES / file).read_text()) if one]


def promised(file: str) -> dict[str, str]:
    """Return the class by queue from the README's table, where "the others" are the queues that it does not name."""
    (row,) = re.findall(rf"^\| `{re.escape(file)}` \|.*\| (.*) \|$", (EXAMPLES / "README.md").read_text(), flags=re.MULTILINE)
    named = dict(re.findall(r"`([\w-]+)` (\w+)", row))
    rest = re.search(r"the others (\w+)", row)
    queues = [one["metadata"]["name"] for one in documents(file) if one["kind"] in {"LatencyQueue", "ThroughputQueue"}]
    assert named.keys() <= set(queues)
    return {name: named[name] if rest is None else named.get(name, rest.group(1)) for name in queues}


def test_the_readme_has_every_example() -> None:
    assert set(re.findall(r"^\| `([\w-]+\.yaml)`", (EXAMPLES / "README.md").read_text(), flags=re.MULTILINE)) == {*FILES, *CONFIGURATIONS}


@pytest.mark.parametrize("file", FILES)
def test_an_example_works_as_it_stands(operated: Cluster, file: str) -> None:
    wanted = promised(file)
    work = [one for one in documents(file) if one["kind"] in {"Pod", "Job", "Deployment"}]
    namespaces = [one["metadata"]["name"] for one in documents(file) if one["kind"] == "Namespace"]

    def statuses() -> dict[str, dict[str, Any]]:
        items = json.loads(operated.kubectl("get", "latq,thrq", "-A", "-o", "json"))["items"]
        return {item["metadata"]["name"]: item.get("status", {}) for item in items if item["metadata"]["namespace"] in namespaces}

    def running() -> list[str]:
        """Return the PriorityClasses of running pods."""
        found = [one for ns in namespaces for one in json.loads(operated.kubectl("get", "pods", "-n", ns, "-o", "json"))["items"]]
        return [one["spec"].get("priorityClassName", "") for one in found if one["status"]["phase"] == "Running"]

    def applied() -> bool:
        """A new queue in Gate mode accepts bare pods once they are sure to get the gate: some seconds after it has its class."""
        try:
            operated.kubectl("apply", "-f", str(EXAMPLES / file))
        except ClusterError as refused:
            if file == "spark.yaml" and "exceeded quota" in str(refused):
                return False
            raise
        return True

    queues = [one for one in documents(file) if one["kind"] in {"Namespace", "LatencyQueue", "ThroughputQueue"}]
    operated.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(queues))
    until(lambda: {name: status.get("class") for name, status in statuses().items()} == wanted, PATIENCE_SECONDS, f"classes {wanted}")
    until(applied, PATIENCE_SECONDS, "everything to be accepted")
    pods = sum(one["spec"].get("parallelism", one["spec"].get("replicas", 1)) for one in work)
    until(lambda: [name[:10] for name in running()] == ["fairburst-"] * pods, PATIENCE_SECONDS, f"{pods} pods of a class to run")
    # Until bursts have been measured, the whole declared demand counts for `Attainable`, and that takes the whole deadline by itself.
    for name, status in statuses().items():
        conditions = {one["type"]: one["status"] for one in status["conditions"]}
        assert (conditions["Admitted"], conditions["Enforced"]) == ("True", "True"), (name, status["conditions"])
    operated.kubectl("delete", "-f", str(EXAMPLES / file), "--wait=true", timeout=120)
