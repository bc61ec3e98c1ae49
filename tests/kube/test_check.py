"""`fairburst doctor`: it names each fault of an installation and its remedy, and calls a sound installation sound."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from fairburst.config import Config, parse_config
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, Forbidden, NotFound
from fairburst.kube.install.check import Finding, check_installation
from fairburst.kube.install.manifests import Subject, all_manifests
from tests.support.objects import World, latency_spec, stored_queue

LEASE = "/apis/coordination.k8s.io/v1/namespaces/fairburst-system/leases/fairburst-default"
LEASES = "/apis/coordination.k8s.io/v1/leases"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/latencyqueues.fairburst.dev"
Answer = dict[str, Any] | Exception
KINDS = {
    "CustomResourceDefinition": "customresourcedefinitions", "PriorityClass": "priorityclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}  # fmt: skip


class Installation:
    """The API server's answers for a sound installation, by path. A test changes an answer."""

    def __init__(self, config: Config) -> None:
        world = World(config)
        world.queue("LatencyQueue", "serving", "lq", latency_spec("8"))
        world.round()
        for queue in world.queues.values():
            queue["status"]["observedGeneration"] = queue["metadata"]["generation"]
        self.queues = list(world.queues.values())
        group = "/apis/fairburst.dev/v1alpha1"
        self.answers: dict[str, Answer] = {
            "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.1"},
            f"{group}/latencyqueues": {"items": self.queues},
            f"{group}/throughputqueues": {"items": []},
            LEASE: {"spec": lease_spec("one", 2)},
            LEASES: {"items": []},
        }
        for manifest in all_manifests(config, Subject()):
            if manifest["kind"] in KINDS:
                path = f"/apis/{manifest['apiVersion']}/{KINDS[manifest['kind']]}/{manifest['metadata']['name']}"
                self.answers[path] = copy.deepcopy(manifest)
        self.refused = frozenset[str]()
        self.priority_class: str | None = "fairburst-hard"
        self.pod_error: Exception | None = None
        self.clock = 0.0

    async def get_json(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        if path == LEASES:
            assert params == {"fieldSelector": "metadata.name=fairburst-gpu"}, "the API server finds the Lease among those of all nodes"
        answer = self.answers.get(path, NotFound(404, "NotFound", f"GET {path}"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def create(self, path: str, obj: dict[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        if path.endswith("selfsubjectaccessreviews"):
            return {"status": {"allowed": obj["spec"]["resourceAttributes"]["resource"] not in self.refused}}
        assert params == {"dryRun": "All"}, "doctor stores nothing"
        if self.pod_error is not None:
            raise self.pod_error
        return {"spec": {"priorityClassName": self.priority_class}, "metadata": {"creationTimestamp": at(time.time() + self.clock)}}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def findings(site: Installation, config: Config) -> dict[str, Finding]:
    return {one.check: one for one in await check_installation(cast(ApiClient, site), config)}


CONFIG = parse_config("")
NO = Forbidden(403, "Forbidden", "leases")


async def test_a_sound_installation_is_called_so() -> None:
    found = await findings(Installation(CONFIG), CONFIG)
    assert {name: one.ok for name, one in found.items()} == dict.fromkeys(
        ("version", "rights", "definitions", "classes", "policies", "lease", "queues", "pools", "tried pod"), True
    ), found


def without(path: str) -> Any:
    return lambda site: site.answers.pop(path)


def changed(path: str, **answer: Any) -> Any:
    return lambda site: site.answers.update({path: answer})


def older_schema(site: Installation) -> None:
    crd = cast(dict[str, Any], site.answers[CRD])
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["weight"]


def no_status(site: Installation) -> None:
    site.queues[0].pop("status")


def stale(site: Installation) -> None:
    site.answers[LEASE] = {"spec": lease_spec("one", 60)}


def refused_pod(message: str) -> Any:
    return lambda site: setattr(site, "pod_error", Forbidden(403, "Forbidden", message))


def given(name: str, value: Any) -> Any:
    return lambda site: setattr(site, name, value)


BROKEN = ApiError(500, "InternalError", "failed calling webhook")
OLD = {"major": "1", "minor": "29+", "gitVersion": "v1.29.3"}
HARD = "/apis/scheduling.k8s.io/v1/priorityclasses/fairburst-hard"


@pytest.mark.parametrize(
    ("damage", "check", "ok", "words"),
    [
        pytest.param(changed("/version", **OLD), "version", False, "v1.29.3; expected 1.30", id="old server"),
        pytest.param(without(CRD), "definitions", False, "latencyqueues.fairburst.dev missing", id="no definition"),
        pytest.param(older_schema, "definitions", False, "fairburst.dev (spec.versions[0].schema", id="older definition"),
        pytest.param(without(HARD), "classes", False, "fairburst-hard missing", id="no class"),
        pytest.param(without(LEASE), "lease", False, "no operator leads, and none has", id="no lease"),
        pytest.param(changed(LEASE, spec={"holderIdentity": ""}), "lease", False, "no operator runs", id="released lease"),
        pytest.param(stale, "lease", False, "one renewed the Lease 6", id="stale lease"),
        pytest.param(no_status, "queues", False, "1 of 1 queues have no decision on their present spec: serving/lq", id="undecided"),
        pytest.param(no_status, "tried pod", None, "no queue has a namespace in which a pod could be tried", id="no pod to try"),
        pytest.param(given("priority_class", None), "tried pod", False, "the policies are not in force", id="no priority"),
        pytest.param(given("clock", 90.0), "clock", False, "the API server's clock and this one are", id="clock"),
        pytest.param(refused_pod("exceeded quota: fairburst"), "tried pod", True, "its quota, which is in force", id="full quota"),
        pytest.param(refused_pod("cannot create pods"), "tried pod", None, "cannot create pods", id="may not create pods"),
        pytest.param(given("pod_error", BROKEN), "tried pod", False, "failed calling webhook", id="a webhook is down"),
        pytest.param(given("refused", frozenset({"nodes"})), "rights", None, "may not list nodes", id="no right"),
        pytest.param(lambda site: site.answers.update({LEASE: NO}), "lease", None, "may not look", id="may not look"),
    ],
)
async def test_a_fault_is_found_and_named(damage: Any, check: str, ok: bool | None, words: str) -> None:
    site = Installation(CONFIG)
    damage(site)
    found = await findings(site, CONFIG)
    assert found[check].ok is ok
    assert words in found[check].message
    assert ok or found[check].mend, "what is not sound comes with what mends it"


async def test_policies_that_the_cluster_does_not_serve_are_missing_and_the_webhooks_are_not_looked_for() -> None:
    site = Installation(CONFIG)
    site.answers = {path: answer for path, answer in site.answers.items() if "mutatingadmission" not in path}
    assert (await findings(site, CONFIG))["policies"].ok is False
    webhook = parse_config("webhook: {enabled: true}")
    assert (await findings(site, webhook))["policies"].ok is True


def of_another_pool(decided: bool) -> dict[str, Any]:
    status = {"observedGeneration": 1} if decided else {}
    return stored_queue("ThroughputQueue", "vision", "train", {"pool": "gpu"}, status=status)


def lease_spec(holder: str, ago: float) -> dict[str, Any]:
    return {"holderIdentity": holder, "renewTime": at(time.time() - ago), "leaseDurationSeconds": 15}


def gpu_lease(ago: float, holder: str = "two") -> Callable[[], Answer]:
    """Return what makes the answer when the test begins, so that the ages hold."""
    return lambda: {"items": [{"metadata": {"namespace": "gpus", "name": "fairburst-gpu"}, "spec": lease_spec(holder, ago)}]}


@pytest.mark.parametrize(
    ("leases", "decided", "ok", "words"),
    [
        pytest.param(
            lambda: {"items": []}, False, False, "pool gpu (vision/train): no operator has decided on them", id="never had an operator"
        ),
        pytest.param(lambda: NO, False, False, "pool gpu (vision/train): no operator has decided on them", id="leases may not be read"),
        pytest.param(gpu_lease(60), True, False, "pool gpu (vision/train): two renewed Lease gpus/fairburst-gpu 6", id="gone"),
        pytest.param(gpu_lease(2, ""), True, False, "pool gpu (vision/train): Lease gpus/fairburst-gpu has no holder", id="ended"),
        pytest.param(
            lambda: {"items": []}, True, None, "pool gpu (vision/train): no Lease has the name fairburst-gpu", id="no Lease of that name"
        ),
        pytest.param(lambda: NO, True, None, "pool gpu (vision/train): its Lease may not be read", id="decided, leases may not be read"),
        pytest.param(gpu_lease(2), False, True, "each pool that a queue names has an operator: default, gpu", id="it runs"),
    ],
)
async def test_queues_of_a_pool_without_an_operator_are_named_with_what_mends_it(
    leases: Callable[[], Answer], decided: bool, ok: bool | None, words: str
) -> None:
    site = Installation(CONFIG)
    site.answers["/apis/fairburst.dev/v1alpha1/throughputqueues"] = {"items": [of_another_pool(decided)]}
    site.answers[LEASES] = leases()
    found = (await findings(site, CONFIG))["pools"]
    assert (found.ok, words in found.message) == (ok, True), found
    if ok is not True:
        assert "kubectl get throughputqueue train -n vision -o yaml" in found.mend
        assert "pool: default" in found.mend
        assert "config.pool.name=gpu" in found.mend
