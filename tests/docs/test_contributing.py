"""CONTRIBUTING.md names files, functions and commands that exist; the citation and the forms for issues are complete."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "operator").rglob("*.py")}
SECTIONS = {part.split("\n", 1)[0]: part for part in PAGE.split("\n## ")[1:]}
CHECKLISTS = [title for title in SECTIONS if title.startswith("Add ")]
NAMES_OF_OTHERS = {"kubectl explain", "enforcement", "Rule", "Struct"}


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("path", sorted({name for name in quoted(PAGE) if "/" in name and " " not in name}))
def test_a_path_exists(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "operator" / "fairburst" / path).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z0-9-]+)", PAGE))))
def test_a_target_of_make_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("title", CHECKLISTS)
def test_a_name_is_defined_in_a_file_that_its_section_names(title: str) -> None:
    words = quoted(SECTIONS[title])
    texts = [SOURCES[ROOT / word] for word in words if ROOT / word in SOURCES]
    assert texts
    for name in words:
        if re.fullmatch(r"_?[A-Za-z_]+", name) and name not in NAMES_OF_OTHERS:
            defined = rf"^(?:(?:async )?def |class )?{name}\b"
            assert any(re.search(defined, text, re.MULTILINE) for text in texts), f"{title}: {name} is in none of the files named there"


def test_there_is_a_checklist_for_each_addition() -> None:
    assert {title.rsplit(" ", 1)[-1] for title in CHECKLISTS} >= {"baseline", "LatencyQueue", "kind", "enforcement", "metric"}


def test_the_citation_names_this_version_and_the_four_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert [paper["title"].split(":")[0] for paper in citation["references"]] == [
        "BoPF",
        "BPF",
        "DRESS",
        "Performance-Aware Fair Scheduling",
    ]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert all({"title", "type", "authors"} <= paper.keys() for paper in citation["references"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem)
def test_a_form_for_issues_is_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    assert all(field["attributes"]["label"] for field in form["body"])
    assert len({field["id"] for field in form["body"]}) == len(form["body"])
