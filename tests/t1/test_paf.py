"""Elastic Jobs on a real control plane: sized, left alone, given back; and with known speed-ups, faster on average than by DRF.

Run times follow known curves: see e2e/workload/speed_up.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.harness import OperatorProcess
from e2e.waiting import PATIENCE_SECONDS, until
from e2e.workload.speed_up import PlayedJob, SpeedUpPlayer, work_done
from fairburst.curves.fit import Fit, fit_runs
from fairburst.curves.observations import from_values
from fairburst.kube.api.client import ApiClient
from fairburst.kube.queues.job_annotations import GIVEN, ORIGINAL, Declaration
from fairburst.policy.paf.curves import PointsCurve, progress_rates
from tests.support.elastic_queues import declaration_annotations
from tests.support.live_cluster import LiveCluster
from tests.support.queues import queue
from tests.support.work import namespace, task_job

SLOTS = 24


def flat(slots: int) -> float:
    """Progress of a job that takes 10 + 3 / slots: a few slots do."""
    return (10.0 + 3.0 / SLOTS) / (10.0 + 3.0 / slots) if slots else 0.0


def steep(slots: int) -> float:
    """Progress of a job that is as fast as it has slots."""
    return min(slots / SLOTS, 1.0)


def points(progress: Callable[[int], float]) -> PointsCurve:
    slots = tuple(range(1, SLOTS + 1))
    return PointsCurve(tuple(map(float, slots)), tuple(map(progress, slots)))


def parallelism(cluster: LiveCluster, where: str) -> dict[str, int]:
    return {item["metadata"]["name"]: item["spec"]["parallelism"] for item in cluster.items("jobs", where)}


def told(cluster: LiveCluster, where: str, name: str) -> list[tuple[str, str]]:
    """(reason, message) of our events on a Job."""
    ours = [item for item in cluster.items("events", where) if item.get("reportingComponent") == "fairburst.dev/operator"]
    return [(item["reason"], item["message"]) for item in ours if item["involvedObject"]["name"] == name]


@pytest.mark.slow
def test_jobs_are_sized_left_alone_where_others_size_them_and_given_back(fresh_cluster: Callable[..., Cluster]) -> None:
    cluster = LiveCluster(fresh_cluster(nodes=3, node_cpu="8", node_memory="16Gi"))
    with OperatorProcess(cluster.cluster, {"elasticity": {"fairnessPercent": 90}}, "paf"):
        cluster.create(namespace("batch"), queue("ThroughputQueue", {"elasticity": {}}, "batch"))
        declared = {name: Declaration(points(curve)) for name, curve in (("flat", flat), ("steep", steep))}
        cluster.create(*(task_job("batch", name, SLOTS, 999, annotations=declaration_annotations(each)) for name, each in declared.items()))
        until(lambda: parallelism(cluster, "batch").get("steep", SLOTS) < SLOTS, PATIENCE_SECONDS, "the Jobs to be sized")
        first = until(lambda: sized(cluster), PATIENCE_SECONDS, "both sizes to be written")
        assert first["flat"] + first["steep"] == SLOTS
        assert flat(first["flat"]) >= 0.9 * flat(SLOTS // 2)
        assert first["flat"] <= 4
        annotations = cluster.get("job", "flat", "batch")["metadata"]["annotations"]
        assert (annotations[ORIGINAL], annotations[GIVEN]) == (str(SLOTS), str(first["flat"]))
        until(lambda: "ParallelismChanged" in dict(told(cluster, "batch", "flat")), PATIENCE_SECONDS, "the Job to be told")
        until(lambda: shown(cluster, "batch") == first, PATIENCE_SECONDS, "the status to show what is given")
        assert elastic(cluster) == ("True", "Divided")
        bad_and_foreign(cluster)
        given_back(cluster)


def elastic(cluster: LiveCluster) -> tuple[str, str]:
    """(status, reason) of the queue's condition Elastic."""
    found = cluster.condition("batch", "Elastic")
    return found.get("status", ""), found.get("reason", "")


def shown(cluster: LiveCluster, where: str) -> dict[str, int]:
    """Slots given to the Jobs that the queue's status names."""
    return {one["name"]: one["given"] for one in cluster.status(where).get("elasticity", {}).get("mostAffected", [])}


def sized(cluster: LiveCluster) -> dict[str, int] | None:
    found = parallelism(cluster, "batch")
    return found if all(size < SLOTS for size in found.values()) else None


def bad_and_foreign(cluster: LiveCluster) -> None:
    """The Job and the queue name a bad curve. A Job that another manager declares is left alone."""
    bad = task_job("batch", "bad", 2, 999, annotations=declaration_annotations(Declaration()))
    bad["metadata"]["annotations"] = {"fairburst.dev/progress-curve": '{"points": [[1, 1]]}'}
    cluster.create(bad)
    gitops = yaml.safe_dump(task_job("batch", "gitops", 5, 999, annotations=declaration_annotations(Declaration(points(flat)))))
    cluster.cluster.kubectl("apply", "--server-side", "--field-manager=gitops", "-f", "-", input=gitops)
    until(lambda: elastic(cluster) == ("False", "MalformedAnnotation"), PATIENCE_SECONDS, "the queue to say so")
    malformed = until(lambda: dict(told(cluster, "batch", "bad")).get("MalformedAnnotation"), PATIENCE_SECONDS, "the Job to be told")
    assert "at least two points" in malformed
    message = until(lambda: dict(told(cluster, "batch", "gitops")).get("ForeignManager"), PATIENCE_SECONDS, "the Job to be told")
    assert "gitops" in message
    cluster.admin("delete", "job", "bad", "-n", "batch")
    assert parallelism(cluster, "batch")["gitops"] == 5


def given_back(cluster: LiveCluster) -> None:
    """Deleting the queue gives every Job what its owner asked for, and removes our annotations."""
    cluster.admin("delete", "thrq", "queue", "-n", "batch")
    until(
        lambda: {parallelism(cluster, "batch")[name] for name in ("flat", "steep")} == {SLOTS}, PATIENCE_SECONDS, "sizes to be given back"
    )
    for name in ("flat", "steep"):
        assert ORIGINAL not in cluster.get("job", name, "batch")["metadata"]["annotations"]


WEIGHTS = {"flat-a": 2, "flat-b": 2, "steep": 1}
CURVES = {"flat-a": flat, "flat-b": flat, "steep": steep}
FAIR = {"flat-a": 10, "flat-b": 9, "steep": 5}  # of 24 slots by weight, in whole ones
# Pods take a minute or more, so that the second or two before an ended pod is replaced hardly counts.
TASKS_PER_SECOND = 0.05
COMPLETIONS = 500
FAIRNESS_PERCENT = 90
MEASURED_SECONDS = 60.0
SETTLE_SECONDS = 25.0


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_jobs_get_on_faster_on_average_than_by_drf_alone_and_nobody_falls_below_alpha(fresh_cluster: Callable[..., Cluster]) -> None:
    """Three queues of weights 2, 2 and 1, one elastic Job each, that exchange slots: fair shares first, then PAF, in one run."""
    cluster = LiveCluster(fresh_cluster(nodes=3, node_cpu="8", node_memory="16Gi"))
    settings = {"elasticity": {"fairnessPercent": FAIRNESS_PERCENT, "changeIntervalSeconds": 10}}
    with OperatorProcess(cluster.cluster, settings, "paf-average"):
        for name, weight in WEIGHTS.items():
            # Nothing is evicted: without the limits the first Job would hold all slots for minutes, and DRF would look worse than it is.
            cluster.create(namespace(name), queue("ThroughputQueue", {"weight": weight, "limits": {"cpu": str(FAIR[name])}}, name))
        until(lambda: len(enforced_quotas(cluster)) == len(WEIGHTS), PATIENCE_SECONDS, "quotas before the first pod")
        for name in WEIGHTS:
            declared = Declaration(points(CURVES[name]), alone_seconds=COMPLETIONS / TASKS_PER_SECOND)
            cluster.create(task_job(name, "work-" + name, SLOTS, COMPLETIONS, annotations=declaration_annotations(declared)))
        async with await ApiClient.connect(str(cluster.cluster.kubeconfig)) as client:
            played = [PlayedJob(name, "work-" + name, CURVES[name], TASKS_PER_SECOND) for name in WEIGHTS]
            playing = asyncio.create_task(SpeedUpPlayer(client, played).run())
            try:
                await settle(SETTLE_SECONDS, playing)
                change_queues(cluster, {"limits": None})
                fair = await measured(played, playing)
                change_queues(cluster, {"elasticity": {"mode": "Parallelism", "acrossQueues": True}})
                given = await measured(played, playing)
            finally:
                playing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await playing
        statuses = {name: cluster.status(name)["elasticity"]["mostAffected"][0] for name in WEIGHTS}
    fair_slots = {name: statuses[name]["fair"] for name in WEIGHTS}
    by_drf = {name: max(fair[f"work-{name}"], CURVES[name](fair_slots[name])) for name in WEIGHTS}  # whichever is harder to beat
    by_paf = {name: given[f"work-{name}"] for name in WEIGHTS}
    lost = {one.name: round(one.lost, 1) for one in played}
    print(f"fair slots {fair_slots}; progress by DRF {fair}, at fair slots {by_drf}; by PAF {given}; work of deleted pods {lost} s alone")
    print(json.dumps(statuses, indent=1))
    assert sum(by_paf.values()) >= 1.10 * sum(by_drf.values())
    for name in WEIGHTS:
        assert by_paf[name] >= FAIRNESS_PERCENT / 100 * CURVES[name](fair_slots[name]), name
        assert statuses[name]["predictedMilli"] / 1000 == pytest.approx(by_paf[name], rel=0.1), "what was foretold"


