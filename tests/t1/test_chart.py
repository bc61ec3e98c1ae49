"""The chart on a real API server: installed, upgraded and uninstalled by Helm; refused with a reason where it cannot be.

KWOK runs no containers, so the operator of an installation is a process of the test, with the chart's service account and configuration.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.cluster.build import missing
from e2e.cluster.versions import KUBERNETES_VERSIONS, tools
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.accounts import account_kubeconfig
from tests.support.helm import Helm, HelmError, Values, objects_in, the
from tests.support.work import create, namespace
from tests.t1.conftest import unique_name

pytestmark = pytest.mark.slow

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
CRDS = ["latencyqueues.fairburst.dev", "throughputqueues.fairburst.dev"]
CLUSTER_WIDE = (
    "crd,priorityclass,clusterrole,clusterrolebinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding,flowschema,"
    "validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingwebhookconfiguration"
)
IN_NAMESPACE = "all,configmap,secret,serviceaccount,role,rolebinding,networkpolicy,poddisruptionbudget"
# Everything that can be switched on; a ServiceMonitor's kind is not served here.
EVERYTHING: Values = {
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {
        "restrictEgress": True,
        "metricsFrom": [{"namespaceSelector": {}}],
        "apiServer": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    },
    "flowSchema": {"enabled": True},
    "grafanaDashboards": {"enabled": True},
    "dashboard": {"enabled": True},
    "rbac": {"aggregateEdit": True},
    "podAntiAffinity": "Preferred",
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}],
    "config": {"pool": {"name": "gpu", "nodeSelector": {"example.com/pool": "gpu"}}, "smallJobs": {"enabled": True}},
}


@pytest.fixture(scope="module", params=KUBERNETES_VERSIONS)
def chart_cluster(request: pytest.FixtureRequest, fresh_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster of each supported version, nothing of ours in it. Versions that are not built are skipped with a reason."""
    if missing(tools(request.param)):
        pytest.skip(f"CHART NOT TESTED ON {request.param}: `python -m e2e.cluster build --kubernetes {request.param}` builds it")
    return fresh_cluster(kubernetes=request.param, nodes=1)


@pytest.fixture
def helm(chart_cluster: Cluster, tmp_path: Path) -> Helm:
    return Helm(tmp_path, chart_cluster.kubeconfig)


@pytest.fixture
def home(chart_cluster: Cluster) -> Iterator[str]:
    """A namespace that enforces the restricted standard; deleted afterwards, with all of our objects that a failed test has left."""
    name = unique_name("fairburst")
    create(chart_cluster, namespace(name, **RESTRICTED))
    yield name
    chart_cluster.kubectl("delete", cluster_wide(chart_cluster), "-l", "app.kubernetes.io/name=fairburst", "--ignore-not-found", timeout=60)
    chart_cluster.kubectl("delete", "crd", *CRDS, "--ignore-not-found", timeout=60)
    chart_cluster.kubectl("delete", "namespace", name, "--wait=false")


def cluster_wide(cluster: Cluster) -> str:
    """The kinds outside of namespaces that we install and this cluster serves."""
    return (
        CLUSTER_WIDE
        if priorities(cluster)
        else CLUSTER_WIDE.replace(",mutatingadmissionpolicybinding", "").replace(",mutatingadmissionpolicy", "")
    )


def priorities(cluster: Cluster) -> bool:
    """Return whether the cluster can set the priority of pods, so that the chart installs with its defaults."""
    return tuple(map(int, cluster.kubernetes.split("."))) >= (1, 36, 0)


def ours(cluster: Cluster, home: str) -> set[str]:
    """Names of all objects of the chart, in the cluster and in the release's namespace."""
    label = ["-l", "app.kubernetes.io/name=fairburst", "-o", "name"]
    return {
        *cluster.kubectl("get", cluster_wide(cluster), *label).split(),
        *cluster.kubectl("get", IN_NAMESPACE, "-n", home, *label).split(),
    }


