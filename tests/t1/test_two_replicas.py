"""Two operators, one of which writes: killed, frozen, cut off or asked to stop, the other takes over, and never do both write.

Who wrote what and when is read from the API server's audit log, where each process has a name of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess, install_manifests
from e2e.waiting import PATIENCE_SECONDS, until
from tests.support.partition import Proxy
from tests.t1.test_restart import job, latency, ledger_of, running, statuses

LEASE = "fairburst-default"
HOME = "fairburst-system"
AFTER_SECONDS = 5.0  # for which a replica that has lost the Lease is watched
# The claims (issue 9): on a quiet machine. What CI measures beside other work gets the patience of every other wait.
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


class Edits:
    """Gives a queue another weight several times a second, so that whoever leads always has something to say."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._edit)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)

    def _edit(self) -> None:
        for weight in itertools.cycle((2, 3)):
            if self._stop.wait(0.1):
                return
            patch = json.dumps({"spec": {"weight": weight}})
            self._cluster.kubectl("patch", "thrq", "queue", "-n", self._namespace, "--type=merge", "-p", patch)


def holder(cluster: Cluster) -> str:
    """Who holds the Lease, as the process calls itself."""
    return cluster.kubectl("get", "lease", LEASE, "-n", HOME, "-o", "jsonpath={.spec.holderIdentity}")


def audited(cluster: Cluster) -> list[Write]:
    """Every write of ours that has succeeded so far, the Lease's included, in the order in which they came in."""
    assert cluster.audit_log is not None
    found = []
    for line in cluster.audit_log.read_text().splitlines():
        entry = json.loads(line)
        agent = str(entry.get("userAgent", ""))
        if entry["stage"] == "ResponseComplete" and agent.startswith("fairburst ") and entry["responseStatus"]["code"] < 300:
            began, ended = (datetime.fromisoformat(entry[key]).timestamp() for key in ("requestReceivedTimestamp", "stageTimestamp"))
            found.append(Write(agent.removeprefix("fairburst "), entry["objectRef"]["resource"], began, ended))
    return sorted(found, key=lambda write: write.began)


def written(cluster: Cluster) -> list[Write]:
    """The same without the Lease."""
    return [write for write in audited(cluster) if write.what != "leases"]


def first_write(cluster: Cluster, who: str, since: float = 0.0) -> Write:
    """The first write of a process since some time; it is waited for."""
    found = lambda: next((w for w in written(cluster) if w.who == who and w.began >= since), None)  # noqa: E731
    return until(found, PATIENCE_SECONDS, f"a write of {who}")


def assert_never_two(cluster: Cluster, order: list[str]) -> None:
    """These processes have written one after the other, none came back, and none began before the last had ended."""
    writes = written(cluster)
    assert [who for who, _ in itertools.groupby(write.who for write in writes)] == order
    for before, after in itertools.pairwise(order):
        assert max(write.ended for write in writes if write.who == before) < min(write.began for write in writes if write.who == after)


@contextmanager
def ready_cluster(fresh_cluster: Callable[..., Cluster], folder: Path) -> Iterator[Cluster]:
    """A cluster with what an installation brings, a burst's queue and one that is edited all the time."""
    cluster = fresh_cluster(audit=True)
    config = folder / "installed.yaml"
    config.write_text("{}")
    install_manifests(cluster, config)
    for namespace in ("bursts", "batch"):
        cluster.kubectl("create", "namespace", namespace)
    batch = {**latency("batch", 1, 1), "kind": "ThroughputQueue", "spec": {}}
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([latency("bursts", 210, 120), batch]))
    with Edits(cluster, "batch"):
        yield cluster
    cluster.down()


def take_over(cluster: Cluster, former: str, since: float) -> tuple[str, float]:
    """Wait until somebody else than `former` holds the Lease and has written; the name, and when that write was answered."""
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
    """One process after the other loses the Lease in its own way; the ledger of a burst that is under way goes on."""
    with ready_cluster(fresh_cluster, tmp_path) as cluster, Replica(cluster, "one") as one, Replica(cluster, "two") as two:
        a = until(lambda: holder(cluster), PATIENCE_SECONDS, "a holder")
        until(lambda: one.leads, PATIENCE_SECONDS, "the first to lead")
        assert not two.leads, "the second is ready, and stands by"
        cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(job("bursts", "burst", 200, 300)))
        until(lambda: running(cluster, "bursts") >= 200, PATIENCE_SECONDS, "the burst to run")
        until(
            lambda: statuses(cluster)["bursts"].get("internal", {}).get("ledger", {}).get("rateMicro", 0) > 200_000,
            PATIENCE_SECONDS,
            "its rate",
        )
        promise = statuses(cluster)["bursts"]["promise"]

        ledger, read_at = ledger_of(one, "bursts"), time.time()
        killed_at = time.time()
        one.kill()
        b, first_at = take_over(cluster, a, killed_at)
        print(f"killed: first write of the other after {first_at - killed_at:.2f} s")
        until(lambda: two.metrics().get("fairburst_rounds_total", 0) >= 2 and two.leads, PATIENCE_SECONDS, "rounds")
        status = statuses(cluster)["bursts"]
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
        released = max(write.ended for write in audited(cluster) if write.who == b)
        taken = min(write.began for write in audited(cluster) if write.who == c and write.what == "leases")
        assert taken - released < LEASE_SECONDS, "nobody waited for the Lease to expire"

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
    """The one that is cut off still wants to write: its queues were edited until then, and are when it comes back."""
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
        first_write(cluster, a, since=max(write.ended for write in audited(cluster) if write.who == b))


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
