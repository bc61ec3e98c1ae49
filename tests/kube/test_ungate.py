"""Sending the UngatePlanner's choice: one patch a pod, urgent ones first, and refused pods are chosen again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import DOES_NOT_APPLY
from fairburst.kube.api.objects import Pod
from fairburst.kube.enforce.gate import GateLevel, UngatePlanner
from fairburst.kube.names import GATE
from fairburst.kube.ungate import CONCURRENT_PATCHES, Ungater
from fairburst.kube.usage.pod_index import PodIndex
from tests.support.fake_api import FakeApi, status
from tests.support.measured import Measured, value
from tests.support.tasks import running, until

PODS = "/api/v1/pods"
PLENTY = 10**9


class GatedPods(Measured):
    """A fake server with gated pods, an UngatePlanner that knows them, and an ungater at work."""

    def __init__(self, api: FakeApi, client: ApiClient) -> None:
        super().__init__()
        self.api, self.index, self.gates = api, PodIndex(["cpu"]), UngatePlanner()
        self.ungater = Ungater(client, self.gates, self.metrics, pod_seen=self.see, on_failure=self.fail)

    def create(self, name: str, namespace: str = "batch", gates: tuple[str, ...] = (GATE,)) -> None:
        body = {"metadata": {"namespace": namespace, "name": name}, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}
        self.see(msgspec.convert(self.api.put(PODS, body), Pod))

    def see(self, pod: Pod) -> None:
        self.index.update(None, pod)
        self.gates.pod_changed(None, pod, asyncio.get_running_loop().time())

    def send(self, since: float | None = None, **ranks: int) -> int:
        """Run a round in which every pod fits, for an event at `since`, by default now. `ranks`: urgency by namespace."""
        levels = {namespace: GateLevel((rank, 0), (PLENTY,)) for namespace, rank in ranks.items()}
        chosen, _ = self.gates.plan(levels, (), self.index, now=asyncio.get_running_loop().time())
        self.ungater.send(chosen, since=asyncio.get_running_loop().time() if since is None else since)
        return len(chosen)

    def gates_of(self, name: str, namespace: str = "batch") -> list[str]:
        return [gate["name"] for gate in self.api.objects[PODS][namespace, name]["spec"]["schedulingGates"]]

    def patched(self) -> list[str]:
        return [path for method, path in self.api.written() if method == "PATCH"]

    def count(self, result: str) -> float:
        return self.writes("ungate", result)


@pytest.fixture
async def site() -> AsyncIterator[GatedPods]:
    async with FakeApi(PODS) as api, api.client() as client:
        made = GatedPods(api, client)
        async with running(made.ungater.run()):
            yield made


async def test_each_pod_gets_one_patch_and_other_gates_stay(site: GatedPods) -> None:
    site.create("a", gates=("others.example/hold", GATE))
    site.create("b")
    assert site.send(batch=2) == 2
    await until(lambda: site.count("ok") == 2, "both patches")
    assert (site.gates_of("a"), site.gates_of("b")) == (["others.example/hold"], [])
    assert sorted(site.patched()) == ["/api/v1/namespaces/batch/pods/a", "/api/v1/namespaces/batch/pods/b"]
    assert site.send(batch=2) == 0, "what the server answered is known"
    assert value(site.metrics, "fairburst_queue_reaction_seconds_count") == 1.0, "one batch"
    assert value(site.metrics, "fairburst_queue_patch_seconds_count") == 2.0, "two patches"


async def test_a_pod_that_came_after_the_first_event_of_its_round_has_waited_since_it_came(site: GatedPods) -> None:
    """In full rounds it was said to have waited for up to a quarter of a second, in which another pod's event had waited for the round."""
    begun = asyncio.get_running_loop().time()
    await asyncio.sleep(0.3)
    site.create("a")
    site.send(since=begun, batch=2)
    await until(lambda: site.count("ok") == 1, "the patch")
    assert value(site.metrics, "fairburst_queue_patch_seconds_sum") < 0.25
    site.create("b")
    site.create("b")
    await asyncio.sleep(0.3)
    site.send(since=begun, batch=2)
    await until(lambda: site.count("ok") == 2, "the second patch")
    assert value(site.metrics, "fairburst_queue_patch_seconds_sum") > 0.3, "it has waited since it came, whatever has changed since"


async def test_a_pod_that_has_changed_meanwhile_is_left_as_it_is_and_chosen_anew_from_fresh_state(site: GatedPods) -> None:
    site.create("a")
    stale = site.gates.gated.of("batch")[0]
    site.api.put(PODS, {"metadata": {"namespace": "batch", "name": "a"}, "spec": {"schedulingGates": [{"name": "x"}, {"name": GATE}]}})
    assert site.send(batch=2) == 1
    await until(lambda: site.count("overtaken") == 1, "the refusal")
    assert site.gates_of("a") == ["x", GATE], "not another one's gate"
    assert site.failures == 1, "a round was asked for"
    site.create("a", gates=("x", GATE))  # the event of that change
    assert site.gates.gated.of("batch")[0].gate_index != stale.gate_index
    assert site.send(batch=2) == 1
    await until(lambda: site.count("ok") == 1, "the second patch")
    assert site.gates_of("a") == ["x"]


@pytest.mark.parametrize(("code", "want"), [(404, "overtaken"), (409, "overtaken"), (422, "overtaken"), (403, "error"), (503, "error")])
async def test_a_refusal_stops_no_other_and_is_not_repeated_at_once(site: GatedPods, code: int, want: str) -> None:
    site.create("a")
    site.create("b")
    site.api.fail(1, code, status(code, "", DOES_NOT_APPLY))
    site.send(batch=2)
    await until(lambda: site.count("ok") + site.count(want) == 2, "both answers")
    assert site.count(want) == 1
    assert site.send(batch=2) == 0


async def test_urgent_pods_pass_those_that_wait_to_be_sent(site: GatedPods) -> None:
    for number in range(5 * CONCURRENT_PATCHES):
        site.create(f"p{number:03}")
    site.send(batch=2)
    site.create("urgent", "burst")
    site.send(batch=2, burst=0)
    await until(lambda: site.count("ok") == 5 * CONCURRENT_PATCHES + 1, "all patches")
    assert site.patched().index("/api/v1/namespaces/burst/pods/urgent") <= 2 * CONCURRENT_PATCHES
