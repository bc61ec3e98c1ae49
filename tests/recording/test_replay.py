"""Replay: recorded rounds decided again, and what a recording says by itself."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fairburst.cli.main import main
from fairburst.policy.baselines import drf
from fairburst.policy.decide import decide
from fairburst.policy.dress.job_columns import JobColumns, QueueNumbers
from fairburst.policy.dress.values import DemandCategory, DressConfig, Job, StartMode
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, RoundResult, Sporadic
from fairburst.policy.paf.curves import PointsCurve
from fairburst.policy.paf.divide import SlotRules
from fairburst.policy.paf.jobs import ElasticJob
from fairburst.recording import values
from fairburst.recording.errors import RecordingError
from fairburst.recording.reader import RecordingReader
from fairburst.recording.replay import replay
from fairburst.recording.values import decode, encode
from fairburst.recording.writer import Recorder
from tests.support.dress import Task, jobs_part
from tests.support.policy import latency, snapshot, throughput
from tests.support.profiles import horizons
from tests.support.recordings import MEGABYTE, record
from tests.support.strategies import START, snapshots


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "rounds.jsonl"
    record(path)
    return path


class TestSameBytes:
    """style.md section 1: "The operator can dump a snapshot as JSON and the CLI can replay it"; section 4: "Same inputs, same bytes"."""

    @horizons()
    @given(snapshots(), snapshots())
    def test_whatever_was_decided_is_decided_again(self, one: ClusterSnapshot, other: ClusterSnapshot) -> None:
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(Path(folder) / "rounds.jsonl", 20_000, 100)
            recorder.start()
            memory = Memory()
            # queues and resources change twice, as when queues come and go
            for number, given in enumerate((one, one, other, other, one)):
                _, memory = recorder.decide(given, memory, PolicyConfig(), START + 3 * number)
            recorder.stop()
            found = [replay(RecordingReader(file)) for file in Path(folder).iterdir()]
            assert sum(part.rounds for part in found) == 5
            assert [difference for part in found for difference in part.differences] == []

    def test_a_run_is_decided_again_from_its_beginning(self, recording: Path) -> None:
        found = replay(RecordingReader(recording))
        assert found.rounds > 50
        assert found.differences == []

    def test_each_of_many_files_replays_by_itself(self, tmp_path: Path, recording: Path) -> None:
        record(tmp_path / "rounds.jsonl", max_bytes=4_000, files=100)
        found = [replay(RecordingReader(file)) for file in tmp_path.iterdir()]
        assert len(found) > 3
        assert sum(part.rounds for part in found) == replay(RecordingReader(recording)).rounds
        assert [difference for part in found for difference in part.differences] == []


class TestDifferences:
    def test_another_policy_is_found_out_with_line_queue_and_both_numbers(self, recording: Path) -> None:
        found = replay(RecordingReader(recording), drf)
        assert found.differing_rounds > 10
        assert any(one.what.startswith("allocation of serving/q: recorded [") for one in found.differences)
        first = found.differences[0]
        assert json.loads(recording.read_text().splitlines()[first.line - 1])["now"] == first.now

    @pytest.mark.parametrize("part", ["level", "guaranteed", "charge_rate", "allocation"])
    def test_the_last_bit_counts(self, recording: Path, part: str) -> None:
        def nearly(given: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
            result, following = decide(given, memory, config, now)
            return replace(result, **{part: np.nextafter(getattr(result, part), np.inf)}), following

        assert replay(RecordingReader(recording), nearly).differing_rounds == replay(RecordingReader(recording)).rounds

    def test_an_event_and_a_boundary_count_too(self, recording: Path) -> None:
        def silent(given: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
            result, following = decide(given, memory, config, now)
            return replace(result, events=(), next_boundary=result.next_boundary + 1), following

        kinds = {one.what.split(":")[0] for one in replay(RecordingReader(recording), silent).differences}
        assert kinds == {"events", "next boundary"}

    def test_a_refusal_where_there_was_a_result_is_a_difference(self, recording: Path) -> None:
        def refusing(given: ClusterSnapshot, memory: Memory, config: PolicyConfig, now: float) -> tuple[RoundResult, Memory]:
            raise ValueError("expected something else")

        first = replay(RecordingReader(recording), refusing).differences[0]
        assert first.what == "outcome: recorded a result, replayed ValueError: expected something else"


class TestHistory:
    def test_classes_and_average_shares_are_what_the_rounds_saw_and_decided(self, tmp_path: Path) -> None:
        seen: list[tuple[float, ClusterSnapshot, RoundResult]] = []
        record(tmp_path / "rounds.jsonl", observer=lambda *round_: seen.append(round_))
        found = replay(RecordingReader(tmp_path / "rounds.jsonl"))
        assert found.seconds == pytest.approx(seen[-1][0] - seen[0][0])
        assert [granted for _, granted in found.queues["serving/q"].classes] == [GuaranteeClass.HARD]
        for row, spec in enumerate(seen[0][1].queues):
            used = sum(given.usage[row].max() / 16 * (after[0] - now) for (now, given, _), after in pairwise(seen))
            allocated = sum(result.allocation[row].max() / 16 * (after[0] - now) for (now, _, result), after in pairwise(seen))
            assert found.queues[spec.name].used == pytest.approx(used)
            assert found.queues[spec.name].allocated == pytest.approx(allocated)

    def test_a_class_that_changes_is_told_with_its_time(self, tmp_path: Path) -> None:
        recorder = Recorder(tmp_path / "rounds.jsonl", MEGABYTE, 1)
        recorder.start()
        memory = Memory()
        queues = (latency("l/q", 0.0, [8.0], 5.0, Sporadic(10.0)),)
        for now, capacity in ((START, 10.0), (START + 5, 10.0), (START + 9, 3.0), (START + 12, 3.0)):
            _, memory = recorder.decide(snapshot(queues, [capacity], [[0.0]]), memory, PolicyConfig(), now)
        recorder.stop()
        classes = replay(RecordingReader(tmp_path / "rounds.jsonl")).queues["l/q"].classes
        assert classes == [(START, GuaranteeClass.HARD), (START + 9, GuaranteeClass.ELASTIC)]


class TestFurtherParts:
    """Parts of a snapshot that only some operators fill are values of the core too, and come back as they were."""

    def test_jobs_and_settings_of_dress_come_back(self, tmp_path: Path) -> None:
        job = Job("j", "a/q", 5.0, np.array([2.0, 3.0]), DemandCategory.SMALL, family="nightly")
        task = Task("t", "j", DemandCategory.SMALL, np.array([1.0, 1.0]), 6.0)
        jobs = jobs_part([job], [], [task], 2)
        config = PolicyConfig(dress=DressConfig(size_threshold=0.25, start_mode=StartMode.WHOLE_JOBS))
        recorder = Recorder(tmp_path / "rounds.jsonl", MEGABYTE, 1)
        recorder.start()
        recorder.decide(replace(snapshot((throughput("a/q"),), [8.0, 8.0], [[4.0, 4.0]]), jobs=jobs), Memory(), config, START)
        recorder.stop()
        reader = RecordingReader(tmp_path / "rounds.jsonl")
        assert reader.config == config
        [(_, recorded)] = reader.rounds()
        assert recorded.snapshot.jobs is not None
        assert json.dumps(encode(recorded.snapshot.jobs)) == json.dumps(encode(jobs))
        assert replay(reader).differences == []

    def test_elastic_jobs_and_their_rules_are_kept(self, tmp_path: Path) -> None:
        curve = PointsCurve((1.0, 8.0), (0.5, 1.0))
        elastic = (ElasticJob("j", "a/q", 1.0, 1, 8, 0, np.array([1.0, 1.0]), curve),)
        rules = SlotRules(0.9, frozenset({"b/q", "a/q"}), {"a/q": 0.95})
        recorder = Recorder(tmp_path / "rounds.jsonl", MEGABYTE, 1)
        recorder.start()
        given = replace(snapshot((throughput("a/q"),), [8.0, 8.0], [[4.0, 4.0]]), elastic_jobs=elastic, elastic_rules=rules)
        result, _ = recorder.decide(given, Memory(), PolicyConfig(), START)
        recorder.stop()
        [(_, recorded)] = RecordingReader(tmp_path / "rounds.jsonl").rounds()
        assert recorded.snapshot.elastic_rules == rules
        again, _ = decide(recorded.snapshot, Memory(), PolicyConfig(), START)
        assert again.slots == result.slots != ()

    def test_the_age_of_work_is_kept(self, tmp_path: Path) -> None:
        """It decides whether a burst counts as missed."""
        queues, recorder, memory = (
            (latency("l/q", 0.0, [8.0], 10, Sporadic(100)),),
            Recorder(tmp_path / "rounds.jsonl", MEGABYTE, 1),
            Memory(),
        )
        recorder.start()
        for at, oldest in ((0.0, 0.0), (110.0, 105.0)):
            given = replace(snapshot(queues, [8.0], [[8.0]]), oldest_work={0: START + oldest})
            _, memory = recorder.decide(given, memory, PolicyConfig(), START + at)
        recorder.stop()
        assert memory.queues["l/q"].met == 1
        reader = RecordingReader(tmp_path / "rounds.jsonl")
        assert [dict(recorded.snapshot.oldest_work) for _, recorded in reader.rounds()] == [{0: START}, {0: START + 105.0}]
        assert replay(reader).differences == []

    def test_when_unseen_work_came_is_kept(self, tmp_path: Path) -> None:
        """It decides when windows open after an outage."""
        queues, recorder = (latency("l/q", 0.0, [8.0], 10, Sporadic(100)),), Recorder(tmp_path / "rounds.jsonl", MEGABYTE, 1)
        recorder.start()
        given = snapshot(queues, [8.0], [[8.0]])
        _, memory = recorder.decide(given, Memory(), PolicyConfig(), START - 200)
        unseen = replace(given, unseen_work={0: (START - 70, START - 5)})
        _, memory = recorder.decide(unseen, memory, PolicyConfig(), START)
        recorder.stop()
        reader = RecordingReader(tmp_path / "rounds.jsonl")
        assert [dict(recorded.snapshot.unseen_work) for _, recorded in reader.rounds()] == [{}, {0: (START - 70, START - 5)}]
        assert replay(reader).differences == []

    def test_what_starts_next_is_kept(self, tmp_path: Path) -> None:
        """A turn depends on it, and how long it lasts."""
        recorder, memory = Recorder(tmp_path / "rounds.jsonl", MEGABYTE, 1), Memory()
        queues = throughput("a/q", 0.0), throughput("b/q", 1.0)
        recorder.start()
        for number in range(30):
            used, starting = (0.0, ()) if number < 15 else (8.0, {0})
            given = snapshot(queues, [10.0], [[100.0], [100.0]], [[used], [10.0 - used]], [[1.0], [1.0]])
            given = replace(given, next_start={0: np.array([9.0 - used])}, starting=frozenset(starting))
            _, memory = recorder.decide(given, memory, PolicyConfig(largest_turn=1.0), START + 10.0 * number)
        recorder.stop()
        reader = RecordingReader(tmp_path / "rounds.jsonl")
        assert [recorded.snapshot.starting for _, recorded in reader.rounds()] == [frozenset()] * 15 + [frozenset({0})] * 15
        assert replay(reader).differences == []

    @pytest.mark.parametrize(
        ("value", "want"),
        [
            pytest.param({"is": "os.system"}, "expected a value of the core", id="not the core's"),
            pytest.param({"is": "model.FloatArray"}, "expected a dataclass or an enum of the core", id="not a value"),
            pytest.param({"is": "memory.math"}, "expected a dataclass or an enum of the core", id="what a module imports"),
            pytest.param({"is": "..kube.process.Operator"}, "expected a value of the core", id="out of the core"),
            pytest.param({"is": "model.Sporadic", "gap": 3}, "expected the fields of model.Sporadic", id="wrong fields"),
            pytest.param({}, "expected a value of the core", id="says nothing"),
        ],
    )
    def test_nothing_else_is_made_from_a_file(self, value: dict[str, Any], want: str) -> None:
        with pytest.raises(ValueError, match=want):
            decode(value)

    @pytest.mark.parametrize("name", ["model.QueueSpec", "model.GuaranteeClass", "model.Window", "lead_time.LeadTimeDecision"])
    def test_a_type_is_named_as_in_files_of_earlier_versions_wherever_it_is_defined_now(self, name: str) -> None:
        kind = values._type_named(name)
        assert values._name_of(kind) == name

    def test_what_is_no_value_of_the_core_is_not_written(self) -> None:
        with pytest.raises(TypeError, match=r"expected a value of the core, found pathlib\."):
            encode([Path()])


def changed(text: str, line: int, **fields: object) -> str:
    """The recording with fields of one line set; None removes one."""
    lines = text.splitlines()
    value = json.loads(lines[line - 1]) | fields
    lines[line - 1] = json.dumps({name: item for name, item in value.items() if item is not None})
    return "\n".join(lines) + "\n"


class TestMalformed:
    @pytest.mark.parametrize(
        ("damage", "line", "want"),
        [
            pytest.param(lambda text: "", 1, "the header of a recording, found an empty file", id="empty"),
            pytest.param(lambda text: "hello\n", 1, "one JSON object a line, found 'hello", id="not JSON"),
            pytest.param(lambda text: "[]\n", 1, "one JSON object a line", id="no object"),
            pytest.param(lambda text: changed(text, 1, **{"fairburst-recording": 2}), 1, "expected the header", id="newer version"),
            pytest.param(
                lambda text: changed(text, 1, config={"alpha": 1}), 1, "expected a config of expected_queues", id="unknown setting"
            ),
            pytest.param(lambda text: changed(text, 1, config={"soft_class": "x"}), 1, "found soft_class: 'x'", id="wrong setting"),
            pytest.param(lambda text: changed(text, 2, queues=None), 2, "expected `queues` and `resources` in the first", id="no queues"),
            pytest.param(lambda text: changed(text, 2, queues=[{}]), 2, "expected a queue's declaration", id="damaged queue"),
            pytest.param(lambda text: changed(text, 2, memory={"version": 9}), 2, "memory: expected version 1", id="newer memory"),
            pytest.param(lambda text: changed(text, 3, now="soon"), 3, "expected `now` as a number, found soon", id="no time"),
            pytest.param(lambda text: changed(text, 2, now=1e300), 2, "`now` between the years 1970 and 3000, found 1e+300", id="no date"),
            pytest.param(
                lambda text: changed(text, 3, now=math.nan), 3, "`now` between the years 1970 and 3000, found nan", id="not a number"
            ),
            pytest.param(lambda text: changed(text, 3, demand={"9": [1, 2]}), 3, "rows 0 to 2 in `demand`, found '9'", id="row"),
            pytest.param(lambda text: changed(text, 3, usage={"1": [1]}), 3, "2 numbers in row 1 of `usage`", id="too few numbers"),
            pytest.param(lambda text: changed(text, 3, unit={"1": [1, "x"]}), 3, "2 numbers in row 1 of `unit`", id="no number"),
            pytest.param(lambda text: changed(text, 3, unit={"1": [1, 10**400]}), 3, "int too large", id="beyond all numbers"),
            pytest.param(lambda text: text + "[" * 100_000 + "\n", None, "maximum recursion depth", id="too deep"),
            pytest.param(lambda text: changed(text, 3, live={"0": [1]}), 3, "1 number in row 0 of `live`", id="list for a number"),
            pytest.param(lambda text: changed(text, 3, result=None), 3, "expected `result` as a JSON object, found None", id="no result"),
            pytest.param(lambda text: changed(text, 3, result={"classes": ["Firm"]}), 3, "a class among Hard, Soft", id="class"),
            pytest.param(lambda text: changed(text, 3, result={"classes": []}), 3, "expected 3 classes, found 0", id="too few classes"),
            pytest.param(lambda text: changed(text, 3, result={"events": ["x"]}), 3, "an event as [queue, kind, message]", id="event"),
            pytest.param(lambda text: changed(text, 3, further={"pods": 3}), 3, "parts of a snapshot in `further`", id="unknown part"),
        ],
    )
    def test_a_damaged_file_is_refused_with_file_line_and_what_was_expected(
        self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[str], str], line: int | None, want: str
    ) -> None:
        path = tmp_path / "damaged.jsonl"
        path.write_text(damage(recording.read_text()))
        assert main(["replay", str(path)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"fairburst replay: {path}:{'' if line is None else f'{line}: '}")
        assert want in said.err

    def test_bytes_that_are_no_text_are_refused(self, recording: Path, tmp_path: Path) -> None:
        path = tmp_path / "damaged.jsonl"
        path.write_bytes(recording.read_bytes()[:-2] + b"\xff\n")
        with pytest.raises(RecordingError, match="expected UTF-8 text"):
            replay(RecordingReader(path))

    def test_half_a_line_at_the_end_is_left_out_and_said(self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A killed operator leaves one."""
        path = tmp_path / "cut.jsonl"
        path.write_bytes(recording.read_bytes()[:-20])
        found = replay(RecordingReader(path))
        assert (found.rounds, found.cut_off) == (replay(RecordingReader(recording)).rounds - 1, True)
        assert main(["replay", str(path)]) == 0
        assert "not complete and was left out" in capsys.readouterr().out