def configuration(cluster: Cluster, home: str, name: str) -> dict[str, Any]:
    """The configuration file as it is mounted."""
    mounted = json.loads(cluster.kubectl("get", "configmap", name, "-n", home, "-o", "json"))
    return dict(yaml.safe_load(mounted["data"]["fairburst.yaml"]))


def require_priorities(cluster: Cluster) -> None:
    if not priorities(cluster):
        pytest.skip(
            f"needs MutatingAdmissionPolicy, which {cluster.kubernetes} does not serve; see test_a_cluster_that_cannot_set_priorities"
        )


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_api_server_accepts_every_object_without_a_warning(chart_cluster: Cluster, helm: Helm, home: str, values: Values) -> None:
    objects = objects_in(helm.on_chart("template", "fb", "--validate", values=values, namespace=home))  # asks the cluster what it can
    assert len(objects) > 15
    prioritized_by = "MutatingAdmissionPolicy" if priorities(chart_cluster) else "MutatingWebhookConfiguration"
    assert prioritized_by in {one["kind"] for one in objects}
    said = chart_cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-", input=yaml.safe_dump_all(objects), timeout=60
    )
    assert said.count("(server dry run)") == len(objects)


def test_a_cluster_that_cannot_set_priorities_is_refused_and_nothing_is_installed(chart_cluster: Cluster, helm: Helm, home: str) -> None:
    if priorities(chart_cluster):
        pytest.skip("this one can; without a cluster: tests/chart/test_rendering.py")
    with pytest.raises(HelmError, match=r"expected Kubernetes 1\.36 or newer"):
        helm.on_chart("install", "fb", values={"webhook": {"mode": "Off"}}, namespace=home)
    assert ours(chart_cluster, home) == set()


def test_a_self_signed_certificate_is_kept_and_renewed_by_deleting_it(chart_cluster: Cluster, helm: Helm, home: str) -> None:
    """The API server trusts the authority of the served certificate, before and after."""

    def certificate() -> tuple[str, str, str]:
        secret = json.loads(chart_cluster.kubectl("get", "secret", "fb-fairburst-webhook", "-n", home, "-o", "json"))["data"]
        registered = json.loads(chart_cluster.kubectl("get", "mutatingwebhookconfiguration", "fairburst-priority.default", "-o", "json"))
        return secret["tls.crt"], secret["ca.crt"], registered["webhooks"][0]["clientConfig"]["caBundle"]

    values = {"webhook": {"mode": "On"}, "cleanup": {"enabled": False}, "crds": {"keep": False}}
    helm.on_chart("install", "fb", values=values, namespace=home)
    first = certificate()
    helm.on_chart("upgrade", "fb", "--reset-then-reuse-values", namespace=home)
    assert certificate() == first
    chart_cluster.kubectl("delete", "secret", "fb-fairburst-webhook", "-n", home)
    helm.on_chart("upgrade", "fb", "--reset-then-reuse-values", namespace=home)
    second = certificate()
    assert second[0] != first[0]
    assert (first[1], second[1]) == (first[2], second[2])
    helm.run("uninstall", "fb", namespace=home)
    until(lambda: ours(chart_cluster, home) == set(), PATIENCE_SECONDS, "nothing to be left")


