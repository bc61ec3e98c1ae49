"""The command line: what it writes, and what it says when it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fairburst.cli.main import main
from fairburst.config import Config


def test_the_module_and_the_command_are_the_same() -> None:
    done = subprocess.run([sys.executable, "-m", "fairburst", "--version"], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.startswith("fairburst ")


def test_crds_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--output", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.split() == [str(path) for path in sorted((tmp_path / "new").iterdir())]


def test_the_configuration_is_printed_with_its_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fairburst.yaml"
    file.write_text("metrics: {port: 0}\n")
    assert main(["config", "--config", str(file)]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["metrics"] == {"host": "0.0.0.0", "port": 0}  # noqa: S104
    assert printed["pool"]["name"] == Config().pool.name


@pytest.mark.parametrize("command", ["config", "manifests", "run"])
def test_a_wrong_key_ends_the_command_with_the_right_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    file = tmp_path / "fairburst.yaml"
    file.write_text("metric: {port: 0}\n")
    assert main([command, "--config", str(file)]) == 1
    assert f"{file}: metric: no such key; did you mean metrics?" in capsys.readouterr().err


def test_a_missing_file_ends_the_command_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "--config", str(tmp_path / "absent.yaml")]) == 1
    assert "absent.yaml: expected a readable YAML file" in capsys.readouterr().err
