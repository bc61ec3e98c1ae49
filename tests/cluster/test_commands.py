"""The command line and the API refuse wrong arguments, and name the nearest right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.cluster.__main__ import main, parse

KUBECONFIG = """
current-context: there
contexts: [{name: there, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://there:6443"}}]
users: [{name: u, user: {USER}}]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRBURST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def kubectl_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "kubectl"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\necho "$@"; case "$*" in *broken-pod*) echo "no such pod" >&2; exit 1;; *slow-pod*) exec sleep 9;; esac\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")


def kubeconfig(folder: Path, user: str = "token: secret") -> Path:
    path = folder / "config"
    path.write_text(KUBECONFIG.replace("USER", user))
    return path


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["strat"], "no command 'strat', did you mean 'status'", id="command"),
        pytest.param(["up", "--node", "3"], "no option '--node', did you mean '--nodes'", id="option"),
        pytest.param(["down", "--nodes=3"], "no option '--nodes', did you mean '--name'", id="option of another command"),
        pytest.param(["up", "--nodes", "-1"], "expected a whole number of nodes", id="number"),
        pytest.param([], "required", id="nothing"),
    ],
)
def test_wrong_arguments_name_the_nearest_right_one(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert want in capsys.readouterr().err


def test_wrong_version_is_an_error_without_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--kubernetes", "1.34"]) == 1
    assert "did you mean '1.34.4'" in capsys.readouterr().err


def test_name_that_is_no_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--name", "../other"]) == 1
    assert "found '../other'" in capsys.readouterr().err


def test_unknown_cluster_is_told_how_to_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kubeconfig", "--name", "demo"]) == 1
    assert "up --name demo" in capsys.readouterr().err


def test_status_without_clusters_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert capsys.readouterr().out == "no cluster runs\n"


@pytest.mark.usefixtures("kubectl_on_path")
def test_given_cluster_is_used_but_never_managed(tmp_path: Path, own_cache: Path) -> None:
    with Cluster.existing(kubeconfig(tmp_path)) as cluster:
        assert (cluster.server, cluster.token, cluster.audit_log) == ("https://there:6443", "secret", None)
        assert cluster.kubectl("get", "pods") == f"--kubeconfig {tmp_path}/config get pods\n"
        for refused in (lambda: cluster.stop("etcd"), lambda: cluster.start_component("etcd"), lambda: cluster.add_nodes(1), cluster.down):
            with pytest.raises(ClusterError, match="is an external cluster"):
                refused()
    assert not own_cache.exists()


@pytest.mark.usefixtures("kubectl_on_path")
def test_given_cluster_without_a_token_says_what_to_use(tmp_path: Path) -> None:
    cluster = Cluster.existing(kubeconfig(tmp_path, "client-certificate: file"))
    with pytest.raises(ClusterError, match=r"no plain token.*use kubectl"):
        _ = cluster.token


@pytest.mark.usefixtures("kubectl_on_path")
def test_failing_and_late_kubectl_are_errors_with_the_command(tmp_path: Path) -> None:
    cluster = Cluster.existing(kubeconfig(tmp_path))
    with pytest.raises(ClusterError, match=r"(?s)`kubectl get broken-pod` ended with 1.*no such pod"):
        cluster.kubectl("get", "broken-pod")
    with pytest.raises(ClusterError, match=r"`kubectl get slow-pod` was not done after 0\.2 s"):
        cluster.kubectl("get", "slow-pod", timeout=0.2)


@pytest.mark.parametrize("text", ["", "just words", "contexts: []", "current-context: x\ncontexts: [{name: y}]"])
def test_broken_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken").write_text(text)
    with pytest.raises(ClusterError, match=r"broken: expected a kubeconfig with a current context"):
        Cluster.existing(tmp_path / "broken")


def test_given_cluster_is_not_stopped_by_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--kubeconfig", str(kubeconfig(tmp_path))]) == 1
    assert "nothing of ours to stop" in capsys.readouterr().err
