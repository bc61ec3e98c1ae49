"""Helm without a cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.helm import Helm, Values

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


@pytest.fixture(scope="session")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Render the chart with values: `render({"replicas": 1})`. The same values are rendered once a session."""
    helm, rendered = Helm(tmp_path_factory.mktemp("helm")), dict[str, list[dict[str, Any]]]()

    def objects(values: Values | None = None, *arguments: str) -> list[dict[str, Any]]:
        key = json.dumps([values or {}, arguments])
        if key not in rendered:
            rendered[key] = helm.render(values, *arguments)
        return copy.deepcopy(rendered[key])

    return objects
