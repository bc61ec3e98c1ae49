"""`make release-check`: the conditions for releasing a version. It builds in a temporary folder and does not change the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import yaml

from release.chart import CHART, ROOT, drifted, package_version
from release.lock import Pin, closure, project_needs, read
from release.sbom import bill_of_materials, to_json

# Files that the source archive needs besides the package, to build and test from it alone.
IN_SOURCES = ("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "requirements.lock", "Dockerfile", "Makefile")


class NotReadyError(Exception):
    """The version can't be released. The message holds the reason."""


def check(report: Callable[[str], None]) -> None:
    """Run every check and report a line about each. Raises NotReadyError at the first that fails."""
    version = package_version()
    for text in (versions_agree(version), changelog_names(version), chart_is_generated()):
        report(text)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources, wheel = build(folder)
        for text in (
            sources_are_complete(sources),
            wheel_is_complete(wheel),
            wheel_installs(wheel, folder, version),
            sbom_covers_the_image(version),
        ):
            report(text)


def versions_agree(version: str) -> str:
    """Check that the chart's version and appVersion (the image's tag) are the package's."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    found = {"version": str(chart["version"]), "appVersion": str(chart["appVersion"])}
    if set(found.values()) != {version}:
        raise NotReadyError(f"charts/fairburst/Chart.yaml: expected version and appVersion {version} as in pyproject.toml, found {found}")
    return f"package, chart and image are {version}"


def changelog_names(version: str, changelog: str | None = None) -> str:
    """Check that the changelog has a section for the version."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8") if changelog is None else changelog
    if not re.search(rf"(?m)^## {re.escape(version)}(?![\w.])", text):
        raise NotReadyError(f"CHANGELOG.md: expected a section `## {version}`, found {re.findall(r'(?m)^## .*', text)}")
    return f"the changelog has a section for {version}"


def chart_is_generated() -> str:
    """Check that the chart's generated parts are up to date."""
    paths = [str(path.relative_to(ROOT)) for path in drifted()]
    if paths:
        raise NotReadyError(f"expected generated files that are up to date, found others: {', '.join(paths)}; run `make chart`")
    return "the chart's generated parts are up to date"


def build(folder: Path) -> tuple[Path, Path]:
    """Return the source archive and the wheel, built from the archive like an installation from sources."""
    # A copy, because setuptools writes into its source folder.
    checkout = folder / "checkout"
    listed = _run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes((ROOT / name).read_bytes())
    make = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
    _run(sys.executable, "-c", make, "build_sdist", str(folder), cwd=checkout)
    (sources,) = folder.glob("fairburst-*.tar.gz")
    with tarfile.open(sources) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    _run(sys.executable, "-c", make, "build_wheel", str(folder), cwd=unpacked)
    (wheel,) = folder.glob("fairburst-*.whl")
    return sources, wheel


def modules() -> set[str]:
    """Return the files of the package by their paths in a wheel."""
    source = ROOT / "operator"
    listed = _run("git", "ls-files", "operator/fairburst", cwd=ROOT).split()
    return {str((ROOT / name).relative_to(source)) for name in listed if (ROOT / name).is_file()}


def sources_are_complete(sources: Path) -> str:
    """Check that the archive holds every module, and everything else that building, testing and installing from it needs."""
    with tarfile.open(sources) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"operator/{name}" for name in modules()} | set(IN_SOURCES)
    wanted |= set(_run("git", "ls-files", "charts", "crds", "examples", "docs", "release", cwd=ROOT).split())
    lacking = sorted(name for name in wanted - held if (ROOT / name).is_file())
    if lacking:
        raise NotReadyError(f"{sources.name}: expected every source, {len(lacking)} are lacking: {', '.join(lacking[:5])}; see MANIFEST.in")
    return f"{sources.name} holds all {len(wanted)} files"


def wheel_is_complete(wheel: Path) -> str:
    """Check that the wheel holds every module, and no test."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    if held != modules():
        raise NotReadyError(f"{wheel.name}: expected the package and nothing else; difference: {sorted(held ^ modules())[:5]}")
    return f"{wheel.name} holds all {len(held)} files of the package"


def wheel_installs(wheel: Path, folder: Path, version: str) -> str:
    """Check that the commands work in a new environment with the image's pinned packages only."""
    python = folder / "environment" / "bin" / "python"
    _run(sys.executable, "-m", "venv", str(folder / "environment"))
    pins = folder / "pins.lock"
    pins.write_text("".join(pin.text for pin in image_pins()), encoding="utf-8")
    _run(str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r", str(pins))
    _run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
    _run(str(python), "-m", "pip", "check")
    command = str(python.with_name("fairburst"))
    said = _run(command, "--version").strip()
    if said != f"fairburst {version}":
        raise NotReadyError(f"{wheel.name}: expected `fairburst --version` to say {version}, found {said!r}")
    if "kind: CustomResourceDefinition" not in _run(command, "manifests"):
        raise NotReadyError(f"{wheel.name}: expected `fairburst manifests` to print the CRDs")
    return f"{wheel.name} installs with {len(image_pins())} pinned packages, and its commands work"


def sbom_covers_the_image(version: str) -> str:
    """Check that the bill of materials lists packages, and none of the extras."""
    document = bill_of_materials(_text("requirements.lock"), _text("pyproject.toml"), version)
    listed = {component["name"] for component in document["components"]}
    extras = listed & {"kubernetes", "numba", "matplotlib", "pyarrow", "pytest", "mypy", "ruff", "hypothesis"}
    if extras or not document["components"]:
        raise NotReadyError(f"expected a bill of materials without {', '.join(sorted(extras))}")
    return f"the bill of materials lists {len(listed)} packages in {len(to_json(document)) // 1024} KiB"


def image_pins() -> list[Pin]:
    """Return the pins of the image's packages."""
    return closure(read(_text("requirements.lock")), project_needs(_text("pyproject.toml")))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _run(*command: str, cwd: Path | None = None) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603  our own commands, no shell
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        raise NotReadyError(f"`{' '.join(command[:4])}` ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
