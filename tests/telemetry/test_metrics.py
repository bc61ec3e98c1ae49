"""Metrics are views of decisions; series of queues that are gone go too; their documentation is generated."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fairburst.cli.main import main
from fairburst.policy.model import QueueDecision, WindowState
from fairburst.telemetry.metrics import ElasticFigures, Metrics, definitions, to_markdown
from tests.support.objects import World, latency_spec

ROOT = Path(__file__).parents[2]
LABELS = {"namespace": "burst", "queue": "queue", "kind": "Latency"}


@pytest.fixture
def decision() -> QueueDecision:
    """A hard latency queue whose window is armed."""
    world = World()
    world.queue("LatencyQueue", "burst", spec=latency_spec())
    return world.plan().result.decisions[0]


def show(metrics: Metrics, decision: QueueDecision, *, pending: float = 0.0, met: int = 3, wall: float = 1000.0) -> None:
    metrics.queues.show(decision, allocated=0.5, used=0.25, pending=pending, met=met, missed=1, false_conditions={"Attainable"}, wall=wall)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, LABELS | labels)


def test_a_queue_shows_its_class_window_shares_bursts_and_conditions(decision: QueueDecision) -> None:
    metrics = Metrics()
    show(metrics, decision)
    classes = {name: value(metrics, "fairburst_queue_class", **{"class": name}) for name in ("Hard", "Soft", "Elastic", "Rejected")}
    assert classes == {"Hard": 1.0, "Soft": 0.0, "Elastic": 0.0, "Rejected": 0.0}
    assert value(metrics, "fairburst_queue_window", state="Armed") == 1.0
    assert value(metrics, "fairburst_queue_window", state="Open") == 0.0
    assert value(metrics, "fairburst_queue_allocation_ratio") == 0.5
    assert value(metrics, "fairburst_queue_usage_ratio") == 0.25
    assert value(metrics, "fairburst_queue_bursts_total", outcome="missed") == 1.0
    assert value(metrics, "fairburst_queue_condition_false", condition="Attainable") == 1.0
    assert value(metrics, "fairburst_queue_condition_false", condition="Ready") == 0.0


def test_bursts_are_a_counter_that_follows_the_status(decision: QueueDecision) -> None:
    metrics = Metrics()
    show(metrics, decision, met=40)
    show(metrics, decision, met=41)
    assert value(metrics, "fairburst_queue_bursts_total", outcome="met") == 41.0
    metrics.stand_by()
    assert value(metrics, "fairburst_queue_bursts_total", outcome="met") is None
    show(metrics, decision, met=43)
    assert value(metrics, "fairburst_queue_bursts_total", outcome="met") == 43.0


def test_a_wait_begins_with_unmet_demand_and_ends_in_the_histogram(decision: QueueDecision) -> None:
    metrics = Metrics()
    show(metrics, decision, pending=0.0, wall=900.0)
    assert value(metrics, "fairburst_queue_pending_since_seconds") == 0.0
    show(metrics, decision, pending=0.5, wall=1000.0)
    show(metrics, decision, pending=0.25, wall=1010.0)
    assert (value(metrics, "fairburst_queue_pending_ratio"), value(metrics, "fairburst_queue_pending_since_seconds")) == (0.25, 1000.0)
    read = metrics.registry.get_sample_value
    assert read("fairburst_queue_wait_seconds_count", {"kind": "Latency"}) is None
    show(metrics, decision, pending=0.0, wall=1020.0)
    assert value(metrics, "fairburst_queue_pending_since_seconds") == 0.0
    assert read("fairburst_queue_wait_seconds_sum", {"kind": "Latency"}) == 20.0


def test_a_queue_has_at_most_thirty_series(decision: QueueDecision) -> None:
    metrics = Metrics()
    show(metrics, decision, pending=0.5)
    own = [sample for family in metrics.registry.collect() for sample in family.samples if sample.labels.get("queue") == "queue"]
    assert len(own) <= 30
    assert len({sample.name for sample in own}) >= 12


def test_counts_kept_elsewhere_are_counters() -> None:
    metrics = Metrics()
    metrics.show_watches(2, {"/api/v1/pods": 1})
    metrics.show_watches(3, {"/api/v1/pods": 1})
    assert metrics.registry.get_sample_value("fairburst_queue_watch_restarts_total") == 3.0
    assert metrics.registry.get_sample_value("fairburst_informer_relists_total", {"resource": "/api/v1/pods"}) == 1.0


def test_a_queue_that_loses_its_window_shows_none(decision: QueueDecision) -> None:
    metrics = Metrics()
    show(metrics, decision)
    show(metrics, replace(decision, window=None))
    assert [value(metrics, "fairburst_queue_window", state=state.value) for state in WindowState] == [0.0] * 4


def test_the_series_of_a_queue_that_is_gone_go_too(decision: QueueDecision) -> None:
    metrics = Metrics()
    before = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    show(metrics, decision)
    metrics.queues.forget({("burst", "queue", "Latency")})
    assert value(metrics, "fairburst_queue_usage_ratio") == 0.25
    metrics.queues.forget(set())
    assert {sample.name for family in metrics.registry.collect() for sample in family.samples} == before


def test_capacity_is_shown_by_resource() -> None:
    metrics = Metrics()
    metrics.show_capacity(("cpu", "memory"), (64.0, 128.0), (32.0, 64.0))
    assert metrics.registry.get_sample_value("fairburst_capacity_live", {"resource": "cpu"}) == 64.0
    assert metrics.registry.get_sample_value("fairburst_capacity_committed", {"resource": "memory"}) == 64.0


def test_idle_capacity_counts_from_one_round_to_the_next_by_what_the_first_found() -> None:
    metrics = Metrics()

    def idle(cause: str) -> float | None:
        return metrics.registry.get_sample_value("fairburst_idle_seconds_total", {"resource": "cpu", "cause": cause})

    metrics.show_idle(["cpu"], {"burst": [0.25], "unwanted": [0.5]}, 100.0)
    assert idle("burst") is None
    metrics.show_idle(["cpu"], {"burst": [0.0], "unwanted": [0.5]}, 104.0)
    metrics.show_idle(["cpu"], {"burst": [0.0], "unwanted": [0.0]}, 106.0)
    assert (idle("burst"), idle("unwanted")) == (1.0, 3.0)
    metrics.stand_by()
    metrics.show_idle(["cpu"], {"burst": [1.0], "unwanted": [0.0]}, 1000.0)
    assert (idle("burst"), idle("unwanted")) == (1.0, 3.0), "what happens under another leader is counted there"


def test_elastic_queues_show_both_divisions_and_go_when_they_are_elastic_no_more() -> None:
    metrics = Metrics()
    metrics.show_elasticity(
        {"batch/queue": ElasticFigures(16, 18, 0.73, 0.85, {"TookSlots": 2}), "odd/queue": ElasticFigures(1, 1, None, None, {})}
    )
    read = metrics.registry.get_sample_value
    here = {"namespace": "batch", "queue": "queue"}
    assert read("fairburst_elastic_slots", here | {"division": "given"}) == 18
    assert read("fairburst_elastic_progress_ratio", here | {"division": "fair"}) == 0.73
    assert read("fairburst_elastic_jobs", here | {"reason": "TookSlots"}) == 2
    assert read("fairburst_elastic_progress_ratio", {"namespace": "odd", "queue": "queue", "division": "fair"}) is None
    metrics.show_elasticity({})
    assert read("fairburst_elastic_slots", here | {"division": "given"}) is None


def test_runs_that_cannot_be_read_are_told() -> None:
    metrics = Metrics()
    metrics.show_families(3, 1, unreadable=True)
    assert metrics.registry.get_sample_value("fairburst_job_families", {"state": "learned"}) == 3
    assert metrics.registry.get_sample_value("fairburst_job_runs_unreadable") == 1


def test_each_process_counts_by_itself() -> None:
    one, other = Metrics(), Metrics()
    one.rounds.inc()
    assert other.registry.get_sample_value("fairburst_rounds_total") == 0.0


def test_names_follow_the_convention_and_each_metric_says_what_it_means() -> None:
    for name, kind, labels, meaning in definitions():
        assert re.fullmatch(r"(fairburst|process)(_[a-z]+)+", name), name
        assert name.endswith("_total") == (kind == "counter"), name
        assert len(labels) <= 4, name
        assert meaning.endswith("."), name


def test_the_documentation_of_the_metrics_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    documented = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert documented == to_markdown(), "run: fairburst metrics --markdown > docs/metrics.md"
    assert main(["metrics", "--markdown"]) == 0
    assert capsys.readouterr().out == documented


def test_the_command_lists_one_metric_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics"]) == 0
    assert "fairburst_writes_total{kind,result} (counter): " in capsys.readouterr().out
