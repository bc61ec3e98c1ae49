"""Two operators, one of which writes. When it is killed, frozen, cut off or stopped, the other takes over; never do both write.

The writer and the time of each write come from the API server's audit log, where each process has a name of its own.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, install_manifests
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.audit import at, audited
from tests.support.live_cluster import LiveCluster
from tests.support.partition import Proxy
from tests.support.queues import queue
from tests.support.repeating import repeating
from tests.support.restarts import job, latency, ledger_of
from tests.support.work import create, namespace

LEASE = "fairburst-default"
HOME = "fairburst-system"
AFTER_SECONDS = 5.0  # how long a replica that has lost the Lease is watched
# The claims (issue 9): on a quiet machine. In CI, with other work on the machine, they get the patience of every other wait.
WORST_TAKE_OVER_SECONDS, WORST_HAND_OVER_SECONDS = 9.0, 1.0
LEASE_SECONDS = 8.0


@dataclass(frozen=True)
class Write:
    """One write that the API server has answered: by which process, and from when to when (seconds since the epoch)."""

    who: str
    what: str
    began: float
    ended: float


class Replica(OperatorProcess):
    """An operator that asks for the Lease; its config is as the chart's."""

    def __init__(self, cluster: Cluster, name: str, **overrides: Any) -> None:
        super().__init__(cluster, {"leaderElection": {"enabled": True}, **overrides}, name, install=False)

    @property
    def leads(self) -> bool:
        return self.metrics().get("fairburst_leader") == 1.0


def holder(cluster: Cluster) -> str:
    """Return the identity of the Lease's holder."""
    return cluster.kubectl("get", "lease", LEASE, "-n", HOME, "-o", "jsonpath={.spec.holderIdentity}")


def our_writes(cluster: Cluster) -> list[Write]:
    """Return our successful writes so far, the Lease's included, in the order of their arrival."""
    found = []
    for entry in audited(cluster):
        agent = str(entry.get("userAgent", ""))
        if entry["stage"] == "ResponseComplete" and agent.startswith("fairburst ") and entry["responseStatus"]["code"] < 300:
            began, ended = at(entry, "requestReceivedTimestamp"), at(entry, "stageTimestamp")
            found.append(Write(agent.removeprefix("fairburst "), entry["objectRef"]["resource"], began, ended))
    return sorted(found, key=lambda write: write.began)


def written(cluster: Cluster) -> list[Write]:
    """Return our writes except those of the Lease."""
    return [write for write in our_writes(cluster) if write.what != "leases"]


def first_write(cluster: Cluster, who: str, since: float = 0.0) -> Write:
    """Wait for the first write of a process since then, and return it."""
    found = lambda: next((w for w in written(cluster) if w.who == who and w.began >= since), None)  # noqa: E731
    return until(found, PATIENCE_SECONDS, f"a write of {who}")


def assert_never_two(cluster: Cluster, order: list[str]) -> None:
    """Check that these processes wrote one after the other, that none came back, and that their writes do not overlap."""
    writes = written(cluster)
    assert [who for who, _ in itertools.groupby(write.who for write in writes)] == order
    for before, after in itertools.pairwise(order):
        assert max(write.ended for write in writes if write.who == before) < min(write.began for write in writes if write.who == after)


@contextmanager
def ready_cluster(fresh_cluster: Callable[..., Cluster], folder: Path) -> Iterator[Cluster]:
    """A cluster with fairburst installed, a queue for a burst, and one that is edited all the time."""
    cluster = fresh_cluster(audit=True)
    config = folder / "installed.yaml"
    config.write_text("{}")
    install_manifests(cluster, config)
    create(cluster, namespace("bursts"), namespace("batch"), latency("bursts", 210, 120), queue("ThroughputQueue", {}, "batch"))
    weights = itertools.cycle((2, 3))
    edit = lambda: LiveCluster(cluster).patch("thrq", "queue", "batch", {"spec": {"weight": next(weights)}})  # noqa: E731
    with repeating(edit, 0.1):  # so that the leader always has something to write
        yield cluster
    cluster.down()


def take_over(cluster: Cluster, former: str, since: float) -> tuple[str, float]:
    """Wait until a process other than `former` holds the Lease and has written. Return its name, and when that write was answered."""
    who = until(lambda: (found := holder(cluster)) not in {former, ""} and found, PATIENCE_SECONDS, f"another holder than {former}")
    return who, first_write(cluster, who, since).ended


