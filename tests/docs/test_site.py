"""mkdocs.yml lists every page that a reader looks for, and no page that is not there."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
NAV = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
LISTED = set(re.findall(r"([\w/.-]+\.md)$", NAV, re.MULTILINE))


def test_every_page_is_in_the_navigation() -> None:
    """Runbooks and decisions are reached by their index."""
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    indexed = {page for page in pages if page.startswith(("runbooks/", "decisions/")) and not page.endswith("README.md")}
    assert pages - indexed == LISTED


def test_each_index_lists_its_pages() -> None:
    for folder in ("runbooks", "decisions"):
        index = (DOCS / folder / "README.md").read_text(encoding="utf-8")
        assert [path.name for path in sorted((DOCS / folder).glob("*.md")) if path.name != "README.md" and path.name not in index] == []
