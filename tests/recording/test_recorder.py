"""The recorder: its files after a run; a round never waits for it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from fairburst.config import parse_config
from fairburst.policy.errors import InvalidSnapshotError
from fairburst.policy.model import Memory, PolicyConfig
from fairburst.recording.reader import RecordingReader
from fairburst.recording.replay import replay
from fairburst.recording.writer import Recorder, recorder_of
from tests.support.policy import snapshot, throughput
from tests.support.recordings import MEGABYTE, record

QUEUES = (throughput("a/q"), throughput("b/q", 1.0))


def decide_some(recorder: Recorder, count: int, memory: Memory | None = None, first: float = 0.0) -> Memory:
    memory = memory or Memory()
    for number in range(count):
        _, memory = recorder.decide(snapshot(QUEUES, [16.0], [[number % 7], [1.0]]), memory, PolicyConfig(), 1000.0 + first + number)
    return memory


def rounds_in(path: Path) -> list[float]:
    return [recorded.now for _, recorded in RecordingReader(path).rounds()]


def test_nothing_is_recorded_unless_asked() -> None:
    assert recorder_of(parse_config("").recording) is None


def test_the_configuration_says_where_and_how_much(tmp_path: Path) -> None:
    config = parse_config(f"recording: {{file: {tmp_path / 'rounds.jsonl'}, maxMegabytes: 1, files: 3}}")
    recorder = recorder_of(config.recording)
    assert recorder is not None
    recorder.start()
    decide_some(recorder, 3)
    recorder.stop()
    assert rounds_in(tmp_path / "rounds.jsonl") == [1000.0, 1001.0, 1002.0]


def test_full_files_move_on_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    record(path, max_bytes=5_000, files=3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rounds.jsonl", "rounds.jsonl.1", "rounds.jsonl.2"]
    longest_line = max(len(line) for file in tmp_path.iterdir() for line in file.read_bytes().splitlines(keepends=True))
    for file in tmp_path.iterdir():
        assert file.stat().st_size < 5_000 + longest_line
    parts = [rounds_in(tmp_path / name) for name in ("rounds.jsonl.2", "rounds.jsonl.1", "rounds.jsonl")]
    assert [now for part in parts for now in part] == sorted(now for part in parts for now in part)


@pytest.mark.parametrize("files", [1, 2])
def test_the_recording_of_an_earlier_process_is_kept_as_the_number_of_files_says(tmp_path: Path, files: int) -> None:
    path = tmp_path / "rounds.jsonl"
    for first in (0.0, 100.0):
        recorder = Recorder(path, MEGABYTE, files)
        recorder.start()
        decide_some(recorder, 2, first=first)
        recorder.stop()
    assert rounds_in(path) == [1100.0, 1101.0]
    assert [rounds_in(file) for file in tmp_path.glob("*.1")] == [[1000.0, 1001.0]] * (files - 1)


def test_a_process_without_a_round_moves_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    for count in (2, 0):
        recorder = Recorder(path, MEGABYTE, 2)
        recorder.start()
        decide_some(recorder, count)
        recorder.stop()
    assert [file.name for file in tmp_path.iterdir()] == ["rounds.jsonl"]


def test_a_queue_at_rest_costs_nothing_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    queues = tuple(throughput(f"n{number}/q", float(number)) for number in range(100))
    demand = np.ones((100, 1))
    recorder = Recorder(path, MEGABYTE, 1)
    recorder.start()
    memory = Memory()
    for number in range(3):
        demand = demand.copy()
        demand[7] += 1.0
        _, memory = recorder.decide(snapshot(queues, [1000.0], demand), memory, PolicyConfig(), 1000.0 + number)
    recorder.stop()
    first, *others = path.read_text().splitlines()[1:]
    assert len(first) > 10_000
    assert max(map(len, others)) < 250


def test_a_round_does_not_wait_for_the_disk_and_replay_is_exact_after_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    recorder = Recorder(path, MEGABYTE, 1, backlog=10)
    memory = decide_some(recorder, 25)  # no writer runs: a disk that takes nothing
    assert recorder.left_out == 15
    recorder.start()
    while recorder.waiting:
        pass
    decide_some(recorder, 5, memory, first=25.0)
    recorder.stop()
    assert rounds_in(path) == [1000.0 + number for number in [*range(10), *range(25, 30)]]
    assert replay(RecordingReader(path)).differences == []


def test_an_error_of_the_disk_ends_the_recording_and_not_the_rounds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    recorder = Recorder(folder / "rounds.jsonl", MEGABYTE, 1, backlog=2)
    recorder.start()
    (folder / "rounds.jsonl").unlink()
    folder.rmdir()
    with caplog.at_level(logging.ERROR):
        decide_some(recorder, 50)
        recorder.stop()
        decide_some(recorder, 50, first=50.0)
    assert "recording ended" in caplog.text


def test_a_place_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        Recorder(tmp_path / "nowhere" / "rounds.jsonl", MEGABYTE, 1).start()


def test_a_round_that_the_core_refuses_is_recorded_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    recorder = Recorder(path, MEGABYTE, 1)
    recorder.start()
    memory = decide_some(recorder, 2)
    with pytest.raises(InvalidSnapshotError):
        recorder.decide(snapshot(QUEUES, [16.0], [[-1.0], [1.0]]), memory, PolicyConfig(), 1002.0)
    decide_some(recorder, 2, memory, first=3.0)
    recorder.stop()
    outcomes = [recorded.outcome for _, recorded in RecordingReader(path).rounds()]
    assert isinstance(outcomes[2], str)
    assert outcomes[2].startswith("InvalidSnapshotError: demand of a/q: expected amounts between 0 and")
    found = replay(RecordingReader(path))
    assert (found.rounds, found.differences) == (5, [])
