"""Parts of the lock: the packages that the operator runs with and no others; the bill of materials lists the same."""

from __future__ import annotations

from importlib.metadata import distribution

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from release.chart import ROOT
from release.lock import UnknownPinError, closure, normal, project_needs, read
from release.sbom import bill_of_materials, to_json

LOCK, PYPROJECT = ((ROOT / name).read_text() for name in ("requirements.lock", "pyproject.toml"))
SMALL = """\
aiohttp==3.1 \\
    --hash=sha256:{a}
    # via
    #   fairburst (pyproject.toml)
    #   kopf
contourpy==1.3 ; python_full_version < '3.12' \\
    --hash=sha256:{b}
    # via matplotlib
contourpy==1.4 ; python_full_version >= '3.12' \\
    --hash=sha256:{c} \\
    --hash=sha256:{a}
    # via matplotlib
kopf==1.45 \\
    --hash=sha256:{a}
    # via fairburst (pyproject.toml)
matplotlib==3 \\
    --hash=sha256:{a}
    # via fairburst (pyproject.toml)
Yarl.Under_score==2 \\
    --hash=sha256:{a}
    # via aiohttp
""".format(a="a" * 64, b="b" * 64, c="c" * 64)


def names(*wanted: str) -> list[tuple[str, str]]:
    return [(pin.name, pin.version) for pin in closure(read(SMALL), wanted)]


def test_what_a_package_needs_comes_with_it() -> None:
    assert names("kopf") == [("aiohttp", "3.1"), ("kopf", "1.45"), ("yarl-under-score", "2")]


def test_a_package_with_a_version_for_each_platform_keeps_all_of_them() -> None:
    assert names("contourpy") == [("contourpy", "1.3"), ("contourpy", "1.4")]
    markers = {pin.version: pin.marker for pin in closure(read(SMALL), ["contourpy"])}
    assert markers == {"1.3": "python_full_version < '3.12'", "1.4": "python_full_version >= '3.12'"}


def test_the_text_of_the_parts_is_the_text_of_the_whole() -> None:
    assert "".join(pin.text for pin in read(SMALL)) == SMALL
    assert "".join(pin.text for pin in read(LOCK)) == LOCK


def test_a_package_that_is_not_pinned_is_named() -> None:
    with pytest.raises(UnknownPinError, match="expected a pin of msgspec, found none"):
        names("kopf", "msgspec")


def needed_here(name: str, seen: set[str]) -> set[str]:
    """The reference: the requirements of the installed packages on this platform, without extras."""
    if normal(name) not in seen:
        seen.add(normal(name))
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed_here(requirement.name, seen)
    return seen


def test_the_operator_runs_with_what_its_packages_say_they_need() -> None:
    pins = closure(read(LOCK), project_needs(PYPROJECT))
    want: set[str] = set()
    for name in project_needs(PYPROJECT):
        needed_here(name, want)
    here = [pin for pin in pins if not pin.marker or Marker(pin.marker).evaluate()]  # the lock is for every platform
    assert {pin.name for pin in here} == want
    assert not want & {"numba", "matplotlib", "pyarrow", "pytest", "mypy"}


def test_the_bill_of_materials_lists_each_package_with_the_hashes_of_the_lock() -> None:
    document = bill_of_materials(LOCK, PYPROJECT, "1.2.3")
    pins = closure(read(LOCK), project_needs(PYPROJECT))
    listed = {
        one["purl"]: {entry["content"] for file in one["externalReferences"] for entry in file["hashes"]} for one in document["components"]
    }
    assert listed == {f"pkg:pypi/{pin.name}@{pin.version}": set(pin.hashes) for pin in pins}
    assert all(listed.values())
    (root, *_) = document["dependencies"]
    assert len(root["dependsOn"]) == len(project_needs(PYPROJECT))
    known = {one["bom-ref"] for one in document["components"]}
    assert all(set(one["dependsOn"]) <= known for one in document["dependencies"])


def test_the_same_lock_gives_the_same_bytes() -> None:
    assert to_json(bill_of_materials(LOCK, PYPROJECT, "1")) == to_json(bill_of_materials(LOCK, PYPROJECT, "1"))
    other = bill_of_materials(LOCK.replace("kopf==1.45", "kopf==9.45"), PYPROJECT, "1")
    assert other["serialNumber"] != bill_of_materials(LOCK, PYPROJECT, "1")["serialNumber"]
