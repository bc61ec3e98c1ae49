"""Sizes of Jobs as the API server writes them, and the priorities of their pods, on a real control plane without the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.objects import objects_of
from e2e.waiting import PATIENCE_SECONDS, until
from fairburst.config import parse_config
from fairburst.kube.jobs.job_size import SIZE_LABEL
from fairburst.kube.names import MANAGED_LABEL
from tests.support.job_sizes import SIZES, THRESHOLD, container, job_manifest
from tests.support.live_cluster import install, remove_policies
from tests.support.prioritized_objects import namespace_labels, sized_quota
from tests.support.queues import queue
from tests.support.work import create

POOL = "job-size-test"  # of its own, so that policies of other tests on the shared cluster stay out of the way
LARGE_PRIORITY = {"className": "fairburst-large", "value": -2, "preemptionPolicy": "Never"}
SMALL_PRIORITY = {"className": "fairburst-small", "value": -1, "preemptionPolicy": "Never"}
IN_FORCE = {"podPriority": LARGE_PRIORITY, "smallPodPriority": SMALL_PRIORITY, "sizeThreshold": THRESHOLD}


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    config = parse_config(f"pool: {{name: {POOL}}}\nsmallJobs: {{enabled: true}}")
    manifests = install(cluster, config, "job-size-operator")
    yield cluster
    remove_policies(cluster, manifests)


@pytest.fixture
def governed(installed: Cluster, namespace: Callable[..., str]) -> Callable[[dict[str, Any]], str]:
    """Makes a managed namespace whose throughput queue has this status, once the policies know it."""

    def make(status: dict[str, Any]) -> str:
        here = namespace("sizes", labels=namespace_labels(status, POOL))
        create(installed, queue("ThroughputQueue", {"pool": POOL}, here))
        objects_of(installed.kubeconfig).patch("thrq", "queue", here, {"status": status}, "status")
        if "sizeThreshold" in status:
            create(installed, sized_quota(here, status["sizeThreshold"], POOL))
            until(lambda: labels(stored(installed, here, job_manifest())), PATIENCE_SECONDS, "the policies to know the queue")
        return here

    return make


def stored(cluster: Cluster, namespace: str, *jobs: dict[str, Any], dry_run: bool = True) -> Any:
    """Return Jobs as the API server would store them: the object, or a list of several."""
    found = []
    for number, one in enumerate(jobs):
        metadata = one["metadata"] | {"namespace": namespace, "name": f"{one['metadata']['name']}-{number}"}
        found.append(objects_of(cluster.kubeconfig).create(one | {"metadata": metadata}, **({"dryRun": "All"} if dry_run else {})))
    return found[0] if len(jobs) == 1 else found


def labels(job: dict[str, Any]) -> set[str]:
    """Return every value of the size label in the Job and in its template."""
    places = (job["metadata"], job["spec"]["template"]["metadata"])
    return {place["labels"][SIZE_LABEL] for place in places if SIZE_LABEL in place.get("labels", {})}


def of_both(job: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the label of the Job and that of its template."""
    places = (job["metadata"], job["spec"]["template"]["metadata"])
    own, template = (place.get("labels", {}).get(SIZE_LABEL) for place in places)
    return own, template


def test_the_api_server_labels_jobs_by_the_same_rule_as_the_operator(installed: Cluster, governed: Callable[..., str]) -> None:
    """The table of tests/kube/test_job_size.py, all in one go."""
    here = governed(IN_FORCE)
    found = stored(installed, here, *(case.values[0] for case in SIZES))
    wrong = {
        case.id: (of_both(job), case.values[1])
        for case, job in zip(SIZES, found, strict=True)
        if of_both(job) != (case.values[1], case.values[1])
    }
    assert wrong == {}


