"""The processes of one cluster: start them, wait until they work, restart or end them, and record each change in the state file."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.cluster.build import last_lines
from e2e.cluster.cache import clusters_folder
from e2e.cluster.components import (
    APISERVER,
    COMPONENTS,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    SCHEDULER,
    Plan,
    write_files,
    write_kubeconfigs,
)
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.fetch import fetch
from e2e.cluster.processes import identify, spawn, unbroken
from e2e.cluster.state import State, cluster_names, load_state

START_SECONDS = 60  # for each step of a start; on two idle cores all of them together take 5 s
STOP_SECONDS = 90  # an API server drains its watches for up to a minute after SIGTERM and holds its port meanwhile
DOWN_SECONDS = 5


class ControlPlane:
    """The processes of one cluster, from `claim` or `recorded`."""

    def __init__(self, name: str, state: State) -> None:
        self.name = name
        self.state = state

    @classmethod
    def claim(cls, name: str, plan: Plan) -> ControlPlane:
        """Create a fresh folder with an initial state in it, owned by this process. A lock allows one command at a time.

        Raises
        ------
        ClusterError : a cluster of that name runs or is just starting.
        """
        clusters_folder().mkdir(parents=True, exist_ok=True)
        with (clusters_folder() / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            reap_orphans()
            if name in cluster_names() and cls.recorded(name).in_use():
                raise ClusterError(
                    f"cluster {name!r} already runs or is just starting; end it with `python -m e2e.cluster down --name {name}`"
                )
            shutil.rmtree(plan.layout.folder, ignore_errors=True)
            plan.layout.folder.mkdir(mode=0o700)  # it will hold tokens
            state = State(plan, identify(os.getpid()))
            state.save()
        return cls(name, state)

    @classmethod
    def recorded(cls, name: str) -> ControlPlane:
        """Return the processes in the state file of the cluster of that name. Raises ClusterError if no such cluster runs."""
        return cls(name, load_state(name))

    @property
    def plan(self) -> Plan:
        return self.state.plan

    def log(self, component: str) -> Path:
        return self.plan.layout.log(_checked(component))

    def in_use(self) -> bool:
        """Return whether the cluster runs, or its owner is starting or stopping it."""
        owner = self.state.owner
        return any(self.status().values()) or (owner is not None and owner.alive())

    def status(self) -> dict[str, int | None]:
        """Return the process id of every component, None for those that do not run."""
        processes = self.state.processes
        return {component: p.pid if (p := processes.get(component)) and p.alive() else None for component in COMPONENTS}

    def keep(self) -> None:
        """Let the cluster outlive this process."""
        self.state.owner = None
        self.state.save()

    def end_at_exit(self) -> None:
        """End the cluster when this process exits."""
        atexit.register(self._down_at_exit)

    # Starting

    def bring_up(self) -> None:
        """Start every process and wait until work would run."""
        write_files(self.plan)
        for component in (ETCD, APISERVER):
            self._spawn(component)
            self._wait_serving(component)
            if component == APISERVER:
                write_kubeconfigs(self.plan)
        for component in (CONTROLLER_MANAGER, SCHEDULER, KWOK):
            self._spawn(component)
        self._wait_working()

    def start_component(self, component: str) -> None:
        """Restart one process with its first command line, data and port, and wait until it serves."""
        process = self.state.processes.get(_checked(component))
        if process is not None and process.alive():
            raise ClusterError(f"{component} of cluster {self.name} already runs (pid {process.pid})")
        if component == KWOK:
            # A restarted kwok is a new lease holder: it would ignore the nodes until the old holder's leases have expired (40 s).
            leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
            self.wait("the nodes' leases to be given up", lambda: self.request("DELETE", leases) is not None)
        self._spawn(component)
        if component in {ETCD, APISERVER}:
            self._wait_serving(component)
        # The others serve no port. A caller that waits for their work notices their death and shows their log.

    def _spawn(self, component: str) -> None:
        layout = self.plan.layout
        with layout.log(component).open("a") as log:
            log.write(f"--- started {time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n")
        with unbroken():
            self.state.processes[component] = spawn(self.plan.command(component), layout.log(component), layout.folder)
            self.state.save()

    def _wait_serving(self, component: str) -> None:
        if component == ETCD:
            address = f"http://127.0.0.1:{self.plan.ports.etcd}/health"
            self.wait("etcd to serve", lambda: "true" in fetch(address), component)
        else:
            self.wait("kube-apiserver to be ready", lambda: self.request("GET", "/readyz") is not None, component)

    def _wait_working(self) -> None:
        """Wait until the controller manager can write: without rights it runs, and silently does nothing."""
        probe = {"metadata": {"name": "fairburst-probe"}}
        self.wait("namespace kube-system", lambda: self.request("GET", "/api/v1/namespaces/kube-system") is not None)
        self.request("POST", "/api/v1/namespaces", probe)
        account = "/api/v1/namespaces/fairburst-probe/serviceaccounts/default"
        self.wait(
            "kube-controller-manager to give a new namespace its default ServiceAccount",
            lambda: self.request("GET", account) is not None,
            CONTROLLER_MANAGER,
        )
        self.request("DELETE", "/api/v1/namespaces/fairburst-probe")

    # Watching

    def wait(self, what: str, done: Callable[[], bool], component: str | None = None, seconds: float = START_SECONDS) -> None:
        """Poll until `done` returns true. A failed request means "not yet".

        Raises
        ------
        ClusterError : a process died meanwhile, or the time is up; with the last lines of its log, or of `component`'s.
        """
        deadline = time.monotonic() + seconds
        pause = 0.02
        while True:
            self.check_alive(f" while waiting for {what}")
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

    def check_alive(self, occasion: str = "") -> None:
        """Raise an error with the last log lines of a component that has died."""
        for component, process in self.state.processes.items():
            if not process.alive():
                raise ClusterError(
                    f"cluster {self.name}: {component} (pid {process.pid}) has died{occasion}. "
                    f"Its last lines:\n{last_lines(self.log(component))}"
                )

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the API server's answer to the administrator: decoded JSON, or text if it is not JSON.

        Raises
        ------
        OSError : no connection, or an HTTP error, with the server's message.
        """
        context = ssl.create_default_context(cafile=str(self.plan.layout.serving_certificate))
        headers = {"Authorization": f"Bearer {self.plan.tokens['admin']}", "Content-Type": "application/json"}
        text = fetch(self.plan.server + path, method, headers, None if body is None else json.dumps(body).encode(), context)
        return json.loads(text) if text.startswith("{") else text

    # Ending

    def stop(self, component: str, *, kill: bool = False) -> None:
        """End one process and wait until it is gone: by SIGTERM, or by SIGKILL as in a crash."""
        process = self.state.processes.get(_checked(component))
        if process is None:
            return
        process.send(signal.SIGKILL if kill else signal.SIGTERM)
        if not process.wait(STOP_SECONDS):
            raise ClusterError(f"{component} (pid {process.pid}) still runs {STOP_SECONDS} s after {'SIGKILL' if kill else 'SIGTERM'}")
        # The stop is intended: no wait must report it as a crash.
        del self.state.processes[component]
        self.state.save()

    def down(self) -> None:
        """Kill every process, wait for their ends and delete the data. A cluster that is already down is no error."""
        atexit.unregister(self._down_at_exit)
        recorded = self._recorded()
        if recorded is not None:
            self.state.processes = recorded.processes  # another command may have restarted some of them
        processes = self.state.processes
        for process in processes.values():
            process.send(signal.SIGKILL)  # SIGTERM would let the API server wait for its clients, and nothing of the data is kept
        survivors = [process.pid for process in processes.values() if not process.wait(DOWN_SECONDS)]
        if survivors:
            raise ClusterError(f"cluster {self.name}: processes {survivors} survived SIGKILL; its state stays in {self.plan.layout.folder}")
        processes.clear()
        if recorded is not None:
            shutil.rmtree(self.plan.layout.folder, ignore_errors=True)

    def _recorded(self) -> State | None:
        """Return the state in the folder, or None if the cluster is down or its name now belongs to another one."""
        try:
            found = load_state(self.name)
        except (ClusterError, FileNotFoundError):
            return None
        return found if found.plan.tokens == self.plan.tokens else None

    def _down_at_exit(self) -> None:
        if self.state.owner is not None and self.state.owner.pid == os.getpid():  # not in a forked child
            self.down()


def reap_orphans() -> None:
    """Stop the clusters whose owner was killed before it could stop them."""
    for name in cluster_names():
        with contextlib.suppress(ClusterError, FileNotFoundError):  # its owner may be stopping it right now
            found = ControlPlane.recorded(name)
            if found.state.owner is not None and not found.state.owner.alive():
                found.down()


def _checked(component: str) -> str:
    if component not in COMPONENTS:
        raise ClusterError(f"no component {nearest(component, COMPONENTS)}")
    return component
