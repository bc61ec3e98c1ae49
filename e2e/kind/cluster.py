"""A kind cluster as a value: created, given images, its nodes stopped and started, deleted. Clusters of others are never touched.

Environment: KIND_IMAGE (the nodes' image; kind's own default otherwise), KIND_CONFIG (a configuration instead of kind.yaml beside this
file, for machines whose kubelets need settings of their own), PYTHON_IMAGE (base of the operator's image), WORKLOAD_IMAGE (what pods
run instead of busybox).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

CREATE_SECONDS = 420  # half a minute with the image at hand; kind pulls it otherwise
LOAD_SECONDS = 420
CONFIG = Path(__file__).with_name("kind.yaml")
ROOT = Path(__file__).resolve().parents[2]
OPERATOR_IMAGE = "localhost/fairburst:e2e"


class KindError(Exception):
    """Docker or kind is missing or failed; the message holds what it said."""


class KindCluster:
    """Made by `create`; as a context manager it is deleted at the end."""

    def __init__(self, name: str, kubeconfig: Path) -> None:
        self.name, self.kubeconfig = name, kubeconfig

    @classmethod
    def create(cls, name: str, folder: Path) -> Self:
        """A new cluster whose nodes are ready; its kubeconfig is in `folder`, the user's own stays as it is.

        Raises KindError, and nothing of the cluster is left.
        """
        problem = why_unusable()
        if problem:
            raise KindError(problem)
        cluster = cls(name, folder / f"{name}.kubeconfig")
        image = os.environ.get("KIND_IMAGE")
        config = Path(os.environ.get("KIND_CONFIG") or CONFIG)
        options = ["--image", image] if image else []
        try:
            run("kind", "create", "cluster", "--config", str(config), "--wait", "180s", *cluster._named(), *options, seconds=CREATE_SECONDS)
        except BaseException:
            cluster.delete()
            raise
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.delete()

    @classmethod
    def existing(cls, name: str, folder: Path) -> Self:
        """A cluster of kind's that somebody made before, with its kubeconfig in `folder`."""
        cluster = cls(name, folder / f"{name}.kubeconfig")
        cluster.kubeconfig.write_text(run("kind", "get", "kubeconfig", "--name", name))
        return cluster

    def nodes(self) -> list[str]:
        """Names of its nodes, which are those of their containers too."""
        return sorted(run("kind", "get", "nodes", "--name", self.name).split())

    def load(self, image: str) -> None:
        """Copy an image from Docker to the nodes on which pods run."""
        workers = [node for node in self.nodes() if "control-plane" not in node] or self.nodes()
        run("kind", "load", "docker-image", image, "--name", self.name, "--nodes", ",".join(workers), seconds=LOAD_SECONDS)

    def load_workload(self) -> None:
        """What pods run, if WORKLOAD_IMAGE names it; the nodes pull busybox otherwise."""
        image = os.environ.get("WORKLOAD_IMAGE")
        if image:
            self.load(image)

    def stop_node(self, node: str) -> None:
        """As when a machine loses power."""
        run("docker", "kill", self._own(node))

    def start_node(self, node: str) -> None:
        """Switch it on again."""
        run("docker", "start", self._own(node))

    def delete(self) -> None:
        """Remove its containers; nothing happens if there are none."""
        run("kind", "delete", "cluster", *self._named())

    def _named(self) -> Sequence[str]:
        return "--name", self.name, "--kubeconfig", str(self.kubeconfig)

    def _own(self, node: str) -> str:
        if node not in self.nodes():
            raise KindError(f"expected a node of cluster {self.name} ({', '.join(self.nodes())}), found {node}")
        return node


def why_unusable() -> str:
    """What is missing for kind here, with what to do about it; empty if nothing is."""
    for program, remedy in (("docker", "install Docker"), ("kind", "go install sigs.k8s.io/kind@v0.33.0")):
        if shutil.which(program) is None:
            return f"expected `{program}` on the PATH, found none: {remedy}"
    try:
        run("docker", "info", seconds=20)
    except KindError as error:
        return f"expected a running Docker daemon: {error}"
    return ""


def build_operator() -> None:
    """Build OPERATOR_IMAGE from this checkout, on PYTHON_IMAGE if that is set."""
    base = os.environ.get("PYTHON_IMAGE")
    options = ["--build-arg", f"BASE={base}"] if base else []
    run("docker", "build", "--network", "host", *options, "--tag", OPERATOR_IMAGE, str(ROOT), seconds=900)


def run(*command: str, seconds: float = 120) -> str:
    """What a program printed on standard output; raises KindError with the end of what it complained about."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise KindError(f"`{shown}` was not done after {seconds:g} s") from late
    if done.returncode != 0:
        raise KindError(f"`{shown}` ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout
