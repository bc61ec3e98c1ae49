"""A kind cluster as a value: create it, load images, stop and start its nodes, delete it. Other clusters are never touched.

Environment: KIND_IMAGE (the nodes' image; kind's own default otherwise), KIND_CONFIG (a configuration instead of kind.yaml in this folder,
for machines whose kubelets need other settings), PYTHON_IMAGE (base of the operator's image), WORKLOAD_IMAGE (the pods' image instead of
busybox).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.cluster import Cluster, ClusterError

CREATE_SECONDS = 420  # half a minute if the image is present; kind pulls it otherwise
LOAD_SECONDS = 420
CONFIG = Path(__file__).with_name("kind.yaml")
CGROUP_V1 = """\
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  failCgroupV1: false
"""
ROOT = Path(__file__).resolve().parents[2]
OPERATOR_IMAGE = "localhost/fairburst:e2e"
PROBE = "fairburst-e2e=probe"  # label of the pods that probe the nodes


class KindError(Exception):
    """Docker or kind is missing or failed. The message holds its output."""


class ImageError(KindError):
    """The operator's image does not build: an error of this checkout, not of the machine."""


class KindCluster:
    """A kind cluster, made by `create`. As a context manager it is deleted at the end."""

    def __init__(self, name: str, kubeconfig: Path) -> None:
        self.name, self.kubeconfig = name, kubeconfig

    @classmethod
    def create(cls, name: str, folder: Path) -> Self:
        """Create a cluster, whose nodes are ready after `wait_ready`. Its kubeconfig is in `folder`; the user's own is unchanged.

        Raises KindError and leaves nothing of the cluster.
        """
        problem = why_unusable()
        if problem:
            raise KindError(problem)
        cluster = cls(name, folder / f"{name}.kubeconfig")
        image = os.environ.get("KIND_IMAGE")
        config = configuration(folder)
        options = ["--image", image] if image else []
        command = ("kind", "create", "cluster", "--retain", "--config", str(config), *cluster._named(), *options)
        for last in (False, True):  # a busy machine may miss kubeadm's time limits once
            try:
                run(*command, seconds=CREATE_SECONDS)
            except KindError as error:
                said = cluster.kubelet_says()
                cluster.delete()
                if last:
                    raise KindError(f"{error}{said}") from error
            except BaseException:
                cluster.delete()
                raise
            else:
                return cluster
        raise AssertionError

    @classmethod
    def equipped(cls, name: str, folder: Path) -> Self:
        """Create a cluster with ready nodes, the operator's image, which is built from this checkout meanwhile, and the workload image.

        Raises ImageError if the image does not build, KindError otherwise, and leaves nothing of the cluster.
        """
        with ThreadPoolExecutor(max_workers=1) as beside:
            built = beside.submit(build_operator)
            cluster = cls.create(name, folder)
        try:
            built.result()
            cluster.load(OPERATOR_IMAGE)
            cluster.wait_ready()
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
        """Return an existing kind cluster, with its kubeconfig in `folder`."""
        cluster = cls(name, folder / f"{name}.kubeconfig")
        cluster.kubeconfig.write_text(run("kind", "get", "kubeconfig", "--name", name))
        return cluster

    def kubelet_says(self) -> str:
        """Return the last log line of each node's kubelet, one line a node; empty if there are no nodes."""
        found = ""
        try:
            for node in self.nodes():
                lines = run("docker", "exec", node, "journalctl", "-u", "kubelet", "-n", "1", "--no-pager", "-o", "cat", seconds=20)
                found += f"\nkubelet of {node}: {lines.strip() or 'nothing'}"
        except KindError:
            return found
        return found

    def nodes(self) -> list[str]:
        """Return the names of its nodes, which are also their containers' names."""
        return sorted(run("kind", "get", "nodes", "--name", self.name).split())

    def workers(self) -> list[str]:
        """Return the nodes on which pods run."""
        return [node for node in self.nodes() if "control-plane" not in node] or self.nodes()

    def load(self, *images: str) -> None:
        """Copy images from Docker to the workers, and WORKLOAD_IMAGE if it is set (the nodes pull busybox otherwise)."""
        wanted = [*images, *filter(None, [os.environ.get("WORKLOAD_IMAGE")])]
        if wanted:
            run("kind", "load", "docker-image", *wanted, "--name", self.name, "--nodes", ",".join(self.workers()), seconds=LOAD_SECONDS)

    def wait_ready(self) -> None:
        """Wait until all nodes are ready, seconds after creation. Images can be loaded meanwhile."""
        try:
            Cluster.existing(self.kubeconfig).kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=180s", timeout=190)
        except ClusterError as error:
            raise KindError(f"expected all nodes of {self.name} to become ready: {error}") from error

    def stop_node(self, node: str) -> None:
        """Stop a node as if its machine lost power."""
        run("docker", "kill", self._own(node))

    def start_node(self, node: str) -> None:
        """Start a stopped node."""
        run("docker", "start", self._own(node))

    def delete(self) -> None:
        """Remove its containers. Missing containers are no error."""
        run("kind", "delete", "cluster", *self._named())

    def probe(self) -> None:
        """Check that a container on each worker reaches the API server by its name. Otherwise no test result concerns fairburst.

        Raises KindError.
        """
        cluster = Cluster.existing(self.kubeconfig)
        try:
            for node in self.workers():
                cluster.kubectl("create", "-f", "-", input=json.dumps(_probe_on(node)))
            cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod", "-l", PROBE, "--timeout=150s", timeout=160)
            cluster.kubectl("delete", "pod", "-l", PROBE)
        except ClusterError as error:
            raise KindError(f"expected a container on every worker to reach the API server: {error}") from error

    def _named(self) -> Sequence[str]:
        return "--name", self.name, "--kubeconfig", str(self.kubeconfig)

    def _own(self, node: str) -> str:
        if node not in self.nodes():
            raise KindError(f"expected a node of cluster {self.name} ({', '.join(self.nodes())}), found {node}")
        return node


