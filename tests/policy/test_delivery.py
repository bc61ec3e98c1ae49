"""The delivered part of a burst, and the verdict on it."""

from __future__ import annotations

import pytest

from fairburst.policy.model import EventKind, GuaranteeClass, Periodic, Sporadic, WindowState
from tests.support.policy import Pool, bursting, latency, throughput
from tests.support.strategies import START

HARD, SOFT, ELASTIC = GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC
BATCH = throughput("t/q")


class TestWhatCountsAsDelivered:
    def test_what_comes_after_the_deadline_does_not_although_nobody_looked_at_it(self) -> None:
        """4 of 8 cores for the 10 s of the window; by the time of the next round, 84 core-seconds."""
        pool = Pool(BATCH, bursting())
        pool.at(0, [0.0, 8.0], [0.0, 4.0])
        kinds = [event.kind for event in pool.at(21, [0.0, 8.0], [0.0, 4.0]).events]
        assert EventKind.BURST_MISSED in kinds
        assert EventKind.BURST_MET not in kinds

    def test_what_ran_before_the_window_opened_does_not(self) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Periodic(100, START), 15))
        pool.at(-5, [0.0, 8.0], [0.0, 8.0])
        for seconds, want in ((0, []), (9.5, []), (10, [EventKind.BURST_MET])):
            kinds = [event.kind for event in pool.at(seconds, [0.0, 8.0], [0.0, 8.0]).events]
            assert [kind for kind in kinds if kind is EventKind.BURST_MET] == want

    def test_every_verdict_names_its_queue_and_its_burst(self) -> None:
        pool = Pool(BATCH, bursting())
        told = []
        for seconds, wants, uses in (
            *((0, 8.0, 4.0), (10, 8.0, 0.0), (50, 0.0, 0.0), (100, 8.0, 4.0), (110, 8.0, 0.0), (150, 0.0, 0.0)),  # given up in between
            *((200, 8.0, 8.0), (210.5, 8.0, 8.0)),
        ):
            told += [(event.queue, event.kind, event.message) for event in pool.at(seconds, [0.0, wants], [0.0, uses]).events]
        missed = "Burst {} was not served by its deadline: 50 % of the declared demand had been delivered."
        assert [one for one in told if one[1] in {EventKind.BURST_MET, EventKind.BURST_MISSED}] == [
            ("l/q", EventKind.BURST_MISSED, missed.format(0)),
            ("l/q", EventKind.BURST_MISSED, missed.format(1)),
            ("l/q", EventKind.BURST_MET, "Burst 2 was served within its deadline."),
        ]
        assert ("l/q", EventKind.BURST_OPENED, "Burst 0 opened.") in told
        memory = pool.memory.queues["l/q"]
        assert (memory.bursts, memory.met, memory.missed) == (3, 1, 2)

    def test_a_budget_that_is_nearly_spent_at_the_deadline_leaves_a_claim(self) -> None:
        """7.905 of 8 dominant-share-seconds, the last of them at a rate that changed half a second before."""
        pool = Pool(BATCH, bursting())
        pool.at(0, [0.0, 8.0], [0.0, 7.9])
        pool.at(9.5, [0.0, 8.0], [0.0, 8.0])
        pool.at(10, [0.0, 8.0], [0.0, 8.0])
        assert pool.window(1).state is WindowState.OVERDUE

    def test_a_burst_that_is_nearly_delivered_is_not_yet_met(self) -> None:
        """d = 80; 7.9 for 9.5 s and 8 for 0.3 s make 77.45."""
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100), 15))
        pool.at(0, [0.0, 8.0], [0.0, 7.9])
        pool.at(9.5, [0.0, 8.0], [0.0, 8.0])
        events = pool.at(9.8, [0.0, 8.0], [0.0, 8.0]).events
        assert EventKind.BURST_MET not in [event.kind for event in events]
        events = pool.at(10.2, [0.0, 8.0], [0.0, 8.0]).events
        assert EventKind.BURST_MET in [event.kind for event in events]

    def test_a_burst_met_before_its_deadline_is_counted_once(self) -> None:
        pool = Pool(throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100), 15))
        for seconds in (0, 5, 10, 11, 12, 14, 15, 16):
            pool.at(seconds, [0.0, 8.0], [0.0, 8.0])
        memory = pool.memory.queues["l/q"]
        assert (memory.bursts, memory.met, memory.missed) == (1, 1, 0)

    @pytest.mark.parametrize(("first_wants", "want_warning"), [pytest.param(1.0, True, id="hard"), pytest.param(6.0, False, id="soft")])
    def test_a_missed_burst_is_told_with_what_was_delivered(self, first_wants: float, want_warning: bool) -> None:
        """The event is a warning only if the promise was hard, because only hard promises are guaranteed."""
        first = latency("f/q", 0.0, [first_wants], 10, Sporadic(200))
        pool = Pool(first, latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
        assert pool.at(0, [0.0, 8.0], [0.0, 4.0]).classes[1] is (HARD if want_warning else SOFT)
        told = [event for event in pool.at(10, [0.0, 8.0], [0.0, 4.0]).events if event.kind is EventKind.BURST_MISSED]
        assert [event.warning for event in told] == [want_warning]
        assert "50 %" in told[0].message

    @pytest.mark.parametrize(
        ("rounds", "want"),
        [
            pytest.param([(0, 8.0, 8.0), (9, 8.0, 8.0), (10, 8.0, 4.0), (11, 8.0, 4.0)], [0, 0, 1, 0], id="once"),
            pytest.param([(at, 8.0, 8.0) for at in range(14)], [0] * 10 + [1, 0, 0, 0], id="once, though its use goes on as before"),
            pytest.param([(0, 8.0, 7.0), (15, 0.0, 7.0), (100, 8.0, 8.0), (110, 8.0, 8.0)], [0, 0, 0, 1], id="beside a debt of 20 too"),
        ],
    )
    def test_the_end_of_its_budget_is_told_by_name(self, rounds: list[tuple[float, float, float]], want: list[int]) -> None:
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Sporadic(100), 15))
        results = [pool.at(at, [99.0, wants], [0.0, uses]) for at, wants, uses in rounds]
        spent = [[event for event in one.events if event.kind is EventKind.BUDGET_SPENT] for one in results]
        assert [[event.queue for event in some] for some in spent] == [["l/q"] * count for count in want]
        assert all(event.message.startswith("The declared burst has been delivered in full") for some in spent for event in some)

    def test_what_was_delivered_at_different_rates_adds_up(self) -> None:
        """2.5 s of 8 cores, 10 s of 4 and 2.5 s of 8 are the 80 core-seconds declared."""
        pool = Pool(BATCH, latency("l/q", 1.0, [8.0], 10, Sporadic(100), 20))
        rounds = [(0, 8.0), (2.5, 4.0), (12.5, 8.0), (14.9, 8.0), (15, 8.0)]
        results = [pool.at(at, [99.0, 8.0], [0.0, uses]) for at, uses in rounds]
        assert [EventKind.BURST_MET in [event.kind for event in one.events] for one in results] == [False] * 4 + [True]
