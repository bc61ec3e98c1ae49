"""When the demo uses kind by itself. Stubs on the PATH answer as the case says."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.kind.cluster import at_hand

IMAGES = 'if [ "$1 $2" = "image ls" ] && [ "$4" = "${HELD:-kindest/node}" ]; then echo 2348e4909017; fi'


@pytest.mark.parametrize(
    ("programs", "images", "want"),
    [
        pytest.param({}, {}, False, id="no Docker"),
        pytest.param({"docker": IMAGES}, {}, False, id="no kind"),
        pytest.param({"docker": "exit 1", "kind": ""}, {}, False, id="a daemon that does not run"),
        pytest.param({"docker": "", "kind": ""}, {}, False, id="no node image"),
        pytest.param({"docker": IMAGES, "kind": ""}, {}, True, id="kind's own image"),
        pytest.param({"docker": IMAGES, "kind": ""}, {"KIND_IMAGE": "mine", "HELD": "mine"}, True, id="the image that is asked for"),
        pytest.param({"docker": IMAGES, "kind": ""}, {"KIND_IMAGE": "mine"}, False, id="another image than is asked for"),
    ],
)
def test_kind_is_at_hand_where_a_cluster_can_be_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], images: dict[str, str], want: bool
) -> None:
    for name, answer in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KIND_IMAGE", raising=False)
    for name, value in images.items():
        monkeypatch.setenv(name, value)
    assert at_hand() is want
