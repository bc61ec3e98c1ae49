"""Examples in the documentation are valid: the example files, and the queues in the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from fairburst.config import load_config
from fairburst.kube.queues.objects import parse_queue

ROOT = Path(__file__).resolve().parents[2]
DECLARED = {"creationTimestamp": "2026-01-01T00:00:00Z"}


def queues_in(text: str) -> list[dict[str, Any]]:
    documents = [document for document in yaml.safe_load_all(text) if document]
    return [document for document in documents if str(document["apiVersion"]).startswith("fairburst.dev/")]


def test_the_example_queues_are_valid() -> None:
    queues = queues_in((ROOT / "examples" / "queues.yaml").read_text())
    assert len(queues) == 2
    for queue in queues:
        parse_queue({**queue, "metadata": {**queue["metadata"], **DECLARED}})


def test_the_example_configuration_is_valid() -> None:
    assert load_config(ROOT / "examples" / "fairburst.yaml").pool.head_room_percent == 5


def test_the_queues_in_the_readme_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    queues = [queue for block in blocks for queue in queues_in(block)]
    assert len(queues) == 2
    for queue in queues:
        parse_queue({**queue, "metadata": {**queue["metadata"], **DECLARED}})


def test_every_file_that_a_document_names_exists() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for name in re.findall(r"`((?:docs|tests|e2e|examples|operator)/[\w./-]+\.(?:md|py|yaml))`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.relative_to(ROOT)} names {name}, which does not exist"
