"""A run that saves and loads its memory in every round decides, byte for byte, what a run without restarts decides."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairburst.policy import memory as saved
from fairburst.policy.decide import decide
from fairburst.policy.model import (
    Burst,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueSpec,
    RoundResult,
    Schedule,
    ScheduledBurst,
    Sporadic,
)
from tests.support.policy import RESOURCES, latency, snapshot, throughput
from tests.support.strategies import START

ROUNDS = 14
CI_SEEDS, MANY_SEEDS = range(150), range(1_000, 8_000)


def random_queue(rng: np.random.Generator, name: str, order: float, width: int) -> QueueSpec:
    """A queue of any kind, with loads around those at which classes change."""
    weight = float(rng.choice([0.5, 1.0, 1.0, 1.0, 3.0]))
    if rng.random() < 0.4:
        return throughput(name, order, weight)
    duration = float(rng.integers(1, 8))
    deadline = duration + float(rng.choice([0, 0, 3]))
    period = deadline * float(rng.choice([1, 2, 4, 6]))
    resources = [float(amount) for amount in rng.integers(0, 14, width)]
    match rng.integers(4):
        case 0:
            arrival = Sporadic(period)
        case 1:
            arrival = Periodic(period)
        case 2:
            at = START + np.cumsum(rng.integers(0, 9, 3) + deadline)
            bursts = [ScheduledBurst(float(one), Burst(dict(zip(RESOURCES, resources, strict=False)), duration, deadline)) for one in at]
            return QueueSpec(name, QueueKind.LATENCY, (order, name), weight, None, Schedule(tuple(bursts)))
        case _:
            arrival = Periodic(period, START + float(rng.integers(0, 12)), float(rng.choice([0, 0, 1]) * min(1.0, period / 2)))
    return latency(name, order, resources, duration, arrival, deadline, weight)


def changed(rng: np.random.Generator, queues: tuple[QueueSpec, ...], order: float, width: int) -> tuple[QueueSpec, ...]:
    """The queues after one or two changes; the same tuple where there are none."""
    for step in range(int(rng.choice([0, 0, 1, 1, 2]))):
        row = int(rng.integers(0, len(queues)))
        spec = queues[row]
        match rng.integers(5):
            case 0:
                queues = (*queues, random_queue(rng, f"n{order:g}-{step}{rng.integers(0, 9)}/q", order, width))
            case 1 if len(queues) > 1:
                queues = queues[:row] + queues[row + 1 :]
            case 2:
                queues = (*queues[:row], dataclasses.replace(spec, suspended=not spec.suspended), *queues[row + 1 :])
            case 3:
                queues = (*queues[:row], dataclasses.replace(spec, weight=float(rng.choice([0.5, 1.0, 2.0]))), *queues[row + 1 :])
            case _:
                other = random_queue(rng, spec.name, spec.order[0], width)
                kept = other if other.kind is spec.kind else spec
                queues = (*queues[:row], dataclasses.replace(kept, order=spec.order), *queues[row + 1 :])
    return queues


def check_classes(result: RoundResult, config: PolicyConfig, case: tuple[int, int]) -> None:
    """No class is weaker than the conditions, as they are after the round, allow."""
    for decision in result.decisions:
        answer, granted = decision.admission, decision.guarantee_class
        if granted is None:
            assert answer.reason == "Suspended" or (answer.safety is not None and not answer.safety.holds), case
        elif decision.kind is QueueKind.LATENCY and answer.reason not in {"PromiseChangeRejected", "UnknownResource"}:
            assert answer.safety is not None, case
            assert answer.fairness is not None, case
            if answer.safety.holds and answer.fairness.holds:
                assert answer.resource is not None, case
                best = GuaranteeClass.SOFT if config.soft_class else GuaranteeClass.ELASTIC
                assert granted is (GuaranteeClass.HARD if answer.resource.holds else best), case
                assert answer.resource.holds or answer.resource.binding_queue != decision.queue or "its own rate" in answer.message, case


def check_history(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 3))
    capacity = [float(amount) for amount in rng.integers(8, 40, width)]
    config = PolicyConfig(expected_queues=float(rng.choice([1, 1, 5])), soft_class=bool(rng.random() < 0.9))
    queues = tuple(random_queue(rng, f"q{row}/q", float(row), width) for row in range(rng.integers(1, 6)))
    steady, restarted = Memory(), Memory()
    now, usage = START, {spec.name: np.zeros(width) for spec in queues}
    unit: dict[str, np.ndarray] = {}
    for number in range(ROUNDS):
        if number:
            queues = changed(rng, queues, 10.0 + number, width)
        if rng.random() < 0.15:
            capacity = [float(amount) for amount in rng.integers(8, 40, width)]
        for spec in queues:
            usage.setdefault(spec.name, np.zeros(width))
            if spec.name not in unit or rng.random() < 0.1:
                unit[spec.name] = rng.integers(0, 4, width).astype(float) * (rng.random() < 0.8)
        wants = rng.random(len(queues)) < (0.6 if rng.random() < 0.8 else 0.0)
        demand = rng.integers(0, 16, (len(queues), width)) * wants[:, None].astype(float)
        used = np.array([usage[spec.name] for spec in queues])
        given = snapshot(queues, capacity, demand, used, np.array([unit[spec.name] for spec in queues]))
        result, steady = decide(given, steady, config, now)
        other, restarted = decide(given, saved.load(saved.dump(restarted)), config, now)
        assert result.classes == other.classes, (seed, number)
        for field in ("allocation", "guaranteed", "level", "charge_rate"):
            assert getattr(result, field).tobytes() == getattr(other, field).tobytes(), (seed, number, field)
        assert (result.events, result.next_boundary) == (other.events, other.next_boundary), (seed, number)
        assert saved.dump(steady) == saved.dump(restarted), (seed, number)
        check_classes(result, config, (seed, number))
        for row, spec in enumerate(queues):
            usage[spec.name] = np.minimum(result.allocation[row], demand[row])
        now += float(rng.choice([0.5, 1.0, 3.0, 17.0]))


@pytest.mark.parametrize("part", range(6))
def test_restarting_in_every_round_changes_nothing(part: int) -> None:
    for seed in CI_SEEDS[part::6]:
        check_history(seed)


@pytest.mark.parametrize("seed", [2534, 3938])
def test_a_refused_change_keeps_what_its_pods_need_over_a_restart(seed: int) -> None:
    """The pods of a refused change name a resource that its burst leaves out. After a restart it is still the same change."""
    check_history(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_restarting_in_every_round_changes_nothing_in_many_histories(part: int) -> None:
    for seed in MANY_SEEDS[part::8]:
        check_history(seed)
