"""The cluster and the release for the tests of the promises, and the evidence of failures.

The suite creates a kind cluster, loads the images, and deletes it at the end, unless E2E_KIND_CLUSTER names one from `python -m e2e.kind
up`, or E2E_KUBECONFIG any cluster. Images are not loaded into the latter: E2E_IMAGE names the operator's image that its nodes can pull.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.cluster import Cluster
from e2e.cluster.build import ensure_helm
from e2e.kind.cluster import OPERATOR_IMAGE, KindCluster, KindError
from e2e.promises import evidence
from e2e.promises.site import HOME, RESTRICTED, Site, namespace_object
from tests.support.helm import Helm, Values


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build Helm before the first test: its cold build takes minutes, which would count into that test's time limit."""
    if shutil.which("helm") is None and not session.config.option.collectonly:
        ensure_helm()


@pytest.fixture(scope="session")
def bare_site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Site]:
    """The cluster, with the release's namespace (which enforces the restricted Pod Security standard) and nothing else of ours."""
    folder = tmp_path_factory.mktemp("e2e")
    given = os.environ.get("E2E_KUBECONFIG")
    with ExitStack() as ended:
        nodes = None if given else ended.enter_context(kind_cluster(folder))
        cluster = Cluster.existing(nodes.kubeconfig if nodes is not None else str(given))
        image = chart_image(os.environ.get("E2E_IMAGE", "") if nodes is None else OPERATOR_IMAGE)
        installed = shutil.which("helm")
        site = Site(cluster, Helm(folder, cluster.kubeconfig, Path(installed) if installed else None), nodes, image)
        cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s", timeout=150)
        cluster.kubectl("apply", "-f", "-", input=json.dumps(namespace_object(HOME, RESTRICTED)))
        request.config.stash[SITE] = site
        yield site


@contextmanager
def kind_cluster(folder: Path) -> Iterator[KindCluster]:
    """The cluster of E2E_KIND_CLUSTER, or a new one until the end of the run. Without Docker or kind the run exits with 3."""
    named = os.environ.get("E2E_KIND_CLUSTER")
    try:
        if named:
            yield KindCluster.existing(named, folder)
            return
        with KindCluster.equipped(f"fairburst-e2e-{os.getpid()}", folder) as nodes:
            yield nodes
    except KindError as error:
        pytest.exit(f"no cluster: {error}", returncode=3)


SITE = pytest.StashKey[Site]()


def chart_image(name: str) -> Values:
    """Return an image's name in the chart's values, or the chart's own default if `name` is empty."""
    if not name:
        return {}
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag}


INSTALLED = pytest.StashKey[str]()


@pytest.fixture(scope="module")
def fairburst(bare_site: Site, request: pytest.FixtureRequest) -> Site:
    """The site with the release and the suite's values. Installed once, and again after a module that changed it."""
    stash = request.config.stash
    if stash.get(INSTALLED, None) != bare_site.installed():
        bare_site.install()
        stash[INSTALLED] = bare_site.installed()
    return bare_site


@pytest.fixture
def namespaces(bare_site: Site) -> Iterator[Callable[..., list[str]]]:
    """A factory of namespaces with new names, `namespaces("bursts", "batch")`. They are deleted afterwards, with queues and pods."""
    made: list[str] = []

    def make(*prefixes: str) -> list[str]:
        names = [f"{prefix}-{secrets.token_hex(2)}" for prefix in prefixes]
        bare_site.create(*map(namespace_object, names))
        made.extend(names)
        return names

    yield make
    bare_site.forget(*made)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep evidence of a failure before the failed objects are cleaned up."""
    report = yield
    site = item.config.stash.get(SITE, None)
    if report.failed and report.when != "teardown" and site is not None:
        report.sections.append(("evidence", str(evidence.collect(site.cluster, item.nodeid))))
    return report
