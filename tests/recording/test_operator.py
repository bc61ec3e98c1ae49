"""The operator as a whole, recorded against a server without admission, quota or controllers; killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairburst.config import parse_config
from fairburst.kube.process import Operator
from fairburst.policy.model import GuaranteeClass
from fairburst.recording.reader import RecordingReader
from fairburst.recording.replay import replay
from tests.support.fake_api import FakeApi
from tests.support.objects import latency_spec, stored_queue
from tests.support.operators import LATENCY, THROUGHPUT, fake_cluster, kopf_watches, rounds
from tests.support.tasks import until


async def run_recorded(api: FakeApi, recording: Path, check: Callable[[Operator], Any]) -> float:
    """Run an operator until `check` holds; the number of its rounds."""
    config = parse_config(f"metrics: {{host: 127.0.0.1, port: 0}}\nrounds: {{intervalSeconds: 1}}\nrecording: {{file: {recording}}}")
    async with api.client() as client:
        operator, stop, since = Operator(config, client), asyncio.Event(), len(api.requests)
        task = asyncio.create_task(operator.run(stop))
        await until(lambda: task.done() or (check(operator) and kopf_watches(api, since)), "what is to be recorded", 40.0)
        stop.set()
        await asyncio.wait_for(task, 15.0)
        return rounds(operator)


async def test_every_round_is_on_file_and_is_decided_again_also_after_a_restart(tmp_path: Path) -> None:
    recording = tmp_path / "rounds.jsonl"
    async with fake_cluster() as api:
        api.put(LATENCY, stored_queue("LatencyQueue", "batch", "bursts", latency_spec(cpu="8")))
        first = await run_recorded(api, recording, lambda operator: "status" in api.objects[LATENCY]["batch", "bursts"])
        api.put(THROUGHPUT, stored_queue("ThroughputQueue", "other", "late"))
        second = await run_recorded(api, recording, lambda operator: rounds(operator) >= 3)
    for file, count in ((tmp_path / "rounds.jsonl.1", first), (recording, second)):
        found = replay(RecordingReader(file))
        # a round counts when its writes are done: the last one may have been interrupted
        assert found.rounds in {count, count + 1}
        assert found.differences == []
        assert [granted for _, granted in found.queues["batch/bursts"].classes] == [GuaranteeClass.HARD]
    (_, recorded), *_ = RecordingReader(recording).rounds()
    assert recorded.memory is not None
    assert recorded.memory.queues["batch/bursts"].guarantee_class is GuaranteeClass.HARD, (
        "the restarted operator's memory came from the status"
    )


async def test_an_operator_that_cannot_record_says_so_and_ends(tmp_path: Path) -> None:
    async with fake_cluster() as api:
        with pytest.raises(OSError, match="nowhere"):
            await run_recorded(api, tmp_path / "nowhere" / "rounds.jsonl", lambda operator: False)
