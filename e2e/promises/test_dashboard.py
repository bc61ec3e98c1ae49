"""The chart's dashboard, for many people: each sees the queues that the API server lets them `get`, over TLS, and no others."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.promises.site import HOME, PATIENCE_SECONDS, RELEASE, Site, queue
from e2e.waiting import until
from fairburst.quantity import parse_quantity
from tests.support.accounts import Account, service_account
from tests.support.dashboard import Dashboard

NAME = f"{RELEASE}-dashboard"
PODS = f"app.kubernetes.io/name={NAME},app.kubernetes.io/instance={RELEASE}"  # labels


@pytest.fixture(scope="module")
def dashboard(fairburst: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """The release with its dashboard, reached as docs/dashboard.md says: by a forwarded port and the authority in the Secret."""
    began = time.monotonic()
    fairburst.install(None, "--set=dashboard.enabled=true")
    try:
        fairburst.cluster.kubectl("rollout", "status", f"deployment/{NAME}", "-n", HOME, "--timeout=120s", timeout=150)
        print(f"helm upgrade to a ready dashboard: {time.monotonic() - began:.1f} s")
        authority = tmp_path_factory.mktemp("dashboard") / "ca.crt"
        authority.write_bytes(base64.b64decode(fairburst.get("secret", NAME, HOME)["data"]["ca.crt"]))
        with fairburst.cluster.forwarded(f"service/{NAME}", 443, HOME) as port:
            yield Dashboard(port, authority)
    finally:
        fairburst.install()
        until(lambda: not fairburst.list("pods", HOME, PODS), PATIENCE_SECONDS, "the dashboard to go")


def viewer(site: Site, name: str, *namespaces: str) -> str:
    """Create a service account that may view the namespaces, in the first of them. Return its token once the API server grants it that."""
    account = service_account(site.cluster, name, namespaces[0])
    for namespace in namespaces:
        subject = f"--serviceaccount={namespaces[0]}:{name}"
        site.cluster.kubectl("create", "rolebinding", name, "--clusterrole=view", subject, "-n", namespace)
    until(lambda: all(may_view(account, one) for one in namespaces), PATIENCE_SECONDS, f"{name} to be allowed to view")
    return account.credentials.removeprefix("--token=")


def may_view(account: Account, namespace: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "group": "fairburst.dev", "resource": "throughputqueues", "namespace": namespace}},
    }
    return bool(account.create(review, namespace)["status"]["allowed"])


def test_each_person_sees_the_queues_that_they_may_get_and_no_other(
    dashboard: Dashboard, fairburst: Site, namespaces: Callable[..., list[str]]
) -> None:
    mine, other = namespaces("seen", "hidden")
    fairburst.create(*(queue("ThroughputQueue", name, {"weight": 1}) for name in (mine, other)))
    tenant, manager = viewer(fairburst, "tenant", mine), viewer(fairburst, "manager", mine, other)
    forged = f"{manager.rpartition('.')[0]}.{tenant.rpartition('.')[2]}"
    for token in (None, "wrong", forged):
        for path in ("/viewer", "/feed", f"/ask/queue/{mine}/{mine}"):
            status, text = dashboard.get(path, token)
            assert (status, mine in text) == (401, False), path
    both = {f"ThroughputQueue/{name}/{name}" for name in (mine, other)}
    until(lambda: dashboard.queues(manager) == both, PATIENCE_SECONDS, "the dashboard to show both queues to who may see both")
    assert dashboard.queues(tenant) == {f"ThroughputQueue/{mine}/{mine}"}
    assert json.loads(dashboard.get("/viewer", tenant)[1]) == {"name": f"system:serviceaccount:{mine}:tenant"}
    status, text = dashboard.get(f"/ask/queue/{mine}/{mine}", tenant)
    assert (status, json.loads(text)["queue"]) == (200, f"{mine}/{mine}")
    status, text = dashboard.get(f"/ask/queue/{other}/{other}", tenant)
    assert status == 400
    assert "may not" in json.loads(text)["error"]


def test_pods_reach_it_by_its_service_and_certificate(dashboard: Dashboard, fairburst: Site) -> None:
    ask = (
        f"import ssl, urllib.request; context = ssl.create_default_context(cadata={dashboard.authority.read_text()!r}); "
        f"print(urllib.request.urlopen('https://{NAME}.{HOME}.svc/healthz', context=context, timeout=20).read().decode())"
    )
    assert fairburst.cluster.kubectl("exec", fairburst.leader(), "-n", HOME, "--", "python", "-c", ask).strip() == "ok"


def test_it_runs_from_its_start_in_the_memory_that_it_requests(
    dashboard: Dashboard, fairburst: Site, namespaces: Callable[..., list[str]]
) -> None:
    """Also when it decides for a person who may read the whole cluster."""
    (home,) = namespaces("reader")
    token = service_account(fairburst.cluster, "admin", home).credentials.removeprefix("--token=")
    fairburst.cluster.kubectl("create", "clusterrolebinding", home, "--clusterrole=cluster-admin", f"--serviceaccount={home}:admin")
    try:
        ask = "/ask/what-if?capacity=-50%25"
        until(lambda: dashboard.get(ask, token)[0] == 200, PATIENCE_SECONDS, "an answer to who may read the whole cluster")
    finally:
        fairburst.cluster.kubectl("delete", "clusterrolebinding", home)
    (pod,) = fairburst.list("pods", HOME, PODS)
    (status,) = pod["status"]["containerStatuses"]
    assert (status["ready"], status["restartCount"]) == (True, 0)
    peak = fairburst.megabytes(pod["metadata"]["name"], "VmHWM")
    print(f"dashboard, resident MB at most: {peak:.0f}")
    resources = pod["spec"]["containers"][0]["resources"]
    assert peak * 1e6 <= parse_quantity(resources["requests"]["memory"]) <= parse_quantity(resources["limits"]["memory"])
