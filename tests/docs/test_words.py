"""Names and prose use the field's words: private ones that were replaced (docs/glossary.md) do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = sorted((ROOT / "operator").rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in page.parts),
]
ROOMS = ("operator", "tests", "e2e", "benchmarks", "release")
ALL_CODE = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if path != Path(__file__).resolve()]
# Former names of ours, by the word that replaced each.
FORMER_NAMES = {
    "stamp": "pod priority",
    "stamps": "pod priorities",
    "stamped": "given a priority",
    "stamping": "setting the priority",
    "Roster": "QueueSet",
    "Teller": "StatusWriter",
    "Gatekeeper": "UngatePlanner",
    "Evicter": "Evictor",
    "Calmness": "ResizeDamping",
    "umbrella": "namespace quota",
    "wish": "desired pods",
    "wished": "desired",
    "wishes": "desired pods",
    "flying": "in flight",
    "rival": "other pool",
    "seated": "governing",
    "born": "created",
    "let go": "release",
    "booked": "the job as DRESS knows it",
    "woken-at": "resynced-at",
}
FORMER_FIELDS = "operator/fairburst/kube/queues/former_places.py"  # fields that earlier versions wrote, by the names that they had
# Actors that hide who does something, and a word that technical English does not use.
HIDDEN_ACTORS = {"nobody": "no queue, no client …", "somebody": "another client …", "whoever": "the client that …", "anew": "again"}


@pytest.mark.parametrize("word", FORMER_NAMES)
def test_a_former_name_is_gone(word: str) -> None:
    found = [str(path.relative_to(ROOT)) for path in (*CODE, *PAGES) if re.search(rf"\b{word}\b", path.read_text(), re.IGNORECASE)]
    found = [name for name in found if name != FORMER_FIELDS]
    assert not found, f"expected {FORMER_NAMES[word]!r} instead of {word!r}"


@pytest.mark.parametrize("word", HIDDEN_ACTORS)
def test_sentences_say_who_acts(word: str) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in (*ALL_CODE, *PAGES, ROOT / "charts/fairburst/values.yaml")
        if re.search(rf"\b{word}\b", path.read_text(), re.IGNORECASE)
    ]
    assert not found, f"expected {HIDDEN_ACTORS[word]} instead of {word!r}"
