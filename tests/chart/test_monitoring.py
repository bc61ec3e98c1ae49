"""Dashboards and alerts of the chart: they use metrics that exist, and each alert links to its runbook."""

from __future__ import annotations

import json
import re

import pytest

from fairburst.telemetry.metrics import definitions
from release.chart import CHART
from tests.chart.conftest import Render
from tests.support.helm import the


def unknown_metrics(expression: str) -> set[str]:
    """Metrics, or labels of them, that an expression asks for and no process serves."""
    served = {name: (kind, set(labels)) for name, kind, labels, _ in definitions()}
    asked = re.findall(r"fairburst_[a-z_]+", expression)
    wrong = {"no metric"} if not asked else set()
    for name in asked:
        kind, labels = served.get(name.removesuffix("_bucket"), ("", set()))
        if not kind or name.endswith("_bucket") != (kind == "histogram"):
            wrong.add(name)
        selected = re.findall(rf"{name}{{([^}}]*)}}", expression)
        wrong |= {label for group in selected for label in re.findall(r"(\w+)=", group)} - labels
    return wrong


def test_an_unknown_metric_and_an_unknown_label_are_found() -> None:
    assert unknown_metrics("fairburst_leader == 1") == set()
    assert unknown_metrics('rate(fairburst_nonsense[5m]) + fairburst_leader{colour="red"}') == {"fairburst_nonsense", "colour"}


@pytest.mark.parametrize("name", ["tenant", "admin", "operator"])
def test_a_dashboard_asks_for_metrics_that_exist(render: Render, name: str) -> None:
    data = the(render({"grafanaDashboards": {"enabled": True}}), "ConfigMap", "fb-fairburst-grafana-dashboards")["data"]
    assert set(data) == {"tenant.json", "admin.json", "operator.json"}
    dashboard = json.loads(data[f"{name}.json"])
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) >= 5
    assert {expression: found for expression in expressions if (found := unknown_metrics(expression))} == {}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_alerts_ask_for_metrics_that_exist_and_link_to_their_runbooks(render: Render) -> None:
    values = {"prometheusRule": {"enabled": True, "runbooks": "https://runbooks.example.com/"}}
    (group,) = the(render(values), "PrometheusRule", "fb-fairburst")["spec"]["groups"]
    pages = {page.stem for page in (CHART.parents[1] / "docs" / "runbooks").glob("*.md")} - {"README"}
    links = [rule["annotations"]["runbook_url"] for rule in group["rules"]]
    assert sorted(links) == sorted(f"https://runbooks.example.com/{page}.md" for page in pages)
    assert {rule["alert"]: found for rule in group["rules"] if (found := unknown_metrics(rule["expr"]))} == {}
