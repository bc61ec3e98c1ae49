"""`helm install` gives a small, working operator within half a minute, and `helm uninstall` leaves no work held."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.promises.site import HOME, PATIENCE_SECONDS, RELEASE, Site, pod, task_spec
from e2e.waiting import until
from release.package import write

INSTALL_SECONDS = 30.0
IDLE_MEGABYTES = 90.0
CRDS = ("latencyqueues.fairburst.dev", "throughputqueues.fairburst.dev")
OURS = (
    "crd,priorityclass,clusterrole,clusterrolebinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding,"
    "validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingwebhookconfiguration"
)


@pytest.fixture
def bare(bare_site: Site) -> Iterator[Site]:
    """The site without any object of ours except the release's empty namespace."""
    uninstall(bare_site)
    yield bare_site
    uninstall(bare_site)


def uninstall(site: Site) -> None:
    if RELEASE in site.helm.run("list", "--short", namespace=HOME):
        site.helm.run("uninstall", RELEASE, "--wait", namespace=HOME)
    site.cluster.kubectl("delete", "crd", *CRDS, "--ignore-not-found", timeout=120)


def ours(site: Site) -> list[str]:
    """Return the names of all objects of the release, except namespaces and Helm's own record."""
    label = ["-l", f"app.kubernetes.io/name={RELEASE}", "-o", "name"]
    everywhere = site.cluster.kubectl("get", OURS, *label).split()
    at_home = site.cluster.kubectl("get", "all,configmap,secret,serviceaccount,role,rolebinding,lease,pdb", "-n", HOME, *label).split()
    return sorted(everywhere + at_home)


def test_from_install_to_the_first_class_and_back(bare: Site, namespaces: Callable[..., list[str]], tmp_path: Path) -> None:
    (batch,) = namespaces("batch")
    held = pod(batch, "held", task_spec(bare.slot, 600))
    (chart,) = (path for path in write(tmp_path) if path.suffix == ".tgz")
    image = [f"--set=image.{name}={value}" for name, value in bare.image.items()]
    began = time.monotonic()
    said = bare.helm.run("install", RELEASE, str(chart), *image, namespace=HOME)
    bare.admitted("ThroughputQueue", batch, {"enforcement": "Gate"})
    took = time.monotonic() - began
    print(f"helm install to the first class: {took:.1f} s")
    assert took <= INSTALL_SECONDS
    assert "warning" not in said.lower(), "the namespace warns of what the restricted standard forbids"
    bare.rolled_out()
    assert re.search(r"Phase:\s+Succeeded", bare.helm.run("test", RELEASE, namespace=HOME))
    memory = {name: bare.megabytes(name) for name in bare.operators()}
    print(f"idle replicas, resident MB: {memory}")
    assert len(memory) == 2
    assert max(memory.values()) <= IDLE_MEGABYTES

    until(lambda: bare.gates_of(held), PATIENCE_SECONDS, "the policy to gate pods there")
    bare.dismiss()
    bare.create(held)
    said = bare.helm.run("uninstall", RELEASE, "--wait", namespace=HOME)
    bare.wait_running(batch, 1)
    kept = [f"customresourcedefinition.apiextensions.k8s.io/{name}" for name in CRDS]
    until(lambda: ours(bare) == kept, PATIENCE_SECONDS, "all but the CRDs to go")
    assert bare.get("thrq", batch, batch), "queues are kept with their CRDs"
    assert not bare.list("resourcequota", batch)
