"""One round as a whole: its result, the memory that it leaves unchanged, and the values that a restart keeps."""

from __future__ import annotations

import dataclasses

import numpy as np

from fairburst.policy.decide import decide
from fairburst.policy.model import Burst, Memory, PolicyConfig, Sporadic, WindowState
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

CONFIG = PolicyConfig()


def test_the_result_says_when_and_for_whom_it_was_decided() -> None:
    queues = (throughput("t/q"),)
    result, _ = decide(snapshot(queues, [10.0], [[1.0]]), Memory(), CONFIG, START)
    assert (result.now, result.queues) == (START, queues)


def test_a_round_leaves_the_memory_it_was_given_as_it_was() -> None:
    queues = (throughput("t/q"), latency("l/q", 1.0, [8.0], 10, Sporadic(100)))
    value = snapshot(queues, [10.0], [[99.0], [8.0]], [[0.0], [8.0]])
    _, memory = decide(value, Memory(), CONFIG, START)
    before = dict(memory.queues)
    decide(dataclasses.replace(value, usage=np.array([[0.0], [4.0]])), memory, CONFIG, START + 12)
    assert dict(memory.queues) == before


class TestARestart:
    """Saved memory is plain values. The round after a restart equals the round without one."""

    def test_keeps_turns_verdicts_and_refused_changes(self) -> None:
        burst = latency("l/q", 0.0, [2.0], 10, Sporadic(100), 15)
        queues = (burst, *(throughput(f"{name}/q", 1.0 + row) for row, name in enumerate("abc")))
        memory, usage = Memory(), [[2.0], [0.0], [0.0], [0.0]]
        value = snapshot(queues, [2.9], [[2.0], [9.0], [9.0], [9.0]], usage, [[0.0], [1.0], [1.0], [1.0]])
        for seconds in (0, 5, 10.5):
            _, memory = decide(value, memory, CONFIG, START + seconds)
        changed = dataclasses.replace(burst, burst=Burst({"tpu": 1.0}, 10, 10))
        value = dataclasses.replace(value, queues=(changed, *queues[1:]))
        _, memory = decide(value, memory, CONFIG, START + 11)
        saved = Memory(queues=dict(memory.queues), next_admission_order=memory.next_admission_order)
        window = saved.queues["l/q"].window
        assert window is not None
        assert (window.state, window.demanded, window.judged) == (WindowState.OPEN, True, True)
        assert saved.queues["l/q"].refused == changed
        assert any(one.waiting_since is not None for one in saved.queues.values())
        assert any(one.unit_held_since is not None for one in saved.queues.values())
        for seconds in (12, 15, 61):
            same, memory = decide(value, memory, CONFIG, START + seconds)
            after, saved = decide(value, saved, CONFIG, START + seconds)
            assert (after.allocation.tolist(), after.events, after.next_boundary) == (
                same.allocation.tolist(),
                same.events,
                same.next_boundary,
            )
            assert dict(saved.queues) == dict(memory.queues)
