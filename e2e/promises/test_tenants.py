"""Tenants' attacks on real nodes: the table of tests/t1/test_tenants.py against the chart's release, while no operator runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster import Cluster
from e2e.promises.site import HOME, RELEASE, Site
from tests.support.accounts import account_kubeconfig
from tests.support.tenants import BATCH, BURSTS, FLOOR, OTHERS, TenantCluster
from tests.t1.test_tenants import (
    test_a_debugging_container_is_permitted_and_carries_nothing_else_in,
    test_a_size_that_no_queue_has_given_is_taken_off_a_job,
    test_a_status_in_a_new_queue_counts_for_nothing,
    test_an_attack_is_refused_with_a_message_that_says_why,
    test_pods_from_a_template_are_refused_too_and_their_controller_says_why,
    test_what_is_permitted_passes,
    test_whatever_class_a_pod_names_it_gets_that_of_its_queue_or_the_lowest,
)

__all__ = [
    "test_a_debugging_container_is_permitted_and_carries_nothing_else_in",
    "test_a_size_that_no_queue_has_given_is_taken_off_a_job",
    "test_a_status_in_a_new_queue_counts_for_nothing",
    "test_an_attack_is_refused_with_a_message_that_says_why",
    "test_pods_from_a_template_are_refused_too_and_their_controller_says_why",
    "test_what_is_permitted_passes",
    "test_whatever_class_a_pod_names_it_gets_that_of_its_queue_or_the_lowest",
]


@pytest.fixture(scope="module")
def tenants(fairburst: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TenantCluster]:
    """The attacked site. The operator is stopped meanwhile and restarted afterwards."""
    release = fairburst
    release.dismiss()
    release.wait_free(BATCH, BURSTS, FLOOR, OTHERS)
    release.cluster.kubectl("create", "serviceaccount", "root", "-n", "default")
    release.cluster.kubectl("create", "clusterrolebinding", "e2e-root", "--clusterrole=cluster-admin", "--serviceaccount=default:root")
    folder = tmp_path_factory.mktemp("tenants")
    by_token = Cluster.existing(account_kubeconfig(release.cluster, "default", "root", folder))
    try:
        yield TenantCluster(by_token)
    finally:
        release.cluster.kubectl("delete", "clusterrole", "landlords", "own-namespaces", "--ignore-not-found")
        release.cluster.kubectl("delete", "clusterrolebinding", "own-namespaces", "e2e-root", "--ignore-not-found")
        release.cluster.kubectl("delete", "serviceaccount", "root", "-n", "default", "--ignore-not-found")
        release.forget(BATCH, BURSTS, FLOOR, OTHERS)  # first: pods of a hard queue would take the operator's places
        release.cluster.kubectl("scale", f"deployment/{RELEASE}", "-n", HOME, "--replicas=2")
        release.rolled_out()


@pytest.fixture
def site(tenants: TenantCluster) -> TenantCluster:
    """The same site, by the name that the attacks use."""
    return tenants