class TestLife:
    """One release from installation to uninstallation."""

    def test_install_upgrade_uninstall(self, chart_cluster: Cluster, helm: Helm, home: str, tmp_path: Path) -> None:
        require_priorities(chart_cluster)
        cluster = chart_cluster
        said = helm.on_chart("install", "fairburst", values={"config": {"log": {"level": "DEBUG"}}}, namespace=home)
        assert "warning" not in said.lower()
        queue = self.follow_the_notes(cluster, said)

        kubeconfig = account_kubeconfig(cluster, home, "fairburst", tmp_path)
        running = configuration(cluster, home, "fairburst") | {"kubeconfig": str(kubeconfig), "leaderElection": {"enabled": True}}
        with OperatorProcess(cluster, running, subject_user=None, install=False) as operator:
            self.ask_as_helm_test_does(helm, home, operator)
            until(lambda: self.classed(cluster, queue), PATIENCE_SECONDS, "the queue of the notes to get its class")
            cluster.kubectl("patch", "thrq", queue, "-n", queue, "--type=merge", "-p", '{"spec": {"enforcement": "Quota"}}')
            until(lambda: self.quota(cluster, queue), PATIENCE_SECONDS, "the quota of the queue's namespace")
            self.upgrade(cluster, helm, home)

        self.uninstall(cluster, helm, home, queue, tmp_path)

    @staticmethod
    def ask_as_helm_test_does(helm: Helm, home: str, operator: OperatorProcess) -> None:
        """The command of the pod of `helm test`, but for the operator's address."""
        (container,) = the(helm.render(namespace=home), "Pod")["spec"]["containers"]
        program, *arguments = container["command"]
        assert program == "python"
        asked = [sys.executable, *arguments[:-1], f"http://127.0.0.1:{operator.port}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"ready, \d+ rounds run\n", done.stdout)

    @staticmethod
    def follow_the_notes(cluster: Cluster, said: str) -> str:
        """Run the three commands as a person would. Return the name of the queue that they make."""
        commands = [line.strip() for line in said.partition("`enforcement")[0].splitlines() if line.startswith("  kubectl")]
        assert [command.split()[1] for command in commands] == ["-n", "create", "get"]
        for command in commands:
            shell = command.replace("kubectl", f"{cluster._kubectl} --kubeconfig {cluster.kubeconfig}")
            done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=90, check=False)
            assert done.returncode == 0, f"{command}: {done.stderr}"
        assert "throughputqueue.fairburst.dev/nightly" in done.stdout
        return "nightly"

    @staticmethod
    def classed(cluster: Cluster, queue: str) -> bool:
        status = json.loads(cluster.kubectl("get", "thrq", queue, "-n", queue, "-o", "json")).get("status", {})
        return bool(status.get("class") == "Elastic")

    @staticmethod
    def quota(cluster: Cluster, queue: str) -> bool:
        return bool(cluster.kubectl("get", "resourcequota", "-n", queue, "-l", "fairburst.dev/pool=default", "-o", "name"))

    @staticmethod
    def upgrade(cluster: Cluster, helm: Helm, home: str) -> None:
        """Values are kept, the CRDs are brought up to date, no user's object is touched, and only a changed configuration restarts."""

        def pod_template() -> Any:
            return json.loads(cluster.kubectl("get", "deployment", "fairburst", "-n", home, "-o", "json"))["spec"]["template"]

        cluster.kubectl("patch", "crd", CRDS[0], "--type=json", "-p", '[{"op": "remove", "path": "/spec/names/shortNames"}]')
        before = pod_template()
        helm.on_chart("upgrade", "fairburst", "--reset-then-reuse-values", namespace=home)
        assert pod_template() == before
        assert "latq" in cluster.kubectl("get", "crd", CRDS[0], "-o", "jsonpath={.spec.names.shortNames}")
        helm.on_chart(
            "upgrade", "fairburst", "--reset-then-reuse-values", values={"config": {"pool": {"headRoomPercent": 5}}}, namespace=home
        )
        assert configuration(cluster, home, "fairburst") == {
            "namespace": home,
            "log": {"level": "DEBUG"},
            "pool": {"headRoomPercent": 5},
        }
        assert pod_template()["metadata"]["annotations"] != before["metadata"]["annotations"]

    @staticmethod
    def uninstall(cluster: Cluster, helm: Helm, home: str, queue: str, folder: Path) -> None:
        """Everything goes except the CRDs, the queues, and other people's quotas. The test does the cleanup Job's work, with its rights."""
        cluster.kubectl("create", "quota", "of-another-tool", "--hard=pods=5", "-n", queue)
        command = [str(helm._command), "uninstall", "fairburst", "--namespace", home]
        process = subprocess.Popen(command, env=helm._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            pod = until(
                lambda: cluster.kubectl("get", "pods", "-n", home, "-l", "app.kubernetes.io/name=fairburst-cleanup", "-o", "name").strip(),
                PATIENCE_SECONDS,
                "the pod of the cleanup Job",
            )
            found = configuration(cluster, home, "fairburst-cleanup")
            found["kubeconfig"] = str(account_kubeconfig(cluster, home, "fairburst-cleanup", folder))
            file = folder / "cleanup.yaml"
            file.write_text(yaml.safe_dump(found))
            job = subprocess.run(
                [sys.executable, "-m", "fairburst", "uninstall", "--config", str(file)],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert job.returncode == 0, job.stderr
            assert f"deleted resourcequotas {queue}/fairburst" in job.stdout
            cluster.kubectl("annotate", pod, "-n", home, "run-seconds=0s")  # the simulated pod has succeeded
            said, _ = process.communicate(timeout=90)
        finally:
            process.kill()
        assert process.returncode == 0, said
        until(
            lambda: ours(cluster, home) == {f"customresourcedefinition.apiextensions.k8s.io/{name}" for name in CRDS},
            PATIENCE_SECONDS,
            "all but the CRDs to be gone",
        )
        assert cluster.kubectl("get", "thrq", queue, "-n", queue, "-o", "name")
        assert cluster.kubectl("get", "resourcequota", "-n", queue, "-o", "name").split() == ["resourcequota/of-another-tool"]
        assert "fairburst" not in cluster.kubectl("get", "configmap", "-n", home, "-o", "name")


def test_reinstalling_finds_the_queues_that_were_kept(chart_cluster: Cluster, helm: Helm, home: str) -> None:
    require_priorities(chart_cluster)
    values = {"cleanup": {"enabled": False}}
    helm.on_chart("install", "fb", values=values, namespace=home)
    queue = {"apiVersion": "fairburst.dev/v1alpha1", "kind": "ThroughputQueue", "metadata": {"name": "kept"}, "spec": {}}
    until(lambda: "created" in chart_cluster.kubectl("create", "-n", home, "-f", "-", input=json.dumps(queue)), 1, "the queue")
    helm.run("uninstall", "fb", namespace=home)
    helm.on_chart("install", "fb", values=values | {"crds": {"keep": False}}, namespace=home)
    assert chart_cluster.kubectl("get", "thrq", "-n", home, "-o", "name").strip() == "throughputqueue.fairburst.dev/kept"
    helm.run("uninstall", "fb", namespace=home)
    until(lambda: ours(chart_cluster, home) == set(), PATIENCE_SECONDS, "crds.keep=false to leave nothing")


class TestRefused:
    """Helm refuses values that cannot work before it installs anything, and says what it found and what to do."""

    @staticmethod
    def refusal(cluster: Cluster, helm: Helm, home: str, values: Values | None = None, release: str = "fb") -> str:
        before = ours(cluster, home)
        with pytest.raises(HelmError) as refused:
            helm.on_chart("install", release, values=values, namespace=home)
        assert ours(cluster, home) == before, "nothing half-installed"
        return str(refused.value)

    def test_foreign_crds(self, chart_cluster: Cluster, helm: Helm, home: str) -> None:
        require_priorities(chart_cluster)
        crd = the(helm.render(namespace=home), "CustomResourceDefinition", CRDS[0])
        crd["metadata"] = {"name": CRDS[0]}
        chart_cluster.kubectl("create", "-f", "-", input=json.dumps(crd))
        message = self.refusal(chart_cluster, helm, home)
        assert f"CustomResourceDefinition {CRDS[0]} exists and was not installed by Helm" in message
        commands = re.search(r"To hand it to this release: (kubectl annotate .*) && (kubectl label .*)", message)
        assert commands is not None
        for command in commands.groups():
            chart_cluster.kubectl(*command.split()[1:])
        helm.on_chart("install", "fb", namespace=home)
        helm.run("uninstall", "fb", "--no-hooks", namespace=home)

    def test_a_second_release_is_told_of_the_first(self, chart_cluster: Cluster, helm: Helm, home: str) -> None:
        require_priorities(chart_cluster)
        helm.on_chart("install", "fb", namespace=home)
        assert "cannot re-use a name that is still in use" in self.refusal(chart_cluster, helm, home)
        message = self.refusal(chart_cluster, helm, home, release="other")
        assert f'belongs to release "fb" in namespace "{home}". To use it as it is, set crds.install=false' in message
        message = self.refusal(chart_cluster, helm, home, {"crds": {"install": False}}, "other")
        assert re.search(r'PriorityClass fairburst-\w+ exists and belongs to release "fb"', message)
        another = {"crds": {"install": False}, "priorityClasses": {"install": False}, "config": {"pool": {"name": "other"}}}
        helm.on_chart("install", "other", values=another, namespace=home)
        for release in ("other", "fb"):
            helm.run("uninstall", release, "--no-hooks", namespace=home)

    def test_priority_classes_of_other_values(self, chart_cluster: Cluster, helm: Helm, home: str) -> None:
        require_priorities(chart_cluster)
        chart_cluster.kubectl("create", "priorityclass", "fairburst-hard", "--value=77", "--preemption-policy=Never")
        try:
            for install in (True, False):
                message = self.refusal(chart_cluster, helm, home, {"priorityClasses": {"install": install}})
                assert "PriorityClass fairburst-hard exists with the value 77, which cannot be changed" in message
        finally:
            chart_cluster.kubectl("delete", "priorityclass", "fairburst-hard")

    def test_values_of_the_ladder_cannot_change_once_installed(self, chart_cluster: Cluster, helm: Helm, home: str) -> None:
        require_priorities(chart_cluster)
        helm.on_chart("install", "fb", namespace=home)
        with pytest.raises(HelmError, match=r"expected config\.priorityClasses\.soft=1000, found 999"):
            helm.on_chart("upgrade", "fb", values={"config": {"priorityClasses": {"soft": 999}}}, namespace=home)
        helm.run("uninstall", "fb", "--no-hooks", namespace=home)

    def test_crds_that_are_said_to_be_there_and_are_not(self, chart_cluster: Cluster, helm: Helm, home: str) -> None:
        require_priorities(chart_cluster)
        assert "the cluster does not serve fairburst.dev/v1alpha1" in self.refusal(chart_cluster, helm, home, {"crds": {"install": False}})

    def test_somebody_without_rights(self, chart_cluster: Cluster, home: str, tmp_path: Path) -> None:
        require_priorities(chart_cluster)
        chart_cluster.kubectl("create", "rolebinding", "edit", "--clusterrole=edit", "--user=fairburst", "-n", home)
        unprivileged = Helm(tmp_path, chart_cluster.user_kubeconfig("fairburst"))
        message = self.refusal(chart_cluster, unprivileged, home)
        assert re.search(r'customresourcedefinitions.* is forbidden: User "fairburst" cannot get resource', message)


def test_what_helm_installs_is_what_it_renders(chart_cluster: Cluster, helm: Helm, home: str) -> None:
    """`helm get manifest` of a live installation against `helm template`: lookups in the cluster change no object."""
    require_priorities(chart_cluster)
    helm.on_chart("install", "fb", namespace=home)
    live = objects_in(helm.run("get", "manifest", "fb", namespace=home))
    hooks = [one for one in helm.render(namespace=home) if "helm.sh/hook" not in one["metadata"].get("annotations", {})]
    assert sorted(live, key=str) == sorted(hooks, key=str)
    helm.run("uninstall", "fb", "--no-hooks", namespace=home)
