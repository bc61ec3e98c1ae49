"""A control plane as a value: start it, use it, stop it; or the same interface to a cluster that is managed elsewhere.

The state of a running cluster is a folder outside the checkout with one log file per process, its data and `state.json`. A cluster
therefore outlives the command that started it, and any later command finds it by name.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from e2e.cluster.build import ensure_binaries, print_progress
from e2e.cluster.components import Options, Plan, node_manifests
from e2e.cluster.control_plane import START_SECONDS, ControlPlane
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.kubeconfig import current_context
from e2e.cluster.ports import free_ports
from e2e.cluster.state import layout_of
from e2e.cluster.versions import DEFAULT_KUBERNETES

PORT_ATTEMPTS = 5


class Cluster:
    """One control plane, from `start`, `attach` or `existing`. As a context manager it stops the cluster that `start` started."""

    def __init__(self, name: str, *, kubeconfig: Path, server: str, token: str | None, kubectl: Path, own: ControlPlane | None) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.server = server
        self._token = token
        self._kubectl = kubectl
        self._control_plane = own

    # Making one

    @classmethod
    def start(
        cls,
        name: str,
        *,
        kubernetes: str = DEFAULT_KUBERNETES,
        nodes: int = 0,
        node_cpu: str = "32",
        node_memory: str = "64Gi",
        audit: bool = False,
        apiserver_flags: Sequence[str] = (),
        controller_manager_flags: Sequence[str] = (),
        scheduler_flags: Sequence[str] = (),
        scheduler_configuration: dict[str, Any] | None = None,
        keep: bool = False,
        report: Callable[[str], None] = print_progress,
    ) -> Cluster:
        """Build missing binaries, start every process and wait until work would run.

        With `keep` the cluster outlives this process (`down` ends it). Otherwise it is stopped at exit, or, if this process is killed, by
        the next start of any cluster.

        Raises
        ------
        ClusterError : a cluster of that name runs, a binary can't be built, or a process died or was not ready in time (with its last log
        lines). No process is left running.
        """
        layout = layout_of(name)
        flags = tuple(apiserver_flags), tuple(controller_manager_flags), tuple(scheduler_flags)
        options = Options(kubernetes, audit, *flags, scheduler_configuration)
        binaries = ensure_binaries(kubernetes, report=report)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            # Until it is up it belongs to this process even if it will be kept: if this process is killed, the next start reaps it.
            control_plane = ControlPlane.claim(name, Plan(binaries, layout, free_ports(), options))
            cluster = cls._of(control_plane)
            try:
                control_plane.bring_up()
                if nodes:
                    cluster.add_nodes(nodes, cpu=node_cpu, memory=node_memory)
            except BaseException as error:
                control_plane.down()
                if isinstance(error, ClusterError) and "address already in use" in str(error) and attempt < PORT_ATTEMPTS:
                    report(f"{name}: another process took one of its ports; trying others")
                    continue
                raise
            if keep:
                control_plane.keep()
            else:
                control_plane.end_at_exit()
            return cluster
        raise AssertionError("the last attempt returns or raises")

    @classmethod
    def attach(cls, name: str) -> Cluster:
        """Return the cluster of that name, which an earlier command started.

        Raises
        ------
        ClusterError : no such cluster runs.
        """
        return cls._of(ControlPlane.recorded(name))

    @classmethod
    def existing(cls, kubeconfig: Path | str) -> Cluster:
        """Return an external cluster, by its kubeconfig's current context. It is never started, stopped or given nodes.

        Raises
        ------
        ClusterError : the file has no usable current context, or no kubectl can be found or built.
        """
        path = Path(kubeconfig).expanduser().absolute()
        server, token = current_context(path)
        installed = shutil.which("kubectl")
        kubectl = Path(installed) if installed else ensure_binaries(only=("kubectl",))["kubectl"]
        return cls(str(path), kubeconfig=path, server=server, token=token, kubectl=kubectl, own=None)

    @classmethod
    def _of(cls, own: ControlPlane) -> Cluster:
        plan = own.plan
        kubeconfig, kubectl = plan.layout.kubeconfig("admin"), plan.binaries["kubectl"]
        return cls(own.name, kubeconfig=kubeconfig, server=plan.server, token=plan.tokens["admin"], kubectl=kubectl, own=own)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._control_plane is not None:
            self.down()

    # Using it

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        if self._token is None:
            raise ClusterError(
                f"{self.kubeconfig}: its user has no plain token (a client certificate or a plug-in?); use kubectl() or the file"
            )
        return self._token

    @property
    def tokens(self) -> dict[str, str]:
        """Bearer tokens by user: admin, fairburst (no rights until bound) and each component's."""
        return dict(self._own().plan.tokens)

    def user_kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of `tokens`' users, such as fairburst."""
        plan = self._own().plan
        if user not in plan.tokens:
            raise ClusterError(f"no token user {nearest(user, plan.tokens)}")
        return plan.layout.kubeconfig(user)

    @property
    def audit_log(self) -> Path | None:
        """One JSON object a line for every request that writes; None unless started with `audit`."""
        plan = None if self._control_plane is None else self._control_plane.plan
        return plan.layout.audit_log if plan is not None and plan.options.audit else None

    @property
    def kubernetes(self) -> str:
        """The cluster's version, such as 1.37.1."""
        if self._control_plane is not None:
            return self._control_plane.plan.options.kubernetes
        return str(json.loads(self.kubectl("get", "--raw", "/version"))["gitVersion"]).removeprefix("v")

    def log(self, component: str) -> Path:
        return self._own().log(component)

    def kubectl(self, *arguments: str, input: str | None = None, timeout: float = 60) -> str:  # noqa: A002 - as subprocess.run calls it
        """Run kubectl and return its output.

        Raises
        ------
        ClusterError : it failed or took longer than `timeout` seconds; the message holds its stderr.
        """
        command = [str(self._kubectl), "--kubeconfig", str(self.kubeconfig), *arguments]
        shown = f"kubectl {' '.join(arguments)}"
        try:
            done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            raise ClusterError(f"`{shown}` was not done after {timeout:g} s (cluster {self.name})") from late
        if done.returncode != 0:
            raise ClusterError(f"`{shown}` ended with {done.returncode} (cluster {self.name}):\n{done.stderr.strip()}")
        return done.stdout

    @contextmanager
    def forwarded(self, target: str, port: int, namespace: str) -> Iterator[int]:
        """Forward a free port of this machine to a port of the target, such as `service/name`, until the end of the block; yield it."""
        command = [str(self._kubectl), "--kubeconfig", str(self.kubeconfig), "port-forward", "-n", namespace, target, f":{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            try:
                said = running.stdout.readline() if running.stdout is not None else ""
                found = re.search(r"127\.0\.0\.1:(\d+) ->", said)
                if found is None:
                    running.terminate()
                    raise ClusterError(f"`{' '.join(command)}` forwards nothing: {said}{running.communicate(timeout=20)[1]}")
                yield int(found[1])
            finally:
                running.terminate()

    def add_nodes(
        self,
        count: int,
        *,
        cpu: str = "32",
        memory: str = "64Gi",
        extended: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        name_prefix: str = "node",
    ) -> list[str]:
        """Add `count` kwok nodes, numbered after existing ones of that prefix. Return their names once all are Ready and untainted."""
        control_plane = self._own()
        taken = [self._node_number(node["metadata"]["name"], name_prefix) for node in self.request("GET", "/api/v1/nodes")["items"]]
        first = max(taken, default=-1) + 1
        names = [f"{name_prefix}-{number:03d}" for number in range(first, first + count)]
        for manifest in node_manifests(names, {"cpu": cpu, "memory": memory, **(extended or {})}, labels or {}):
            self.request("POST", "/api/v1/nodes", manifest)
        control_plane.wait(f"{count} nodes to be ready", lambda: self._nodes_ready(names), seconds=START_SECONDS + count)
        return names

    @staticmethod
    def _node_number(name: str, prefix: str) -> int:
        match = re.fullmatch(rf"{re.escape(prefix)}-(\d+)", name)
        return int(match.group(1)) if match else -1

    def _nodes_ready(self, names: list[str]) -> bool:
        ready = {
            node["metadata"]["name"]
            for node in self.request("GET", "/api/v1/nodes")["items"]
            if not node["spec"].get("taints")
            and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        }
        return ready.issuperset(names)

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the API server's answer to the administrator: decoded JSON, or text if it is not JSON.

        Raises
        ------
        OSError : no connection, or an HTTP error, with the server's message.
        """
        return self._own().request(method, path, body)

    # Its processes

    def status(self) -> dict[str, int | None]:
        """Return the process id of every component, None for those that do not run."""
        return self._own().status()

    def stop(self, component: str, *, kill: bool = False) -> None:
        """End one process and wait until it is gone: by SIGTERM, or by SIGKILL as in a crash."""
        self._own().stop(component, kill=kill)

    def start_component(self, component: str) -> None:
        """Restart one process with its first command line, data and port, and wait until it serves."""
        self._own().start_component(component)

    def down(self) -> None:
        """Kill every process, wait for their ends and delete the data. A cluster that is already down is no error."""
        self._own().down()

    def check(self) -> None:
        """Raise an error with the last log lines of a component that does not run, for tests whose wait has failed."""
        self._own().check_alive()

    def _own(self) -> ControlPlane:
        if self._control_plane is None:
            raise ClusterError(f"{self.kubeconfig} is an external cluster: its processes, nodes and users are not ours to touch")
        return self._control_plane