def through(proxy: Proxy, cluster: Cluster, folder: Path) -> Path:
    """The operator's kubeconfig, by way of the proxy."""
    content = yaml.safe_load(cluster.user_kubeconfig("fairburst").read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    file = folder / "through-the-proxy.kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_frozen_and_asked_to_stop(fresh_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """One process after the other loses the Lease in its own way, and the ledger of a running burst continues."""
    with ready_cluster(fresh_cluster, tmp_path) as cluster, Replica(cluster, "one") as one, Replica(cluster, "two") as two:
        a = until(lambda: holder(cluster), PATIENCE_SECONDS, "a holder")
        until(lambda: one.leads, PATIENCE_SECONDS, "the first to lead")
        assert not two.leads, "the second is ready, and stands by"
        create(cluster, job("bursts", "burst", 200, 300))
        live = LiveCluster(cluster)
        until(lambda: len(live.running("bursts")) >= 200, PATIENCE_SECONDS, "the burst to run")
        until(
            lambda: live.status("bursts").get("internal", {}).get("ledger", {}).get("rateMicro", 0) > 200_000,
            PATIENCE_SECONDS,
            "its rate",
        )
        promise = live.status("bursts")["promise"]

        ledger, read_at = ledger_of(one, "bursts"), time.time()
        killed_at = time.time()
        one.kill()
        b, first_at = take_over(cluster, a, killed_at)
        print(f"killed: first write of the other after {first_at - killed_at:.2f} s")
        until(lambda: two.metrics().get("fairburst_rounds_total", 0) >= 2 and two.leads, PATIENCE_SECONDS, "rounds")
        status = live.status("bursts")
        rate = status["internal"]["ledger"]["rateMicro"] / 1e6
        expected = ledger + rate * (time.time() - read_at)
        print(f"ledger: {ledger_of(two, 'bursts'):.3f} after the take-over, {expected:.3f} expected at a rate of {rate:.3f}")
        assert abs(ledger_of(two, "bursts") - expected) <= 5 * rate
        assert status["promise"] == promise
        assert two.metrics()['fairburst_informer_relists_total{resource="/api/v1/pods"}'] == 1, "it took over without a list of pods"

        one.start()
        asked_at = time.time()
        assert two.stop() == 0
        c, first_at = take_over(cluster, b, asked_at)
        print(f"asked to stop: first write of the other after {first_at - asked_at:.2f} s")
        released = max(write.ended for write in our_writes(cluster) if write.who == b)
        taken = min(write.began for write in our_writes(cluster) if write.who == c and write.what == "leases")
        assert taken - released < LEASE_SECONDS, "no replica waited for the Lease to expire"

        two.start()
        frozen_at = time.time()
        os.kill(one.pid, signal.SIGSTOP)
        try:
            d, _ = take_over(cluster, c, frozen_at)
        finally:
            os.kill(one.pid, signal.SIGCONT)
        until(lambda: one.metrics().get("fairburst_leader") == 0.0, PATIENCE_SECONDS, "the one that was frozen to notice")
        time.sleep(AFTER_SECONDS)
        assert_never_two(cluster, [a, b, c, d])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_cut_off_from_the_api_server(fresh_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """The replica that is cut off still has something to write: its queues are edited before and after."""
    with (
        ready_cluster(fresh_cluster, tmp_path) as cluster,
        Proxy(int(cluster.server.rpartition(":")[2])) as proxy,
        Replica(cluster, "one", kubeconfig=str(through(proxy, cluster, tmp_path))) as one,
        Replica(cluster, "two") as two,
    ):
        a = until(lambda: holder(cluster), PATIENCE_SECONDS, "a holder")
        first_write(cluster, a)
        parted_at = time.time()
        proxy.part()
        b, first_at = take_over(cluster, a, parted_at)
        print(f"cut off: first write of the other after {first_at - parted_at:.2f} s")
        assert not one.leads
        assert two.leads
        proxy.heal()
        relists = one.metrics()['fairburst_informer_relists_total{resource="/api/v1/pods"}']
        until(lambda: f"holder={b}" in one.log.read_text(), PATIENCE_SECONDS, "it to see the other")
        time.sleep(AFTER_SECONDS)
        assert_never_two(cluster, [a, b])
        assert relists == 1
        assert two.stop() == 0
        until(lambda: one.leads, PATIENCE_SECONDS, "the one that was cut off to lead again")
        first_write(cluster, a, since=max(write.ended for write in our_writes(cluster) if write.who == b))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_worst_of_several_take_overs(fresh_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """Issue 9: at most nine seconds when the leader is killed, frozen or cut off, one when it is asked to stop. On a quiet machine."""
    taken: dict[str, list[float]] = {"killed": [], "frozen": [], "cut off": [], "asked to stop": []}
    with ready_cluster(fresh_cluster, tmp_path) as cluster, Proxy(int(cluster.server.rpartition(":")[2])) as proxy:
        config = {"kubeconfig": str(through(proxy, cluster, tmp_path))}
        with Replica(cluster, "one", **config) as leader, Replica(cluster, "two") as other:
            until(lambda: leader.leads, PATIENCE_SECONDS, "the first to lead")
            for way in [*taken] * 2:
                name = holder(cluster)
                first_write(cluster, name)
                began = time.time()
                match way:
                    case "killed":
                        leader.kill()
                    case "frozen":
                        os.kill(leader.pid, signal.SIGSTOP)
                    case "cut off":
                        proxy.part()
                    case _:
                        leader.stop()
                _, first_at = take_over(cluster, name, began)
                taken[way].append(first_at - began)
                os.kill(leader.pid, signal.SIGCONT) if way == "frozen" else None
                leader.kill()
                proxy.heal()
                leader.start()
                until(lambda: leader.ready() and not leader.leads, PATIENCE_SECONDS, "it to stand by")
                other.stop()  # the one behind the proxy leads again
                until(lambda: leader.leads, PATIENCE_SECONDS, "the first to lead again")
                other.start()
        for way, seconds in taken.items():
            print(f"{way}: " + ", ".join(f"{one:.2f}" for one in sorted(seconds)) + " s")
            assert max(seconds) <= (WORST_HAND_OVER_SECONDS if way == "asked to stop" else WORST_TAKE_OVER_SECONDS)
