"""`fairburst plan` and `snapshot`: the effects of changes, from a recording and from a cluster, and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairburst.cli.errors import WORSE, WRONG_ARGUMENTS
from fairburst.cli.main import main
from fairburst.cli.snapshots import last_round, save_round
from fairburst.policy.model import GuaranteeClass, Memory, PolicyConfig, Sporadic
from fairburst.whatif.rounds import DecidedRound, changes, with_queue, with_spec, without_queue
from tests.cli.test_ask import Served, served
from tests.support import recordings
from tests.support.objects import GI, latency_spec
from tests.support.policy import latency, snapshot, throughput

__all__ = ["served"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A pool of 64 cores and GiB with a hard queue, a soft one, and two throughput queues that have halves of all of it."""
    burst, pod = [40.0, 40.0 * GI], [1.0, GI]
    queues = (
        latency("first/lq", 0.0, burst, 20.0, Sporadic(100.0)),
        latency("second/lq", 1.0, burst, 20.0, Sporadic(100.0)),
        throughput("one/tq", 2.0),
        throughput("two/tq", 3.0),
    )
    wanted = [[0.0, 0.0], [0.0, 0.0], [100.0, 100.0 * GI], [100.0, 100.0 * GI]]
    used = [[0.0, 0.0], [0.0, 0.0], [32.0, 32.0 * GI], [32.0, 32.0 * GI]]
    seen = snapshot(queues, [64.0, 64.0 * GI], wanted, used, [pod] * 4)
    path = tmp_path / "snapshot.jsonl"
    save_round(path, DecidedRound.of(seen, Memory(), PolicyConfig(expected_queues=4.0), 1_767_225_600.0))
    return path


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    """The pool of `saved` without batch work."""
    burst = [40.0, 40.0 * GI]
    queues = (
        latency("first/lq", 0.0, burst, 20.0, Sporadic(100.0)),
        latency("second/lq", 1.0, burst, 20.0, Sporadic(100.0)),
        throughput("one/tq", 2.0),
    )
    nothing = [[0.0, 0.0]] * 3
    path = tmp_path / "idle.jsonl"
    seen = snapshot(queues, [64.0, 64.0 * GI], nothing, nothing, [[1.0, GI]] * 3)
    save_round(path, DecidedRound.of(seen, Memory(), PolicyConfig(expected_queues=4.0), 1_767_225_600.0))
    return path


def planned(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, dict[str, Any]]:
    assert main(["plan", *arguments, "-o", "json"]) == status
    return {one["queue"]: one for one in json.loads(capsys.readouterr().out)}


def manifest(path: Path, name: str = "new/lq", kind: str = "LatencyQueue", **spec: Any) -> Path:
    namespace, _, short = name.partition("/")
    obj = {"apiVersion": "fairburst.dev/v1alpha1", "kind": kind, "metadata": {"namespace": namespace, "name": short}, "spec": spec}
    path.write_text(yaml.safe_dump_all([{"kind": "Namespace", "metadata": {"name": namespace}}, obj]))
    return path


