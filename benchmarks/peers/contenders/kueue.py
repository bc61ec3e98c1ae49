"""Kueue, built from its module and installed from its own manifests, with a ClusterQueue a tenant in one cohort.

The setup favours Kueue: only the integration that the workload needs (batch/job) and its webhooks, no visibility server, no
WaitForPodsReady, and burst Jobs of ten pods, because it admits a Job whole.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

from benchmarks.peers.binaries import KUEUE_VERSION, build, module_source
from benchmarks.peers.contender import CLIENT_BURST, CLIENT_QPS, JsonObject, PeerError, Site, entitled_places, in_groups
from benchmarks.peers.process import READY_SECONDS, ControlledContender, LoggedProcess, answers
from benchmarks.peers.scenarios import Queue
from e2e.certificates import write_self_signed
from e2e.cluster import Cluster
from e2e.harness import free_port

NAMESPACE, ACCOUNT = "kueue-system", "kueue-controller-manager"
API = "/apis/kueue.x-k8s.io/v1beta2"
LABEL = "kueue.x-k8s.io/queue-name"
KINDS = ("Job", "ClusterQueue", "Cohort", "ResourceFlavor", "Workload")  # whose webhooks are installed
LEFT_OUT = {"Deployment", "Service", "APIService", "ConfigMap"}
WHOLE = "shared"


class Kueue(ControlledContender):
    """Kueue in one configuration.

    preempts: reclaim within the cohort by fair sharing. reserves: a burst queue's nominal quota is its declared burst, batch queues divide
    the rest and may borrow; otherwise all nominal quotas are equal. usage: one ClusterQueue with Admission Fair Sharing between tenants.
    """

    gangs = True
    process = "kueue"
    version = KUEUE_VERSION

    def __init__(
        self, name: str, about: str, *, preempts: bool = False, reserves: bool = False, usage: bool = False, rate: int = CLIENT_QPS
    ) -> None:
        super().__init__()
        self.name, self.about = name, f"Kueue, {about}"
        self.evicts, self._reserves, self._usage, self._rate = preempts, reserves, usage, rate
        self._health = 0

    @override
    async def start(self, site: Site) -> None:
        self._controller = await asyncio.to_thread(self._installed, site)
        await self.revive()
        await self._declare(site)

    def _installed(self, site: Site) -> LoggedProcess:
        binary, source = build("kueue")["kueue"], module_source("kueue")
        rendered = site.cluster.kubectl("kustomize", str(source / "config" / "default"))
        port, self._health = free_port(), free_port()
        # Kueue's certificate rotation expects the first name in an authority and would replace a certificate with another one.
        names = ["kueue-ca", f"kueue-webhook-service.{NAMESPACE}.svc", "localhost"]
        certificates = write_self_signed(site.folder / "kueue", names, days=365)
        manifests = [_adapted(each, port, certificates) for each in yaml.safe_load_all(rendered) if each["kind"] not in LEFT_OUT]
        crds = [each for each in manifests if each["kind"] in {"Namespace", "CustomResourceDefinition"}]
        _apply(site.cluster, crds)
        _apply(site.cluster, [each for each in manifests if each not in crds])
        token = site.cluster.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=12h").strip()
        kubeconfig = yaml.safe_load(site.cluster.kubeconfig.read_text())
        kubeconfig["users"][0]["user"] = {"token": token}
        (site.folder / "kueue.kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        (site.folder / "kueue.yaml").write_text(yaml.safe_dump(self._configuration(port, certificates)))
        command = [str(binary), f"--config={site.folder / 'kueue.yaml'}", f"--kubeconfig={site.folder / 'kueue.kubeconfig'}"]
        return LoggedProcess("Kueue", command, site.folder / "kueue.log", lambda: answers(self._health, "/readyz") is not None)

    def _configuration(self, port: int, certificates: Path) -> JsonObject:
        config: JsonObject = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            # As in the manifests that Kueue publishes.
            "controller": {"groupKindConcurrency": {"Job.batch": 5, "Workload.kueue.x-k8s.io": 10, "ClusterQueue.kueue.x-k8s.io": 5}},
            "clientConnection": {"qps": self._rate, "burst": max(self._rate, CLIENT_BURST)},
            "integrations": {"frameworks": ["batch/job"]},
            "featureGates": {"VisibilityOnDemand": False},
        }
        if self._usage:
            config["admissionFairSharing"] = {"usageHalfLifeTime": "60s", "usageSamplingInterval": "5s"}
        else:
            config["fairSharing"] = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
        return config

    async def _declare(self, site: Site) -> None:
        # The probe succeeds before the webhook serves, so the first requests may fail.
        flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "all"}}
        await _retried(lambda: site.client.create(f"{API}/resourceflavors", flavor))
        nominal = entitled_places(site.scenario, reserves=self._reserves)
        wanted = {WHOLE: site.scenario.places} if self._usage else nominal
        await in_groups([site.client.create(f"{API}/clusterqueues", self._cluster_queue(name, wanted[name])) for name in wanted])
        await in_groups([site.client.create(*self._local_queue(queue)) for queue in site.scenario.queues])
        deadline = time.monotonic() + READY_SECONDS
        while True:
            found = (await site.client.get_json(f"{API}/localqueues"))["items"]
            active = sum(
                any(c["type"] == "Active" and c["status"] == "True" for c in (each.get("status") or {}).get("conditions", []))
                for each in found
            )
            if active == len(site.scenario.queues):
                return
            if time.monotonic() > deadline:
                raise PeerError(f"{active} of {len(site.scenario.queues)} LocalQueues are active after {READY_SECONDS:g} s")
            await asyncio.sleep(0.2)

    def _cluster_queue(self, name: str, places: int) -> JsonObject:
        quotas = [{"name": "cpu", "nominalQuota": str(places)}, {"name": "memory", "nominalQuota": f"{places}Gi"}]
        spec: JsonObject = {
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "all", "resources": quotas}]}],
        }
        if self._usage:
            spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        else:
            spec |= {"cohortName": "all", "fairSharing": {"weight": "1"}}
            spec["preemption"] = {"reclaimWithinCohort": "Any" if self.evicts else "Never", "withinClusterQueue": "Never"}
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}

    def _local_queue(self, queue: Queue) -> tuple[str, JsonObject]:
        spec = {"clusterQueue": WHOLE if self._usage else queue.name, "fairSharing": {"weight": str(queue.weight)}}
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "queue"}, "spec": spec}
        return f"{API}/namespaces/{queue.name}/localqueues", body

    @override
    def dress(self, queue: Queue, job: JsonObject) -> JsonObject:
        job["metadata"]["labels"][LABEL] = "queue"
        job["spec"]["suspend"] = True  # as its documentation submits Jobs
        return job


def _apply(cluster: Cluster, manifests: list[JsonObject]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    cluster.kubectl("apply", "--server-side", "-f", "-", input=text, timeout=120)


def _adapted(manifest: JsonObject, port: int, certificates: Path) -> JsonObject:
    """Return a manifest for a controller on this machine: webhooks by address, and the Secret that its certificate rotation keeps."""
    kind = manifest["kind"]
    if kind == "Secret":
        names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
        return manifest | {"data": {name: base64.b64encode((certificates / name).read_bytes()).decode() for name in names}}
    if kind == "CustomResourceDefinition" and "conversion" in manifest["spec"]:
        webhook = manifest["spec"]["conversion"].get("webhook")
        if webhook is not None:
            webhook["clientConfig"] = _address(webhook["clientConfig"], port, certificates)
    if kind.endswith("WebhookConfiguration"):
        wanted = {f"{letter}{each.lower()}.kb.io" for each in KINDS for letter in "mv"}
        manifest["webhooks"] = [each for each in manifest["webhooks"] if each["name"] in wanted]
        for webhook in manifest["webhooks"]:
            webhook["clientConfig"] = _address(webhook["clientConfig"], port, certificates)
    return manifest


def _address(client: JsonObject, port: int, certificates: Path) -> JsonObject:
    bundle = base64.b64encode((certificates / "ca.crt").read_bytes()).decode()
    return {"url": f"https://127.0.0.1:{port}{client['service'].get('path', '')}", "caBundle": bundle}


async def _retried(action: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            await action()
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.3)


CONTENDERS = {
    "kueue": lambda: Kueue("kueue", "fair sharing, equal nominal quotas, no preemption"),
    "kueue-fast": lambda: Kueue("kueue-fast", "fair sharing, equal nominal quotas, no preemption, client at 1,000", rate=1000),
    "kueue-preempts": lambda: Kueue("kueue-preempts", "fair sharing, equal nominal quotas, preemption within the cohort", preempts=True),
    "kueue-reserved": lambda: Kueue("kueue-reserved", "the declared burst as nominal quota, no preemption", reserves=True),
    "kueue-reserved-preempts": lambda: Kueue(
        "kueue-reserved-preempts", "the declared burst as nominal quota, preemption within the cohort", reserves=True, preempts=True
    ),
    "kueue-usage": lambda: Kueue("kueue-usage", "one ClusterQueue with Admission Fair Sharing between tenants", usage=True),
}