def enforced_quotas(cluster: LiveCluster) -> list[str]:
    """Namespaces of quotas that the API server enforces."""
    return [quota["metadata"]["namespace"] for quota in cluster.items("resourcequotas") if quota.get("status", {}).get("hard")]


def change_queues(cluster: LiveCluster, spec: dict[str, Any]) -> None:
    for name in WEIGHTS:
        cluster.patch("thrq", "queue", name, {"spec": spec})


async def measured(played: list[PlayedJob], playing: asyncio.Task[None]) -> dict[str, float]:
    """Return the progress rate of each Job over a minute, once sizes have settled."""
    await settle(SETTLE_SECONDS, playing)
    before, began = dict(work_done(played)), time.monotonic()
    await settle(MEASURED_SECONDS, playing)
    seconds = time.monotonic() - began
    return {name: (done - before[name]) / seconds for name, done in work_done(played).items()}


async def settle(seconds: float, playing: asyncio.Task[None]) -> None:
    done, _ = await asyncio.wait([playing], timeout=seconds)
    for task in done:
        task.result()  # it never ends by itself: let its error surface


SIZES = (1, 2, 4, 8, 16)
FAMILIES: dict[str, Callable[[int], float]] = {
    "saturating": lambda slots: 30.0 + 10.0 / slots,
    "amdahl": lambda slots: 20.0 + 80.0 / slots,
    "talkative": lambda slots: 15.0 + 120.0 / slots + 0.6 * slots,  # slower again with more than fourteen
}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_curves_learned_from_five_runs_each_are_within_a_tenth_of_the_true_ones_and_survive_a_restart(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = LiveCluster(fresh_cluster(nodes=6, node_cpu="16", node_memory="32Gi"))
    with OperatorProcess(cluster.cluster, {"elasticity": {"fairnessPercent": 90, "changeIntervalSeconds": 10}}, "paf-learning") as operator:
        # Learning needs no enforcement. With it, the pods of a first Job come as its queue's level grows: no run of one size.
        cluster.create(namespace("batch"), queue("ThroughputQueue", {"elasticity": {}, "enforcement": "Observe"}, "batch"))
        until(lambda: elastic(cluster)[0] == "True", PATIENCE_SECONDS, "the queue to be elastic")
        for slots in reversed(SIZES):
            runs = [
                task_job("batch", f"{family}-{slots}", slots, slots, run_seconds=f"{seconds(slots):.3f}s", family=family)
                for family, seconds in FAMILIES.items()
            ]
            cluster.create(*runs)
            until(lambda slots=slots: started(cluster, slots), PATIENCE_SECONDS, f"runs of {slots} to start")
        saved = until(lambda: learned(cluster), 300.0, "five runs of each family to be saved")
        for family, seconds in FAMILIES.items():
            found = fit_runs(saved.of(f"batch/{family}"))
            assert isinstance(found, Fit), found
            shortest = min(map(seconds, range(1, SIZES[-1] + 1)))
            for slots in range(1, SIZES[-1] + 1):
                truth, foretold = shortest / seconds(slots), progress_of(found, slots)
                print(f"{family} {slots}: true {truth:.3f}, learned {foretold:.3f}")
                assert foretold == pytest.approx(truth, rel=0.1), (family, slots)
        operator.kill()
        operator.start()
        restarted(cluster)


def started(cluster: LiveCluster, slots: int) -> bool:
    """Return whether the runs of this size have all their pods."""
    return all(
        (item["status"].get("ready") or 0) + (item["status"].get("succeeded") or 0) == slots
        for item in cluster.items("jobs", "batch")
        if item["spec"]["parallelism"] == slots
    )


def progress_of(found: Fit, slots: int) -> float:
    return float(progress_rates(found.curve, slots)[slots])


def learned(cluster: LiveCluster) -> Any:
    """Return the saved runs, once there are five sizes of every family."""
    found = cluster.get("configmap", "fairburst-job-runs-default", "fairburst-system")
    saved = from_values(json.loads(found["data"]["job-runs.json"])["families"]) if found else None
    complete = saved and all({run.parallelism for run in saved.of(f"batch/{family}")} == set(SIZES) for family in FAMILIES)
    return saved if complete else None


def restarted(cluster: LiveCluster) -> None:
    """Jobs of learned families, which declare nothing themselves, are sized by what was learned before the restart."""
    cluster.admin("delete", "jobs", "--all", "-n", "batch")
    cluster.patch("thrq", "queue", "batch", {"spec": {"enforcement": "Quota", "limits": {"cpu": "20"}}})
    cluster.create(*(task_job("batch", f"big-{family}", 16, 999, family=family) for family in ("saturating", "amdahl")))
    until(
        lambda: parallelism(cluster, "batch")["big-saturating"] < 10 < parallelism(cluster, "batch")["big-amdahl"],
        PATIENCE_SECONDS,
        "the saturating job to be made smaller",
    )
