"""Find the queues that make a decision fail: those on which the core cannot decide alone either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.policy.decide import decide
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig

Value = TypeVar("Value")


class UndecidableError(Exception):
    """`decide` raised `cause` for this snapshot, whose rows are those of `members`."""

    def __init__(self, snapshot: ClusterSnapshot, members: Sequence[QueueEntry], cause: Exception) -> None:
        super().__init__(str(cause))
        self.snapshot, self.members, self.cause = snapshot, members, cause


def culprits(snapshot: ClusterSnapshot, memory: Memory, config: PolicyConfig, wall: float) -> dict[str, Exception]:
    """Return the queues by name with the error that each causes alone, with or without its memory.

    Linear in the queues, with two decisions at most for each; paid once for each broken object, not in every round.
    """
    remembered = dict(memory.queues)
    found: dict[str, Exception] = {}
    for row, spec in enumerate(snapshot.queues):
        alone = _alone(snapshot, row)
        own = {spec.name: remembered[spec.name]} if spec.name in remembered else {}
        for known in ({}, own):
            try:
                decide(alone, Memory(known), config, wall)
            except Exception as error:
                found[spec.name] = error
                break
    return found


def _alone(snapshot: ClusterSnapshot, row: int) -> ClusterSnapshot:
    """Return the snapshot with this queue alone."""
    one = np.array([row])
    return replace(
        snapshot,
        queues=(snapshot.queues[row],),
        demand=snapshot.demand[one],
        usage=snapshot.usage[one],
        unit=snapshot.unit[one],
        jobs=None,
        elastic_jobs=(),
        elastic_rules=None,
        waiting=None,
        oldest_work=_first(snapshot.oldest_work, row),
        unseen_work=_first(snapshot.unseen_work, row),
        next_start=_first(snapshot.next_start, row),
        starting=frozenset({0} if row in snapshot.starting else ()),
        left_behind=_first(snapshot.left_behind, row),
    )


def _first(by_row: Mapping[int, Value], row: int) -> dict[int, Value]:
    """Return what there is of one row, as that of the only row."""
    return {0: by_row[row]} if row in by_row else {}
