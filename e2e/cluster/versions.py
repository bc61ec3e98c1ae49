"""The binaries of a control plane, and the pinned Go module for each.

A module is a folder in `modules/` with a tidy go.mod and go.sum: the whole build is pinned by hash and reviewed in git.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError, nearest

MODULES = Path(__file__).parent / "modules"

DEFAULT_KUBERNETES = "1.37.1"
KUBERNETES_VERSIONS = (DEFAULT_KUBERNETES, "1.34.4")
ETCD_VERSION = "3.6.16"
KWOK_VERSION = "0.8.0"
HELM_VERSION = "3.22.0"
ACTIONLINT_VERSION = "1.7.7"


@dataclass(frozen=True, slots=True)
class Tool:
    """One binary: `package` of the Go module in the folder `module` of `modules`.

    It takes about `cold_seconds` to build on two cores with an empty cache.
    """

    name: str
    module: str
    package: str
    ldflags: str
    cold_seconds: int
    modules: Path = MODULES

    @property
    def module_folder(self) -> Path:
        return self.modules / self.module


def tools(kubernetes: str = DEFAULT_KUBERNETES) -> tuple[Tool, ...]:
    """Return all tools for a cluster of this Kubernetes version, in build order.

    Raises
    ------
    ClusterError : there is no pinned module for that version.
    """
    if kubernetes not in KUBERNETES_VERSIONS:
        raise ClusterError(f"no pinned module for Kubernetes {nearest(kubernetes, KUBERNETES_VERSIONS)}")
    major, minor, _ = kubernetes.split(".")
    stamp = "k8s.io/component-base/version"
    # Without these the API server reports v0.0.0 and refuses to emulate any version.
    ldflags = f"-s -w -X {stamp}.gitVersion=v{kubernetes} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"

    def kubernetes_tool(name: str, cold_seconds: int) -> Tool:
        return Tool(name, f"kubernetes-{kubernetes}", f"k8s.io/kubernetes/cmd/{name}", ldflags, cold_seconds)

    return (
        Tool("etcd", f"etcd-{ETCD_VERSION}", "go.etcd.io/etcd/server/v3", "-s -w", 31),
        kubernetes_tool("kube-apiserver", 389),
        kubernetes_tool("kube-controller-manager", 141),
        kubernetes_tool("kube-scheduler", 14),
        kubernetes_tool("kubectl", 25),
        Tool(
            "kwok",
            f"kwok-{KWOK_VERSION}",
            "sigs.k8s.io/kwok/cmd/kwok",
            f"-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v{KWOK_VERSION}",
            81,
        ),
    )


def helm() -> Tool:
    """Return Helm, which installs the chart but is no part of a cluster. It derives the current Kubernetes version from its build."""
    stamped = {"internal/version.version": f"v{HELM_VERSION}"}
    major, minor, _ = DEFAULT_KUBERNETES.split(".")
    for package in ("pkg/lint/rules", "pkg/chartutil"):
        stamped |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    ldflags = " ".join(["-s -w", *(f"-X helm.sh/helm/v3/{name}={value}" for name, value in stamped.items())])
    return Tool("helm", f"helm-{HELM_VERSION}", "helm.sh/helm/v3/cmd/helm", ldflags, 70)


def actionlint() -> Tool:
    """Return actionlint, which checks the workflows in `.github`."""
    return Tool("actionlint", f"actionlint-{ACTIONLINT_VERSION}", "github.com/rhysd/actionlint/cmd/actionlint", "-s -w", 20)
