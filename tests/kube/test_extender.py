"""The extender's table and answers on hand-built nodes, and its server over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from fairburst.config import ExtenderConfig
from fairburst.kube.api.objects import Node
from fairburst.kube.extender.answers import Answer, NotUnderstoodError, filtered, prioritized
from fairburst.kube.extender.node_table import NodeTable
from fairburst.kube.extender.queue_objects import ExpectedBurst, Queue, classes, expected_bursts, spaces_of
from fairburst.kube.extender.server import ExtenderServer
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.telemetry.metrics import ExtenderMetrics
from tests.support.measured import value
from tests.support.objects import GI, node, pod, requesting, stored_queue

RESOURCES = ("cpu", "memory")
CLASSES = {"batch": "fairburst-large", "small": "fairburst-small", "burst": "fairburst-hard"}
BURST = ExpectedBurst("burst/queue", {"cpu": 8.0, "memory": 8 * GI}, {"cpu": 2.0, "memory": 2 * GI})


class OccupiedNodes:
    """Nodes of 8 cpu with the pods that are bound to them."""

    def __init__(self, nodes: int = 4, selector: dict[str, str] | None = None) -> None:
        self.pods = PodIndex(RESOURCES)
        self.table = NodeTable(RESOURCES, selector or {}, self.pods.on_node)
        self.set_nodes(*(node(f"n{number}", cpu="8", memory="8Gi", pods="110") for number in range(nodes)))
        self.table.set_classes(CLASSES)
        self._bound = 0

    def set_nodes(self, *nodes: Node) -> None:
        self.table.set_nodes(nodes)

    def bind(self, namespace: str, where: str, cpu: int, priority_class: str = "", **more: Any) -> None:
        new = pod(namespace, f"p{self._bound}", requesting(str(cpu), f"{cpu}Gi"), node=where, phase="Running", **more)
        new.spec.priority_class_name = priority_class
        self._bound += 1
        self.pods.update(None, new)
        self.table.refresh([where])

    def filter(self, namespace: str, *names: str, priority_class: str | None = None) -> tuple[list[str], dict[str, str], Answer]:
        text, answer = filtered(question(namespace, *names, priority_class=priority_class), self.table)
        read = json.loads(text)
        assert read.keys() <= {"NodeNames", "FailedNodes"}
        return read["NodeNames"], read.get("FailedNodes", {}), answer

    def scores(self, namespace: str, *names: str, priority_class: str | None = None) -> dict[str, int]:
        text, _ = prioritized(question(namespace, *names, priority_class=priority_class), self.table)
        return {one["Host"]: one["Score"] for one in json.loads(text)}


def question(namespace: str, *names: str, priority_class: str | None = None) -> bytes:
    """Return a request as kube-scheduler sends it."""
    body = {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": []}}
    given = CLASSES.get(namespace) if priority_class is None else priority_class
    body["spec"] |= {"priorityClassName": given} if given else {}  # type: ignore[operator]
    return json.dumps({"Pod": body, "Nodes": None, "NodeNames": list(names)}).encode()


def test_batch_work_goes_to_the_fullest_node_and_a_burst_to_that_with_the_least_of_it() -> None:
    site = OccupiedNodes()
    site.bind("batch", "n0", 2)
    site.bind("elsewhere", "n1", 6)
    site.bind("burst", "n1", 1)
    site.bind("burst", "n2", 2)
    assert site.scores("batch", "n0", "n1", "n2", "n3") == {"n0": 2, "n1": 10, "n2": 2}, "of any queue; a score of 0 is left out"
    assert site.scores("burst", "n0", "n1", "n2", "n3") == {"n0": 10, "n1": 5, "n3": 10}


def test_the_table_follows_pods_that_end_nodes_that_change_and_classes_that_change() -> None:
    site = OccupiedNodes(2)
    site.bind("burst", "n0", 4)
    assert site.scores("burst", "n0", "n1") == {"n1": 10}
    site.pods.update(pod("burst", "p0", requesting("4", "4Gi"), node="n0", phase="Running"), None)
    site.table.refresh(["n0", "gone"])
    assert site.scores("burst", "n0", "n1") == {"n0": 10, "n1": 10}
    site.bind("burst", "n1", 4)
    site.set_nodes(node("n1", cpu="16", memory="16Gi"), node("n2", cpu="8", memory="8Gi"))
    assert site.table.used.tolist() == [0.25, 0.0]
    assert site.scores("burst", "n1", "n2") == {"n2": 10}
    site.table.set_classes({"burst": "fairburst-large"})
    assert site.scores("burst", "n1", "n2", priority_class="fairburst-large") == {"n1": 10}


def test_large_batch_pods_are_kept_from_nodes_for_a_burst_and_nobody_else_is() -> None:
    site = OccupiedNodes()
    site.bind("batch", "n0", 2)
    site.bind("batch", "n1", 4)
    site.bind("elsewhere", "n2", 7)
    site.bind("burst", "n3", 7)
    site.table.keep([BURST])
    assert site.table.kept_by == {"n0": "burst/queue"}, "whole once its batch work has ended: n2 and n3 will not be"
    left, failed, answer = site.filter("batch", "n0", "n1", "new")
    assert (left, failed, answer) == (["n1", "new"], {"n0": "kept free for a burst"}, Answer.OURS)
    for others in ("small", "burst", "elsewhere"):
        assert site.filter(others, "n0", "n1")[0] == ["n0", "n1"]
    assert site.scores("small", "n2", "n1", "n0") == {"n1": 5, "n2": 10}, "what may go there goes there last"
    site.table.keep([])
    assert site.filter("batch", "n0", "n1") == (["n0", "n1"], {}, Answer.NEUTRAL)


def test_kept_nodes_are_of_the_pool_take_pods_and_are_nobody_elses() -> None:
    site = OccupiedNodes(0, {"pool": "ours"})
    ours = {"pool": "ours"}
    site.set_nodes(
        node("a-other", cpu="8", memory="8Gi"),
        node("b-broken", ready=False, labels=ours, cpu="8", memory="8Gi"),
        node("c-few", labels=ours, cpu="8", memory="8Gi", pods="1"),
        node("d", labels=ours, cpu="8", memory="8Gi"),
        node("e", labels=ours, cpu="8", memory="8Gi"),
    )
    site.table.keep([BURST, ExpectedBurst("second/queue", BURST.needed, BURST.unit)])
    assert site.table.kept_by == {"c-few": "burst/queue", "d": "burst/queue", "e": "second/queue"}, "one pod on the first, so one node more"


def test_a_burst_without_a_size_keeps_nothing() -> None:
    site = OccupiedNodes()
    site.table.keep([ExpectedBurst("burst/queue", {"cpu": 8.0}, {"example.com/device": 1.0})])
    assert site.table.kept_by == {}


@pytest.mark.parametrize(
    ("namespace", "priority_class"),
    [
        pytest.param("unmanaged", "", id="unmanaged"),
        pytest.param("unmanaged", "fairburst-hard", id="unmanaged, naming a class of ours"),
        pytest.param("batch", "", id="managed, without a class"),
        pytest.param("batch", "system-node-critical", id="managed, of the system"),
    ],
)
def test_nothing_changes_for_a_pod_that_is_none_of_our_business(namespace: str, priority_class: str) -> None:
    site = OccupiedNodes()
    site.bind("batch", "n0", 2)
    site.table.keep([BURST])
    assert site.filter(namespace, "n3", "n0", "unknown", priority_class=priority_class) == (["n3", "n0", "unknown"], {}, Answer.NEUTRAL)
    assert site.scores(namespace, "n3", "n0", priority_class=priority_class) == {}


def test_unknown_nodes_and_none_at_all() -> None:
    site = OccupiedNodes(1)
    site.table.keep([BURST])
    assert site.filter("batch", "unknown")[0] == ["unknown"]
    assert site.scores("batch", "unknown", "n0") == {}
    assert site.scores("burst", "unknown", "n0") == {"n0": 10}
    for namespace in ("batch", "burst", "unmanaged"):
        assert site.filter(namespace)[0] == []
        assert site.scores(namespace) == {}


def test_names_that_need_escaping_come_back_as_they_came() -> None:
    site = OccupiedNodes(0)
    odd = 'n"\\ü'
    site.set_nodes(node(odd, cpu="8", memory="8Gi"))
    assert site.scores("burst", odd) == {odd: 10}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="not JSON"),
        pytest.param(b"[]", id="not an object"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b'{"NodeNames": ["a"]}', id="no pod"),
        pytest.param(b'{"Pod": null, "NodeNames": ["a"]}', id="null for a pod"),
        pytest.param(question("batch").replace(b'"NodeNames": []', b'"Nodes": {"items": []}'), id="whole nodes: not nodeCacheCapable"),
        pytest.param(question("batch").replace(b'"NodeNames": []', b'"NodeNames": null'), id="null for names"),
        pytest.param(question("batch").replace(b'"NodeNames": []', b'"NodeNames": [1]'), id="names that are none"),
    ],
)
def test_what_kube_scheduler_would_not_send_is_refused_with_what_was_expected(body: bytes) -> None:
    site = OccupiedNodes()
    site.table.keep([BURST])
    for answer in (filtered, prioritized):
        with pytest.raises(NotUnderstoodError, match="expected"):
            answer(body, site.table)


def test_what_is_read_of_queues() -> None:
    holding = {"reason": "Holding", "needed": {"cpu": "8", "memory": "8Gi"}, "podSize": {"cpu": "2", "memory": "2Gi"}}
    priority = {"className": "fairburst-hard"}
    table: dict[str, dict[str, Any] | None] = {
        "holding": {"podPriority": priority, "leadTime": holding},
        "resting": {"podPriority": priority, "leadTime": holding | {"reason": "EnoughExpected"}},
        "unseen": {"podPriority": priority, "leadTime": {key: value for key, value in holding.items() if key != "podSize"}},
        "observed": {"class": "Hard"},
        "new": None,
    }
    queues = [queue(where, status) for where, status in table.items()]
    queues.append(queue("elsewhere", {"podPriority": priority, "leadTime": holding}, {"pool": "another"}))
    assert classes(queues, "default") == dict.fromkeys(("holding", "resting", "unseen"), "fairburst-hard")
    assert expected_bursts(queues, "default") == [ExpectedBurst("holding/queue", BURST.needed, BURST.unit)]


def test_the_pods_of_a_further_queue_are_batch_work_of_their_own_and_count_for_no_burst() -> None:
    given = {"queue": "fairburst-hard", "nightly": "fairburst-queue-3"}
    queues = [queue("burst", {"podPriority": {"className": each}}, name=name) for name, each in given.items()]
    found = classes(queues, "default")
    assert found == {"burst": "fairburst-hard", "burst/nightly": "fairburst-queue-3"}
    site = OccupiedNodes()
    site.bind("burst", "n0", 4, priority_class="fairburst-queue-3")
    site.bind("burst", "n1", 4, priority_class="fairburst-hard")
    site.pods.divide(spaces_of(found))
    site.table.set_classes(found)
    assert site.scores("burst", "n0", "n1", priority_class="fairburst-hard") == {"n0": 10}, "spread over nodes without its own pods"
    assert site.scores("burst", "n0", "n2", priority_class="fairburst-queue-3")["n0"] == 10, "packed with whatever has taken the node"
    site.pods.divide(spaces_of({"burst": "fairburst-hard"}))
    site.table.set_classes({"burst": "fairburst-hard"})
    assert site.scores("burst", "n0", "n2", priority_class="fairburst-hard") == {"n2": 10}, "those of a deleted queue are the default's"


def test_a_node_is_kept_where_a_further_queues_pods_end_and_keeps_its_new_ones_off() -> None:
    site = OccupiedNodes(2)
    site.bind("burst", "n0", 8, priority_class="fairburst-queue-3")
    site.bind("burst", "n1", 8, priority_class="fairburst-hard")
    found = {"burst": "fairburst-hard", "burst/nightly": "fairburst-queue-3"}
    site.pods.divide(spaces_of(found))
    site.table.set_classes(found)
    site.table.keep([BURST])
    assert set(site.table.kept_by) == {"n0"}
    assert set(site.filter("burst", "n0", "n1", priority_class="fairburst-queue-3")[1]) == {"n0"}
    assert not site.filter("burst", "n0", "n1", priority_class="fairburst-hard")[1]


def queue(where: str, status: dict[str, Any] | None, spec: dict[str, Any] | None = None, name: str = "queue") -> Queue:
    return msgspec.convert(stored_queue("LatencyQueue", where, name, spec, status=status), Queue)


def test_only_changes_of_a_node_that_matter_concern_the_table() -> None:
    table = OccupiedNodes().table
    before = node("n", cpu="8")
    heartbeat = msgspec.convert(msgspec.to_builtins(before) | {"metadata": {"name": "n", "resourceVersion": "2"}}, Node)
    assert not table.concerns(before, heartbeat)
    assert table.concerns(None, before)
    assert table.concerns(before, None)
    assert table.concerns(before, node("n", cpu="16"))
    assert table.concerns(before, node("n", cpu="8", ready=False))


# Over HTTP -----------------------------------------------------------------------------------------------------------


class Served:
    """A server that answers from a table of such nodes."""

    def __init__(self) -> None:
        self.site, self.metrics, self.problem = OccupiedNodes(), ExtenderMetrics(), "not yet"
        config = ExtenderConfig(host="127.0.0.1", port=0)
        self.server = ExtenderServer(config, self.site.table, self.metrics, ready=lambda: self.problem or None, healthy=lambda: None)
        self.url = ""

    async def post(self, verb: str, body: bytes) -> tuple[int, str]:
        async with ClientSession() as session, session.post(f"{self.url}/{verb}", data=BytesIO(body)) as answer:
            return answer.status, await answer.text()

    def count(self, verb: str, result: str) -> float:
        return value(self.metrics, "fairburst_extender_requests_total", verb=verb, result=result)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    one = Served()
    one.url = f"http://127.0.0.1:{await one.server.start()}"
    yield one
    await one.server.stop()


async def test_questions_are_answered_once_everything_is_known_and_counted(served: Served) -> None:
    assert await served.post("filter", question("batch", "n0")) == (503, "not yet")
    served.problem = ""
    assert await served.post("filter", question("batch", "n0")) == (200, '{"NodeNames":["n0"]}')
    assert await served.post("prioritize", question("batch", "n0")) == (200, '[{"Host":"n0","Score":10}]')
    assert [served.count("filter", result) for result in ("not ready", "neutral")] == [1.0, 1.0]
    assert served.count("prioritize", "ours") == 1.0
    assert value(served.metrics, "fairburst_extender_seconds_count", verb="filter") == 1.0


async def test_a_bad_question_is_a_bad_request_and_the_next_one_is_answered(served: Served) -> None:
    served.problem = ""
    status, text = await served.post("filter", b"{")
    assert (status, "expected ExtenderArgs" in text) == (400, True)
    assert served.count("filter", "error") == 1.0
    assert (await served.post("filter", question("batch", "n0")))[0] == 200


async def test_a_question_about_every_node_of_the_largest_cluster_is_not_too_long(served: Served) -> None:
    served.problem = ""
    names = [f"{number:0253d}" for number in range(5_000)]
    served.site.set_nodes(*(node(name, cpu="8", memory="8Gi") for name in names))
    status, text = await served.post("filter", question("batch", *names))
    assert (status, len(json.loads(text)["NodeNames"])) == (200, 5_000)
    status, text = await served.post("prioritize", question("burst", *names))
    assert (status, len(json.loads(text))) == (200, 5_000)
