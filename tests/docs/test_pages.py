"""In every page: manifests are valid by our models, and every `fairburst` line in a block of commands is one that the program accepts.
Lines of prose are short.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fairburst.cli.main import app
from fairburst.kube.queues.objects import parse_queue

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
GENERATED = {ROOT / "docs" / "cli.md", ROOT / "docs" / "metrics.md"}
PROSE = sorted({*PAGES, *ROOT.glob("*.md"), *(ROOT / "charts").rglob("*.md"), *(ROOT / "e2e").rglob("*.md")} - GENERATED)
PLACEHOLDER = re.compile(r"[A-Z]{2,}|\.\.\.|\[")


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """(page, text) of the fenced blocks in these languages; every fence is read, so that the end of one is not the beginning of another."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            if language in languages:
                yield str(page.relative_to(ROOT)), block


MANIFESTS = [(page, one) for page, block in blocks("yaml") for one in yaml.safe_load_all(block) if isinstance(one, dict) and "kind" in one]
LINES = sorted(
    {
        (page, re.split(r"\s+#|\s+\||;|&&| > ", line)[0])
        for page, block in blocks("sh", "console", "")
        for line in re.findall(r"^(?:\$ )?(fairburst (?!\w+:).*)$", block, re.MULTILINE)
        if not PLACEHOLDER.search(line)
    }
)


@pytest.mark.parametrize(("page", "manifest"), MANIFESTS, ids=[f"{page}-{one['kind']}" for page, one in MANIFESTS])
def test_a_manifest_is_valid(page: str, manifest: dict[str, Any]) -> None:
    assert {"apiVersion", "kind", "metadata"} <= manifest.keys(), page
    if manifest["apiVersion"].startswith("fairburst.dev/"):
        parse_queue({**manifest, "metadata": {**manifest["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}})


@pytest.mark.parametrize(("page", "line"), LINES, ids=[line for _, line in LINES])
def test_a_command_is_accepted(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)[1:]
    monkeypatch.chdir(tmp_path)
    for word in words:  # files that a reader of the page has
        if re.search(r"\.(yaml|jsonl|txt)$", word):
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).write_text("", encoding="utf-8")
    accept(typer.main.get_command(app), "fairburst", words)


def accept(command: Any, name: str, words: list[str]) -> None:
    """Parse as the program does, without running anything. Raises where it would refuse."""
    with command.make_context(name, list(words)) as context:
        if hasattr(command, "commands") and words and words[0] in command.commands:
            accept(command.commands[words[0]], words[0], words[1:])
        elif hasattr(command, "commands"):
            raise AssertionError(f"{name} has no command {words[:1]}")
        assert context is not None


def test_a_wrong_command_is_refused() -> None:
    command = typer.main.get_command(app)
    with pytest.raises(Exception, match="No such option"):
        accept(command, "fairburst", ["status", "--nonsense"])
    with pytest.raises(AssertionError):
        accept(command, "fairburst", ["nonsense"])


def test_pages_have_something_to_check() -> None:
    assert len(MANIFESTS) >= 5
    assert len(LINES) >= 8


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_line_of_prose_has_at_most_120_characters(page: Path) -> None:
    """Tables, blocks of code, pictures and lines that are one piece of code keep theirs."""
    text = re.sub(r"^\s*```.*?^\s*```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert [line for line in text.splitlines() if len(line) > 120 and not re.match(r"\s*\||!\[|`[^`]*`\.?$", line)] == []
