"""Test certificates, made by Helm exactly as the chart makes them, so that no other tool or library is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from e2e.cluster.build import ensure_helm

_CHART = "apiVersion: v2\nname: certificates\nversion: 0.0.0\n"
_TEMPLATE = """{{- $authority := genCA "fairburst-test" 2 }}
{{- $pair := genSignedCert "fairburst" (list "127.0.0.1") (list "localhost") (int .Values.days) $authority }}
ca.crt: {{ $authority.Cert | quote }}
tls.crt: {{ $pair.Cert | quote }}
tls.key: {{ $pair.Key | quote }}
"""
_SELF_SIGNED = """{{- $pair := genSelfSignedCert (first .Values.names) (list "127.0.0.1") .Values.names (int .Values.days) }}
ca.crt: {{ $pair.Cert | quote }}
ca.key: {{ $pair.Key | quote }}
tls.crt: {{ $pair.Cert | quote }}
tls.key: {{ $pair.Key | quote }}
"""


def write_certificates(folder: Path, days: int = 2) -> Path:
    """Write ca.crt, tls.crt and tls.key for 127.0.0.1 and localhost, valid from now for `days`, and return their folder."""
    return _write(folder, _TEMPLATE, f"days={days}")


def write_self_signed(folder: Path, names: Sequence[str], days: int) -> Path:
    """Write one certificate for 127.0.0.1 and these names that is its own authority, as ca.crt and tls.crt with their keys."""
    return _write(folder, _SELF_SIGNED, f"days={days},names={{{','.join(names)}}}")


def _write(folder: Path, template: str, values: str) -> Path:
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(_CHART)
    (chart / "templates" / "pair.yaml").write_text(template)
    command = [str(ensure_helm()), "template", "t", str(chart), "--set", values]
    home = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    made = yaml.safe_load(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=home).stdout)
    for name, text in made.items():
        (folder / name).write_text(text)
    return folder
