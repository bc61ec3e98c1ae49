"""Each benchmark runs once with tiny sizes; ratios that hold on any machine, however busy."""

from __future__ import annotations

import functools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import dress, extender, paf, policy, reclaim, rounds
from benchmarks.informer import informer_path
from benchmarks.measure import REGISTRY, Measurement, figure
from fairburst.kube.extender.server import VERBS
from fairburst.kube.rounds.status_turns import SWEEP_SECONDS
from fairburst.kube.views.status import StatusInput
from fairburst.kube.views.status_plan import StatusPlanner
from fairburst.policy.decide import decide
from fairburst.policy.drf import fill
from fairburst.policy.paf.transfer import transfer_slots
from tests.support.costs import fastest, ratios_of

TINY: dict[str, Callable[[], Iterator[Measurement]]] = {
    "decide_round": lambda: policy.round_of(12, None, None),
    "decide_pods": lambda: policy.round_of_pods(10, 100, None),
    "decide_growth": lambda: policy.growth_over((8, 16), None),
    "decide_memory": lambda: policy.memory_of(10, None),
    "admission_scheduled": lambda: policy.scheduled_admission(6, 4, 10),
    "admission": lambda: policy.periodic_admission(5),
    "rounds": lambda: rounds.rounds_of(6, hard=0.5, repeats=2),
    "informer": lambda: informer_path(30, 10),
    "extender": lambda: extender.answers_at(5, 2, 2, 20, None),
    "dress": lambda: dress.round_of_jobs(10, 100, None),
    "reclaim_choice": lambda: iter([reclaim.choice_of(2, 8, 2), *reclaim.waits_of(2, 8, 2), reclaim.lost_beside_random(2, 20, 3)]),
    "paf_gap": lambda: paf.gaps_of(1, 4),
    "paf": lambda: iter([*paf.division_of(4, 40, None), *paf.round_of_jobs(4, 40)]),
}


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_yields_figures_under_names_of_their_own(name: str) -> None:
    assert name in REGISTRY
    results = list(TINY[name]())
    assert results
    assert len({result.name for result in results}) == len(results)
    for result in results:
        assert math.isfinite(result.value)
        assert result.min <= result.value <= result.max


def test_json_has_one_object_a_line_and_a_missed_target_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(REGISTRY, "zz_kept", lambda: iter([figure("kept", 1.0, "ms", 2.0)]))
    monkeypatch.setitem(REGISTRY, "zz_missed", lambda: iter([figure("missed", 3.0, "ratio", 4.0, at_least=True)]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "zz_", "--json"])
    assert command.main() == 1
    kept, missed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert kept == {"name": "kept", "value": 1.0, "unit": "ms", "target": 2.0, "ok": True, "repeats": 1, "min": 1.0, "max": 1.0}
    assert missed["ok"] is False


def test_an_unknown_name_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing_of_that_name"])
    assert command.main() == 2
    assert "decide_round" in capsys.readouterr().err


def test_the_plain_python_reference_divides_as_the_core_does() -> None:
    """The ratio means something only if both compute the same."""
    rng = np.random.default_rng(11)
    for _ in range(50):
        demand = rng.integers(0, 9, (12, 3)).astype(np.float64)
        weight, capacity = rng.integers(1, 4, 12).astype(np.float64), rng.integers(20, 60, 3).astype(np.float64)
        want = policy.plain_fill(demand.tolist(), weight.tolist(), capacity.tolist(), capacity.tolist())
        busy = demand.any(axis=1)  # an idle queue's multiple means nothing
        found = fill(demand, np.full(12, math.inf), weight, capacity, capacity)
        assert found[busy] == pytest.approx(np.array(want)[busy], abs=1e-6)


def test_the_papers_heaps_divide_slots_as_the_core_does() -> None:
    for seed in range(5):
        curves = paf.make_curves(12, 300, concave=True, seed=seed)
        fair = np.minimum(25, [len(curve) - 1 for curve in curves])
        want = paf.plain_heaps([curve.tolist() for curve in curves], fair.tolist(), paf.KNOB)
        ours = transfer_slots(curves, fair, np.zeros_like(fair), np.ones((12, 1)), np.array([float(fair.sum())]), paf.KNOB)
        found, reference = (sum(curve[own] for curve, own in zip(curves, slots, strict=True)) for slots in (ours, want))
        assert found == pytest.approx(reference, abs=1e-9)


def test_a_round_of_arrays_is_several_times_faster_than_the_plain_division_alone() -> None:
    snapshot = policy.make_snapshot(4_000, 6, True)
    memory = policy.settled(snapshot)
    ours = fastest(lambda: decide(snapshot, memory, policy.CONFIG, policy.NOW + 2))
    assert fastest(policy.plain_round(snapshot, memory), 2) > 2 * ours  # seen: 10


