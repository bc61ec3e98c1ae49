"""Lead time switched off where it is not worth it: its cost and its gain, burst by burst."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fairburst.policy.dress.memory import DressMemory, dump_dress, load_dress
from fairburst.policy.lead_time_record import JUDGED, LeadTimeDecision, LeadTimeRecord
from tests.policy.test_lead_time import NOW, SPREAD, burst, plan

ONE = np.array([1.0])


def decision(*, gain: float = 0.0, cost_rate: float = 0.25) -> LeadTimeDecision:
    return LeadTimeDecision("lq", 0.0, math.inf, ONE, ONE, ONE, ONE, cost_rate, 9.0, (), "Holding", "", gain)


def after(bursts: int, *, gain: float, came: float = 1.0, record: LeadTimeRecord | None = None) -> LeadTimeRecord:
    """Each holds a quarter of the cluster for eight seconds, 2 share-seconds."""
    record = record or LeadTimeRecord()
    first = record.window + 1
    for window in range(first, first + bursts):
        start = 100.0 * window
        record = record.advanced(decision(gain=gain), window, came, start)
        record = record.advanced(decision(gain=gain), window, came, start + 5.0)
        record = record.advanced(None, window, came, start + 8.0)
        record = record.advanced(None, window, came, start + 50.0)  # nothing is held any more, nothing is charged
    return record.advanced(replace(decision(), reason="EnoughExpected"), record.window + 1, came, 100.0 * (first + bursts))


def test_cost_is_what_was_held_over_time_and_gain_what_the_burst_would_have_waited_longer() -> None:
    assert after(2, gain=3.0).past == ((3.0, 2.0), (3.0, 2.0))


def test_a_burst_that_came_in_part_gained_that_part() -> None:
    assert after(1, gain=3.0, came=0.5).past == ((1.5, 2.0),)


def test_a_burst_for_which_nothing_had_to_be_held_says_nothing() -> None:
    record = LeadTimeRecord().advanced(replace(decision(cost_rate=0.0), reason="EnoughExpected"), 0, 1.0, 0.0)
    assert record.advanced(replace(decision(), reason="EnoughExpected"), 1, 1.0, 100.0).past == ()


@pytest.mark.parametrize(("gain", "resting"), [pytest.param(2.1, 0, id="worth it"), pytest.param(1.9, JUDGED, id="not worth it")])
def test_it_is_switched_off_when_the_last_ten_bursts_gained_less_than_they_cost(gain: float, resting: int) -> None:
    """Design and issue: switched off by itself when its measured benefit is below its cost over the last ten bursts."""
    assert after(JUDGED - 1, gain=gain).resting == 0
    assert after(JUDGED, gain=gain).resting == resting


def test_after_ten_bursts_without_it_it_is_tried_again() -> None:
    record = after(JUDGED, gain=0.0)
    nothing = replace(decision(cost_rate=0.0), reason="NotWorthIt")
    for window in range(record.window + 1, record.window + JUDGED):
        record = record.advanced(nothing, window, 1.0, 100.0 * window)
    assert record.resting == 1
    assert record.advanced(nothing, record.window + 1, 1.0, 1e6).resting == 0


def test_a_clock_that_steps_back_costs_nothing() -> None:
    record = LeadTimeRecord().advanced(decision(), 0, 1.0, 1000.0)
    assert record.advanced(None, 0, 1.0, 10.0).cost == 0.0


def test_a_queue_that_rests_is_held_nothing_for_and_is_told_so() -> None:
    hold = plan([replace(burst(10.0), resting=4)], 8.0, SPREAD)
    assert hold.room.tolist() == [8.0]
    assert hold.decisions[0].reason == "NotWorthIt"
    assert "4 more" in hold.decisions[0].message


def test_the_gain_is_the_rate_times_the_seconds_by_which_its_last_part_would_come_later() -> None:
    """A task a second ends; 30 free of the 40 needed: the last of it waits 11 s, and 41 s had the 30 not been held."""
    (found,) = plan([burst(0.0)], 30.0, SPREAD).decisions
    assert found.held.tolist() == [30.0]
    assert found.gain == pytest.approx(0.4 * 30.0, abs=0.4)


def test_the_record_survives_a_restart_and_the_time_between_costs_nothing() -> None:
    record = replace(after(3, gain=3.0), cost=1.0, cost_rate=0.25, as_of=NOW, resting=2)
    memory = load_dress(dump_dress(DressMemory(0.1, lead_times={"a/b": record})))
    assert memory.lead_times["a/b"] == replace(record, cost_rate=0.0, as_of=0.0)
