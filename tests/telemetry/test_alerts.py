"""Each alert fires for its fault, and none fires in an hour without one. Each has a runbook that quotes its expression."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.promtool import NoPromtoolError, promtool

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "fairburst" / "rules" / "fairburst.yaml"
CASES = Path(__file__).parent / "alerts.yaml"
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]


@pytest.mark.parametrize("arguments", [("check", "rules", str(RULES)), ("test", "rules", str(CASES))], ids=["valid", "fire"])
def test_rules_are_valid_and_fire_when_they_should(arguments: tuple[str, ...]) -> None:
    try:
        program = promtool()
    except NoPromtoolError as error:
        pytest.skip(str(error))
    found = subprocess.run([program, *arguments], check=False, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_an_alert_has_a_runbook_and_a_case(alert: dict[str, Any]) -> None:
    page = (ROOT / alert["annotations"]["runbook_url"]).read_text(encoding="utf-8")
    assert page.startswith(f"# {alert['alert']}\n")
    assert f"```promql\n{alert['expr']}\n```" in page
    assert "## Find the cause" in page
    assert f"]({Path(alert['annotations']['runbook_url']).name})" in (ROOT / "docs" / "runbooks" / "README.md").read_text(encoding="utf-8")
    assert CASES.read_text(encoding="utf-8").count(alert["alert"]) >= 2  # quiet where all is well, and firing
    assert alert["labels"]["severity"] in {"critical", "warning"}
