"""The peers' binaries, each built from a pinned Go module in `modules/`, in the cache of the control plane's binaries."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from e2e.cluster.build import Report, ensure_tools, find_go, go_line, print_progress
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.versions import Tool

KUEUE_VERSION = "0.19.2"
YUNIKORN_VERSION = "1.9.0"
MODULES = Path(__file__).parent / "modules"
_KUEUE = "sigs.k8s.io/kueue/pkg/version.GitVersion"

TOOLS = {
    "kueue": (Tool("kueue", f"kueue-{KUEUE_VERSION}", "sigs.k8s.io/kueue/cmd/kueue", f"-s -w -X {_KUEUE}=v{KUEUE_VERSION}", 300, MODULES),),
    "yunikorn": (Tool("shim", f"yunikorn-{YUNIKORN_VERSION}", "github.com/apache/yunikorn-k8shim/pkg/cmd/shim", "-s -w", 300, MODULES),),
}


def build(name: str, report: Report = print_progress) -> dict[str, Path]:
    """Return the binaries of one peer by name, after building those that are not cached.

    Raises
    ------
    ClusterError : unknown peer, no usable Go, or the build failed.
    """
    if name not in TOOLS:
        raise ClusterError(f"no peer to build called {nearest(name, TOOLS)}")
    return ensure_tools(TOOLS[name], report)


def module_source(name: str) -> Path:
    """Return the folder of a peer's unpacked module, which holds its manifests; Go downloads it if need be.

    Raises
    ------
    ClusterError : it can't be downloaded.
    """
    tool = TOOLS[name][0]
    go = find_go(go_line(tool.module_folder))
    package = tool.package.split("/cmd/")[0]
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    command = [str(go), "mod", "download", "-json", package]
    done = subprocess.run(command, cwd=tool.module_folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`{' '.join(command[1:])}` ended with {done.returncode}:\n{(done.stdout + done.stderr).strip()}")
    return Path(json.loads(done.stdout)["Dir"])
