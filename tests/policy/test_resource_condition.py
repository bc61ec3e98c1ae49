"""The resource condition (BoPF §3.3, (3)) against a slow reference that looks at every second, and its three steps by themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairburst.policy.declared import compile_queues
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import Burst, Periodic, QueueKind, QueueSpec, Schedule, ScheduledBurst, Sporadic
from fairburst.policy.profile import Fit, HardQueues
from tests.support.policy import RESOURCES, latency

EVERY_SECOND = range(-80, 200)  # periods divide 24, schedules lie in [0, 60]: everything that can happen happens in here


def scheduled(name: str, *bursts: tuple[float, float, list[float]]) -> QueueSpec:
    """A queue of (arrival, seconds, resources)."""
    items = (ScheduledBurst(at, Burst(dict(zip(RESOURCES, amounts, strict=False)), long, long)) for at, long, amounts in bursts)
    return QueueSpec(name, QueueKind.LATENCY, (0.0, name), arrival=Schedule(tuple(items)))


def decide_last(queues: list[QueueSpec], capacity: list[float], max_events: int = 10_000) -> Fit:
    """Condition (3) for the last of `queues` beside all others."""
    declared = compile_queues(tuple(queues), RESOURCES[: len(capacity)], 3600.0)
    members = [HardQueue(declared, row) for row in range(len(queues))]
    return HardQueues.of(members[:-1], np.array(capacity), max_events).fit(members[-1])


def at_second(spec: QueueSpec, second: int, width: int) -> np.ndarray | None:
    """Return the most that a queue's windows may use in this second, or None if no window can be on."""
    match spec.arrival:
        case Periodic(period, float(first), jitter):
            assert spec.burst is not None
            burst = spec.burst if (second - first + jitter) % period < spec.burst.deadline_seconds + 2 * jitter else None
        case Schedule(bursts):
            burst = next((one.burst for one in bursts if one.arrival <= second < one.arrival + one.burst.deadline_seconds), None)
        case _:
            burst = spec.burst
    if burst is None:
        return None
    return np.array([burst.resources[name] * burst.duration_seconds / burst.deadline_seconds for name in RESOURCES[:width]])


def worst_second(queues: list[QueueSpec], capacity: list[float]) -> tuple[float, set[str]]:
    """Return the largest share of any resource while the last queue is on, and the queue that takes most of that resource then."""
    *hard, last = queues
    worst, who = -1.0, set[str]()
    for second in EVERY_SECOND:
        own = at_second(last, second, len(capacity))
        if own is None:
            continue
        on = [(spec, rate) for spec in hard if (rate := at_second(spec, second, len(capacity))) is not None]
        total = own + sum((rate for _, rate in on), np.zeros(len(capacity)))
        share = np.array([amount / c if c > 0 else (math.inf if amount > 0 else 0.0) for amount, c in zip(total, capacity, strict=True)])
        if share.max() > worst:
            worst, who = float(share.max()), set()
        if share.max() == worst:
            resource = RESOURCES[int(share.argmax())]
            declared = [spec for spec, _ in on] or [last]
            who.add(max(declared, key=lambda spec: (_most(spec, resource), spec.name)).name)
    return worst, who


def _most(spec: QueueSpec, resource: str) -> float:
    bursts = [one.burst for one in spec.arrival.bursts] if isinstance(spec.arrival, Schedule) else [spec.burst]
    return max(one.resources[resource] * one.duration_seconds / one.deadline_seconds for one in bursts if one is not None)


def random_queue(rng: np.random.Generator, name: str, width: int) -> QueueSpec:
    """Whole seconds and rates, so that sums are exact."""
    resources = [float(amount) for amount in rng.integers(0, 7, width)]
    duration = float(rng.integers(1, 4))
    deadline = duration * float(rng.integers(1, 3))
    resources = [amount * deadline / duration for amount in resources]
    period = float(rng.choice([8, 12, 24]))
    match rng.integers(6):
        case 0:
            return latency(name, 0.0, resources, duration, Sporadic(period), deadline)
        case 1:
            return latency(name, 0.0, resources, duration, Periodic(period), deadline)
        case 2 | 3:
            starts = np.sort(rng.choice(10, size=rng.integers(1, 4), replace=False)) * 6.0
            return scheduled(name, *((at, float(rng.integers(1, 6)), [float(x) for x in rng.integers(0, 7, width)]) for at in starts))
        case _:
            first = float(rng.integers(-10, 30))
            return latency(name, 0.0, resources, duration, Periodic(period, first, float(rng.integers(0, 2))), deadline)