class TestCommand:
    def test_the_table_says_rounds_shares_and_classes(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(recording)]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[0].endswith("every one decided again as recorded")
        assert [line.split()[0] for line in said[1:]] == ["queue", "one/q", "serving/q", "two/q"]
        assert said[3].endswith("Hard from 0 s")

    def test_json_holds_the_same(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(recording), "--output", "json"]) == 0
        said = json.loads(capsys.readouterr().out)
        found = replay(RecordingReader(recording))
        assert (said["rounds"], said["seconds"], said["differing_rounds"]) == (found.rounds, found.seconds, 0)
        serving = said["queues"][1]
        assert serving["average_share_used"] == found.queues["serving/q"].used / found.seconds
        assert [one["class"] for one in serving["classes"]] == ["Hard"]

    def test_a_difference_ends_the_command_with_one(self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "other.jsonl"
        text = recording.read_text()
        result = json.loads(text.splitlines()[1])["result"] | {"next_boundary": 1.0}
        path.write_text(changed(text, 2, result=result))
        assert main(["replay", str(path)]) == 1
        said = capsys.readouterr().out
        assert "1 decided differently" in said
        assert "line 2, 1970-01-12T13:46:40.000Z: next boundary: recorded 1.0, replayed " in said

    def test_a_recording_without_rounds_is_no_error(self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "short.jsonl"
        path.write_text(recording.read_text().splitlines()[0] + "\n")
        assert main(["replay", str(path)]) == 0
        assert "no rounds" in capsys.readouterr().out
        assert main(["replay", str(path), "--output", "json"]) == 0

    @pytest.mark.parametrize(
        "command", [["replay"], ["snapshot", "replay"], ["report"], ["explain", "q", "--from"], ["plan", "--remove", "q", "--from"]]
    )
    def test_a_folder_is_named(self, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*command, str(tmp_path)]) == 2
        assert f"expected a readable file, found the folder {tmp_path}" in capsys.readouterr().err

    def test_a_missing_file_is_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(tmp_path / "absent.jsonl")]) == 2
        assert "absent.jsonl" in capsys.readouterr().err


def test_jobs_are_recorded_once_each_and_read_from_files_that_had_their_columns() -> None:
    job = Job("one", "ns/queue", 0.0, np.ones(2))
    columns = JobColumns.of([job], 2, QueueNumbers())
    assert encode(columns) == encode((job,))
    (former,) = decode({"is": "dress.job_columns.JobColumns", "jobs": [encode(job)], "queue": ["ns/queue"]})
    assert encode(former) == encode(job)