def test_a_tenants_own_label_is_overwritten(installed: Cluster, governed: Callable[..., str]) -> None:
    here = governed(IN_FORCE)
    large, small = job_manifest(parallelism=50), job_manifest()
    for one, lie in ((large, "small"), (small, "large")):
        one["metadata"]["labels"] = {SIZE_LABEL: lie, "app": "mine"}
        one["spec"]["template"]["metadata"] = {"labels": {SIZE_LABEL: lie, "app": "mine"}}
    found = stored(installed, here, large, small)
    assert [of_both(job) for job in found] == [("large", "large"), ("small", "small")]
    assert found[0]["spec"]["template"]["metadata"]["labels"]["app"] == "mine"


def test_a_size_is_fixed_at_creation_also_for_a_suspended_job_whose_template_may_be_edited(
    installed: Cluster, governed: Callable[..., str]
) -> None:
    here = governed(IN_FORCE)
    name = stored(installed, here, job_manifest(parallelism=50, suspend=True), dry_run=False)["metadata"]["name"]
    lie = {"labels": {SIZE_LABEL: "small"}}
    patch = {"metadata": lie, "spec": {"template": {"metadata": lie}, "parallelism": 1}}
    objects_of(installed.kubeconfig).patch("job", name, here, patch)
    job = objects_of(installed.kubeconfig).get("job", name, here)
    assert job["spec"]["parallelism"] == 1
    assert of_both(job) == ("large", "large")


def test_thousands_of_init_containers_make_no_job_small(installed: Cluster, governed: Callable[..., str]) -> None:
    """The API server ignores a policy whose expression costs too much: the Job of 16 cpu kept its tenant's label."""
    here = governed(IN_FORCE)
    liar = job_manifest(container("1m", "1Mi"), init=(*(container("1m", "1Mi"),) * 2000, container("8")), parallelism=2)
    liar["metadata"]["labels"] = {SIZE_LABEL: "small"}
    liar["spec"]["template"]["metadata"] = {"labels": {SIZE_LABEL: "small"}}
    assert of_both(stored(installed, here, liar)) == ("large", "large")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"podPriority": LARGE_PRIORITY}, id="a queue without a reserve"),
        pytest.param(None, id="no queue"),
        pytest.param({}, id="a queue that is not in force"),
    ],
)
def test_without_a_threshold_jobs_are_accepted_and_not_labelled(
    installed: Cluster, governed: Callable[..., str], namespace: Callable[..., str], status: dict[str, Any] | None
) -> None:
    governed(IN_FORCE)  # by then the policies are active
    here = namespace("plain", labels={MANAGED_LABEL: "true"}) if status is None else governed(status)
    assert of_both(stored(installed, here, job_manifest())) == (None, None)


def test_a_label_counts_for_nothing_where_the_queue_keeps_no_reserve(installed: Cluster, governed: Callable[..., str]) -> None:
    here = governed({"podPriority": LARGE_PRIORITY})
    liar = job_manifest()
    liar["spec"]["template"]["metadata"] = {"labels": {SIZE_LABEL: "small"}}
    until(lambda: of_both(stored(installed, here, liar)) == (None, None), PATIENCE_SECONDS, "the label to be taken off")


def test_pods_of_small_jobs_and_only_they_get_the_small_class(installed: Cluster, governed: Callable[..., str]) -> None:
    """Class, value and preemption policy together; a label on a pod that belongs to no Job changes nothing."""
    here = governed(IN_FORCE)
    stored(installed, here, job_manifest(), job_manifest(container("4")), dry_run=False)
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": here, "labels": {SIZE_LABEL: "small"}},
        "spec": {"containers": [{"name": "c", "image": "task", **container()}]},
    }
    create(installed, bare)

    def pods() -> list[dict[str, Any]] | None:
        found = objects_of(installed.kubeconfig).list("pods", here)
        return found if len(found) == 3 else None

    priorities = {
        pod["metadata"]["labels"].get("batch.kubernetes.io/job-name", "bare"): tuple(
            pod["spec"].get(key) for key in ("priorityClassName", "priority", "preemptionPolicy")
        )
        for pod in until(pods, PATIENCE_SECONDS, "the pods of both Jobs")
    }
    assert priorities == {
        "job-0": ("fairburst-small", -1, "Never"),
        "job-1": ("fairburst-large", -2, "Never"),
        "bare": ("fairburst-large", -2, "Never"),
    }
