"""`fairburst import kueue` translates ClusterQueues and LocalQueues, and reports the settings that have no counterpart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.peers.binaries import module_source
from fairburst.cli.import_kueue import translate
from fairburst.cli.main import main
from fairburst.kube.queues.objects import parse_queue

Object = dict[str, Any]


def cluster_queue(name: str, nominal: dict[str, str], *, cohort: str = "", borrow: dict[str, str] | None = None, **spec: Any) -> Object:
    resources = [
        {"name": resource, "nominalQuota": text} | ({"borrowingLimit": borrow[resource]} if borrow and resource in borrow else {})
        for resource, text in nominal.items()
    ]
    groups = [{"coveredResources": list(nominal), "flavors": [{"name": "default", "resources": resources}]}]
    entry = {"cohortName": cohort} if cohort else {}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": {"resourceGroups": groups, **entry, **spec}}


def local_queue(namespace: str, cluster: str, name: str = "local", **spec: Any) -> Object:
    return {"kind": "LocalQueue", "metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": cluster, **spec}}


def specs(*objects: Object) -> dict[str, Object]:
    found = translate(objects)
    for one in found.queues:
        parse_queue({**one, "metadata": {**one["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}})
    return {one["metadata"]["namespace"]: one["spec"] for one in found.queues}


def test_weights_are_in_the_ratio_of_nominal_quotas() -> None:
    found = specs(
        cluster_queue("a", {"cpu": "60", "memory": "100Gi"}, cohort="all"),
        cluster_queue("b", {"cpu": "20", "memory": "100Gi"}, cohort="all"),
        local_queue("team-a", "a"),
        local_queue("team-b", "b"),
    )
    assert {name: spec["weight"] for name, spec in found.items()} == {"team-a": 3, "team-b": 2}, "dominant: 3/4 of cpu, half of memory"
    assert all("limits" not in spec for spec in found.values()), "without a borrowing limit there is no limit"


def test_a_cluster_queue_that_may_not_borrow_has_its_quota_as_a_limit() -> None:
    found = specs(
        cluster_queue("alone", {"cpu": "60"}),
        cluster_queue("little", {"cpu": "20"}, cohort="all", borrow={"cpu": "5500m"}),
        local_queue("a", "alone"),
        local_queue("b", "little"),
    )
    assert found["a"]["limits"] == {"cpu": "60"}
    assert found["b"]["limits"] == {"cpu": "25500m"}


def test_queues_that_are_stopped_are_suspended() -> None:
    found = specs(
        cluster_queue("a", {"cpu": "60"}, cohort="all", stopPolicy="Hold"),
        cluster_queue("b", {"cpu": "60"}, cohort="all", stopPolicy="None"),
        local_queue("one", "a"),
        local_queue("two", "b", stopPolicy="HoldAndDrain"),
        local_queue("three", "b"),
    )
    assert {name for name, spec in found.items() if spec.get("suspended")} == {"one", "two"}


def test_what_is_shared_is_divided_and_what_is_lost_is_said() -> None:
    found = translate([
        cluster_queue("a", {"cpu": "60"}, cohort="x", queueingStrategy="StrictFIFO", preemption={"withinClusterQueue": "LowerPriority"}),
        cluster_queue("unused", {"cpu": "60"}, admissionChecks=["check"], fairSharing={"weight": "2"}),
        local_queue("one", "a"),
        local_queue("one", "a", "second"),
        local_queue("two", "a"),
        local_queue("lost", "nowhere"),
        {"kind": "Cohort", "metadata": {"name": "x"}},
    ])  # fmt: skip
    assert {tuple(one["metadata"].values()): one["spec"]["weight"] for one in found.queues} == {
        ("local", "one"): 1, ("second", "one"): 1, ("local", "two"): 1,
    }  # fmt: skip
    told = "\n".join(found.lost)
    for words in (
        "LocalQueue lost/local: its ClusterQueue nowhere is not among the manifests", "ClusterQueue unused: no LocalQueue uses it",
        "ClusterQueue a: 3 LocalQueues share it", "namespace one: the label fairburst.dev/queue", "StrictFIFO", "admission checks",
        "priorities within a queue", "fairSharing.weight 2", "nominal quotas as guarantees", "cohorts: in one pool", "Cohort: x",
    ):  # fmt: skip
        assert words in told


def test_a_namespace_keeps_the_queues_that_it_can_have_and_the_first_gets_the_parts_of_the_others() -> None:
    names = [f"queue-{number:02}" for number in range(12)]
    found = translate([cluster_queue("a", {"cpu": "60"}, cohort="x"), *(local_queue("team", "a", name) for name in reversed(names))])
    assert [one["metadata"]["name"] for one in found.queues] == names[:9]
    assert [one["spec"]["weight"] for one in found.queues] == [4, *[1] * 8]
    assert "namespace team: at most 9 queues; queue-00 gets the parts of queue-09, queue-10, queue-11" in found.lost
    assert any(line.endswith("pods without it are of queue-00") for line in found.lost)


def test_files_without_queues_are_left_out_beside_files_with_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text("kind: Job\nmetadata: {name: work}")
    (tmp_path / "queues.yaml").write_text(yaml.safe_dump_all([cluster_queue("a", {"cpu": "60"}), local_queue("one", "a")]))
    assert main(["import", "kueue", str(tmp_path / "job.yaml"), str(tmp_path / "queues.yaml")]) == 0
    assert [one["metadata"] for one in yaml.safe_load_all(capsys.readouterr().out)] == [{"name": "local", "namespace": "one"}]


@pytest.mark.slow  # needs Kueue's module
def test_the_examples_of_kueue_itself_are_translated(capsys: pytest.CaptureFixture[str]) -> None:
    """Three LocalQueues of one namespace draw on quotas of 1 cpu and all GPUs, 300m and 300m. Jobs and flavors are among the files."""
    files = sorted((module_source("kueue") / "cmd" / "kueueviz" / "examples").glob("*.yaml"))
    assert main(["import", "kueue", *map(str, files)]) == 0
    said = capsys.readouterr()
    queues = list(yaml.safe_load_all(said.out))
    for one in queues:
        assert parse_queue({**one, "metadata": {**one["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}).spec
    weights = {one["metadata"]["name"]: one["spec"]["weight"] for one in queues}
    manifests = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
    names = sorted(one["metadata"]["name"] for one in manifests if one["kind"] == "LocalQueue")
    assert len(names) == 3
    assert weights == {name: 16 if name == "emergency-queue" else 3 for name in names}, "a dominant part of 1 to 3/16"
    for words in ("unused-cluster-queue: no LocalQueue uses it", f"pods without it are of {names[0]}", "reclaimWithinCohort"):
        assert words in said.err


def test_the_command_prints_manifests_and_tells_apart_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [cluster_queue("a", {"cpu": "60"}), local_queue("one", "a")]
    (tmp_path / "kueue.yaml").write_text(yaml.safe_dump({"kind": "List", "items": items}))
    assert main(["import", "kueue", str(tmp_path / "kueue.yaml"), "--pool", "cpus"]) == 0
    said = capsys.readouterr()
    (queue,) = yaml.safe_load_all(said.out)
    assert (queue["kind"], queue["spec"]["pool"]) == ("ThroughputQueue", "cpus")
    assert all(line.startswith("lost: ") for line in said.err.splitlines())


ODD = [cluster_queue("a", {"cpu": "lots"}), local_queue("n", "a")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("a: [", "expected a readable YAML file", id="no YAML"),
        pytest.param("kind: Pod", "expected a ClusterQueue or a LocalQueue of Kueue, found none", id="another kind"),
        pytest.param(yaml.safe_dump_all(ODD), "ClusterQueue a: nominalQuota of cpu", id="no number"),
        pytest.param("kind: List\nitems: 3", "expected a list of objects as items, found 3", id="items"),
        pytest.param("[" * 20_000, "expected a readable YAML file", id="deep"),
        pytest.param("a: 2026-13-45", "expected a readable YAML file", id="no date"),
        pytest.param("kind: ClusterQueue\nmetadata: [a]", "ClusterQueue: metadata: expected", id="metadata"),
        pytest.param("kind: ClusterQueue\nspec: {preemption: Never}", "ClusterQueue: spec.preemption: expected", id="preemption"),
        pytest.param(
            "kind: ClusterQueue\nspec: {resourceGroups: [{flavors: [default]}]}",
            "ClusterQueue: spec.resourceGroups[0].flavors[0]: expected",
            id="flavors",
        ),
        pytest.param(
            "kind: ClusterQueue\nspec: {resourceGroups: [{flavors: [{resources: [{nominalQuota: 1}]}]}]}",
            "ClusterQueue: spec.resourceGroups[0].flavors[0].resources[0].name: expected",
            id="a resource without a name",
        ),
    ],
)
def test_malformed_manifests_are_one_line(tmp_path: Path, content: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kueue.yaml").write_text(content)
    assert main(["import", "kueue", str(tmp_path / "kueue.yaml")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert complaint in said[0]
