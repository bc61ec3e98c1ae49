"""Apache YuniKorn, built from its module, as the scheduler of all Jobs, with a leaf queue a tenant.

Jobs name their queue and their application, as its documentation has it without an admission controller. Its gangs are not used: they need
placeholder pods with an image.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import yaml
from typing_extensions import override

from benchmarks.peers.binaries import YUNIKORN_VERSION, build
from benchmarks.peers.contender import CLIENT_BURST, CLIENT_QPS, JsonObject, Site, entitled_places
from benchmarks.peers.process import ControlledContender, LoggedProcess, answers
from benchmarks.peers.scenarios import Queue, Scenario

NAMESPACE, ACCOUNT = "yunikorn", "yunikorn-admin"
PORT = 9080  # its REST server has no other
PREEMPTION_DELAY = "1s"  # the default of 30 s would leave it out of the comparison


class Yunikorn(ControlledContender):
    """YuniKorn in one configuration.

    preempts: a queue below its guaranteed amount preempts pods of queues above theirs. reserves: a burst queue is guaranteed its declared
    burst, and batch queues divide the rest; otherwise all are guaranteed equal parts.
    """

    process = "yunikorn"
    version = YUNIKORN_VERSION

    def __init__(self, name: str, about: str, *, preempts: bool = False, reserves: bool = False) -> None:
        super().__init__()
        self.name, self.about = name, f"YuniKorn, {about}"
        self.evicts, self._reserves = preempts, reserves

    @override
    async def start(self, site: Site) -> None:
        self._controller = await asyncio.to_thread(self._installed, site)
        await self.revive()

    def _installed(self, site: Site) -> LoggedProcess:
        cluster = site.cluster
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", NAMESPACE)
        cluster.kubectl("create", "clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", f"--serviceaccount={NAMESPACE}:{ACCOUNT}")
        data = {
            "kubernetes.qps": str(CLIENT_QPS),
            "kubernetes.burst": str(CLIENT_BURST),
            "queues.yaml": yaml.safe_dump({"partitions": [self._partition(site.scenario)]}),
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "yunikorn-configs", "namespace": NAMESPACE}, "data": data}
        cluster.kubectl("create", "-f", "-", input=json.dumps(body))
        kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text())
        token = cluster.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=12h").strip()
        kubeconfig["users"][0]["user"] = {"token": token}
        (site.folder / "yunikorn.kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        env = {"KUBECONFIG": str(site.folder / "yunikorn.kubeconfig"), "NAMESPACE": NAMESPACE}
        command = [str(build("yunikorn")["shim"])]
        log = site.folder / "yunikorn.log"
        return LoggedProcess("YuniKorn", command, log, lambda: _knows_nodes(site.scenario.nodes), env)

    def _partition(self, scenario: Scenario) -> JsonObject:
        guaranteed = entitled_places(scenario, reserves=self._reserves)
        leaves = [
            {
                "name": queue.name,
                "resources": {"guaranteed": {"vcore": str(guaranteed[queue.name]), "memory": f"{guaranteed[queue.name]}Gi"}},
                "properties": {"preemption.delay": PREEMPTION_DELAY},
            }
            for queue in scenario.queues
        ]
        root = {"name": "root", "submitacl": "*", "queues": leaves}
        return {"name": "default", "preemption": {"enabled": self.evicts}, "placementrules": [{"name": "provided"}], "queues": [root]}

    @override
    def dress(self, queue: Queue, job: JsonObject) -> JsonObject:
        template: JsonObject = job["spec"]["template"]
        labels: dict[str, Any] = template.setdefault("metadata", {}).setdefault("labels", {})
        labels |= {"applicationId": f"{queue.name}-{job['metadata']['name']}", "queue": f"root.{queue.name}"}
        template["spec"]["schedulerName"] = "yunikorn"
        return job


def _knows_nodes(count: int) -> bool:
    """Return whether its scheduler knows all nodes."""
    found = answers(PORT, "/ws/v1/partition/default/nodes")
    return found is not None and len(json.loads(found) or []) == count


CONTENDERS = {
    "yunikorn": lambda: Yunikorn("yunikorn", "equal guaranteed amounts, no preemption"),
    "yunikorn-preempts": lambda: Yunikorn("yunikorn-preempts", "equal guaranteed amounts, preemption", preempts=True),
    "yunikorn-reserved": lambda: Yunikorn("yunikorn-reserved", "the declared burst as guaranteed amount, no preemption", reserves=True),
    "yunikorn-reserved-preempts": lambda: Yunikorn(
        "yunikorn-reserved-preempts", "the declared burst as guaranteed amount, preemption", reserves=True, preempts=True
    ),
}
