"""The operator as a separate process against a cluster: install, start, query, stop or kill it. For the demo and the T1 tests.

It runs as the cluster's user `fairburst` with only the rights that `fairburst manifests` grants, so a missing right shows here.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import http.client
import io
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster import Cluster, ClusterError
from e2e.objects import objects_of
from e2e.waiting import until
from fairburst.cli.main import main
from fairburst.kube.names import PLURALS

READY_SECONDS = 60.0
STOP_SECONDS = 20.0
_IDLE = re.compile(r'fairburst_idle_seconds_total\{cause="(?P<cause>\w+)",resource="(?P<resource>[^"]+)"\}')
# The CRDs are long: the loader in C reads them ten times as fast.
YAML_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class OperatorError(Exception):
    """The operator can't be installed, did not become ready, or died. The message holds its last log lines."""


class OperatorProcess:
    """`fairburst run` against a cluster, ready when the constructor returns. As a context manager it stops the process.

    config_overrides: merged over a configuration that names the kubeconfig and a free port for metrics, without leader election. There is
    one process, and a restart after `kill` should not wait for the dead process's Lease.
    name: distinguishes several operators of one cluster in files and messages.
    command: "extender" runs that instead.
    port: the port it serves, a free one by default.
    package: the folder to import `fairburst` from, for another version than the installed one.
    subject_user: the user that receives the manifests' rights and runs the operator. None means the kubeconfig's own user, whose rights are
    not changed (external clusters).
    """

    def __init__(
        self,
        cluster: Cluster,
        config_overrides: Mapping[str, Any] | None = None,
        name: str = "operator",
        *,
        command: str = "run",
        port: int | None = None,
        subject_user: str | None = "fairburst",
        install: bool = True,
        ready_seconds: float = READY_SECONDS,
        package: Path | None = None,
    ) -> None:
        self.cluster = cluster
        self.name, self.command = name, command
        self._environment = None if package is None else os.environ | {"PYTHONPATH": str(package)}
        self.folder = Path(tempfile.mkdtemp(prefix=f"fairburst-{name}-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.log = self.folder / "operator.log"
        self.log.touch()
        self.port = free_port() if port is None else port
        kubeconfig = cluster.kubeconfig if subject_user is None else cluster.user_kubeconfig(subject_user)
        defaults = {
            "kubeconfig": str(kubeconfig),
            "extender" if command == "extender" else "metrics": {"host": "127.0.0.1", "port": self.port},
            "leaderElection": {"enabled": False},
        }
        self.config = self.folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(merged(defaults, config_overrides or {})))
        self._process: subprocess.Popen[bytes] | None = None
        if install:
            install_manifests(cluster, self.config, subject_user)
        self.start(ready_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise OperatorError(f"operator {self.name} has not been started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, ready_seconds: float = READY_SECONDS) -> None:
        """Start it (again, after `stop` or `kill`) with the same configuration, and wait until /readyz answers 200.

        Raises
        ------
        OperatorError : it runs already, died, or was not ready in time. Nothing is left running.
        """
        if self.running:
            raise OperatorError(f"operator {self.name} already runs (pid {self.pid})")
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fairburst", self.command, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # A separate process group: Ctrl-C at a terminal reaches only this process, which then stops the operator in order.
                start_new_session=True,
            )
        atexit.register(self.kill)
        try:
            self._wait_ready(ready_seconds)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> int | None:
        """Send SIGTERM, wait, then SIGKILL if necessary. Return its exit status, None if it was not running."""
        if self._process is None or not self.running:
            return None
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        status = self._process.poll()
        self.kill()
        return status

    def kill(self) -> None:
        """Send SIGKILL to its whole process group, at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_SECONDS)
        atexit.unregister(self.kill)

    def ready(self) -> bool:
        """Return whether /readyz answers 200."""
        try:
            return self._get("/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def metrics(self) -> dict[str, float]:
        """Return every sample of /metrics, named as by `samples_by_name`.

        Raises OSError if the operator does not answer.
        """
        return samples_by_name(self._get("/metrics")[1])

    def idle_seconds(self, resource: str = "cpu") -> dict[str, float]:
        """Return how long the whole capacity of a resource would have been idle so far, by cause, in seconds.

        Raises OSError if the operator does not answer.
        """
        found = ((_IDLE.fullmatch(name), value) for name, value in self.metrics().items())
        return {match["cause"]: value for match, value in found if match is not None and match["resource"] == resource}

    def log_tail(self, lines: int = 20) -> str:
        """Return its last log lines."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _get(self, path: str) -> tuple[int, str]:
        # Not urllib: requests to a loopback address must bypass a proxy in the environment.
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def _wait_ready(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.ready():
            if not self.running:
                status = self._process.returncode if self._process else None
                raise OperatorError(f"operator {self.name} ended with status {status} before it was ready. Last lines:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise OperatorError(f"operator {self.name} was not ready after {seconds:g} s. Last lines:\n{self.log_tail()}")
            time.sleep(0.1)


def install_manifests(cluster: Cluster, config: Path, subject_user: str | None = "fairburst") -> None:
    """Apply the output of `fairburst manifests` and wait until the queue kinds are served.

    Raises OperatorError with the command's own message, or ClusterError if the cluster refuses.
    """
    apply_manifests(cluster, yaml.load_all(_manifests(config, subject_user), YAML_LOADER))


def apply_manifests(cluster: Cluster, manifests: Iterable[dict[str, Any]]) -> None:
    """Apply the objects of an installation, and wait until the queue kinds are served."""
    objects = objects_of(cluster.kubeconfig)
    for one in manifests:
        objects.apply(one)

    def served() -> bool:
        with contextlib.suppress(ClusterError):
            return all(objects.list(kind) is not None for kind in PLURALS.values())
        return False

    until(served, READY_SECONDS, "the queue kinds to be served")


def uninstall_manifests(cluster: Cluster, config: Path, subject_user: str | None = "fairburst") -> None:
    """Delete everything that `install_manifests` applied, queues included. Missing objects are no error."""
    cluster.kubectl("delete", "--ignore-not-found", "--wait=true", "-f", "-", input=_manifests(config, subject_user), timeout=90)


def _manifests(config: Path, subject_user: str | None) -> str:
    """Return the output of `fairburst manifests`."""
    done = run_command("manifests", "--config", str(config), *(["--subject-user", subject_user] if subject_user else []))
    if done.returncode != 0:
        raise OperatorError(f"`fairburst {' '.join(done.args)}` ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of fairburst in this process: another one takes a second of processor time to start."""
    printed, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaint):
        status = main(list(arguments))
    return subprocess.CompletedProcess(arguments, status, printed.getvalue(), complaint.getvalue())


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `overrides` merged over it, group by group."""
    result = dict(base)
    for key, value in overrides.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def free_port() -> int:
    """Return a loopback port without a listener, below the kernel's range for outgoing connections."""
    for port in random.sample(range(18000, 20000), 50):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OperatorError("found no free port among 50 tried between 18000 and 20000")


def end_in_good_order(numbers: Iterable[signal.Signals] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)) -> None:
    """Let these signals raise SystemExit once, so that every `with` and atexit ends its processes. Ignore further ones.

    Without it SIGTERM and SIGHUP end Python immediately, and a second Ctrl-C interrupts the cleanup.
    """
    chosen = tuple(numbers)

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for each in chosen:
            signal.signal(each, signal.SIG_IGN)
        with contextlib.suppress(RuntimeError):  # no event loop runs
            asyncio.get_running_loop().set_exception_handler(_report_errors_only)
        raise SystemExit(128 + number)

    handler: Callable[[int, FrameType | None], NoReturn] = end
    for each in chosen:
        signal.signal(each, handler)


def _report_errors_only(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Call the event loop's default handler, except for tasks that ended by SystemExit, which ends the program."""
    if not isinstance(context.get("exception"), SystemExit):
        loop.default_exception_handler(context)


def samples_by_name(exposition: str) -> dict[str, float]:
    """Return the samples of a /metrics text by name with sorted labels: `fairburst_rounds_total` or `fairburst_share{queue="a/b"}`."""
    families = text_string_to_metric_families(exposition)
    return {_sample_name(sample.name, sample.labels): sample.value for family in families for sample in family.samples}


def _sample_name(name: str, labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return f"{name}{{{inner}}}" if inner else name
