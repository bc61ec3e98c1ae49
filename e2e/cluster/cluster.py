"""A control plane as a value: start it, use it, stop it; or the same interface to a cluster that is managed elsewhere.

The state of a running cluster is a folder outside the checkout with one log file per process, its data and `state.json`. A cluster
therefore outlives the command that started it, and any later command finds it by name.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from e2e.cluster.build import ensure_binaries, last_lines, print_progress
from e2e.cluster.cache import clusters_folder
from e2e.cluster.components import (
    APISERVER,
    COMPONENTS,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    SCHEDULER,
    Layout,
    Options,
    Plan,
    Ports,
    node_manifests,
    write_files,
    write_kubeconfigs,
)
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.fetch import fetch
from e2e.cluster.kubeconfig import current_context
from e2e.cluster.processes import ProcessIdentity, identify, spawn, unbroken
from e2e.cluster.versions import DEFAULT_KUBERNETES

START_SECONDS = 60  # for each step of a start; on two idle cores all of them together take 5 s
STOP_SECONDS = 90  # an API server drains its watches for up to a minute after SIGTERM and holds its port meanwhile
DOWN_SECONDS = 5  # `down` deletes the data, so it kills any process that has not ended by then
PORT_ATTEMPTS = 5
# Below the range from which the kernel takes ports of outgoing connections, so that no connection occupies ours.
PORT_RANGE = range(20000, 32000)
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")


class Cluster:
    """One control plane, from `start`, `attach` or `existing`. As a context manager it stops the cluster that `start` started."""

    def __init__(self, name: str, *, kubeconfig: Path, server: str, token: str | None, plan: Plan | None, kubectl: Path) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.server = server
        self._token = token
        self._plan = plan
        self._kubectl = kubectl
        self._processes: dict[str, ProcessIdentity] = {}
        self._owner: ProcessIdentity | None = None

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
        layout = Layout(clusters_folder() / _checked_name(name))
        flags = tuple(apiserver_flags), tuple(controller_manager_flags), tuple(scheduler_flags)
        options = Options(kubernetes, audit, *flags, scheduler_configuration)
        binaries = ensure_binaries(kubernetes, report=report)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            cluster = cls._of_plan(name, Plan(binaries, layout, _free_ports(), options))
            # Until it is up it belongs to this process even if it will be kept: if this process is killed, the next start reaps it.
            cluster._owner = identify(os.getpid())
            cluster._claim_name()
            try:
                cluster._bring_up()
                if nodes:
                    cluster.add_nodes(nodes, cpu=node_cpu, memory=node_memory)
            except BaseException as error:
                cluster.down()
                if isinstance(error, ClusterError) and "address already in use" in str(error) and attempt < PORT_ATTEMPTS:
                    report(f"{name}: somebody took one of its ports; trying others")
                    continue
                raise
            if keep:
                cluster._owner = None
                cluster._save()
            else:
                atexit.register(cluster._down_at_exit)
            return cluster
        raise AssertionError("the last attempt returns or raises")

    @classmethod
    def attach(cls, name: str) -> Cluster:
        """Return the cluster of that name, which an earlier command started.

        Raises
        ------
        ClusterError : no such cluster runs.
        """
        layout = Layout(clusters_folder() / _checked_name(name))
        if not layout.state.exists():
            raise ClusterError(f"no cluster {nearest(name, cluster_names())}; start it with `python -m e2e.cluster up --name {name}`")
        try:
            return cls._of_state(name, layout, json.loads(layout.state.read_text()))
        except (ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"{layout.state}: not a state that this version writes ({error!r}); end its processes and remove it"
            ) from error

    @classmethod
    def _of_state(cls, name: str, layout: Layout, state: dict[str, Any]) -> Cluster:
        binaries = {component: Path(path) for component, path in state["binaries"].items()}
        options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in state["options"].items()}
        cluster = cls._of_plan(name, Plan(binaries, layout, Ports(**state["ports"]), Options(**options), state["tokens"]))
        cluster._processes = {component: ProcessIdentity(**identity) for component, identity in state["processes"].items()}
        cluster._owner = ProcessIdentity(**state["owner"]) if state["owner"] else None
        return cluster

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
        return cls(str(path), kubeconfig=path, server=server, token=token, plan=None, kubectl=kubectl)

    @classmethod
    def _of_plan(cls, name: str, plan: Plan) -> Cluster:
        kubeconfig = plan.layout.kubeconfig("admin")
        return cls(name, kubeconfig=kubeconfig, server=plan.server, token=plan.tokens["admin"], plan=plan, kubectl=plan.binaries["kubectl"])

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._plan is not None:
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
        return dict(self._own().tokens)

    def user_kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of one of `tokens`' users, such as fairburst."""
        if user not in self._own().tokens:
            raise ClusterError(f"no token user {nearest(user, self._own().tokens)}")
        return self._own().layout.kubeconfig(user)

    @property
    def audit_log(self) -> Path | None:
        """One JSON object a line for every request that writes; None unless started with `audit`."""
        return self._plan.layout.audit_log if self._plan is not None and self._plan.options.audit else None

    @property
    def kubernetes(self) -> str:
        """The cluster's version, such as 1.37.1."""
        if self._plan is not None:
            return self._plan.options.kubernetes
        return str(json.loads(self.kubectl("get", "--raw", "/version"))["gitVersion"]).removeprefix("v")

    def log(self, component: str) -> Path:
        return self._own().layout.log(_checked_component(component))

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
        self._own()
        taken = [self._node_number(name, name_prefix) for name in self.kubectl("get", "nodes", "-o", "name").split()]
        first = max(taken, default=-1) + 1
        names = [f"{name_prefix}-{number:03d}" for number in range(first, first + count)]
        manifests = node_manifests(names, {"cpu": cpu, "memory": memory, **(extended or {})}, labels or {})
        self.kubectl(
            "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}), timeout=START_SECONDS + count
        )
        self._wait(f"{count} nodes to be ready", lambda: self._nodes_ready(names), seconds=START_SECONDS + count)
        return names

    @staticmethod
    def _node_number(name: str, prefix: str) -> int:
        match = re.fullmatch(rf"node/{re.escape(prefix)}-(\d+)", name)
        return int(match.group(1)) if match else -1

    def _nodes_ready(self, names: list[str]) -> bool:
        ready = {
            node["metadata"]["name"]
            for node in self._request("GET", "/api/v1/nodes")["items"]
            if not node["spec"].get("taints")
            and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        }
        return ready.issuperset(names)

    # Its processes

    def status(self) -> dict[str, int | None]:
        """Return the process id of every component, None for those that do not run."""
        self._own()
        return {component: p.pid if (p := self._processes.get(component)) and p.alive() else None for component in COMPONENTS}

    def stop(self, component: str, *, kill: bool = False) -> None:
        """End one process and wait until it is gone: by SIGTERM, or by SIGKILL as in a crash."""
        self._own()
        process = self._processes.get(_checked_component(component))
        if process is None:
            return
        process.send(signal.SIGKILL if kill else signal.SIGTERM)
        if not process.wait(STOP_SECONDS):
            raise ClusterError(f"{component} (pid {process.pid}) still runs {STOP_SECONDS} s after {'SIGKILL' if kill else 'SIGTERM'}")
        # The stop is intended: no wait must report it as a crash.
        del self._processes[component]
        self._save()

    def start_component(self, component: str) -> None:
        """Restart one process with its first command line, data and port, and wait until it serves."""
        self._own()
        process = self._processes.get(_checked_component(component))
        if process is not None and process.alive():
            raise ClusterError(f"{component} of cluster {self.name} already runs (pid {process.pid})")
        if component == KWOK:
            # A restarted kwok is a new lease holder: it would ignore the nodes until the old holder's leases have expired (40 s).
            leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
            self._wait("the nodes' leases to be given up", lambda: self._request("DELETE", leases) is not None)
        self._spawn(component)
        if component in {ETCD, APISERVER}:
            self._wait_serving(component)
        # The others serve no port. A caller that waits for their work notices their death and shows their log.

    def down(self) -> None:
        """End every process, wait, kill the remaining ones and delete the data. A cluster that is already down is no error."""
        plan = self._own()
        atexit.unregister(self._down_at_exit)
        recorded = self._recorded()
        if recorded is not None:
            self._processes = recorded._processes  # another command may have restarted some of them
        deadline = time.monotonic() + DOWN_SECONDS
        # Clients before their server: the API server waits for open watches before it ends, and every component needs etcd.
        for group in (COMPONENTS[2:], (APISERVER,), (ETCD,)):
            _end([process for component in group if (process := self._processes.get(component))], deadline)
        survivors = [process.pid for process in self._processes.values() if process.alive()]
        if survivors:
            raise ClusterError(f"cluster {self.name}: processes {survivors} survived SIGKILL; its state stays in {plan.layout.folder}")
        self._processes.clear()
        if recorded is not None:
            shutil.rmtree(plan.layout.folder, ignore_errors=True)

    def _recorded(self) -> Cluster | None:
        """Return the cluster recorded in the folder, or None if it is down or the name now belongs to another one."""
        try:
            found = Cluster.attach(self.name)
        except (ClusterError, FileNotFoundError):
            return None
        return found if found._own().tokens == self._own().tokens else None

    def _down_at_exit(self) -> None:
        if self._owner is not None and self._owner.pid == os.getpid():  # not in a forked child
            self.down()

    # Starting

    def _claim_name(self) -> None:
        """Create a fresh folder with an initial state in it. A lock allows one command at a time."""
        clusters_folder().mkdir(parents=True, exist_ok=True)
        with (clusters_folder() / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            reap_orphans()
            if self.name in cluster_names() and Cluster.attach(self.name)._in_use():
                raise ClusterError(
                    f"cluster {self.name!r} already runs or is just starting; end it with `python -m e2e.cluster down --name {self.name}`"
                )
            folder = self._own().layout.folder
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)  # it will hold tokens
            self._save()

    def _in_use(self) -> bool:
        return any(self.status().values()) or (self._owner is not None and self._owner.alive())

    def _bring_up(self) -> None:
        plan = self._own()
        write_files(plan)
        for component in (ETCD, APISERVER):
            self._spawn(component)
            self._wait_serving(component)
            if component == APISERVER:
                write_kubeconfigs(plan)
        for component in (CONTROLLER_MANAGER, SCHEDULER, KWOK):
            self._spawn(component)
        self._wait_working()

    def _wait_serving(self, component: str) -> None:
        plan = self._own()
        if component == ETCD:
            address = f"http://127.0.0.1:{plan.ports.etcd}/health"
            self._wait("etcd to serve", lambda: "true" in fetch(address), component)
        else:
            self._wait("kube-apiserver to be ready", lambda: self._request("GET", "/readyz") is not None, component)

    def _wait_working(self) -> None:
        """Wait until the controller manager can write: without rights it runs, and silently does nothing."""
        probe = {"metadata": {"name": "fairburst-probe"}}
        self._wait("namespace kube-system", lambda: self._request("GET", "/api/v1/namespaces/kube-system") is not None)
        self._request("POST", "/api/v1/namespaces", probe)
        account = "/api/v1/namespaces/fairburst-probe/serviceaccounts/default"
        self._wait(
            "kube-controller-manager to give a new namespace its default ServiceAccount",
            lambda: self._request("GET", account) is not None,
            CONTROLLER_MANAGER,
        )
        self._request("DELETE", "/api/v1/namespaces/fairburst-probe")

    def _spawn(self, component: str) -> None:
        plan = self._own()
        with plan.layout.log(component).open("a") as log:
            log.write(f"--- started {time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n")
        with unbroken():
            self._processes[component] = spawn(plan.command(component), plan.layout.log(component), plan.layout.folder)
            self._save()

    def _wait(self, what: str, done: Callable[[], bool], component: str | None = None, seconds: float = START_SECONDS) -> None:
        """Poll until `done` returns true. A failed request means "not yet". Raise, with its log, if any process has died meanwhile."""
        deadline = time.monotonic() + seconds
        pause = 0.02
        while True:
            self._check_alive(f" while waiting for {what}")
            try:
                if done():
                    return
                reason = "not yet"
            except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
                reason = str(error)
            if time.monotonic() > deadline:
                log = f". Last lines of {component}:\n{last_lines(self.log(component))}" if component else ""
                raise ClusterError(f"cluster {self.name}: waited {seconds:.0f} s for {what}: {reason}{log}")
            time.sleep(pause)
            pause = min(0.2, pause * 1.3)

    def _check_alive(self, occasion: str = "") -> None:
        for component, process in self._processes.items():
            if not process.alive():
                raise ClusterError(
                    f"cluster {self.name}: {component} (pid {process.pid}) has died{occasion}. "
                    f"Its last lines:\n{last_lines(self.log(component))}"
                )

    def check(self) -> None:
        """Raise an error with the last log lines of a component that does not run, for tests whose wait has failed."""
        self._own()
        self._check_alive()

    def _request(self, method: str, path: str, body: object = None) -> Any:
        """Return the API server's answer to the administrator: decoded JSON, or text if it is not JSON.

        Raises
        ------
        OSError : no connection, or an HTTP error, with the server's message.
        """
        plan = self._own()
        context = ssl.create_default_context(cafile=str(plan.layout.serving_certificate))
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        text = fetch(self.server + path, method, headers, None if body is None else json.dumps(body).encode(), context)
        return json.loads(text) if text.startswith("{") else text

    def _own(self) -> Plan:
        if self._plan is None:
            raise ClusterError(
                f"{self.kubeconfig} is a cluster that somebody else runs: its processes, nodes and users are not ours to touch"
            )
        return self._plan

    def _save(self) -> None:
        plan = self._own()
        state = {
            "binaries": {component: str(path) for component, path in plan.binaries.items()},
            "ports": asdict(plan.ports),
            "options": asdict(plan.options),
            "tokens": plan.tokens,
            "processes": {component: asdict(identity) for component, identity in self._processes.items()},
            "owner": asdict(self._owner) if self._owner else None,
        }
        unfinished = plan.layout.state.with_suffix(".new")
        unfinished.write_text(json.dumps(state, indent=1))
        unfinished.replace(plan.layout.state)


