"""Properties of every what-if question, for any pool."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings

from fairburst.cli.snapshots import last_round, save_round
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, Memory, PolicyConfig, QueueKind
from fairburst.whatif.advice import better_class, next_pod
from fairburst.whatif.rounds import RANK, DecidedRound, changes, with_queue, without_queue
from tests.support.policy import throughput
from tests.support.strategies import snapshots

START = 1_767_225_600.0


def decided(snapshot: ClusterSnapshot) -> DecidedRound:
    return DecidedRound.of(snapshot, Memory(), PolicyConfig(expected_queues=4.0), START)


class TestPlans:
    @given(snapshots())
    @settings(max_examples=60)
    def test_no_change_takes_no_class(self, snapshot: ClusterSnapshot) -> None:
        one = decided(snapshot)
        assert not any(change.is_weaker for change in changes(one, one.again(snapshot)))

    @given(snapshots())
    @settings(max_examples=60)
    def test_a_queue_that_goes_takes_no_class_from_another(self, snapshot: ClusterSnapshot) -> None:
        one = decided(snapshot)
        after = one.again(without_queue(snapshot, 0))
        assert not any(change.is_weaker for change in changes(one, after, frozenset({snapshot.queues[0].name})))
        assert not after.result.allocation[0].any()

    @given(snapshots())
    @settings(max_examples=60)
    def test_a_new_queue_takes_no_hard_promise(self, snapshot: ClusterSnapshot) -> None:
        """Safety: every promise is kept, and a new queue that would break one is refused."""
        one = decided(snapshot)
        after = one.again(with_queue(snapshot, throughput("new/q", 1e6, 5.0)))
        for was, now in zip(one.result.classes, after.result.classes, strict=False):
            assert was is not GuaranteeClass.HARD or now is GuaranteeClass.HARD

    @given(snapshots())
    @settings(max_examples=60)
    def test_a_snapshot_on_file_is_decided_as_it_was(self, snapshot: ClusterSnapshot) -> None:
        one = decided(snapshot)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "round.jsonl"
            save_round(path, one)
            again = last_round(path)
        assert again.result.classes == one.result.classes
        assert (again.result.level == one.result.level).all()


class TestAdvice:
    @given(snapshots())
    @settings(max_examples=25)
    def test_each_change_gives_what_was_asked_for_and_takes_from_no_other_queue(self, snapshot: ClusterSnapshot) -> None:
        one = decided(snapshot)
        for row, spec in enumerate(snapshot.queues[:3]):
            best = GuaranteeClass.HARD if spec.kind is QueueKind.LATENCY else GuaranteeClass.ELASTIC
            for advice in better_class(one, spec.name):
                assert advice.after.result.classes[row] is best
                self.takes_nothing(one, advice.after, row)
            for advice in next_pod(one, spec.name):
                assert (advice.after.result.level[row] >= one.result.level[row] * (1 - 1e-9)).any()
                self.takes_nothing(one, advice.after, row)

    @staticmethod
    def takes_nothing(before: DecidedRound, after: DecidedRound, row: int) -> None:
        for other, (was, now) in enumerate(zip(before.result.classes, after.result.classes, strict=True)):
            assert other == row or RANK[now] >= RANK[was]
