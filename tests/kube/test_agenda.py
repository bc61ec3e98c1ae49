"""Looks at namespaces come neither before their time nor later than they may, and looks that can wait share a round."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.rounds.differences import Agenda

seconds = st.integers(0, 12).map(float)
entries = st.lists(st.tuples(st.sampled_from("abc"), seconds, st.sampled_from([0.0, 1.0, 3.0])), max_size=12)


@given(st.lists(st.tuples(entries, seconds), max_size=6))
def test_a_look_comes_between_its_earliest_and_its_latest_time(steps: list[tuple[list[tuple[str, float, float]], float]]) -> None:
    """Against a dictionary of the times of each namespace. A round comes at the latest when `next` says, and at other times too."""
    agenda, times, now = Agenda(), dict[str, tuple[float, float]](), 0.0
    for added, pause in steps:
        for namespace, wait, patience in added:
            agenda.put(namespace, now + wait, patience)
            earliest, latest = times.get(namespace, (math.inf, math.inf))
            times[namespace] = min(earliest, now + wait), min(latest, now + wait + patience)
        assert agenda.next() == min((latest for _, latest in times.values()), default=math.inf)
        now = max(now, min(now + pause, agenda.next()))
        due = {namespace for namespace, (earliest, _) in times.items() if earliest <= now}
        assert agenda.take(now) == due
        assert all(latest >= now for namespace, (_, latest) in times.items() if namespace in due)
        for namespace in due:
            del times[namespace]


@pytest.mark.parametrize(("patience", "rounds"), [(0.0, 100), (1.0, 10)])
def test_looks_that_can_wait_share_a_round(patience: float, rounds: int) -> None:
    agenda = Agenda()
    for number in range(100):
        agenda.put(f"ns-{number}", number / 10, patience)
    seen, count = set[str](), 0
    while (due := agenda.next()) < math.inf:
        seen |= agenda.take(due)
        count += 1
    assert len(seen) == 100
    assert count == pytest.approx(rounds, abs=1)


def test_an_urgent_look_does_not_wait_for_one_that_can() -> None:
    agenda = Agenda()
    agenda.put("patient", 5.0, 3.0)
    agenda.put("urgent", 6.0)
    assert agenda.next() == 6.0
    assert agenda.take(6.0) == {"patient", "urgent"}
    assert agenda.next() == math.inf


def test_what_many_writes_have_changed_is_looked_at_when_they_should_have_been_answered() -> None:
    """Rounds go on while the writes of a thousand new queues are under way. Looks at all of them each second would find the same again."""
    agenda = Agenda()
    agenda.put_written([("quota", "one")], 100.0)
    agenda.put_written([("label", f"new-{number}") for number in range(1000)], 100.0)
    assert agenda.take(101.5) == {"one"}
    assert agenda.take(109.0) == set()
    assert len(agenda.take(110.0)) == 1000
