"""The dashboard of an installation by Helm, on a real API server: TLS, TokenReview, SubjectAccessReview, and real Chromium.

KWOK runs no containers, so the dashboard is a process of the test, with the chart's service account, arguments, configuration and Secret.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from e2e.cluster import Cluster
from tests.support.accounts import account_kubeconfig, service_account
from tests.support.dashboard import Dashboard
from tests.support.helm import Helm
from tests.support.queues import queue
from tests.support.work import create, namespace, task_job

pytestmark = pytest.mark.slow

HOME, NAME = "fairburst-system", "fb-fairburst-dashboard"
CHROMIUM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Site:
    """The dashboard, and a token for each kind of person."""

    cluster: Cluster
    dashboard: Dashboard
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def site(fresh_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A release with `dashboard.enabled`, queues in two namespaces, and people: an admin, a tenant of `batch`, one without rights."""
    folder = tmp_path_factory.mktemp("dashboard")
    cluster = fresh_cluster(nodes=2)
    create(cluster, namespace(HOME), namespace("serving"), namespace("batch"))
    Helm(folder, cluster.kubeconfig).on_chart("install", "fb", values={"dashboard": {"enabled": True}, "replicas": 1}, namespace=HOME)
    create(cluster, queue("ThroughputQueue", {"weight": 1}, "serving"), queue("ThroughputQueue", {"weight": 3}, "batch"))
    create(cluster, task_job("batch", "work", 2, 2))
    tokens = {
        name: service_account(cluster, name, "batch").credentials.removeprefix("--token=") for name in ("admin", "tenant", "stranger")
    }
    cluster.kubectl("create", "clusterrolebinding", "admin", "--clusterrole=cluster-admin", "--serviceaccount=batch:admin")
    cluster.kubectl("create", "rolebinding", "tenant", "--clusterrole=view", "--serviceaccount=batch:tenant", "-n", "batch")
    with served(cluster, folder) as port:
        yield Site(cluster, Dashboard(port, folder / "tls" / "ca.crt"), tokens)


class served:  # noqa: N801  reads as a statement
    """Runs what the chart's Deployment runs, until the end of the block; yields the port."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        def of_release(kind: str, name: str) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(cluster.kubectl("get", kind, name, "-n", HOME, "-o", "json"))
            return found

        (folder / "tls").mkdir()
        for name, content in of_release("secret", NAME)["data"].items():
            (folder / "tls" / name).write_bytes(base64.b64decode(content))
        (folder / "fairburst.yaml").write_text(of_release("configmap", "fb-fairburst")["data"]["fairburst.yaml"])
        pod = of_release("deployment", NAME)["spec"]["template"]["spec"]
        kubeconfig = account_kubeconfig(cluster, HOME, pod["serviceAccountName"], folder)
        places = {"/etc/fairburst/fairburst.yaml": folder / "fairburst.yaml", "/etc/fairburst-dashboard": folder / "tls", "8443": 0}
        arguments = [str(places.get(one, one)) for one in pod["containers"][0]["args"]]
        self._command = [sys.executable, "-m", "fairburst", *arguments, "--kubeconfig", str(kubeconfig)]
        self._log = folder / "dashboard.log"

    def __enter__(self) -> int:
        with self._log.open("w") as output:
            self._running = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while not (found := re.search(r"Dashboard at https://localhost:(\d+)", self._log.read_text())):
            assert time.monotonic() < deadline, self._log.read_text()
            assert self._running.poll() is None, self._log.read_text()
            time.sleep(0.05)
        return int(found[1])

    def __exit__(self, *_: object) -> None:
        self._running.terminate()
        assert self._running.wait(20) == 0, "it ends cleanly on SIGTERM"


def test_without_a_token_and_with_a_wrong_one_there_is_nothing_to_see(site: Site) -> None:
    assert site.dashboard.get("/healthz") == (200, "ok")
    assert 'name="token"' in site.dashboard.get("/login")[1]
    forged = f"{site.tokens['admin'].rpartition('.')[0]}.{site.tokens['tenant'].rpartition('.')[2]}"
    for token in (None, "wrong", forged):
        for path in ("/viewer", "/feed", "/app.js", "/ask/queue/batch/queue", "/ask/what-if?capacity=-50%25"):
            status, text = site.dashboard.get(path, token)
            assert (status, "batch" in text) == (401, False), (path, token)


def test_everyone_sees_the_queues_that_they_may_get(site: Site) -> None:
    assert site.dashboard.queues(site.tokens["admin"]) == {"ThroughputQueue/serving/queue", "ThroughputQueue/batch/queue"}
    assert site.dashboard.queues(site.tokens["tenant"]) == {"ThroughputQueue/batch/queue"}
    assert site.dashboard.queues(site.tokens["stranger"]) == set()
    assert json.loads(site.dashboard.get("/viewer", site.tokens["tenant"])[1]) == {"name": "system:serviceaccount:batch:tenant"}


def test_questions_are_answered_by_the_persons_own_rights(site: Site) -> None:
    assert site.dashboard.get("/ask/what-if?capacity=-50%25", site.tokens["admin"])[0] == 200
    status, text = site.dashboard.get("/ask/queue/batch/queue", site.tokens["tenant"])
    assert (status, json.loads(text)["queue"]) == (200, "batch/queue")
    status, text = site.dashboard.get("/ask/job/batch/work", site.tokens["tenant"])
    assert status == 200, text
    assert json.loads(text)["eta"] == {"state": "Unknown"}, "which takes the right to read the cluster"
    for path in ("/ask/queue/serving/queue", "/ask/what-if?capacity=-50%25"):
        status, text = site.dashboard.get(path, site.tokens["tenant"])
        assert status == 400
        assert "may not" in json.loads(text)["error"]
    assert "may not" in json.loads(site.dashboard.get("/ask/job/batch/work", site.tokens["stranger"])[1])["error"]


def test_a_token_ends_with_its_service_account(site: Site) -> None:
    leaver = service_account(site.cluster, "leaver", "batch").credentials.removeprefix("--token=")
    assert site.dashboard.get("/viewer", leaver)[0] == 200
    site.cluster.kubectl("delete", "serviceaccount", "leaver", "-n", "batch")
    deadline = time.monotonic() + 90
    while site.dashboard.get("/viewer", leaver)[0] != 401:
        assert time.monotonic() < deadline, "still let in a minute and a half later"
        time.sleep(1)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: `make browser` installs one")
def test_a_person_logs_in_looks_and_logs_out_in_a_browser(site: Site) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(ignore_https_errors=True).new_page()  # as a person who accepts the warning about the certificate
        page.goto(f"https://localhost:{site.dashboard.port}/#/queue/ThroughputQueue/batch/queue")
        assert Axe().run(page).response["violations"] == []
        log_in(page, "wrong")
        expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        log_in(page, site.tokens["tenant"])
        expect(page.locator("#viewer")).to_contain_text("batch/tenant")
        expect(page.get_by_role("heading", level=1)).to_contain_text("batch/queue")  # the page that was asked for at first
        page.get_by_role("link", name="Now").click()
        expect(page.locator("table.queues tbody tr")).to_have_count(1)
        expect(page.get_by_text("your rights do not include listing nodes")).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_focused()
        log_in(page, site.tokens["stranger"])
        expect(page.get_by_role("heading", name="No queue to show")).to_be_visible()
        browser.close()


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
