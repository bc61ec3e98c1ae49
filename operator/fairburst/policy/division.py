"""From real shares to pods: whole units in turns, lending of idle capacity, and each queue's balance.

It runs between the allocation in real numbers (bopf.py) and the charges (decide.py) of a round, and writes turns to `columns`. Balances are
written at the end of the round, when it is known which slots have moved between queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairburst.policy import balance
from fairburst.policy.arrays import BoolArray, FloatArray
from fairburst.policy.bopf import AllocationInput
from fairburst.policy.dress.values import StartMode
from fairburst.policy.drf import largest_share
from fairburst.policy.leftover import give_leftover
from fairburst.policy.lending import Lender
from fairburst.policy.model import ClusterSnapshot, PolicyConfig
from fairburst.policy.rounding import Rounding, Turns
from fairburst.policy.starts import Starts
from fairburst.policy.table import ELASTIC, NO_WINDOW, NOT_ADMITTED, Columns


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """What each queue should have, to which its balance compares what it has.

    fair: (N,) dominant shares. unit: (N, K) what it starts at once. allocation: (N, K) what is given in this round, before leftovers.
    """

    fair: FloatArray
    unit: FloatArray
    allocation: FloatArray

    def settle(
        self, columns: Columns, snapshot: ClusterSnapshot, config: PolicyConfig, wanted: FloatArray, inverse: FloatArray, now: float,
        moved: Mapping[str, FloatArray],
    ) -> None:  # fmt: skip
        """Write the balances. moved: (K,) amounts by queue that PAF moved to it. What the receiver really uses of them still counts as the
        giver's, who is not owed what it gives: otherwise the receiver's weight would fall for it, and the exchange would be taken back."""
        usage = snapshot.usage.copy(order="K") if moved else snapshot.usage
        for queue, amount in moved.items():
            row = columns.declared.row_of[queue]
            used, given = usage[row], self.allocation[row]
            usage[row] = np.clip(used - amount, np.minimum(used, given), np.maximum(used, given))
        balance.settle(
            columns, self.fair, wanted, usage, self.allocation, self.unit, snapshot.live_capacity, inverse, config.batch_memory_seconds, now
        )


def divide_into_pods(
    columns: Columns, snapshot: ClusterSnapshot, config: PolicyConfig, inputs: AllocationInput, guaranteed: FloatArray, spare: FloatArray,
    inverse: FloatArray, now: float, *, lends: bool,
) -> tuple[FloatArray, FloatArray, BoolArray | None, Due]:  # fmt: skip
    """Return (allocation, guaranteed, making_room, due). The first two (N, K) are whole units if the unit is known. If the round `lends`,
    the allocation includes lent capacity, as spare, and gives the rest to queues that are not admitted. making_room: (N,) queues that have
    nothing, or use too much, while a job that starts whole has its turn; None if no such job has."""
    some_spare = bool(spare.any())
    total = guaranteed + spare if some_spare else guaranteed
    yields = inputs.elastic & (columns.state == NO_WINDOW) & (columns.guarantee == ELASTIC)
    starts = Starts.of(snapshot, inputs.wanted, yields, config.largest_turn)
    turns = Turns(columns.waiting_since, columns.unit_held_since, balance.balance(columns, now))
    allocation, guaranteed = _whole_units(
        columns, snapshot, inputs, yields, starts, guaranteed, spare if some_spare else None, total, turns, now
    )  # fmt: skip
    making_room = None if starts is None else starts.making_room(allocation, total, snapshot.usage, yields)
    if lends and not _starts_whole(snapshot, config):
        # a limit that scales a whole mix down leaves room for single pods of another mix
        demand = inputs.wanted if columns.declared.limit is None else admitted_demand(columns, snapshot)
        lender = Lender(
            demand, snapshot.usage, snapshot.unit, inputs.weight, snapshot.live_capacity,
            columns.declared.limit, snapshot.waiting, ~inputs.elastic, ~columns.declared.latency, turns.owed,
        )  # fmt: skip
        lent = lender.lend(allocation)
        if lent is not allocation:
            allocation, guaranteed = lent, np.minimum(guaranteed, lent)
    fair = largest_share(total, inverse)
    if inputs.weight is not columns.declared.weight:
        fair *= columns.declared.weight / inputs.weight
    due = Due(fair, snapshot.unit if starts is None else starts.unit, allocation)
    return give_leftover(columns, snapshot, allocation) if lends else allocation, guaranteed, making_room, due


def admitted_demand(columns: Columns, snapshot: ClusterSnapshot) -> FloatArray:
    """(N, K) demand of admitted queues, before limits."""
    admitted = columns.guarantee != NOT_ADMITTED
    return snapshot.demand if admitted.all() else snapshot.demand * admitted[:, None]


def _starts_whole(snapshot: ClusterSnapshot, config: PolicyConfig) -> bool:
    """Return whether jobs start with all of their pods at once, so that idle capacity for one pod is useless."""
    return config.dress is not None and snapshot.jobs is not None and config.dress.start_mode is StartMode.WHOLE_JOBS


def _whole_units(
    columns: Columns, snapshot: ClusterSnapshot, inputs: AllocationInput, yields: BoolArray, starts: Starts | None, guaranteed: FloatArray,
    spare: FloatArray | None, total: FloatArray, turns: Turns, now: float,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return (allocation, guaranteed), both in whole units if the unit is known. spare: the part of `total` without guarantee, or None."""
    firm = np.zeros(len(total), dtype=bool)
    firm[inputs.hard] = True
    rounding = Rounding(
        guaranteed, firm, inputs.wanted, snapshot.unit, snapshot.live_capacity, inputs.soft, columns.declared.name_rank, yields,
        inputs.weight, starts,
    )  # fmt: skip
    rounded, turns = rounding.round_to_units(total, turns, now)
    columns.waiting_since[:] = turns.waiting_since
    columns.unit_held_since[:] = turns.unit_held_since
    if rounded is total:
        return total, guaranteed
    if spare is None:
        return rounded, rounded
    firm_part = np.empty_like(rounded)
    for column in range(rounded.shape[1]):
        part = firm_part[:, column]
        np.subtract(rounded[:, column], guaranteed[:, column], out=part)
        np.maximum(part, 0.0, out=part)
        np.minimum(part, spare[:, column], out=part)
        np.subtract(rounded[:, column], part, out=part)
    return rounded, firm_part
