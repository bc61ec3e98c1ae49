"""Kind clusters on machines that need more than kind's own settings. Stubs of `docker` and `kind` answer as the case says."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from e2e.demo.__main__ import _nodes
from e2e.demo.table import Screen
from e2e.kind.cluster import CONFIG, KindCluster, KindError, configuration


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("KIND_CONFIG", raising=False)
    monkeypatch.delenv("KIND_IMAGE", raising=False)
    return tmp_path


def test_on_cgroup_v1_kubelets_are_told_to_start_all_the_same(folder: Path) -> None:
    program(folder, "docker", "echo 1")
    patched = yaml.safe_load(configuration(folder).read_text())
    assert patched["nodes"] == yaml.safe_load(CONFIG.read_text())["nodes"]
    assert yaml.safe_load(patched["kubeadmConfigPatches"][0]) == {"kind": "KubeletConfiguration", "failCgroupV1": False}


def test_on_cgroup_v2_kinds_configuration_is_as_it_stands(folder: Path) -> None:
    program(folder, "docker", "echo 2")
    assert configuration(folder) == CONFIG


def test_a_configuration_that_is_asked_for_is_used_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(folder, "docker", "echo 1")
    monkeypatch.setenv("KIND_CONFIG", "/mine.yaml")
    assert configuration(folder) == Path("/mine.yaml")


def test_a_failed_creation_is_tried_once_more(folder: Path) -> None:
    program(folder, "docker", "echo 2")
    program(folder, "kind", f'echo "$@" >> {folder}/calls\n[ "$1" != create ] || [ "$(grep -c ^create {folder}/calls)" = 2 ]')
    KindCluster.create("mine", folder)
    calls = [line.split()[0] for line in (folder / "calls").read_text().splitlines()]
    assert calls.count("create") == 2
    assert "delete" in calls[calls.index("create") : len(calls) - 1], "what is left of the first is removed before the second"


def test_if_it_fails_again_each_kubelets_last_line_is_said_and_nothing_is_left(folder: Path) -> None:
    program(folder, "docker", '[ "$1" = exec ] && echo "kubelet is configured to not run on a host using cgroup v1" || echo 2')
    program(folder, "kind", f'echo "$@" >> {folder}/calls\n[ "$1 $2" != "get nodes" ] || echo mine-control-plane\n[ "$1" != create ]')
    with pytest.raises(KindError, match="kubelet of mine-control-plane: kubelet is configured to not run on a host using cgroup v1"):
        KindCluster.create("mine", folder)
    assert (folder / "calls").read_text().splitlines()[-1].startswith("delete")


def test_the_demo_goes_on_with_simulated_nodes_where_kind_was_not_asked_for(folder: Path) -> None:
    program(folder, "docker", "echo 2")
    program(folder, "kind", '[ "$1" != create ]')
    said: list[str] = []
    screen = cast("Screen", SimpleNamespace(say=said.append))
    with contextlib.ExitStack() as made:
        assert _nodes(Namespace(cluster_asked_for=False), folder, made, screen) is None
        assert "`kind create cluster" in said[0]
        with pytest.raises(KindError):
            _nodes(Namespace(cluster_asked_for=True), folder, made, screen)