def _probe_on(node: str) -> dict[str, Any]:
    """Return a pod on that node. It restarts until the API server's name resolves, some seconds after the cluster's creation."""
    reach = "import socket; socket.create_connection(('kubernetes.default.svc', 443), 5)"
    container = {"name": "probe", "image": OPERATOR_IMAGE, "command": ["python", "-c", reach]}
    metadata = {"name": f"probe-{node}", "labels": dict([PROBE.split("=")])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "restartPolicy": "OnFailure", "containers": [container]},
    }


def configuration(folder: Path) -> Path:
    """Return the path of kind's configuration: KIND_CONFIG if it is set, else kind.yaml, or its copy in `folder` for cgroup v1.

    From Kubernetes 1.35 on a kubelet refuses to start on cgroup v1 unless its configuration permits that.
    """
    chosen = os.environ.get("KIND_CONFIG")
    if chosen:
        return Path(chosen)
    if run("docker", "info", "--format", "{{.CgroupVersion}}", seconds=20).strip() != "1":
        return CONFIG
    patched = folder / "kind-cgroup-v1.yaml"
    patched.write_text(CONFIG.read_text() + CGROUP_V1)
    return patched


def why_unusable() -> str:
    """Return what kind lacks on this machine and how to fix it; empty if it can run."""
    for program, remedy in (("docker", "install Docker"), ("kind", "go install sigs.k8s.io/kind@v0.33.0")):
        if shutil.which(program) is None:
            return f"expected `{program}` on the PATH, found none: {remedy}"
    try:
        run("docker", "info", seconds=20)
    except KindError as error:
        return f"expected a running Docker daemon: {error}"
    return ""


def at_hand() -> bool:
    """Return whether a cluster can be made now: nothing is missing, and Docker has a node image, so that none must be pulled."""
    image = os.environ.get("KIND_IMAGE") or "kindest/node"
    return not why_unusable() and bool(run("docker", "image", "ls", "--quiet", image).strip())


def build_operator() -> None:
    """Build OPERATOR_IMAGE from this checkout, on PYTHON_IMAGE if that is set. Raises ImageError."""
    base = os.environ.get("PYTHON_IMAGE")
    options = ["--build-arg", f"BASE={base}"] if base else []
    try:
        run("docker", "build", "--network", "host", *options, "--tag", OPERATOR_IMAGE, str(ROOT), seconds=900)
    except KindError as error:
        raise ImageError(str(error)) from error


def run(*command: str, seconds: float = 120) -> str:
    """Return a program's standard output. Raises KindError with the end of its error output."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise KindError(f"`{shown}` was not done after {seconds:g} s") from late
    if done.returncode != 0:
        raise KindError(f"`{shown}` ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout
