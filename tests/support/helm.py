"""Helm on the chart of this checkout, with a cluster or without one. It is built and cached like the control plane."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import ensure_helm
from e2e.harness import YAML_LOADER
from release.chart import CHART

Values = dict[str, Any]
NAMESPACE = "fairburst-system"


class HelmError(Exception):
    """Helm's own message."""


class Helm:
    """Helm with a home of its own, in `folder`; without `kubeconfig` it finds no cluster, without `command` the pinned one is taken."""

    def __init__(self, folder: Path, kubeconfig: Path | None = None, command: Path | None = None) -> None:
        self._command, self._folder = command or ensure_helm(), folder
        self._environment = {"HOME": str(folder), "PATH": os.environ["PATH"]} | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})

    def run(self, verb: str, *arguments: str, namespace: str = NAMESPACE) -> str:
        """Return its output, warnings included. Raise HelmError with its message if it fails."""
        command = [str(self._command), verb, *arguments, "--namespace", namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=self._environment)
        if done.returncode != 0:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout + done.stderr

    def on_chart(self, verb: str, *arguments: str, values: Values | None = None, namespace: str = NAMESPACE, chart: Path = CHART) -> str:
        """`run` on our chart, or another, with these values."""
        given = self._folder / "values.json"
        given.write_text(json.dumps(values or {}))
        return self.run(verb, *arguments, str(chart), "--values", str(given), namespace=namespace)

    def render(self, values: Values | None = None, *arguments: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """The objects of the chart, for a release called fb."""
        return objects_in(self.on_chart("template", "fb", *arguments, values=values, namespace=namespace))


def objects_in(text: str) -> list[dict[str, Any]]:
    """The objects of a rendering."""
    return [one for one in yaml.load_all(text, Loader=YAML_LOADER) if one]


def the(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The only object of that kind (and name)."""
    (found,) = [one for one in objects if one["kind"] == kind and name in {None, one["metadata"]["name"]}]
    return found


def names(objects: list[dict[str, Any]], kind: str) -> list[str]:
    """Names of the objects of that kind."""
    return [one["metadata"]["name"] for one in objects if one["kind"] == kind]
