"""The picture and figures in the README are those of the run that it names; its first queue is Hard on a laptop; links lead somewhere."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks import burst_picture
from benchmarks.burst_picture import PICTURE, picture
from fairburst.kube.queues.core_values import to_queue_spec
from fairburst.kube.queues.objects import parse_queue
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CODE_OF_CONDUCT.md"]


@pytest.fixture(scope="module", autouse=True)
def each_policy_runs_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(burst_picture, "outcome", functools.cache(burst_picture.outcome))
        yield


def test_the_picture_is_that_of_the_run() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture()
    assert PICTURE.stat().st_size < 20_000


def test_the_figures_of_the_burst_are_those_of_the_run() -> None:
    without, with_fairburst = burst_picture.outcome("drf"), burst_picture.outcome("bopf")
    (row,) = [line for line in README.splitlines() if line.startswith("| The burst in the picture")]
    assert [cell.strip() for cell in row.split("|")[2:4]] == [f"{without.completions[1]:g} (DRF)", f"{with_fairburst.completions[1]:g}"]
    for found in (without, with_fairburst):
        shares = found.record.dominant_seconds[:-1] / found.record.end
        assert [f"{share:.0%}" for share in shares] == ["24%"] * 4


def test_figures_from_other_pages_are_on_those_pages() -> None:
    section = README.split("## Measured", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if re.search(r"\]\(docs/.*\.md\)", line)]
    assert len(rows) >= 4
    for row in rows:
        cells = row.split("|")
        page = (ROOT / re.findall(r"\((docs/[\w.]+)\)", row)[0]).read_text(encoding="utf-8")
        for figure in re.findall(r"\d+\.\d+|\b\d{3}\b", " ".join(cells[2:4])):
            assert figure in page, row


def test_the_first_queue_is_hard_on_a_laptop_of_four_cores() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    objects = [{**one, "metadata": {**one["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}} for one in yaml.safe_load_all(block)]
    queues = tuple(to_queue_spec(parse_queue(one)) for one in objects)
    capacity = np.array([4.0, 8.0 * 2**30]) * 0.95  # what head-room leaves
    nothing = np.zeros((2, 2))
    snapshot = ClusterSnapshot(("cpu", "memory"), capacity, capacity, queues, nothing, nothing, np.ones((2, 2)))
    result, _ = decide(snapshot, Memory(), PolicyConfig(), 1.8e9)
    assert [one.guarantee_class for one in result.decisions] == [GuaranteeClass.HARD, GuaranteeClass.ELASTIC]


def test_the_two_commands_and_the_papers_are_named() -> None:
    assert "make demo " in README
    assert "make test " in README
    assert all(name in README for name in ("BoPF", "DRESS", "PAF"))


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_there(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
