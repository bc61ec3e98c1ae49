"""Condition (3) for many hard queues: its cost, and answers that do not depend on the order of the questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fairburst.policy.decide import decide
from fairburst.policy.declared import compile_queues
from fairburst.policy.hard_queue import HardQueue
from fairburst.policy.model import GuaranteeClass, Memory, Periodic, PolicyConfig, QueueSpec, Sporadic
from fairburst.policy.profile import HardQueues
from tests.policy.test_resource_condition import random_queue
from tests.support.costs import ratios_of
from tests.support.policy import latency, snapshot, throughput

START = 1_000.0
PERIOD = 3_000.0


def staggered(count: int) -> tuple[QueueSpec, ...]:
    """Hard queues that ask for far more than there is, two at a time for all that there is."""
    apart = PERIOD / count
    return tuple(
        latency(f"h{row:05d}", float(row), [5.0, 7.0], 1.5 * apart, Periodic(PERIOD, START + apart * row), 1.5 * apart)
        for row in range(count)
    )


def one_change(count: int) -> Callable[[], None]:
    """The round in which one more queue comes."""
    queues = staggered(count)
    nothing = np.zeros((count, 2))
    result, memory = decide(snapshot(queues, [10.0, 14.0], nothing), Memory(), PolicyConfig(), START)
    assert set(result.classes) == {GuaranteeClass.HARD}
    more = snapshot((*queues, throughput("z", float(count))), [10.0, 14.0], np.zeros((count + 1, 2)))

    def change() -> None:
        result, _ = decide(more, memory, PolicyConfig(), START + 1)
        assert result.classes.count(GuaranteeClass.HARD) == count

    return change


def test_twice_the_hard_queues_cost_about_twice_as_much() -> None:
    """A test of every promise with its whole profile at each change would make it four times."""
    few, many = one_change(1_000), one_change(2_000)
    few()
    ratios = ratios_of(many, few, 2.5)
    assert min(ratios) <= 2.5, ratios


def test_any_order_of_arrival_gives_the_same_answer_about_the_whole_set() -> None:
    """A set that was built one by one fits as a whole and in any other order, whichever step admitted each queue."""
    rng = np.random.default_rng(7)
    steps = dict.fromkeys((-1, 12, 10_000), 0)
    for _ in range(150):
        width = int(rng.integers(1, 3))
        capacity = rng.integers(4, 24, width).astype(float)
        queues = [random_queue(rng, f"q{row}", width) for row in range(12)]
        declared = compile_queues(tuple(queues), ("cpu", "memory")[:width], 3600.0)
        for most in steps:
            hard = HardQueues(capacity, most)
            for row in range(12):
                if hard.fits(HardQueue(declared, row)):
                    hard.add(HardQueue(declared, row))
            members = list(hard.members.values())
            assert HardQueues.of(members, capacity, most).holds()
            again = HardQueues(capacity, most)
            for at in rng.permutation(len(members)):
                assert again.fits(members[at])
                again.add(members[at])
            again.remove(members[0].name) if members else None
            assert again.holds()
            steps[most] += len(members)
    assert steps[-1] < steps[12] < steps[10_000]


def test_a_member_s_numbers_never_exceed_the_capacity_that_it_was_promised() -> None:
    """z meets every other queue and the others meet only their neighbours: setting the others aside first, all fit."""
    others = [latency(f"q{row}", float(row), [4.0], 10, Periodic(60, 10.0 * row)) for row in range(6)]
    z = latency("z", 9.0, [5.0], 10, Sporadic(60))
    declared = compile_queues((z, *others), ("cpu",), 3600.0)
    hard = HardQueues.of([HardQueue(declared, row) for row in range(7)], np.array([10.0]), max_edges=-1)
    assert hard.holds()
    fit = hard.fit(HardQueue(declared, 0))
    assert (fit.holds, fit.left, fit.right, fit.step) == (True, 9.0, 10.0, "pairwise bound")


@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_a_queue_s_own_windows_never_add_up(jitter: float) -> None:
    """With the jitter a's windows touch each other, but it is in one at a time: 5 + 8 of 15 at most."""
    queues = (
        latency("a", 0.0, [5.0], 19, Periodic(20, 1000.0, jitter)),
        latency("b", 1.0, [8.0], 10, Periodic(40, 1019.0)),
        latency("c", 2.0, [8.0], 10, Periodic(40, 1039.0)),
    )
    result, _ = decide(snapshot(queues, [15.0], np.zeros((3, 1))), Memory(), PolicyConfig(), START)
    assert result.classes == (GuaranteeClass.HARD,) * 3
    shown = result.decisions[2].admission.resource
    assert shown is not None
    assert shown.left == 13.0


@pytest.mark.parametrize("seed", range(20))
def test_queues_that_are_added_together_are_those_added_one_by_one_to_the_last_bit(seed: int) -> None:
    """Some are there before, so that sums do not begin at nothing; an exact profile may be there too, as while candidates are looked at."""
    rng = np.random.default_rng(seed)
    declared = compile_queues(tuple(random_queue(rng, f"q{row}", 1) for row in range(30)), ("cpu",), 3_600.0)
    declared = replace(declared, highest_rate=declared.highest_rate * 0.1)  # a sum of them depends on its order
    members, capacity = [HardQueue(declared, row) for row in range(30)], np.array([7.0])
    together, one_by_one = (HardQueues.of(members[:10], capacity, 10_000) for _ in range(2))
    if seed % 2:
        together.holds()
    together.add_all(members[10:])
    for member in members[10:]:
        one_by_one.add(member)
    assert together.total.tobytes() == one_by_one.total.tobytes()
    assert list(together.members) == list(one_by_one.members)
    assert together.holds() == one_by_one.holds()
    assert [together.fit(member) for member in members] == [one_by_one.fit(member) for member in members]