class TestOnARecording:
    def test_a_saved_round_is_decided_again_as_it_was(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["snapshot", "replay", str(saved)]) == 0
        assert "1 rounds" in capsys.readouterr().out
        classes = [one.value if one else None for one in last_round(saved).result.classes]
        assert classes == ["Hard", "Soft", "Elastic", "Elastic"]

    def test_the_last_round_of_an_operators_recording_is_asked(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "rounds.jsonl"
        recordings.record(path)
        found = planned(capsys, "--from", str(path), "--weight", "one=3")
        assert found["one/q"]["share"]["after"] > found["one/q"]["share"]["before"]

    def test_more_capacity_makes_the_soft_queue_hard(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = planned(capsys, "--from", str(saved), "--capacity", "+30%")
        assert found["second/lq"]["class"] == {"before": "Soft", "after": "Hard"}
        assert found["first/lq"]["class"] == {"before": "Hard", "after": "Hard"}

    def test_less_capacity_takes_a_promise_and_is_exit_status_4(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(saved), "--capacity", "cpu=-60%"]) == WORSE
        said = capsys.readouterr()
        assert "fairburst plan: first/lq would fall from Hard to" in said.err
        assert "Hard -> " in said.out

    def test_a_queue_that_goes_makes_room(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = planned(capsys, "--from", str(saved), "--remove", "first/lq")
        assert found["first/lq"]["change"] == "gone"
        assert found["second/lq"]["class"]["after"] == "Hard"
        found = planned(capsys, "--from", str(saved), "--remove", "two")
        assert found["one/tq"]["given"]["after"] == pytest.approx(1.0)

    def test_bursts_that_are_met_and_due_are_told_before_and_after(self, idle: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(idle), "--capacity", "+30%"]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[0].endswith("BURSTS MET")
        ends = {line.split()[0]: line[said[0].index("BURSTS MET") :] for line in said[1:4]}
        assert ends == {"first/lq": "36 of 36", "second/lq": "0 of 36 -> 36 of 36", "one/tq": "-"}
        assert "Bursts met, of those due within 60 min, from" in said[-2]
        assert said[-1] == "No further batch work comes in these runs, because too few past Jobs are known."
        bursts = planned(capsys, "--from", str(idle), "--capacity", "+30%", "--hours", "0.1")["second/lq"]["bursts"]
        assert (bursts["before"]["met"], bursts["after"]["met"], bursts["after"]["due"]) == (0, 4, 4)
        assert bursts["horizonSeconds"] == 360.0
        assert planned(capsys, "--from", str(idle), "--capacity", "+30%")["one/tq"]["bursts"]["after"] is None

    def test_bursts_that_would_be_missed_are_exit_status_4(self, idle: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(idle), "--capacity", "-50%"]) == WORSE
        said = capsys.readouterr()
        assert "fairburst plan: first/lq would miss 36 bursts that it meets now: 0 of 36 instead of 36 of 36 due within 60 min." in said.err
        assert "36 of 36 -> 0 of 36" in said.out

    def test_without_a_horizon_no_burst_is_counted(self, idle: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(idle), "--capacity", "+30%", "--hours", "0"]) == 0
        assert "BURSTS" not in capsys.readouterr().out.upper()
        assert "bursts" not in planned(capsys, "--from", str(idle), "--capacity", "+30%", "--hours", "0")["second/lq"]

    def test_guessed_lengths_are_said_to_be_guesses_and_change_no_exit_status(
        self, saved: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["plan", "--from", str(saved), "--capacity", "cpu=-30%"]) == 0
        said = capsys.readouterr()
        assert "No ended pods are known, so all lengths of batch work are guesses, and bursts missed do not change" in said.out
        assert not said.err

    def test_weights_move_what_is_given(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = planned(capsys, "--from", str(saved), "--weight", "one=3")
        assert found["one/tq"]["share"]["after"] == pytest.approx(3 / 6)
        assert found["one/tq"]["given"]["after"] > 2 * found["two/tq"]["given"]["after"]

    def test_a_new_queue_is_told_its_class(self, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = manifest(tmp_path / "new.yaml", **latency_spec("10", 20, 200))
        found = planned(capsys, "--from", str(saved), "-f", str(file), "--expect", "new=Hard")
        assert found["new/lq"]["change"] == "new"
        assert found["new/lq"]["class"] == {"before": None, "after": "Hard"}
        assert main(["plan", "--from", str(saved), "-f", str(file), "--expect", "new=Soft", "--expect", "none=Hard"]) == WORSE
        said = capsys.readouterr()
        assert "new/lq would be Hard, expected Soft" in said.err
        assert "expected queue none to be Hard, found none of that name" in said.err
        assert "new -> Hard" in said.out

    def test_a_new_queue_that_is_not_admitted_is_exit_status_4(
        self, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = manifest(tmp_path / "new.yaml", "new/tq", "ThroughputQueue", weight=100)
        found = planned(capsys, "--from", str(saved), "-f", str(file), status=WORSE)
        assert found["new/tq"]["class"]["after"] == "not admitted"

    def test_a_changed_queue_keeps_its_place(self, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        burst = {"resources": {"cpu": "40", "memory": "40Gi"}, "durationSeconds": 20, "deadlineSeconds": 40}
        arrival = {"sporadic": {"minInterarrivalSeconds": 100}}
        file = manifest(tmp_path / "changed.yaml", "second/lq", burst=burst, arrival=arrival)
        found = planned(capsys, "--from", str(saved), "-f", str(file))
        assert found["second/lq"]["class"] == {"before": "Soft", "after": "Hard"}
        assert len(found) == 4

    def test_a_change_that_would_be_refused_is_exit_status_4(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(saved), "--weight", "one=30"]) == WORSE
        said = capsys.readouterr()
        assert "the change of one/tq would be refused. The changed promise was refused, the earlier one stays in force" in said.err

    def test_an_earlier_refusal_is_no_objection_to_another_change(
        self, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = last_round(saved)
        row = found.row("one/tq") or 0
        heavier = with_spec(found.snapshot, row, replace(found.snapshot.queues[row], weight=30.0))
        save_round(tmp_path / "refused.jsonl", found.again(heavier))
        assert main(["plan", "--from", str(tmp_path / "refused.jsonl"), "--weight", "two=2"]) == 0
        assert not capsys.readouterr().err
        assert main(["plan", "--from", str(tmp_path / "refused.jsonl"), "--weight", "one=29"]) == WORSE
        assert "the change of one/tq would be refused" in capsys.readouterr().err

    def test_a_name_is_looked_for_in_the_namespace_that_is_given(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = planned(
            capsys, "--from", str(saved), "--remove", "lq", "-n", "first", "--weight", "second/lq=2", "--expect", "second/lq=Hard"
        )
        assert found["first/lq"]["change"] == "gone"
        assert main(["explain", "lq", "-n", "second", "--from", str(saved)]) == 0
        assert "LatencyQueue second/lq: Soft" in capsys.readouterr().out

    def test_a_removed_queue_has_no_class(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(saved), "--remove", "one", "--expect", "one=Elastic"]) == WORSE
        assert capsys.readouterr().err == "fairburst plan: one/tq would be gone, expected Elastic.\n"

    def test_nothing_changes_where_nothing_is_wanted_of_it(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "--from", str(saved), "--capacity", "+0%"]) == 0
        assert capsys.readouterr().out == "No queue of 4 would notice.\n"

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            pytest.param([], "expected a change to try", id="nothing"),
            pytest.param(["--capacity", "20"], "expected +20%", id="capacity"),
            pytest.param(["--capacity", "-100%"], "expected +20%", id="no capacity"),
            pytest.param(["--capacity", "gpu=+10%"], "--capacity: expected one of cpu, memory, found gpu", id="resource"),
            pytest.param(["--remove", "nothing"], "expected one queue called nothing, found 0; there are: first/lq", id="queue"),
            pytest.param(["--remove", "lq"], "expected one queue called lq, found 2", id="two queues"),
            pytest.param(["--weight", "one=0"], "expected a whole number of at least 1", id="weight"),
            pytest.param(["--weight", "one"], "expected QUEUE=VALUE", id="pair"),
            pytest.param(["--weight", "one=2", "--expect", "one=hard"], "expected one of Hard, Soft, Elastic", id="class"),
            pytest.param(["-f", "absent.yaml"], "absent.yaml: expected a readable YAML file", id="file"),
            pytest.param(["--weight", "one=1000001"], "expected a whole number of at least 1 and at most 1000000", id="weight too large"),
            pytest.param(["--weight", f"one={'9' * 5000}"], "expected a whole number of at least 1", id="weight of many digits"),
            pytest.param(["--remove", "lq", "-n", "none"], "expected one queue called lq, found 0; there are: none", id="namespace"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, saved: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["plan", "--from", str(saved), *arguments]) == WRONG_ARGUMENTS
        said = capsys.readouterr().err.splitlines()
        assert complaint in said[0]
        assert said[1:] in ([], ["Try `fairburst plan --help`."])

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            pytest.param("a: [", "expected a readable YAML file", id="no YAML"),
            pytest.param("kind: Pod", "expected a LatencyQueue or a ThroughputQueue, found none", id="another kind"),
            pytest.param(
                "kind: ThroughputQueue\nmetadata: {name: a}\nspec: {weight: 0}", "ThroughputQueue default/a: spec.weight", id="spec"
            ),
            pytest.param("kind: [ThroughputQueue]", "expected a LatencyQueue or a ThroughputQueue, found none", id="a kind that is a list"),
            pytest.param(
                "kind: ThroughputQueue\nmetadata: [a]", "ThroughputQueue: metadata: expected keys and values, found ['a']", id="metadata"
            ),
            pytest.param(
                "\n---\n".join(
                    [
                        f"apiVersion: fairburst.dev/v1beta1\nkind: ThroughputQueue\nmetadata: {{name: a}}\nspec: {{weight: {w}}}"
                        for w in (1, 2)
                    ]
                ),
                "ThroughputQueue default/a: expected each queue once, found it twice; keep one of them",
                id="twice",
            ),
            pytest.param("kind: List\nitems: 3", "expected a list of objects as items, found 3", id="items"),
            pytest.param("[" * 20_000, "expected a readable YAML file", id="deep"),
            pytest.param("a: 2026-13-45", "expected a readable YAML file", id="no date"),
            pytest.param(
                "apiVersion: fairburst.dev/v1\nkind: ThroughputQueue\nmetadata: {name: a}",
                "ThroughputQueue default/a: apiVersion: expected fairburst.dev/v1beta1, found 'fairburst.dev/v1'",
                id="another version",
            ),
            pytest.param(
                "kind: ThroughputQueue\nmetadata: {name: a}",
                "ThroughputQueue default/a: apiVersion: expected fairburst.dev/v1beta1, found None",
                id="no version",
            ),
        ],
    )
    def test_malformed_manifests_are_one_line(
        self, saved: Path, tmp_path: Path, content: str, complaint: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "queue.yaml").write_text(content)
        assert main(["plan", "--from", str(saved), "-f", str(tmp_path / "queue.yaml")]) == WRONG_ARGUMENTS
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert complaint in said[0]


class TestOnACluster:
    def test_a_new_queue_in_a_new_namespace(self, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = manifest(tmp_path / "new.yaml", **latency_spec("10", 20, 200))
        found = planned(capsys, *served.arguments, "-f", str(file))
        assert found["new/lq"]["class"]["after"] == "Hard"
        assert found["serving/lq"]["class"] == {"before": "Hard", "after": "Hard"}

    def test_a_second_latency_queue_in_a_namespace_is_refused(
        self, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = manifest(tmp_path / "new.yaml", "batch/other", **latency_spec())
        assert main(["plan", *served.arguments, "-f", str(file)]) == WRONG_ARGUMENTS
        assert "ThroughputQueue tq already governs namespace batch; besides it, only ThroughputQueues" in capsys.readouterr().err

    def test_a_further_queue_of_a_namespace_is_tried(self, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = planned(capsys, *served.arguments, "-f", str(manifest(tmp_path / "new.yaml", "batch/other", "ThroughputQueue")))
        assert found["batch/other"]["class"] == {"before": None, "after": "Elastic"}

    def test_another_pool_is_refused(self, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = manifest(tmp_path / "new.yaml", "new/tq", "ThroughputQueue", pool="gpus")
        assert main(["plan", *served.arguments, "-f", str(file)]) == WRONG_ARGUMENTS
        assert "expected pool default, whose operator is asked, found gpus" in capsys.readouterr().err

    def test_a_snapshot_of_a_cluster_answers_as_the_cluster_does(
        self, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = str(tmp_path / "now.jsonl")
        assert main(["snapshot", "save", path, *served.arguments]) == 0
        assert capsys.readouterr().out == f"{path}: 3 queues of pool default\n"
        live = planned(capsys, *served.arguments, "--capacity", "+30%")
        assert planned(capsys, "--from", path, "--capacity", "+30%") == live
        assert live["serving-2/lq"]["class"] == {"before": "Soft", "after": "Hard"}
        assert main(["explain", "serving-2/lq", "--from", path]) == 0
        assert "burst.deadlineSeconds 20 -> 34" in capsys.readouterr().out


def test_a_queue_without_work_is_as_if_it_were_not_there() -> None:
    """The removed queue keeps its row; all others have the same as if it had never been there."""
    both = (throughput("a/q", 0.0), throughput("b/q", 1.0, 2.0))
    one = DecidedRound.of(snapshot(both, [10.0], [[10], [10]], unit=[[1], [1]]), Memory(), PolicyConfig(), 0.0)
    alone = DecidedRound.of(snapshot(both[:1], [10.0], [[10]], unit=[[1]]), Memory(), PolicyConfig(), 0.0)
    after = one.again(without_queue(one.snapshot, 1))
    assert after.result.allocation[0].tolist() == alone.result.allocation[0].tolist()
    (first, second) = changes(one, after, frozenset({"b/q"}))
    assert (first.is_gone, second.is_gone, second.is_weaker) == (False, True, False)


def test_a_new_queue_comes_last_also_at_the_same_moment() -> None:
    one = DecidedRound.of(snapshot((throughput("b/q", 5.0),), [10.0], [[10]]), Memory(), PolicyConfig(), 0.0)
    after = one.again(with_queue(one.snapshot, throughput("a/q", 5.0)))
    assert [spec.name for spec in after.snapshot.queues] == ["b/q", "a/q"]
    assert after.result.classes[1] is GuaranteeClass.ELASTIC
