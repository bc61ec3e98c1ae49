"""Values: all are documented and in the schema, wrong ones are refused by name, and the configuration reaches the operator unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from fairburst.config import Config, parse_config
from release.chart import CHART
from release.readme import UndocumentedValueError, documented
from release.schema import SET_BY_THE_CHART
from release.templates import variations
from tests.chart.conftest import Render
from tests.support.helm import NAMESPACE, Helm, HelmError, the

VALUES = (CHART / "values.yaml").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param("replicas", 0, "at '/replicas': minimum: got 0, want 1", id="no replica"),
        pytest.param("imag", {}, "additional properties 'imag' not allowed", id="misspelt group"),
        pytest.param("image.tags", "1", "at '/image': additional properties 'tags' not allowed", id="misspelt value"),
        pytest.param("image.digest", "abc", "at '/image/digest'", id="no digest"),
        pytest.param("image.tag", "v1 beta", "at '/image/tag'", id="no tag"),
        pytest.param("nameOverride", "Fair_Burst", "at '/nameOverride'", id="no name of an object"),
        pytest.param("fullnameOverride", "fairburst-", "at '/fullnameOverride'", id="no whole name of an object"),
        pytest.param("serviceAccount.name", "team a", "at '/serviceAccount/name'", id="no name of an account"),
        pytest.param("extender.clusterIP", "extender.local", "at '/extender/clusterIP'", id="no address"),
        pytest.param("resources.requests.cpu", "half", "at '/resources/requests/cpu'", id="no quantity"),
        pytest.param("image.pullPolicy", "Sometimes", "at '/image/pullPolicy': value must be one of 'Always'", id="no pull policy"),
        pytest.param("image.repository", "", "at '/image/repository'", id="no image"),
        pytest.param("crds.install", "yes", "at '/crds/install': got string, want boolean", id="text for a switch"),
        pytest.param("podAntiAffinity", "Hard", "at '/podAntiAffinity': value must be one of", id="no anti-affinity"),
        pytest.param("serviceMonitor.interval", "half a minute", "at '/serviceMonitor/interval'", id="no duration"),
        pytest.param("networkPolicy.apiServerPorts", [0], "at '/networkPolicy/apiServerPorts/0'", id="no port"),
        pytest.param("flowSchema.matchingPrecedence", 0, "at '/flowSchema/matchingPrecedence'", id="no precedence"),
        pytest.param("cleanup.timeoutSeconds", 1, "at '/cleanup/timeoutSeconds'", id="no time to clean up"),
        pytest.param("tolerations", {}, "at '/tolerations': got object, want array", id="map for a list"),
        pytest.param("resources.request", {}, "at '/resources': additional properties 'request' not allowed", id="misspelt resources"),
        pytest.param("config.pol", {}, "at '/config': additional properties 'pol' not allowed", id="misspelt settings"),
        pytest.param("config.pool.nam", "x", "at '/config/pool': additional properties 'nam' not allowed", id="misspelt setting"),
        pytest.param("config.pool.name", "No Pool", "at '/config/pool/name'", id="no pool name"),
        pytest.param("config.pool.nodeSelector", {"a": 1}, "at '/config/pool/nodeSelector/a'", id="number for a label"),
        pytest.param("config.metrics.port", "80", "at '/config/metrics/port': got string, want integer", id="text for a number"),
        pytest.param("config.metrics.port", 0, "at '/config/metrics/port'", id="a port that probes can't know"),
        pytest.param("config.rounds.intervalSeconds", 301, "at '/config/rounds/intervalSeconds'", id="number too large"),
        pytest.param("config.log.level", "info", "at '/config/log/level': value must be one of 'DEBUG'", id="not a choice"),
        pytest.param("config.priorityClasses.hard", 5, "expected large < small < soft < hard, found -2, -1, 1000, 5", id="ladder"),
        *(
            pytest.param(
                f"config.{name}", "x", f"at '/config': additional properties '{name}' not allowed", id=f"{name}, which the chart sets"
            )
            for name in SET_BY_THE_CHART
        ),
    ],
)
def test_a_wrong_value_is_named(helm: Helm, path: str, value: Any, want: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.render(nested(path, value))
    assert want in str(refused.value)


def test_every_setting_of_the_configuration_is_a_value(render: Render) -> None:
    """One rendering with every setting other than its default; the operator reads from the ConfigMap what was given."""
    given: dict[str, Any] = {}
    for path, configs in variations():
        name = path.partition(".")[0]
        if name in SET_BY_THE_CHART or not configs:
            continue
        whole = configs[-1].model_dump(mode="json", by_alias=True)
        group, _, key = path.partition(".")
        given.setdefault(group, {})[key] = whole[group][key]
    given["priorityClasses"] = {"large": -2_147_483_648, "small": -3, "soft": 1_000_000, "hard": 1_000_000_000}
    rendered = parse_config(the(render({"config": given, "replicas": 1}), "ConfigMap", "fb-fairburst")["data"]["fairburst.yaml"])
    want = Config.model_validate(parse_config(yaml.safe_dump(given | {"namespace": NAMESPACE})))
    assert rendered == want
    assert rendered.writes.per_second != Config().writes.per_second


def test_the_schema_knows_the_values_and_no_others() -> None:
    def paths(node: Any, prefix: str = "") -> set[str]:
        return (
            {prefix}
            if not isinstance(node, dict) or not node
            else {one for key, below in node.items() for one in paths(below, f"{prefix}.{key}")}
        )

    def known(schema: dict[str, Any], prefix: str = "") -> set[str]:
        below = schema.get("properties", {})
        return {one for key, part in below.items() for one in known(part, f"{prefix}.{key}")} if below else {prefix}

    def only_in_schema(path: str) -> bool:
        return path.startswith((".config.", ".resources.", ".extender.resources.", ".dashboard.resources."))

    unlisted = {path for path in known(SCHEMA) - paths(yaml.safe_load(VALUES)) if not only_in_schema(path)}
    # Maps of the user's own keys, with a default in them.
    opened = {".grafanaDashboards.labels", ".nodeSelector", ".extender.nodeSelector", ".dashboard.nodeSelector"}
    assert unlisted == opened


def test_every_object_of_the_schema_is_closed_or_a_map() -> None:
    def open_objects(schema: dict[str, Any], path: str = "") -> list[str]:
        found = [path] if "properties" in schema and schema.get("additionalProperties") is not False else []
        for key, below in schema.get("properties", {}).items():
            found += open_objects(below, f"{path}.{key}")
        return found

    assert open_objects(SCHEMA) == []


def test_every_value_has_a_comment_from_which_the_readme_is_made() -> None:
    rows = {path: (default, meaning) for path, default, meaning in documented(VALUES)}
    assert rows["replicas"][0] == 2
    assert "One decides and writes" in rows["replicas"][1]
    leaves = {
        f"{group}.{key}" if isinstance(below, dict) and below and group not in {"resources", "nodeSelector"} else group
        for group, below in yaml.safe_load(VALUES).items()
        for key in (below if isinstance(below, dict) and below else [""])
    }
    assert leaves == set(rows)


def test_a_value_without_a_comment_is_named() -> None:
    with pytest.raises(UndocumentedValueError, match=r"^b: expected a comment"):
        list(documented("# One.\na: 1\nb: 2\n"))
