"""Jobs and whether they are small, for the operator's arithmetic and for the API server's alike."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.api.objects import Quantity

THRESHOLD: dict[str, Quantity] = {"cpu": "3", "memory": "6Gi", "example.com/gpu": "2"}
SIDECAR = {"restartPolicy": "Always"}


def container(cpu: str | None = "1", memory: str | None = "1Gi", kind: str = "requests", **more: Any) -> dict[str, Any]:
    """A container's resources under `kind` (requests or limits); None leaves one out."""
    named = {name: text for name, text in {"cpu": cpu, "memory": memory}.items() if text is not None}
    return {"resources": {kind: named}} | more


def job_manifest(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), pod: dict[str, Any] | None = None, **spec: Any) -> Any:
    """A Job as its author writes it. `pod`: more of the pod spec; keywords go into the Job's spec."""
    pod_spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": f"c{n}", "image": "task", **one} for n, one in enumerate(containers or (container(),))],
        "initContainers": [{"name": f"i{n}", "image": "task", **one} for n, one in enumerate(init)],
        **(pod or {}),
    }
    if not init:
        del pod_spec["initContainers"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": pod_spec}, **spec}}


def gpus(requests: int) -> dict[str, Any]:
    named = {"cpu": "1", "memory": "1Gi", "example.com/gpu": requests}
    return {"resources": {"requests": named, "limits": {"example.com/gpu": requests}}}


SIZES = [
    pytest.param(job_manifest(), "small", id="one pod"),
    pytest.param(job_manifest(container("3", "6Gi")), "small", id="exactly the threshold"),
    pytest.param(job_manifest(container("3001m")), "large", id="a millicore more"),
    pytest.param(job_manifest(container("100m", "1Mi"), parallelism=30, completions=30), "small", id="thirty tenths of a core are three"),
    pytest.param(job_manifest(container("100m", "1Mi"), parallelism=31, completions=31), "large", id="thirty-one tenths are more"),
    pytest.param(job_manifest(parallelism=100, completions=3), "small", id="no more pods at once than completions"),
    pytest.param(job_manifest(parallelism=3, completions=500), "small", id="many completions, few at once"),
    pytest.param(job_manifest(parallelism=3), "small", id="a work queue of three"),
    pytest.param(job_manifest(parallelism=4), "large", id="a work queue of four"),
    pytest.param(job_manifest(completions=9), "small", id="parallelism is one unless said"),
    pytest.param(job_manifest(parallelism=3, completions=3, completionMode="Indexed"), "small", id="indexed"),
    pytest.param(job_manifest(parallelism=500, completions=500), "large", id="five hundred pods"),
    pytest.param(job_manifest(parallelism=0), "large", id="no pods yet: size not known"),
    pytest.param(job_manifest(parallelism=2, completions=2, suspend=True), "small", id="suspended"),
    pytest.param(job_manifest(container("1", "7Gi")), "large", id="too much memory"),
    pytest.param(job_manifest(gpus(2)), "small", id="devices within"),
    pytest.param(job_manifest(gpus(2), parallelism=2, completions=2), "large", id="too many devices"),
    pytest.param(job_manifest(container("1"), container("2")), "small", id="several containers add up"),
    pytest.param(job_manifest(container("2"), container("1500m")), "large", id="several containers add up to more"),
    pytest.param(job_manifest(container("1"), init=(container("3"),)), "small", id="an init container runs alone"),
    pytest.param(job_manifest(container("1"), init=(container("4"),)), "large", id="an init container larger than the threshold"),
    pytest.param(job_manifest(container("1"), init=(container("2"), container("2"))), "small", id="init containers run one by one"),
    pytest.param(job_manifest(container("2"), init=(container("1", **SIDECAR),)), "small", id="a sidecar runs beside"),
    pytest.param(job_manifest(container("2500m"), init=(container("1", **SIDECAR),)), "large", id="a sidecar makes it large"),
    pytest.param(
        job_manifest(container("1"), init=(container("1", **SIDECAR), container("2500m"))), "large", id="an init container beside a sidecar"
    ),
    pytest.param(
        job_manifest(container("1"), init=(container("2500m"), container("1", **SIDECAR))),
        "small",
        id="an init container before the sidecar",
    ),
    pytest.param(job_manifest(container("1"), init=(container("1m"),) * 99), "small", id="a hundred containers"),
    pytest.param(job_manifest(container("1"), init=(container("1m"),) * 100), "large", id="more than a hundred containers"),
    pytest.param(job_manifest({}), "large", id="no requests: size not known"),
    pytest.param(job_manifest(container("1", None)), "large", id="no memory request: size not known"),
    pytest.param(job_manifest(container("1"), {}), "large", id="one container without requests"),
    pytest.param(job_manifest(container("1"), init=({},)), "large", id="an init container without requests"),
    pytest.param(job_manifest(container("1", kind="limits")), "small", id="limits count where nothing is requested"),
    pytest.param(job_manifest(container("4", kind="limits")), "large", id="limits above the threshold"),
    pytest.param(
        job_manifest({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "8"}}}),
        "small",
        id="requests before limits",
    ),
    pytest.param(
        job_manifest({}, pod={"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}), "small", id="requests of the pod as a whole"
    ),
    pytest.param(
        job_manifest(container("1"), pod={"resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}),
        "large",
        id="the pod's go before its containers'",
    ),
    pytest.param(
        job_manifest(container("1", "1Gi"), pod={"resources": {"limits": {"cpu": "4", "memory": "7Gi"}}}),
        "small",
        id="containers' requests before the pod's limits",
    ),
    pytest.param(job_manifest({}, pod={"resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}), "large", id="the pod's limits alone"),
    pytest.param(
        job_manifest(pod={"runtimeClassName": "kata", "overhead": {"cpu": "2", "memory": "1Gi"}}), "small", id="a runtime class's overhead"
    ),
    pytest.param(
        job_manifest(pod={"runtimeClassName": "kata", "overhead": {"cpu": "2100m"}}), "large", id="a runtime class's overhead on top"
    ),
]
