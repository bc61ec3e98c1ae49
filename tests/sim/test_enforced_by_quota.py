"""The operator's engine with its decisions enforced by quotas, in virtual time, beside the simulator, which needs no quotas.

What T1 measures once in five minutes (tests/t1/test_replay.py) is measured here for a release lag of choice. With a lag of a second the
shares of two queues are up to 2.2 points apart: the quota is then written higher by what is not released yet (decision 0003), and a
queue whose stages end all at once starts that much above its level. Without that allowance they are 0.8 points apart again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fairburst.config import Config
from fairburst.policy.model import GuaranteeClass
from fairburst.recording.reader import RecordingReader
from fairburst.recording.replay import replay
from fairburst.recording.writer import Recorder
from tests.support.five_minutes import CONFIG, NODES, SECONDS, WITHIN, Outcomes, compare, plans, queue_documents
from tests.support.objects import World
from tests.support.quota_cluster import QuotaCluster

pytestmark = pytest.mark.slow

OVERHEAD_SECONDS = 1.0


def five_minutes(recording: Path, release_seconds: float) -> Outcomes:
    world = World(Config.model_validate(CONFIG), nodes=NODES)
    started, planned = world.wall + 10, plans()
    recorder = Recorder(recording, 10**9, 1, backlog=100_000)
    recorder.start()
    try:
        cluster = QuotaCluster(world, recorder.decide, overhead_seconds=OVERHEAD_SECONDS, release_seconds=release_seconds)
        for number, queue in enumerate(queue_documents(started)):
            namespace = queue["metadata"]["namespace"]
            world.queue(queue["kind"], namespace, spec=queue["spec"], created=f"2026-01-01T00:00:0{number}Z")
        world.round()
        world.after(1.0)
        world.round()
        cluster.run(planned, started, SECONDS)
    finally:
        recorder.stop()
    assert replay(RecordingReader(recording)).differences == []
    found = compare(recording, started, planned, OVERHEAD_SECONDS)
    print(f"\n{release_seconds} s until a charge is released\n{found.table()}")
    return found


def test_the_simulator_gives_the_same_classes_and_shares_as_quotas_with_half_a_second_of_release_lag(tmp_path: Path) -> None:
    found = five_minutes(tmp_path / "rounds.jsonl", release_seconds=0.5)
    assert set(found.recorded_classes[-1]) == {GuaranteeClass.HARD, GuaranteeClass.SOFT, GuaranteeClass.ELASTIC}
    assert found.simulated_classes == found.recorded_classes
    assert found.simulated_shares == pytest.approx(found.recorded_shares, abs=WITHIN)