def test_a_quiet_round_is_a_small_part_of_an_active_one() -> None:
    busy, idle = (policy.make_snapshot(4_000, 6, active) for active in (True, False))
    remembered, forgotten = policy.settled(busy), policy.settled(idle)
    active = fastest(lambda: decide(busy, remembered, policy.CONFIG, policy.NOW + 2))
    assert fastest(lambda: decide(idle, forgotten, policy.CONFIG, policy.NOW + 2)) < active / 5  # seen: 1/30


def test_a_round_over_eight_times_the_queues_takes_no_more_than_twenty_times_as_long() -> None:
    times = []
    for count in (2_000, 16_000):
        snapshot = policy.make_snapshot(count, 6, True)
        memory = policy.settled(snapshot)
        times.append(fastest(lambda s=snapshot, m=memory: decide(s, m, policy.CONFIG, policy.NOW + 2)))  # type: ignore[misc]
    assert times[1] < 20 * times[0]  # seen: 5; a quadratic step would make it 64


@pytest.fixture(scope="module")
def settled_pools() -> Callable[[float], list[rounds.Pool]]:
    """Return a function that gives pools of 150 and of 600 queues at rest, which take longer to settle than to measure. All share them."""

    @functools.cache
    def pools_of(hard: float) -> list[rounds.Pool]:
        pools = [rounds.Pool(queues, hard=hard) for queues in (150, 600)]
        for pool in pools:
            pool.settle()
        return pools

    return pools_of


@pytest.mark.parametrize(("kind", "hard"), [(kind, hard) for kind in rounds.KINDS for hard in (0.0, 0.5) if (kind, hard) != ("idle", 0.5)])
def test_a_round_of_the_engine_over_four_times_the_queues_takes_no_more_than_five_times_as_long(
    kind: str, hard: float, settled_pools: Callable[[float], list[rounds.Pool]]
) -> None:  # fmt: skip
    pools = settled_pools(hard)
    most = 2.2**2  # twice the queues at most 2.2 times the cost; a quadratic step would make it 16
    few, many = (functools.partial(rounds.KINDS[kind], pool) for pool in pools)
    ratios = ratios_of(many, few, most)
    assert min(ratios) < most, ratios


def test_a_changed_job_among_many_unchanged_ones_costs_a_fraction_of_reading_all_of_them() -> None:
    """A tenant with many Jobs in a namespace must not make the rounds of all others longer."""
    pool, name = rounds.Pool(10), "ns-00009"
    pool.add_jobs(name, 4_000)
    started = time.process_time()
    pool.round(1.0)
    everything = time.process_time() - started
    pool.settle(60.0)

    def changed() -> None:
        pool.change([name])
        pool.round(10.0)

    assert fastest(changed) < everything / 2.5  # seen: 1/6


def test_a_cluster_at_rest_has_one_round_a_second_and_few_statuses_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each queue has waiting work, so the reserve for small jobs is adjusted every second. Nothing else changes."""
    pool, looked = rounds.Pool(200), 0
    plan = StatusPlanner.plan

    def counted(self: StatusPlanner, inputs: Sequence[StatusInput], *rest: Any) -> Any:
        nonlocal looked
        looked += len(inputs)
        return plan(self, inputs, *rest)

    monkeypatch.setattr(StatusPlanner, "plan", counted)
    pool.settle()
    start, count, due = pool.now + 600.0, 0, pool.now
    while pool.now < start + 60.0:
        if pool.now < start:
            count = looked = 0
        planned = pool.round(max(due - pool.now, 0.02))
        pool.take(planned)
        count, due = count + 1, min(planned.due, pool.now + 10.0)
    assert count <= 70
    assert looked <= 60 * 200 / SWEEP_SECONDS + 40  # seen: 112; each in every round would be 12,000


def test_the_extender_scores_nodes_in_less_time_than_plain_json_takes_to_read_the_question_and_write_the_answer() -> None:
    table, body, answers = extender.table_of(2_000, 4), extender.question("batch", 2_000), VERBS["prioritize"]
    read = json.loads(answers(body, table)[0])
    plain = fastest(lambda: (json.loads(body), json.dumps(read)))
    assert fastest(lambda: answers(body, table)) < plain  # seen: 0.3


def test_the_extender_filters_nodes_in_less_time_than_by_plain_json() -> None:
    """A fifth of the nodes are kept; each answer reads all names of its question and writes them again."""
    table, body, answers = extender.table_of(2_000, 4), extender.question("batch", 2_000), VERBS["filter"]

    def plainly() -> str:
        asked, kept = json.loads(body)["NodeNames"], table.kept_by
        failed = {name: "kept free for a burst" for name in asked if name in kept}
        return json.dumps({"NodeNames": [name for name in asked if name not in failed], "FailedNodes": failed})

    assert json.loads(plainly()) == json.loads(answers(body, table)[0])
    assert fastest(lambda: answers(body, table)) < fastest(plainly)  # seen: 0.6