# All clusters of this machine's user


def cluster_names() -> list[str]:
    return sorted(path.parent.name for path in clusters_folder().glob("*/state.json"))


def reap_orphans() -> None:
    """Stop the clusters whose owner was killed before it could stop them."""
    for name in cluster_names():
        with contextlib.suppress(ClusterError, FileNotFoundError):  # its owner may be stopping it right now
            cluster = Cluster.attach(name)
            if cluster._owner is not None and not cluster._owner.alive():
                cluster.down()


def _end(processes: list[ProcessIdentity], deadline: float) -> None:
    """Send SIGTERM to all. At the deadline (monotonic seconds), send SIGKILL to those that still run."""
    for process in processes:
        process.send(signal.SIGTERM)
    for process in processes:
        if not process.wait(max(0.0, deadline - time.monotonic())):
            process.send(signal.SIGKILL)
            process.wait(DOWN_SECONDS)


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ClusterError(f"a cluster's name is up to 42 lower-case letters, digits and inner dashes, found {name!r}")
    return name


def _checked_component(component: str) -> str:
    if component not in COMPONENTS:
        raise ClusterError(f"no component {nearest(component, COMPONENTS)}")
    return component


def _free_ports() -> Ports:
    """Return three ports without a listener. If another process takes one first, the bind fails and the caller tries others."""
    found: list[int] = []
    while len(found) < 3:
        port = random.choice(PORT_RANGE)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return Ports(*found)
