"""Pods with host ports: a node runs one at most for each port, and the status says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Pod, PodSpec, SchedulingGate
from fairburst.kube.names import GATE, HELD_ANNOTATION
from fairburst.kube.usage.gated_pods import GROUP_LABEL, GROUP_SIZE
from fairburst.kube.usage.host_ports import HostPort, HostPorts, host_ports
from fairburst.kube.usage.port_demand import ANYWHERE, MOST_LOOKS, PortNodes, first_looks
from tests.support.objects import World, job, latency_spec, node, pod, requesting

PORT = 18080


def listening(port: int = PORT, cpu: str = "1", **more: Any) -> dict[str, Any]:
    """A container with a port of its node."""
    return requesting(cpu, "1Gi") | {"ports": [{"containerPort": 8080, "hostPort": port, **more}]}


def site(nodes: int = 4, pool: str = "{}", holders: str = "batch", mode: str = "Quota") -> World:
    world = World(f"smallJobs: {{enabled: false}}\npool: {pool}")
    for number in range(nodes):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="16", memory="64Gi", pods="110")
    for name in [name for _, name in world.nodes if int(name.removeprefix("node-")) >= nodes]:
        del world.nodes["", name]
    world.queue("LatencyQueue", "bursty", spec=latency_spec("8", enforcement=mode))
    world.queue("ThroughputQueue", holders)
    return world


def burst(world: World, pods: int, *containers: dict[str, Any], existing: int = 0) -> None:
    asks = containers or (listening(),)
    world.controller("Job", None, job("bursty", "burst", pods, *asks))
    for number in range(existing):
        world.put(pod("bursty", f"burst-{number}", *asks, owner=("Job", "burst")))


def hold(world: World, nodes: int, *, namespace: str = "batch", **more: Any) -> None:
    for number in range(nodes):
        world.put(pod(namespace, f"holder-{number}", listening(cpu="10m", **more), node=f"node-{number}", phase="Running"))


def conditions(world: World, namespace: str = "bursty", kind: str = "LatencyQueue") -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in world.status(namespace, kind=kind)["conditions"]}


def spec_of(*containers: dict[str, Any], **more: Any) -> PodSpec:
    return msgspec.convert({"containers": [{"name": f"c{n}", **one} for n, one in enumerate(containers)], **more}, PodSpec)


def test_what_a_spec_asks_of_its_node() -> None:
    assert host_ports(spec_of(requesting())) == ()
    assert host_ports(spec_of({"ports": [{"containerPort": 80}]})) == ()
    assert host_ports(spec_of(listening(), listening(53, protocol="UDP", hostIP="10.0.0.1"))) == (
        HostPort(53, "UDP", "10.0.0.1"), HostPort(PORT, "TCP", ""),
    )  # fmt: skip
    assert host_ports(spec_of(listening(hostIP="0.0.0.0"))) == (HostPort(PORT, "TCP", ""),)  # noqa: S104  any address of the node
    assert host_ports(spec_of({"ports": [{"containerPort": 80}]}, hostNetwork=True)) == (HostPort(80, "TCP", ""),)


def test_of_very_many_ports_a_bounded_number_is_read() -> None:
    assert len(host_ports(spec_of({"ports": [{"hostPort": 1 + n} for n in range(5000)]}))) <= 64


@pytest.mark.parametrize("existing", [0, 8], ids=["known by its Job", "known by its pods"])
def test_a_burst_of_more_pods_with_a_port_than_nodes_is_not_attainable(existing: int) -> None:
    world = site()
    burst(world, 8, existing=existing)
    world.settle(20.0)
    status, reason, message = world.condition("LatencyQueue", "bursty", "Attainable")
    assert (status, reason) == ("False", "TooFewHostPorts")
    assert message == (
        "the guaranteed rate is 8 pods at a time, and of the queue's last 8 pods 4 can run at a time: a node runs one pod with host port "
        "18080/TCP, and 4 of the 4 nodes that could hold one have it free; leave hostPort or hostNetwork out of the pods, or add nodes"
    )
    assert conditions(world)["Guaranteed"] == ("False", "NotAttainable")
    assert conditions(world).get("JobsFit", ("True", ""))[0] == "True", "its pods run in parts"


def test_the_answer_stays_when_the_burst_has_ended_and_goes_with_more_nodes() -> None:
    world = site()
    burst(world, 8)
    world.settle(20.0)
    world.controller("Job", job("bursty", "burst", 8, listening()), None)
    world.settle(200.0)
    assert conditions(world)["Attainable"] == ("False", "TooFewHostPorts")
    for number in range(4, 8):
        world.nodes["", f"node-{number}"] = node(f"node-{number}", cpu="16", memory="64Gi", pods="110")
    world.settle(200.0)
    assert conditions(world)["Attainable"][1] != "TooFewHostPorts"


@pytest.mark.parametrize(
    ("pods", "containers"),
    [
        pytest.param(4, (listening(),), id="no more pods than nodes"),
        pytest.param(8, (requesting(),), id="no port"),
        pytest.param(8, (requesting() | {"ports": [{"containerPort": 8080}]},), id="a port of the pod alone"),
    ],
)
def test_other_bursts_are_not_held_to_the_number_of_nodes(pods: int, containers: tuple[dict[str, Any], ...]) -> None:
    world = site()
    burst(world, pods, *containers)
    world.settle(20.0)
    assert conditions(world)["Attainable"][1] == "InTime"


def test_an_autoscaled_pool_may_get_nodes_for_them() -> None:
    world = site(pool="{autoscaled: true, declaredCapacity: {cpu: 64, memory: 256Gi}}")
    hold(world, 4)
    burst(world, 8, existing=4)
    world.settle(20.0)
    assert conditions(world)["Attainable"][1] == "InTime"
    assert "JobsFit" not in conditions(world)


@pytest.mark.parametrize("existing", [0, 4], ids=["known by its Job", "known by its pods"])
def test_pods_whose_port_other_pods_have_on_every_node_are_told_so_until_one_is_free(existing: int) -> None:
    world = site()
    hold(world, 4)
    burst(world, 4, existing=existing)
    world.settle(20.0)
    assert world.condition("LatencyQueue", "bursty", "JobsFit") == (
        "False",
        "HostPortTaken",
        "Job burst: a pod asks for host port 18080/TCP. Pods outside the queue have it on each node of the pool that could hold the pod, "
        "so it waits until one of them ends: leave hostPort out, use another port, or have those pods moved.",
    )
    assert conditions(world)["Attainable"] == ("False", "TooFewHostPorts")
    assert conditions(world)["Ready"] == ("False", "TooFewHostPorts")
    world.end("batch", "holder-0")
    world.settle(5.0)
    assert conditions(world).get("JobsFit", ("True", ""))[0] == "True"
    for number in range(1, 4):
        world.end("batch", f"holder-{number}")
    world.settle(5.0)
    assert conditions(world)["Attainable"][1] == "InTime"
    assert conditions(world)["Ready"][0] == "True"


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param({"protocol": "UDP"}, id="of another protocol"),
        pytest.param({"port": PORT + 1}, id="another port"),
        pytest.param({"hostIP": "10.0.0.2"}, id="of another address"),
        pytest.param({"namespace": "bursty"}, id="the queue's own"),
    ],
)
def test_what_does_not_collide_takes_nothing(holder: dict[str, Any]) -> None:
    world = site()
    hold(world, 4, **holder)
    burst(world, 4, listening(hostIP="10.0.0.1"))
    world.settle(20.0)
    assert "JobsFit" not in conditions(world)


@pytest.mark.parametrize("namespace", ["elsewhere", "batch"], ids=["outside the queues", "in another queue"])
def test_every_address_includes_each(namespace: str) -> None:
    world = site()
    hold(world, 4, namespace=namespace, hostIP="10.0.0.2")
    burst(world, 4)
    world.settle(20.0)
    assert conditions(world)["JobsFit"] == ("False", "HostPortTaken")


def test_all_ports_of_a_pod_are_named_because_each_may_be_the_one_that_is_taken() -> None:
    world = site()
    hold(world, 4)
    several = requesting("1", "1Gi") | {"ports": [{"hostPort": number} for number in (80, 443, 8443, 9000, PORT)]}
    burst(world, 4, several)
    world.settle(20.0)
    assert world.condition("LatencyQueue", "bursty", "JobsFit")[2].startswith(
        "Job burst: a pod asks for host ports 80/TCP, 443/TCP, 8443/TCP, 9000/TCP, 18080/TCP. Pods outside the queue have one of them"
    )
    assert "a node runs one pod with host ports 80/TCP, 443/TCP" in world.condition("LatencyQueue", "bursty", "Attainable")[2]


def test_a_pod_with_very_many_ports_makes_no_long_message() -> None:
    world = site()
    hold(world, 4)
    burst(world, 4, requesting("1", "1Gi") | {"ports": [{"hostPort": PORT + number} for number in range(5000)]})
    world.settle(20.0)
    message = world.condition("LatencyQueue", "bursty", "JobsFit")[2]
    assert "18080/TCP, 18081/TCP, 18082/TCP, 18083/TCP, 18084/TCP and more. Pods" in message


def test_a_bare_pod_is_told_too() -> None:
    world = site()
    hold(world, 4)
    world.put(pod("bursty", "bare", listening()))
    world.settle(20.0)
    status, reason, message = world.condition("LatencyQueue", "bursty", "JobsFit")
    assert (status, reason) == ("False", "HostPortTaken")
    assert message.startswith("pods without a known controller: a pod asks for host port 18080/TCP.")


@pytest.mark.parametrize("existing", [0, 30])
def test_pods_beyond_one_a_node_claim_nothing(existing: int) -> None:
    """Thirty pods with a port on four nodes: others have the room of 26."""
    world = site()
    world.queue("ThroughputQueue", "odd")
    world.controller("Job", None, job("odd", "work", 30, listening()))
    for number in range(existing):
        on = {"node": f"node-{number}", "phase": "Running"} if number < 4 else {}
        world.put(pod("odd", f"work-{number}", listening(), owner=("Job", "work"), **on))
    world.controller("Job", None, job("batch", "work", 200))
    plan = world.settle(20.0)[-1]
    row = next(row for row, spec in enumerate(plan.result.queues) if spec.name == "batch/queue")
    assert plan.result.level[row][0] >= 64 - 4 - 1
    assert conditions(world, "odd", "ThroughputQueue").get("JobsFit", ("True", ""))[0] == "True"


def test_the_index_forgets_ports_with_their_pods() -> None:
    world = site()
    hold(world, 4)
    burst(world, 4, existing=2)
    for namespace, name in list(world.pods):
        world.end(namespace, name)
    assert world.view.pods.ports.is_empty


def test_only_ports_of_nodes_are_kept_of_a_pod() -> None:
    made: Pod = pod("a", "b", listening())
    assert made.spec.containers[0].ports is not None
    assert made.spec.containers[0].ports[0].host_port == PORT


@pytest.mark.parametrize("pods", [3, 30])
def test_a_held_job_of_more_such_pods_than_nodes_starts(pods: int) -> None:
    """It starts whole, and runs in parts."""
    world = site()
    world.queue("ThroughputQueue", "odd", spec={"enforcement": "Suspend"})
    made = job("odd", "work", pods, listening(), suspend=True)
    made.metadata.annotations = {HELD_ANNOTATION: "queue"}
    world.controller("Job", None, made)
    world.controller("Job", None, job("batch", "work", 20))
    plans = world.settle(60.0)
    assert any(plan.starts for plan in plans)


@pytest.mark.parametrize("group", [False, True], ids=["each", "as a group"])
@pytest.mark.parametrize("pods", [3, 30])
def test_gated_pods_beyond_one_a_node_are_released(pods: int, group: bool) -> None:
    labels = {GROUP_LABEL: "group", GROUP_SIZE: str(pods)} if group else {}
    world = site()
    world.queue("ThroughputQueue", "odd", spec={"enforcement": "Gate"})
    world.controller("Job", None, job("odd", "work", pods, listening()))
    for number in range(pods):
        made = pod("odd", f"work-{number}", listening(), owner=("Job", "work"), labels=labels)
        made.spec.scheduling_gates = [SchedulingGate(GATE)]
        world.put(made)
    plans = world.settle(60.0)
    assert sum(len(plan.ungates) for plan in plans) == pods


def test_a_space_that_asks_for_many_ports_has_the_nodes_looked_at_a_bounded_number_of_times() -> None:
    looked = list[HostPorts]()

    def nodes_for(_: Mapping[str, float], ports: HostPorts) -> PortNodes:
        looked.append(ports)
        return PortNodes(3, 0)

    limited = first_looks(nodes_for)
    answers = [limited({"cpu": 1.0}, (HostPort(1000 + number, "TCP", ""),)) for number in range(1000)]
    assert len(looked) == MOST_LOOKS
    assert answers == [PortNodes(3, 0)] * MOST_LOOKS + [ANYWHERE] * (1000 - MOST_LOOKS)
