"""The core's memory between rounds: all queues, by name or as columns, and DRESS's part. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.queue_memory import Promised, QueueMemory
from fairburst.policy.spec import QueueKind
from fairburst.policy.table import ARRAY_FIELDS, RECEIVED, Columns, put_queue_memory


class Memory:
    """State between rounds, by queue name. A value: `decide` returns a new one and never changes the old.

    `queues` is a view built on demand if the memory was returned by `decide`, which keeps it as arrays (`columns`).
    """

    __slots__ = ("columns", "dress", "next_admission_order", "queues")

    queues: Mapping[str, QueueMemory]
    next_admission_order: int
    columns: Columns | None
    dress: DressMemory | None

    def __init__(
        self,
        queues: Mapping[str, QueueMemory] | None = None,
        next_admission_order: int = 0,
        columns: Columns | None = None,
        dress: DressMemory | None = None,
    ) -> None:
        self.queues = {} if queues is None else queues
        self.next_admission_order = next_admission_order
        self.columns = columns
        self.dress = dress

    def kinds(self) -> dict[str, QueueKind]:
        """Return the kind of each remembered queue, without building the rest of its memory."""
        if self.columns is not None:
            return {promise.name: promise.kind for promise in self.columns.declared.queues}
        return {name: entry.promise.kind for name, entry in self.queues.items()}

    def promised(self, name: str) -> Promised | None:
        """Return the promise of one queue without building the rest of its memory; None for an unknown queue."""
        if self.columns is not None:
            row = self.columns.declared.row_of.get(name)
            return None if row is None else self.columns.promised(row)
        entry = self.queues.get(name)
        if entry is None:
            return None
        return Promised(entry.promise, entry.guarantee_class, entry.window.index if entry.window is not None else 0)

    def entry(self, name: str) -> QueueMemory:
        """Return one of `queues`, which may lack its admission decision, because building that takes longer than all the rest."""
        if self.columns is not None:
            return self.columns.entry(self.columns.declared.row_of[name])
        return self.queues[name]

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        same = self.next_admission_order == other.next_admission_order and self.dress == other.dress
        return same and dict(self.queues) == dict(other.queues)

    __hash__ = None  # type: ignore[assignment]  # a value with mappings inside

    @override
    def __repr__(self) -> str:
        return f"Memory(queues={dict(self.queues)!r}, next_admission_order={self.next_admission_order})"


def restore(memory: Memory, names: Mapping[str, int], columns: Columns) -> None:
    """Write the memory of the queues in `names` (name -> row) into `columns`."""
    if memory.columns is None:
        for name, row in names.items():
            if name in memory.queues:
                put_queue_memory(columns, row, memory.queues[name])
        return
    old = memory.columns
    pairs = [(row, old.declared.row_of[name]) for name, row in names.items() if name in old.declared.row_of]
    if not pairs:
        return
    new_rows, old_rows = np.array(pairs).T
    for field_name in ARRAY_FIELDS:
        getattr(columns, field_name)[new_rows] = getattr(old, field_name)[old_rows]
    for column, resource in enumerate(columns.declared.resources):
        if resource in old.declared.resources:
            was = old.declared.resources.index(resource)
            for field_name in RECEIVED:
                getattr(columns, field_name)[new_rows, column] = getattr(old, field_name)[old_rows, was]
