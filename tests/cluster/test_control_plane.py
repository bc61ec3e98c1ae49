"""A real control plane: it starts, works, dies, comes back, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from e2e.cluster import Cluster, ClusterError
from e2e.cluster import cluster as cluster_module
from e2e.cluster.build import missing
from e2e.cluster.cache import clusters_folder
from e2e.cluster.components import Ports
from e2e.cluster.control_plane import reap_orphans
from e2e.cluster.processes import read_state
from e2e.cluster.versions import tools

pytestmark = pytest.mark.t1

CHECKOUT = Path(__file__).parents[2]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one"},
    "spec": {"containers": [{"name": "work", "image": "none", "resources": {"requests": {"cpu": "1"}}}]},
}


def name_of(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:8]}"


def eventually(what: str, done: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def process_exists(pid: int) -> bool:
    return read_state(pid)[0] not in {"", "Z"}


def job(name: str, pods: int, run_seconds: str, cpu: str = "1") -> str:
    container = {"name": "work", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"annotations": {"run-seconds": run_seconds}}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


def finish_job(cluster: Cluster, name: str, pods: int = 3) -> None:
    cluster.kubectl("create", "-f", "-", input=job(name, pods, "1s"))
    cluster.kubectl("wait", f"job/{name}", "--for=condition=Complete", "--timeout=90s", timeout=100)


@pytest.fixture(scope="module")
def plain() -> Iterator[Cluster]:
    with Cluster.start(name_of("plain"), nodes=2, node_cpu="4", node_memory="8Gi") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def audited() -> Iterator[Cluster]:
    with Cluster.start(name_of("audited"), audit=True) as cluster:
        yield cluster


def test_job_of_three_pods_runs_to_its_end(plain: Cluster) -> None:
    finish_job(plain, "three")
    assert plain.kubectl("get", "job", "three", "-o", "jsonpath={.status.succeeded}") == "3"


def test_pod_starts_late_if_told_so(plain: Cluster) -> None:
    pod = POD | {"metadata": {"name": "late", "annotations": {"start-delay": "5s"}}}
    plain.kubectl("create", "-f", "-", input=json.dumps(pod))
    plain.kubectl("wait", "pod/late", "--for=condition=Ready", "--timeout=60s", timeout=70)
    conditions = json.loads(plain.kubectl("get", "pod", "late", "-o", "json"))["status"]["conditions"]
    since = {one["type"]: datetime.fromisoformat(one["lastTransitionTime"]) for one in conditions}
    assert since["Ready"] - since["PodScheduled"] >= timedelta(seconds=4), "5 s by times in whole seconds"
    plain.kubectl("delete", "pod", "late", "--timeout=60s", timeout=70)


def test_quota_refuses_the_pod_above_it(plain: Cluster) -> None:
    plain.kubectl("create", "namespace", "limited")
    plain.kubectl("create", "quota", "two", "--hard=requests.cpu=2", "-n", "limited")
    eventually(
        "the quota's status",
        lambda: plain.kubectl("get", "quota", "two", "-n", "limited", "-o", "jsonpath={.status.hard.requests\\.cpu}") == "2",
    )
    for number in (1, 2):
        plain.kubectl("create", "-n", "limited", "-f", "-", input=json.dumps(POD | {"metadata": {"name": f"pod-{number}"}}))
    with pytest.raises(ClusterError, match=r"exceeded quota: two, requested: requests.cpu=1, used: requests.cpu=2"):
        plain.kubectl("create", "-n", "limited", "-f", "-", input=json.dumps(POD | {"metadata": {"name": "pod-3"}}))


def test_clusters_side_by_side_share_nothing(plain: Cluster, audited: Cluster) -> None:
    plain.kubectl("create", "configmap", "mine")
    with pytest.raises(ClusterError, match="not found"):
        audited.kubectl("get", "configmap", "mine")
    assert plain.server != audited.server
    assert plain.token != audited.token
    with pytest.raises(ClusterError, match=r"Unauthorized|certificate"):
        audited.kubectl("get", "nodes", f"--server={plain.server}")


def test_audit_log_names_the_user_of_each_write_and_no_reads(audited: Cluster, plain: Cluster) -> None:
    audited.kubectl("create", "configmap", "counted")
    audited.kubectl("get", "configmap", "counted")
    assert audited.audit_log is not None
    seen = [json.loads(line) for line in audited.audit_log.read_text().splitlines()]
    ours = [(entry["user"]["username"], entry["verb"]) for entry in seen if entry.get("objectRef", {}).get("name") == "counted"]
    assert ours == [("admin", "create")]
    assert plain.audit_log is None


def test_user_fairburst_may_do_nothing_until_bound(audited: Cluster) -> None:
    own = f"--kubeconfig={audited.user_kubeconfig('fairburst')}"
    with pytest.raises(ClusterError, match='User "fairburst" cannot list'):
        audited.kubectl(own, "get", "pods")
    audited.kubectl("create", "clusterrolebinding", "fairburst", "--clusterrole=view", "--user=fairburst")
    eventually("the binding", lambda: audited.kubectl(own, "auth", "can-i", "list", "pods").strip() == "yes")


def test_nodes_are_added_with_extended_resources_and_numbered_on(audited: Cluster) -> None:
    assert audited.add_nodes(2, cpu="8", memory="16Gi", extended={"nvidia.com/gpu": "4"}, labels={"pool": "gpu"}, name_prefix="gpu") == [
        "gpu-000",
        "gpu-001",
    ]
    assert audited.add_nodes(1, name_prefix="gpu") == ["gpu-002"]
    assert audited.kubectl("get", "node", "-l", "pool=gpu", "-o", "jsonpath={.items[*].status.allocatable.nvidia\\.com/gpu}") == "4 4"


def test_api_server_that_crashes_comes_back_with_its_data(plain: Cluster) -> None:
    plain.kubectl("create", "configmap", "kept")
    plain.stop("kube-apiserver", kill=True)
    assert plain.status()["kube-apiserver"] is None
    with pytest.raises(ClusterError, match="refused"):
        plain.kubectl("get", "configmap", "kept")
    plain.start_component("kube-apiserver")
    plain.kubectl("get", "configmap", "kept")
    finish_job(plain, "after-crash")


def test_component_that_crashed_is_named_with_its_log_and_one_that_was_stopped_is_not(plain: Cluster) -> None:
    plain.stop("kwok")
    plain.check()
    plain.start_component("kwok")
    pid = plain.status()["kube-scheduler"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually("its end", lambda: plain.status()["kube-scheduler"] is None)
    with pytest.raises(ClusterError, match=rf"kube-scheduler \(pid {pid}\) has died") as raised:
        plain.check()
    assert plain.log("kube-scheduler").read_text().splitlines()[-1][:100] in str(raised.value)
    plain.start_component("kube-scheduler")
    finish_job(plain, "after-scheduler")


def test_running_component_is_not_started_twice(plain: Cluster) -> None:
    with pytest.raises(ClusterError, match="already runs"):
        plain.start_component("etcd")
    with pytest.raises(ClusterError, match="did you mean 'kube-scheduler'"):
        plain.stop("kube-schedular")


def test_second_cluster_of_one_name_is_refused(plain: Cluster) -> None:
    with pytest.raises(ClusterError, match=f"'{plain.name}' already runs"):
        Cluster.start(plain.name)
    plain.kubectl("get", "nodes")


def test_down_leaves_no_process_and_no_data() -> None:
    cluster = Cluster.start(name_of("down"))
    pids = [pid for pid in cluster.status().values() if pid]
    assert len(pids) == 5
    cluster.down()
    assert not [pid for pid in pids if process_exists(pid)]
    assert not cluster.kubeconfig.parent.exists()


def test_down_ends_what_another_command_restarted_and_spares_a_namesake() -> None:
    first = Cluster.start(name_of("namesake"))
    other_handle = Cluster.attach(first.name)
    other_handle.stop("kwok")
    other_handle.start_component("kwok")
    first.down()
    assert not any(other_handle.status().values())
    with Cluster.start(first.name) as second:
        first.down()
        assert all(second.status().values())
        second.kubectl("get", "namespaces")


def test_component_that_dies_at_start_is_named_with_its_last_words() -> None:
    name = name_of("dies")
    with pytest.raises(ClusterError, match=r"(?s)kube-scheduler \(pid \d+\) has died.*unknown flag: --no-such-flag"):
        Cluster.start(name, scheduler_flags=["--no-such-flag"])
    assert not (clusters_folder() / name).exists()


def test_port_that_somebody_took_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    free = cluster_module.free_ports
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        draws = iter([Ports(etcd=free().etcd, etcd_peer=taken.getsockname()[1], apiserver=free().apiserver)])
        monkeypatch.setattr(cluster_module, "free_ports", lambda: next(draws, None) or free())
        with Cluster.start(name_of("ports"), report=said.append) as cluster:
            cluster.kubectl("get", "namespaces")
    assert any("took one of its ports" in line for line in said)


def starting(name: str, code: list[str]) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A process that starts a cluster, and the ids of that cluster's processes as soon as there is an API server."""
    process = subprocess.Popen([sys.executable, *code], cwd=CHECKOUT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    state = clusters_folder() / name / "state.json"
    eventually("an API server", lambda: state.exists() and "kube-apiserver" in json.loads(state.read_text())["processes"])
    return process, [identity["pid"] for identity in json.loads(state.read_text())["processes"].values()]


def test_terminated_up_leaves_no_process() -> None:
    name = name_of("interrupted")
    command, pids = starting(name, ["-m", "e2e.cluster", "up", "--name", name])
    command.terminate()
    assert command.wait(timeout=90) == 130
    assert not [pid for pid in pids if process_exists(pid)]
    assert not (clusters_folder() / name).exists()


def test_cluster_of_a_killed_owner_is_reaped_by_the_next_start() -> None:
    name = name_of("orphan")
    owner, pids = starting(name, ["-m", "e2e.cluster", "up", "--name", name])
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert [pid for pid in pids if process_exists(pid)]
    reap_orphans()
    assert not [pid for pid in pids if process_exists(pid)]


def test_older_kubernetes_works_too() -> None:
    if missing(tools("1.34.4")):
        pytest.skip("KUBERNETES 1.34.4 NOT TESTED: binaries not cached; `python -m e2e.cluster build --kubernetes 1.34.4` builds them")
    with Cluster.start(name_of("older"), kubernetes="1.34.4", nodes=1) as cluster:
        assert json.loads(cluster.kubectl("get", "--raw", "/version"))["gitVersion"] == "v1.34.4"
        finish_job(cluster, "older")
