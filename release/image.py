"""`python -m release image IMAGE`: check with Docker that a built image keeps the Dockerfile's promises."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from release.check import NotReadyError

# As Kubernetes runs it with the chart's values: read-only, without capabilities or a way to gain one. Here also without a network.
_LOCKED = ("--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges")
_COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "ld", "as", "make", "rustc", "go")
_EXTRAS = ("kubernetes", "numba", "matplotlib", "pyarrow", "pytest", "hypothesis", "setuptools")
START_UP_SECONDS = 1.5
_STARTS = 7
# Processor time from the start of the process until every module of `fairburst run` is loaded; after that it waits for the cluster.
_START_UP = (
    "import fairburst.cli.main, fairburst.kube.process, resource; r = resource.getrusage(resource.RUSAGE_SELF); "
    "print(r.ru_utime + r.ru_stime, r.ru_maxrss / 1024)"
)


def check(names: Sequence[str], version: str, report: Callable[[str], None]) -> None:
    """Check the first image and report a line about each check. Other images must hold the same files. Raises NotReadyError."""
    name = names[0]
    for text in (settings(name), runs_locked(name, version), nothing_to_build_with(name), size(name), start_up(name)):
        report(text)
    for other in names[1:]:
        report(same_files(name, other))


def settings(name: str) -> str:
    """Check the user (not root), the labels, and that there is no HEALTHCHECK, because Kubernetes has probes."""
    config = _inspect(name)["Config"]
    if not config["User"] or config["User"].split(":")[0] in {"0", "root"}:
        raise NotReadyError(f"{name}: expected a user other than root, found {config['User']!r}")
    if config.get("Healthcheck"):
        raise NotReadyError(f"{name}: expected no HEALTHCHECK, found {config['Healthcheck']}")
    labels = {key.rpartition(".")[2] for key in config.get("Labels") or {} if key.startswith("org.opencontainers.image.")}
    if not {"title", "description", "licenses", "version", "revision"} <= labels:
        raise NotReadyError(f"{name}: expected labels of title, description, licenses, version and revision, found {sorted(labels)}")
    return f"{name} runs as {config['User']}, has no HEALTHCHECK, and labels for {', '.join(sorted(labels))}"


def runs_locked(name: str, version: str) -> str:
    """Check that the command works with a read-only root file system, no network and no capability, and can't write."""
    said = _run("run", "--rm", *_LOCKED, name, "--version").strip()
    if said != f"fairburst {version}":
        raise NotReadyError(f"{name}: expected `fairburst {version}`, found {said!r}")
    _run("run", "--rm", *_LOCKED, name, "manifests")
    anybody = _run("run", "--rm", *_LOCKED, "--user=12345", "--entrypoint=python", name, "-c", "import getpass; print(getpass.getuser())")
    if not anybody.strip():
        raise NotReadyError(f"{name}: expected a name for a user of any number, since Kopf asks for it")
    writable = _shell(name, "find / -xdev -writable -not -type l -not -path '/proc/*' -not -path '/dev/*' 2>/dev/null; true")
    beyond = [path for path in writable.split() if path not in {"/tmp", "/var/tmp", "/run/lock"}]  # noqa: S108  everybody's, in every base
    if beyond:
        raise NotReadyError(f"{name}: expected nothing that its user may write to, found {beyond[:5]}")
    return f"{name} works with a read-only root, no network and no capability, and its user owns no file"


def nothing_to_build_with(name: str) -> str:
    """Check that there is no compiler, and no package for simulation or development."""
    found = _shell(name, f"for one in {' '.join(_COMPILERS)}; do command -v $one; done; true").split()
    modules = _python(name, f"import importlib.util as u; print([m for m in {list(_EXTRAS)!r} if u.find_spec(m)])")
    if found or modules.strip() != "[]":
        raise NotReadyError(f"{name}: expected neither compilers nor extras, found {found} and {modules.strip()}")
    return f"{name} has no compiler and none of {', '.join(_EXTRAS)}"


def size(name: str) -> str:
    """Report the image's size and our part of it."""
    whole = int(_inspect(name)["Size"])
    ours = int(_shell(name, "du -s --block-size=1 /opt/fairburst").split()[0])
    return f"{name} is {whole / 1e6:.0f} MB unpacked, of which {ours / 1e6:.0f} MB are ours and the rest the base"


def start_up(name: str) -> str:
    """Check the processor time of a start: the median of several, because one depends on the machine's other load."""
    seconds, megabytes = zip(*(map(float, _python(name, _START_UP).split()) for _ in range(_STARTS)), strict=True)
    middle = statistics.median(seconds)
    spread = f"median of {_STARTS}, {min(seconds):.2f} to {max(seconds):.2f}"
    told = f"{middle:.2f} s of processor time ({spread}) and {max(megabytes):.0f} MB to start"
    if middle > START_UP_SECONDS:
        raise NotReadyError(f"{name}: expected at most {START_UP_SECONDS} s, found {told}")
    return f"{name} needs {told}"


def same_files(name: str, other: str) -> str:
    """Check that two builds hold the same files of ours, with the same bytes and times."""
    listing = "cd /opt/fairburst && find . -type f -printf '%P %T@ %m ' -exec sha256sum {} ';' | sort"
    first, second = (_shell(one, listing).splitlines() for one in (name, other))
    if first != second:
        raise NotReadyError(f"{name} and {other}: expected the same files, found {sorted(set(first) ^ set(second))[:4]}")
    return f"{name} and {other} hold the same {len(first)} files, byte for byte"


def _shell(name: str, command: str) -> str:
    return _run("run", "--rm", *_LOCKED, "--entrypoint=sh", name, "-c", command)


def _python(name: str, code: str) -> str:
    return _run("run", "--rm", *_LOCKED, "--entrypoint=python", name, "-c", code)


def _inspect(name: str) -> dict[str, Any]:
    (described,) = json.loads(_run("image", "inspect", name))
    return dict(described)


def _run(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=300, check=False)  # noqa: S603, S607
    if done.returncode != 0:
        raise NotReadyError(f"`docker {' '.join(arguments)[:200]}` ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
    return done.stdout
