"""The progress of a run's jobs by what is seen of their pods, without a cluster."""

from __future__ import annotations

import pytest

from e2e.workload.metrics import Amounts
from e2e.workload.plans import PlannedBurst
from e2e.workload.pods import Metadata, Pod, Spec, Status
from e2e.workload.progress import Progress
from e2e.workload.stages import DagJob, Stage

TWO_STAGES = DagJob("two", (Stage("first", 2, 3.0, 1.0, 8.0), Stage("second", 1, 3.0, 1.0, 8.0, parents=(0,))))


def pod(uid: str, job: str, *, node: str = "node-000", phase: str = "Running") -> Pod:
    labels = {"batch.kubernetes.io/job-name": job}
    return Pod(Metadata(uid=uid, namespace="bursty", labels=labels), Spec(node), Status(phase))


@pytest.fixture
def progress() -> Progress:
    return Progress("run", ["bursty"], most_parallel=500)


def test_stage_starts_once_those_above_it_are_done(progress: Progress) -> None:
    assert [stage.name for stage in progress.begin("bursty", TWO_STAGES)] == ["run-1-0"]
    assert progress.see_pod("MODIFIED", pod("a", "run-1-0", phase="Succeeded"), 3.0) == []
    assert [stage.name for stage in progress.see_pod("MODIFIED", pod("b", "run-1-0", phase="Succeeded"), 4.0)] == ["run-1-1"]
    assert progress.see_pod("MODIFIED", pod("c", "run-1-1", phase="Succeeded"), 8.0) == []
    assert progress.tasks_done == {"bursty": 3}
    assert progress.jobs_done == {"bursty": 1}
    assert not progress.active["bursty"]


def test_throughput_job_starts_no_stage_after_the_end_of_the_run_and_a_burst_does(progress: Progress) -> None:
    (fed,) = progress.begin("bursty", TWO_STAGES)
    (sent,) = progress.begin_burst("bursty", PlannedBurst(0.0, TWO_STAGES, 10.0), 0.0)
    progress.feeding = False
    assert progress.finish(fed, 5.0) == []
    assert [stage.index for stage in progress.finish(sent, 5.0)] == [1]
    assert progress.has_open_burst()


def test_burst_is_bound_once_all_pods_of_its_stages_have_a_node(progress: Progress) -> None:
    progress.begin_burst("bursty", PlannedBurst(1.0, DagJob("one", TWO_STAGES.stages[:1]), 10.0), 1.0)
    progress.see_pod("ADDED", pod("a", "run-1-0"), 2.0)
    progress.see_pod("ADDED", pod("b", "run-1-0", node=""), 2.5)
    assert progress.bursts[0].bound_at is None
    assert progress.held() == {"bursty": Amounts(1.0, 8.0)}
    assert progress.wanted() == {"bursty": Amounts(2.0, 16.0)}
    progress.see_pod("MODIFIED", pod("b", "run-1-0"), 3.0)
    assert progress.bursts[0].bound_at == 3.0


def test_finished_stage_is_not_finished_again(progress: Progress) -> None:
    (first,) = progress.begin("bursty", TWO_STAGES)
    assert len(progress.finish(first, 4.0)) == 1
    assert progress.finish(first, 5.0) == []
    assert progress.tasks_done == {"bursty": 2}
