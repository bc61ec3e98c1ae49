"""Requests from within this process go to the cluster of the kubeconfig as it is now."""

from __future__ import annotations

from pathlib import Path

import yaml

from e2e.objects import objects_of


def written(path: Path, port: int) -> Path:
    clusters = [{"name": "one", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    contexts = [{"name": "one", "context": {"cluster": "one", "user": "one"}}]
    path.write_text(
        yaml.safe_dump({"current-context": "one", "clusters": clusters, "contexts": contexts, "users": [{"name": "one", "user": {}}]})
    )
    return path


def test_a_cluster_that_is_started_again_with_the_same_name_gets_connections_of_its_own(tmp_path: Path) -> None:
    first = objects_of(written(tmp_path / "kubeconfig", 1111))
    assert objects_of(tmp_path / "kubeconfig") is first
    assert objects_of(written(tmp_path / "kubeconfig", 2222)) is not first
