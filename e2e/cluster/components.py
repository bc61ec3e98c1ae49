"""The command line of every process of a cluster, and the files that they read. This module starts no process."""

from __future__ import annotations

import base64
import csv
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

STAGES = Path(__file__).parent / "kwok.yaml"

ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK = "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"
COMPONENTS = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)

MASTERS = "system:masters"
SCHEDULER_QPS, SCHEDULER_BURST = 300, 500
# Token users: name to groups. The controller manager has its bootstrap RBAC role, and its controllers have their own service accounts as
# kubeadm sets them up. `fairburst` and `extender` have no rights until a test binds them.
USERS = {
    "admin": [MASTERS],
    "system:kube-controller-manager": [],
    "system:kube-scheduler": [],
    "kwok": [MASTERS],
    "fairburst": [],
    "extender": [],
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster."""

    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        return self.folder / "service-account.key"

    @property
    def serving_certificate(self) -> Path:
        return self.folder / "apiserver-certificates" / "apiserver.crt"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    @property
    def scheduler_configuration(self) -> Path:
        return self.folder / "scheduler.yaml"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def log(self, component: str) -> Path:
        return self.folder / f"{component}.log"

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user.removeprefix('system:')}.kubeconfig"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the caller. Extra flags come last, and the last one wins."""

    kubernetes: str
    audit: bool = False
    apiserver_flags: tuple[str, ...] = ()
    controller_manager_flags: tuple[str, ...] = ()
    scheduler_flags: tuple[str, ...] = ()
    scheduler_configuration: dict[str, Any] | None = None  # a KubeSchedulerConfiguration; the API server's address is added to it


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports. Only processes that must listen have one: controller-manager, scheduler and kwok serve nothing."""

    etcd: int
    etcd_peer: int
    apiserver: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The input for all command lines."""

    binaries: dict[str, Path]
    layout: Layout
    ports: Ports
    options: Options
    tokens: dict[str, str] = field(default_factory=lambda: {user: secrets.token_hex(16) for user in USERS})

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports.apiserver}"

    def command(self, component: str) -> list[str]:
        flags = {
            ETCD: self._etcd,
            APISERVER: self._apiserver,
            CONTROLLER_MANAGER: self._controller_manager,
            SCHEDULER: self._scheduler,
            KWOK: self._kwok,
        }[component]()
        return [str(self.binaries[component]), *flags]

    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.ports.etcd, self.ports.etcd_peer))
        return [
            f"--data-dir={self.layout.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--quota-backend-bytes={4 * 1024**3}",
            "--log-level=warn",
            "--unsafe-no-fsync",  # a disposable cluster survives the crash of a process, not of the machine
        ]

    def _apiserver(self) -> list[str]:
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports.apiserver}",
            f"--cert-dir={self.layout.serving_certificate.parent}",
            f"--token-auth-file={self.layout.tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.layout.service_account_key}",
            f"--service-account-signing-key-file={self.layout.service_account_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            # Bare pods can be created immediately in a new namespace: no pod here mounts a service account's token.
            "--disable-admission-plugins=ServiceAccount",
        ]
        if self.options.audit:
            flags += [f"--audit-policy-file={self.layout.audit_policy}", f"--audit-log-path={self.layout.audit_log}"]
            flags += ["--audit-log-maxsize=100000"]  # megabytes: readers follow one file, which is moved away at a hundred otherwise
        return [*flags, *self.options.apiserver_flags]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self.layout.kubeconfig('system:kube-controller-manager')}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.layout.service_account_key}",
            "--leader-elect=false",
            "--secure-port=0",
            "--controllers=*,-node-ipam-controller",  # it exits if it has no pod network to assign
            "--kube-api-qps=300",
            "--kube-api-burst=500",
            *self.options.controller_manager_flags,
        ]

    def _scheduler(self) -> list[str]:
        if self.options.scheduler_configuration is not None:  # with a configuration file, flags about the connection are ignored
            connection = [f"--config={self.layout.scheduler_configuration}"]
        else:
            kubeconfig = self.layout.kubeconfig("system:kube-scheduler")
            connection = [f"--kubeconfig={kubeconfig}", f"--kube-api-qps={SCHEDULER_QPS}", f"--kube-api-burst={SCHEDULER_BURST}"]
        return [*connection, "--leader-elect=false", "--secure-port=0", *self.options.scheduler_flags]

    def configured_scheduler(self) -> dict[str, Any]:
        """Return the scheduler's configuration file: the requested one, with our connection to the API server."""
        kubeconfig = str(self.layout.kubeconfig("system:kube-scheduler"))
        connection = {"kubeconfig": kubeconfig, "qps": SCHEDULER_QPS, "burst": SCHEDULER_BURST}
        return {**(self.options.scheduler_configuration or {}), "clientConnection": connection}

    def _kwok(self) -> list[str]:
        return [
            f"--kubeconfig={self.layout.kubeconfig('kwok')}",
            f"--config={STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            "--v=WARN",  # otherwise it logs a line per node and lease renewal
        ]


def write_files(plan: Plan) -> None:
    """Write the files that the API server needs at its start."""
    layout = plan.layout
    with layout.tokens.open("w", newline="") as file:
        csv.writer(file).writerows([token, user, user, ",".join(USERS[user])] for user, token in plan.tokens.items())
    layout.service_account_key.write_text(elliptic_curve_key())
    if plan.options.audit:
        layout.audit_policy.write_text(json.dumps(AUDIT_POLICY))
    if plan.options.scheduler_configuration is not None:
        layout.scheduler_configuration.write_text(yaml.safe_dump(plan.configured_scheduler()))


def write_kubeconfigs(plan: Plan) -> None:
    """Write the kubeconfigs, after the API server has created its certificate, which every client then verifies."""
    authority = base64.b64encode(plan.layout.serving_certificate.read_bytes()).decode()
    for user, token in plan.tokens.items():
        plan.layout.kubeconfig(user).write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "fairburst", "cluster": {"server": plan.server, "certificate-authority-data": authority}}],
                    "users": [{"name": user, "user": {"token": token}}],
                    "contexts": [{"name": "fairburst", "context": {"cluster": "fairburst", "user": user}}],
                    "current-context": "fairburst",
                }
            )
        )


def elliptic_curve_key() -> str:
    """Return a new P-256 private key as PEM (RFC 5915): 32 random bytes in a fixed frame, without openssl or a library.

    The key's number must lie in 1 … n-1, and n is a little below 2^256: the top bit is cleared.
    """
    number = bytearray(secrets.token_bytes(32))
    number[0] &= 0x7F
    frame = bytes.fromhex("30310201010420") + bytes(number) + bytes.fromhex("a00a06082a8648ce3d030107")
    return f"-----BEGIN EC PRIVATE KEY-----\n{base64.encodebytes(frame).decode()}-----END EC PRIVATE KEY-----\n"


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "None"},
    ],
}


def node_manifests(names: list[str], capacity: dict[str, str], labels: dict[str, str]) -> list[dict[str, object]]:
    """Return nodes that exist only as objects; kwok makes them Ready and renews their leases."""
    resources = {"pods": "500", **capacity}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"} | labels,
            },
            "status": {"capacity": resources, "allocatable": resources},
        }
        for name in names
    ]
