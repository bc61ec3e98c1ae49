"""The kubectl plugin for krew: the archive holds the files that the manifest names, and the launcher finds a fairburst."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from release import krew
from release.__main__ import main
from release.chart import package_version


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """The launcher as krew unpacks it."""
    assert main(["krew", "--uri", "https://example.test/releases/", "--output", str(tmp_path / "out")]) == 0
    with tarfile.open(tmp_path / "out" / f"kubectl-fairburst-{package_version()}.tar.gz") as packed:
        packed.extractall(tmp_path / "plugin", filter="data")
    return tmp_path / "plugin" / "kubectl-fairburst"


def test_the_manifest_names_the_archive_and_what_is_in_it(launcher: Path, tmp_path: Path) -> None:
    described = yaml.safe_load((tmp_path / "out" / "fairburst.yaml").read_text())
    (platform,) = described["spec"]["platforms"]
    archive = tmp_path / "out" / Path(platform["uri"]).name
    assert platform["uri"].startswith("https://example.test/releases/kubectl-fairburst-")
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert launcher.with_name(platform["bin"]) == launcher
    assert described["spec"]["version"] == f"v{package_version()}"
    assert krew.archive("1.2.3", "x") == krew.archive("1.2.3", "x")


def run(launcher: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run([str(launcher), "get", "-n", "a b"], capture_output=True, text=True, env=variables, timeout=30, check=False)


def tool(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_the_launcher_prefers_an_installed_fairburst_of_its_version(launcher: Path, tmp_path: Path) -> None:
    tool(tmp_path / "bin", "uvx", 'echo "uvx $@"')
    tool(tmp_path / "bin", "fairburst", f'[ "$1" = --version ] && echo "fairburst {package_version()}" || echo "here: $3"')
    assert run(launcher, tmp_path / "bin").stdout == "here: a b\n"
    tool(tmp_path / "bin", "fairburst", "echo fairburst 0.0.1")
    found = run(launcher, tmp_path / "bin").stdout
    assert found.startswith(f"uvx --quiet --from fairburst[cluster,operator]=={package_version()} fairburst get -n a b")


def test_the_launcher_says_what_it_needs(launcher: Path, tmp_path: Path) -> None:
    done = run(launcher, tmp_path / "none")
    assert done.returncode == 1
    assert "expected uv, pipx or fairburst" in done.stderr
