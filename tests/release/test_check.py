"""`release check` refuses what is not ready for a release, with what it expected. `make release-check` runs all of it, for minutes."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from release import check
from release.chart import ROOT, package_version
from release.check import NotReadyError


def test_package_chart_and_image_have_one_version() -> None:
    version = package_version()
    assert check.versions_agree(version) == f"package, chart and image are {version}"
    with pytest.raises(NotReadyError, match=r"expected version and appVersion 9\.9\.9 as in pyproject\.toml"):
        check.versions_agree("9.9.9")


def test_the_changelog_names_the_version() -> None:
    check.changelog_names(package_version())
    with pytest.raises(NotReadyError, match=r"expected a section `## 1\.0`, found \['## 1\.0\.1', '## 1x0'\]"):
        check.changelog_names("1.0", "## 1.0.1\n\n## 1x0\n")


def test_a_wheel_that_lacks_a_module_or_holds_a_test_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "fairburst-1-py3-none-any.whl"

    def pack(names: set[str]) -> None:
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in names:
                archive.writestr(name, "")

    pack(check.modules() | {"fairburst-1.dist-info/RECORD"})
    check.wheel_is_complete(wheel)
    for names in (check.modules() - {"fairburst/quantity.py"}, check.modules() | {"tests/test_config.py"}):
        pack(names)
        with pytest.raises(NotReadyError, match=r"difference: \['(fairburst/quantity|tests/test_config)\.py'\]"):
            check.wheel_is_complete(wheel)


def test_sources_without_the_lock_are_refused(tmp_path: Path) -> None:
    sources = tmp_path / "fairburst-1.tar.gz"
    with tarfile.open(sources, "w:gz") as archive:
        for path in ROOT.rglob("*"):
            name = str(path.relative_to(ROOT))
            if path.is_file() and not name.startswith((".", "build/")) and name != "requirements.lock":
                archive.addfile(tarfile.TarInfo(f"fairburst-1/{name}"), io.BytesIO())
        for path in (ROOT / "charts").rglob(".*"):
            archive.addfile(tarfile.TarInfo(f"fairburst-1/{path.relative_to(ROOT)}"), io.BytesIO())
    with pytest.raises(NotReadyError, match=r"1 are lacking: requirements\.lock; see MANIFEST\.in"):
        check.sources_are_complete(sources)


def test_the_bill_of_materials_has_no_extra() -> None:
    assert "packages" in check.sbom_covers_the_image(package_version())
