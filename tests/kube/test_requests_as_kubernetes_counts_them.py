"""Effective requests of random pods, against a slow reference: at each moment of a pod's life the sum of the containers that run then.

The reference says what `PodRequests` of k8s.io/component-helpers (1.37) computes, with the options that kube-scheduler sets. Pods with an
overhead and pod-level resources are left out while they are resized: kube-scheduler adds the overhead twice, ResourceQuota once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given

from fairburst.kube.api.objects import Pod, PodSpec
from fairburst.kube.usage.effective_requests import milli_requests, template_requests
from tests.support.resized_pods import JsonObject, pods, templates

Amounts = dict[str, int]
View = Callable[[JsonObject], Amounts]
POD_LEVEL = {"cpu", "memory"}


def milli(amount: int | str) -> int:
    """Only whole units and thousandths occur."""
    return int(amount[:-1]) if isinstance(amount, str) and amount.endswith("m") else int(amount) * 1000


def amounts_of(requests: JsonObject | None) -> Amounts:
    return {resource: milli(amount) for resource, amount in (requests or {}).items()}


def total(many: list[Amounts]) -> Amounts:
    return {resource: sum(one.get(resource, 0) for one in many) for one in many for resource in one}


def largest(many: list[Amounts]) -> Amounts:
    return {resource: max(one.get(resource, 0) for one in many) for one in many for resource in one}


def most_at_once(spec: JsonObject, view: View) -> Amounts:
    """The largest sum, by resource, over the moments of the pod's life: each init container with the sidecars before it, then the rest."""
    sidecars: list[JsonObject] = []
    moments = []
    for one in spec.get("initContainers", []):
        moments.append([*sidecars, one])
        if one.get("restartPolicy") == "Always":
            sidecars.append(one)
    moments.append([*sidecars, *spec["containers"]])
    return largest([total([view(one) for one in running]) for running in moments])


def reference(pod: JsonObject) -> Amounts:
    spec, status = pod["spec"], pod["status"]
    statuses = {one["name"]: one for one in status.get("containerStatuses", []) + status.get("initContainerStatuses", [])}
    infeasible = any(one["type"] == "PodResizePending" and one["reason"] == "Infeasible" for one in status.get("conditions", []))

    def wanted(container: JsonObject) -> Amounts:
        return amounts_of(container.get("resources", {}).get("requests"))

    def allocated(container: JsonObject) -> Amounts:
        reported = statuses.get(container["name"], {}).get("allocatedResources")
        return amounts_of(reported) if reported is not None else {} if infeasible else wanted(container)

    def actuated(container: JsonObject) -> Amounts:
        reported = (statuses.get(container["name"], {}).get("resources") or {}).get("requests")
        return amounts_of(reported) if reported is not None else allocated(container)

    views = [allocated, actuated] if infeasible else [wanted, allocated, actuated]
    found = largest([most_at_once(spec, view) for view in views])
    whole = amounts_of(spec.get("resources", {}).get("requests"))
    if whole.keys() & POD_LEVEL:
        if "resources" in status:
            reported = [amounts_of(status["resources"].get("requests")), amounts_of(status.get("allocatedResources"))]
            whole = largest(reported if infeasible else [whole, *reported])
        found |= {resource: amount for resource, amount in whole.items() if resource in POD_LEVEL}
    return total([found, amounts_of(spec.get("overhead"))])


def nonzero(amounts: Amounts) -> Amounts:
    return {resource: amount for resource, amount in amounts.items() if amount}


@given(pods())
def test_a_stored_pod_counts_for_the_most_that_it_needs_at_once_whatever_its_kubelet_has_done_of_a_resize(pod: JsonObject) -> None:
    assert nonzero(milli_requests(msgspec.convert(pod, Pod))) == nonzero(reference(pod))


@given(templates())
def test_a_template_counts_as_its_pods_will(template: JsonObject) -> None:
    """The templates name requests only, which no default changes."""
    stored: Any = {"spec": template, "status": {}}
    want = {resource: amount / 1000 for resource, amount in nonzero(reference(stored)).items()}
    got = {resource: amount for resource, amount in template_requests(msgspec.convert(template, PodSpec)).items() if amount}
    assert got == want