def cases(count: int) -> list[tuple[list[QueueSpec], list[float]]]:
    rng = np.random.default_rng(4)
    drawn = []
    for _ in range(count):
        width = int(rng.integers(1, 3))
        capacity = [float(amount) for amount in rng.integers(0, 16, width)]
        drawn.append(([random_queue(rng, f"q{row}", width) for row in range(rng.integers(1, 5))], capacity))
    return drawn


class TestAgainstEverySecond:
    """ "d_i(n)/t_i(n) <= C - sum of a_j(t) over every ON window" (BoPF §3.3)."""

    @pytest.mark.parametrize("part", range(4))
    def test_the_exact_profile_is_the_worst_second(self, part: int) -> None:
        seen = set()
        for queues, capacity in cases(160)[part::4]:
            fit = decide_last(queues, capacity)
            seen.add((fit.step, fit.holds))
            if fit.step != "profile":
                assert (fit.step, fit.holds) == ("sum", True)
                continue
            worst, who = worst_second(queues, capacity)
            assert fit.holds == (worst <= 1.0)
            assert fit.right == capacity[fit.resource]
            assert (fit.left / fit.right if fit.right else math.inf) == worst
            assert fit.queue in who
        assert seen == {("sum", True), ("profile", True), ("profile", False)}

    @pytest.mark.parametrize("part", range(4))
    def test_the_pairwise_bound_is_the_sum_of_those_that_ever_meet(self, part: int) -> None:
        seen = set()
        for queues, capacity in cases(160)[part::4]:
            fit = decide_last(queues, capacity, max_events=-1)
            seen.add((fit.step, fit.holds))
            if fit.step != "pairwise bound":
                continue
            *hard, last = queues
            meets = [spec for spec in hard if _ever_together(spec, last)]
            total = [sum(_most(spec, name) for spec in [*meets, last]) for name in RESOURCES[: len(capacity)]]
            assert fit.holds == all(amount <= c for amount, c in zip(total, capacity, strict=True))
            assert (fit.left, fit.right) == (total[fit.resource], capacity[fit.resource])
        assert {("sum", True), ("pairwise bound", True), ("pairwise bound", False)} <= seen


def _ever_together(one: QueueSpec, other: QueueSpec) -> bool:
    return any(at_second(one, second, 1) is not None and at_second(other, second, 1) is not None for second in EVERY_SECOND)


