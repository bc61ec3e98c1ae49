"""The scenarios are the same for every contender, and their bursts are promises that the cluster can keep."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.peers.__main__ import MAIN
from benchmarks.peers.contenders import contenders
from benchmarks.peers.contenders.bare import static_limits
from benchmarks.peers.scenarios import ALIASES, SCENARIOS, Scenario

SIZES = (0.1, 0.5, 1.0)


WITHOUT_DATA = {name: make for name, make in SCENARIOS.items() if name != "s14"}  # which needs the public traces


def scenarios() -> list[Scenario]:
    return [make(size) for make in WITHOUT_DATA.values() for size in SIZES]


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_a_scenario_is_the_same_each_time(name: str) -> None:
    first, second = SCENARIOS[name](0.5), SCENARIOS[name](0.5)
    assert (first.name, first.queues, first.bursts, first.given) == (name, second.queues, second.bursts, second.given)
    for queue in first.backlog:
        streams = [list(itertools.islice(made.backlog[queue](), 200)) for made in (first, second)]
        assert streams[0] == streams[1]


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: f"{scenario.name} on {scenario.nodes}")
def test_every_promise_fits_its_fair_share(scenario: Scenario) -> None:
    for queue in scenario.queues:
        if queue.promise is not None:
            promise = queue.promise
            share = scenario.places * promise.period * queue.weight / sum(each.weight for each in scenario.queues)
            assert promise.pods * promise.seconds <= share
            assert promise.pods <= scenario.places


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: f"{scenario.name} on {scenario.nodes}")
def test_bursts_are_what_their_queue_declared_except_the_greedy_ones(scenario: Scenario) -> None:
    promises = {queue.name: queue.promise for queue in scenario.queues}
    for burst in scenario.bursts:
        promise = promises[burst.queue]
        assert promise is not None
        sent = sum(work.pods for work in burst.jobs)
        assert sent == promise.pods * (4 if burst.queue == "greedy" else 1)
        assert burst.deadline == promise.deadline


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: f"{scenario.name} on {scenario.nodes}")
def test_batch_queues_want_more_than_the_cluster(scenario: Scenario) -> None:
    if scenario.backlog:
        assert len(scenario.backlog) * scenario.deep >= 2 * scenario.places
    else:
        assert sum(len(works) for works in scenario.given.values()) > 0


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: f"{scenario.name} on {scenario.nodes}")
def test_static_limits_are_the_whole_cluster_and_no_more(scenario: Scenario) -> None:
    limits = static_limits(scenario)
    assert set(limits) == {queue.name for queue in scenario.queues}
    assert scenario.places - len(limits) < sum(limits.values()) <= scenario.places


def test_names_are_those_of_the_tables() -> None:
    assert set(ALIASES.values()) <= set(SCENARIOS)
    assert all(make().name == name and make().about for name, make in contenders().items())


def test_gangs_are_played_by_those_who_start_jobs_whole() -> None:
    players = players_of("s6")
    assert {"kueue", "fairburst-suspend", "fairburst-gate"} <= players
    assert not players & {"bare", "priority", "static-quota", "fairburst-quota"}


def test_who_evicts_meets_only_those_who_evict() -> None:
    expected = {
        "priority-preempts",
        "kueue-preempts",
        "kueue-reserved-preempts",
        "yunikorn-preempts",
        "yunikorn-reserved-preempts",
        *(f"fairburst-{mode}-reclaim" for mode in ("quota", "gate", "suspend")),
    }
    assert players_of("s9e-4") == expected
    assert not players_of("s9-4") & expected
    assert set(MAIN) <= set(contenders())


def players_of(scenario: str) -> set[str]:
    return {name for name, make in contenders().items() if make().plays(SCENARIOS[scenario](0.1))}
