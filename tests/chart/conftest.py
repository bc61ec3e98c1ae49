"""Helm without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.helm import Helm

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


@pytest.fixture
def render(helm: Helm) -> Render:
    """Renders the chart with values: `render({"replicas": 1})`."""
    return helm.render