class TestSteps:
    def test_where_the_sum_of_all_rates_fits_nothing_else_is_looked_at(self) -> None:
        """Design §3: the sum of all H rates plus its own fits C: done."""
        queues = [latency("a", 0.0, [2.0, 6.0], 5, Sporadic(40)), latency("b", 0.0, [5.0, 1.0], 5, Sporadic(40))]
        fit = decide_last([*queues, latency("c", 0.0, [1.0, 2.0], 5, Sporadic(40))], [8.0, 10.0])
        assert fit == Fit(True, 8.0, 8.0, 0, "b", "sum")

    @pytest.mark.parametrize("arrival", [Sporadic(40), Periodic(40, 0.0)], ids=["sporadic", "periodic"])
    def test_a_queue_that_does_not_fit_alone_stands_in_its_own_way(self, arrival: Sporadic | Periodic) -> None:
        assert decide_last([latency("a", 0.0, [20.0], 5, arrival)], [10.0]) == Fit(False, 20.0, 10.0, 0, "a", "profile")

    def test_of_two_queues_that_take_as_much_the_later_name_is_told(self) -> None:
        queues = [latency(name, 0.0, [2.0], 5, Sporadic(40)) for name in ("b", "c", "a", "d")]
        assert decide_last(queues, [9.0]).queue == "c"

    def test_a_resource_that_is_gone_binds_before_all_others(self) -> None:
        queues = [latency("a", 0.0, [9.0, 0.5], 5, Sporadic(40)), latency("b", 0.0, [1.0, 0.0], 5, Sporadic(40))]
        fit = decide_last(queues, [10.0, 0.0])
        assert (fit.holds, fit.left, fit.right, fit.resource) == (False, 0.5, 0.0, 1)
        beside_it = decide_last([latency("b", 0.0, [1.0, 0.0], 5, Sporadic(40))], [10.0, 0.0])
        assert (beside_it.holds, beside_it.resource) == (True, 0)

    def test_a_resource_that_is_gone_binds_where_somebody_else_runs_on_it(self) -> None:
        """A hard queue was promised memory that is gone: the candidate asks for cores only, but its windows come while that queue runs."""
        promised = latency("a", 0.0, [0.0, 1.0], 5, Periodic(40, 10.0))
        fit = decide_last([promised, latency("b", 0.0, [1.0, 0.0], 20, Periodic(40, 0.0))], [10.0, 0.0])
        assert (fit.holds, fit.left, fit.right, fit.resource, fit.queue) == (False, 1.0, 0.0, 1, "a")

    def test_a_resource_that_is_gone_and_wanted_by_nobody_decides_nothing(self) -> None:
        """The two meet late in the candidate's window, and only the cores count."""
        queues = [latency("a", 0.0, [8.0, 0.0], 5, Periodic(40, 10.0)), latency("b", 0.0, [8.0, 0.0], 20, Periodic(40, 0.0))]
        assert decide_last(queues, [10.0, 0.0]) == Fit(False, 16.0, 10.0, 0, "a", "profile")
        apart = [latency("a", 0.0, [4.0, 0.0], 5, Periodic(40, 10.0)), latency("b", 0.0, [4.0, 0.0], 20, Periodic(40, 0.0))]
        beside = latency("c", 0.0, [9.0, 0.0], 5, Periodic(40, 30.0))
        assert decide_last([beside, *apart], [10.0, 0.0]) == Fit(True, 8.0, 10.0, 0, "a", "profile")

    def test_who_has_just_left_takes_nothing(self) -> None:
        """The largest queue ends when the candidate begins. Among the queues that are on then, the other takes most."""
        queues = [
            latency("a", 0.0, [9.0], 10, Periodic(40, 0.0)), latency("b", 0.0, [3.0], 5, Periodic(40, 10.0)),
            latency("c", 0.0, [4.0], 5, Periodic(40, 10.0)),
        ]  # fmt: skip
        assert decide_last(queues, [10.0]) == Fit(True, 7.0, 10.0, 0, "b", "profile")

    def test_windows_shorter_than_a_second_can_stay_apart(self) -> None:
        """A quarter of a second in every second, half a second apart."""
        queues = [latency(name, 0.0, [8.0], 0.25, Periodic(1.0, first)) for name, first in (("a", 0.0), ("b", 0.5))]
        for most in (10_000, -1):
            assert decide_last(queues, [10.0], most).holds
            assert decide_last(queues[::-1], [10.0], most).holds

    def test_less_than_one_unit_of_a_resource_is_a_resource(self) -> None:
        """Capacity 0.5 of one resource: asking for 0.4 takes more of it than 5 of the other's 10."""
        fit = decide_last([latency("a", 0.0, [5.0, 0.4], 5, Sporadic(40))], [10.0, 0.5])
        assert fit == Fit(True, 0.4, 0.5, 1, "a", "sum")
        assert decide_last([latency("a", 0.0, [5.0, 0.1], 5, Sporadic(40))], [10.0, 0.5]) == Fit(True, 5.0, 10.0, 0, "a", "sum")
        apart = [latency("a", 0.0, [9.0, 0.4], 5, Periodic(40, 0.0)), latency("b", 0.0, [9.0, 0.4], 5, Periodic(40, 20.0))]
        assert decide_last(apart, [10.0, 0.41]) == Fit(True, 0.4, 0.41, 1, "b", "profile")

    @pytest.mark.parametrize(("most", "step"), [(8, "profile"), (7, "pairwise bound")])
    def test_a_profile_of_more_windows_than_configured_is_not_computed(self, most: int, step: str) -> None:
        """Two queues of period 40 have at most three windows each in a hyperperiod, edges included; the schedule has two."""
        queues = [
            latency("a", 0.0, [8.0], 5, Periodic(40, 0.0)), latency("b", 0.0, [8.0], 5, Periodic(40, 10.0)),
            scheduled("c", (20.0, 5.0, [8.0]), (50.0, 10.0, [8.0])),
        ]  # fmt: skip
        assert decide_last(queues, [10.0], most).step == step

    def test_periods_that_are_no_whole_microseconds_may_meet_anywhere(self) -> None:
        """No hyperperiod is exact for them."""
        third = latency("a", 0.0, [8.0], 5, Periodic(40 + 1e-6 / 3, 0.0))
        fit = decide_last([third, latency("b", 0.0, [8.0], 5, Periodic(40, 20.0))], [10.0])
        assert (fit.holds, fit.left) == (False, 16.0)

    def test_half_open_windows_that_touch_never_meet(self) -> None:
        """In each pair, and in either order, the one ends when the other begins."""
        pairs = [
            (latency("a", 0.0, [8.0], 10, Periodic(40, 0.0)), latency("b", 0.0, [8.0], 10, Periodic(40, 10.0))),
            (latency("a", 0.0, [8.0], 10, Periodic(40, 0.0)), scheduled("b", (10.0, 30.0, [8.0]))),
            (scheduled("a", (0.0, 10.0, [8.0])), scheduled("b", (10.0, 5.0, [8.0]))),
        ]
        for one, other in pairs:
            for most in (10_000, -1):
                assert decide_last([one, other], [10.0], most).holds
                assert decide_last([other, one], [10.0], most).holds
