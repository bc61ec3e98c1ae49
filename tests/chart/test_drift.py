"""The chart installs the output of `fairburst manifests` under any configuration, and its generated parts are up to date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from fairburst.config import Config
from fairburst.kube.install.manifests import Manifest, Subject, all_manifests, priority_classes
from fairburst.kube.install.mutating_policies import policies
from fairburst.kube.install.tenant_rules import tenant_policies
from release.chart import CHART, ROOT, drifted
from release.templates import CARRIED, UnknownInfluenceError, influences, rights, switches, with_values
from tests.chart.conftest import Render
from tests.support.helm import NAMESPACE

SWITCHES = switches(lambda config: [*policies(config), *rights(config)])
SELECTOR = {"node.example.com/pool": "gpu", "zone": "b", "a.example.com/x": "y"}
CASES = [
    pytest.param({}, id="defaults"),
    pytest.param({"pool.name": "gpu"}, id="another pool"),
    pytest.param({"pool.nodeSelector": SELECTOR}, id="a node selector of several labels"),
    pytest.param({"pool.name": "gpu", "leaderElection.leaseName": "mine"}, id="a Lease of another name"),
    pytest.param({path: forms[1] for path, forms in SWITCHES.items()} | {"pool.nodeSelector": {}}, id="every switch on"),
    pytest.param(
        {path: forms[1] for path, forms in SWITCHES.items()}
        | {"pool.name": "gpu", "pool.nodeSelector": SELECTOR}
        | {
            "priorityClasses.large": -2_147_483_648,
            "priorityClasses.small": 0,
            "priorityClasses.soft": 7,
            "priorityClasses.hard": 1_000_000_000,
        },
        id="everything together",
    ),
]


def values_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The chart's values for these settings, by path."""
    config: dict[str, Any] = {}
    for path, value in settings.items():
        group, _, key = path.partition(".")
        config.setdefault(group, {})[key] = value
    return {"config": config}


def plain(manifest: Manifest) -> Manifest:
    """Without what only a chart adds: labels and annotations of Helm, and the chart's name of the service account."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in {"labels", "annotations"}}
    subjects = [{**one, "name": "fairburst"} for one in manifest.get("subjects", [])]
    named: Manifest = json.loads(json.dumps(manifest).replace(f":{NAMESPACE}:fb-fairburst", f":{NAMESPACE}:fairburst"))
    return {**named, "metadata": metadata} | ({"subjects": subjects} if subjects else {})


@pytest.mark.parametrize("settings", CASES)
def test_the_chart_installs_what_manifests_prints(render: Render, settings: dict[str, Any]) -> None:
    config = with_values(settings | {"namespace": NAMESPACE})
    printed = {(one["kind"], one["metadata"]["name"]): plain(one) for one in all_manifests(config, Subject())}
    rendered = {(one["kind"], one["metadata"]["name"]): plain(one) for one in render(values_of(settings))}
    del printed["Namespace", NAMESPACE]  # made by `helm install --create-namespace`
    del printed["ServiceAccount", "fairburst"]  # has a name of the release
    assert {key: rendered.get(key) for key in printed} == printed


def test_generated_parts_are_up_to_date() -> None:
    assert [str(path.relative_to(ROOT)) for path in drifted()] == [], "run `make chart`"


def test_the_crds_of_the_chart_are_those_in_crds(render: Render) -> None:
    rendered = {one["metadata"]["name"]: plain(one) for one in render() if one["kind"] == "CustomResourceDefinition"}
    for path in (ROOT / "crds").glob("*.yaml"):
        crd = yaml.safe_load(path.read_text())
        assert rendered.pop(crd["metadata"]["name"]) == crd
    assert rendered == {}


def test_a_setting_that_the_chart_does_not_know_is_an_error_and_no_default_built_in() -> None:
    def depends(config: Config) -> list[Manifest]:
        return [{"kind": "Policy", "metadata": {"name": "x"}, "spec": {"limit": config.writes.per_second}}]

    with pytest.raises(UnknownInfluenceError, match=r"writes\.perSecond"):
        switches(depends)


def test_every_placeholder_is_needed() -> None:
    needed = influences(lambda config: [*priority_classes(config), *policies(config), *tenant_policies(config), *rights(config)])
    assert {*CARRIED, *SWITCHES, "namespace"} == needed


def test_no_placeholder_is_left_in_a_template() -> None:
    for path in (CHART / "templates").rglob("*"):
        assert path.is_dir() or "placeholder" not in path.read_text()
