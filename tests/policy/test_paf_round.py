"""PAF inside a round of `decide`: slots of a queue's allocation, levels that follow what moves, and nothing at all without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.errors import InvalidSnapshotError
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, QueueKind, QueueSpec
from fairburst.policy.paf.curves import PointsCurve
from fairburst.policy.paf.divide import SlotRules
from fairburst.policy.paf.jobs import ElasticJob

NOW = 1_000.0
FLAT = PointsCurve((1.0, 2.0, 16.0), (0.5, 0.95, 1.0))
STEEP = PointsCurve((1.0, 16.0), (1 / 16, 1.0))


def snapshot(demand: list[float], usage: list[float] | None = None, capacity: float = 16.0) -> ClusterSnapshot:
    queues = tuple(QueueSpec(f"n{row}/q", QueueKind.THROUGHPUT, (float(row), f"n{row}/q")) for row in range(len(demand)))
    column = np.array(demand).reshape(-1, 1)
    used = np.zeros_like(column) if usage is None else np.array(usage).reshape(-1, 1)
    total = np.array([capacity])
    return ClusterSnapshot(("cpu",), total, total, queues, column, used, np.ones_like(column))


def job(name: str, queue: str, curve: PointsCurve | None, slots: int = 0) -> ElasticJob:
    return ElasticJob(name, queue, 1.0, 1, 16, slots, np.array([1.0]), curve)


BOTH = (job("flat", "n0/q", FLAT), job("steep", "n1/q", STEEP))


def test_slots_move_inside_a_queue_and_levels_stay() -> None:
    one = replace(snapshot([32.0]), elastic_jobs=(job("flat", "n0/q", FLAT), job("steep", "n0/q", STEEP)))
    result, _ = decide(replace(one, elastic_rules=SlotRules(0.9)), Memory(), PolicyConfig(), NOW)
    given = {each.job: (each.fair, each.given) for each in result.slots}
    assert given["flat"] == (8, 2), "two slots are nearly as good as eight"
    assert given["steep"] == (8, 14)
    assert (result.level == [[16.0]]).all()
    assert result.moved == {}


def test_slots_that_move_between_queues_move_levels_and_no_allocation() -> None:
    given = replace(snapshot([16.0, 16.0]), elastic_jobs=BOTH, elastic_rules=SlotRules(0.9, frozenset({"n0/q", "n1/q"})))
    result, _ = decide(given, Memory(), PolicyConfig(), NOW)
    assert [(each.fair, each.given) for each in result.slots] == [(8, 2), (8, 14)]
    assert result.allocation[:, 0].tolist() == [8.0, 8.0]
    assert result.level[:, 0].tolist() == [2.0, 14.0]
    assert {queue: amount.tolist() for queue, amount in result.moved.items()} == {"n0/q": [-6.0], "n1/q": [6.0]}


def test_a_queue_that_has_not_opted_in_neither_gives_nor_takes() -> None:
    given = replace(snapshot([16.0, 16.0]), elastic_jobs=BOTH, elastic_rules=SlotRules(0.9, frozenset({"n0/q"})))
    result, _ = decide(given, Memory(), PolicyConfig(), NOW)
    assert result.level[:, 0].tolist() == [8.0, 8.0]


def test_a_queue_keeps_its_own_fairness_knob() -> None:
    both = frozenset({"n0/q", "n1/q"})
    strict = SlotRules(0.5, both, knobs={"n0/q": 0.999})
    result, _ = decide(replace(snapshot([16.0, 16.0]), elastic_jobs=BOTH, elastic_rules=strict), Memory(), PolicyConfig(), NOW)
    flat = next(each for each in result.slots if each.job == "flat")
    assert flat.predicted is not None
    assert flat.predicted_fair is not None
    assert flat.predicted >= 0.999 * flat.predicted_fair
    loose, _ = decide(replace(snapshot([16.0, 16.0]), elastic_jobs=BOTH, elastic_rules=SlotRules(0.5, both)), Memory(), PolicyConfig(), NOW)
    assert flat.given > next(each for each in loose.slots if each.job == "flat").given


def test_what_other_pods_of_the_queue_hold_is_not_divided() -> None:
    jobs = (job("flat", "n0/q", FLAT, slots=4), job("steep", "n0/q", STEEP, slots=4))
    given = replace(snapshot([32.0], usage=[14.0]), elastic_jobs=jobs, elastic_rules=SlotRules(0.9))
    result, _ = decide(given, Memory(), PolicyConfig(), NOW)
    assert sum(each.given for each in result.slots) == 10, "six of sixteen are held by pods of no elastic job"


def test_without_elastic_jobs_a_round_is_what_it_was() -> None:
    plain = snapshot([16.0, 16.0])
    result, _ = decide(plain, Memory(), PolicyConfig(), NOW)
    ruled, _ = decide(replace(plain, elastic_rules=SlotRules(0.5, frozenset({"n0/q"}))), Memory(), PolicyConfig(), NOW)
    assert result.slots == ruled.slots == ()
    assert result.level.tobytes() == ruled.level.tobytes()
    assert result.level is result.allocation or result.level.tobytes() == result.allocation.tobytes()


def test_a_job_of_an_unknown_queue_is_named() -> None:
    stray = replace(snapshot([16.0]), elastic_jobs=(job("stray", "nowhere/q", FLAT),))
    with pytest.raises(InvalidSnapshotError, match="stray"):
        decide(stray, Memory(), PolicyConfig(), NOW)
