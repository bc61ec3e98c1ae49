"""Helm, built and cached as the control plane is, and what it makes of the chart. No cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_helm
from release.chart import CHART

Values = dict[str, Any]
NAMESPACE = "fairburst-system"


# The CRDs are long: the loader in C reads them ten times as fast.
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class HelmError(Exception):
    """Helm's own message."""


class Helm:
    """Runs Helm without a cluster, with values as a file."""

    def __init__(self, command: Path, folder: Path) -> None:
        self._command, self._folder = command, folder

    def run(self, verb: str, *arguments: str, values: Values | None = None, namespace: str = NAMESPACE) -> str:
        """What it printed. Raises HelmError with what it complained about."""
        given = self._folder / "values.json"
        given.write_text(json.dumps(values or {}))
        command = [str(self._command), verb, *arguments, str(CHART), "--namespace", namespace, "--values", str(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={"HOME": str(self._folder)})
        if done.returncode != 0:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def render(self, values: Values | None = None, *arguments: str) -> list[dict[str, Any]]:
        """The objects of the chart."""
        return objects_in(self.run("template", "fb", *arguments, values=values))


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(ensure_helm(), tmp_path)


def objects_in(text: str) -> list[dict[str, Any]]:
    """The objects of a rendering."""
    return [one for one in yaml.load_all(text, Loader=_Loader) if one]


Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def render(helm: Helm) -> Render:
    return helm.render


def the(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The only object of that kind (and name)."""
    (found,) = [one for one in objects if one["kind"] == kind and name in {None, one["metadata"]["name"]}]
    return found


def names(objects: list[dict[str, Any]], kind: str) -> list[str]:
    return [one["metadata"]["name"] for one in objects if one["kind"] == kind]
