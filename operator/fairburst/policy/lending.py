"""Lends idle capacity pod by pod: the parts of the fair division that no queue's next pods can use go to pods that fit, lowest share first.

The fill divides by the resource mix of a queue's whole demand. Its next pods have another mix, so one resource of its allocation may be
exhausted while another is idle, like the capacity outside all allocations. `lend` finds how far each queue's next pods reach inside its
allocation, and starts more pods in the rest, as in the simulator of BoPF's authors (Ghodsi et al., NSDI 2011, Algorithm 1): the queue of
the lowest dominant share per weight takes one more whole pod, as long as one fits. Lent capacity is spare: it is charged to no ledger, and
returns as pods end, because every round divides again. A throughput queue's pods that run beyond its allocation participate as if they
waited, because a level that did not cover them would rise and fall with every pod that ends. A burst beyond its promise has idle capacity
only while it is idle, so that batch work gets it first.

Guarantees are not lent: a hard, soft or overdue queue in its window keeps its allocation while its pods start.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray
from fairburst.policy.drf import column_sum, put_rows, row_any, row_any_short, take_rows
from fairburst.policy.model import WaitingPods
from fairburst.policy.tolerance import SMALLEST, TOLERANCE, slack_of

SINGLE_TURNS, PARTS = 2000, 8
_NEARLY = 1e-6  # of a pod: sums of amounts in bytes are not exact


@dataclass(frozen=True, slots=True, eq=False)
class Lender:
    """Input of `lend`. N queues, K resources.

    wanted, usage, unit: (N, K) as in the round. weight: (N,). capacity: (K,). limit: (N, K) or None. waiting: the pods that wait, as
    the snapshot has them; for queues without any in it, pods of the size `unit`. keeps: (N,) queues whose allocation is not lent.
    relends: (N,) queues whose pods beyond their allocation participate. owed: (N,) how far each is behind its fair share: among equal
    dominant shares the queue that is owed most is first.
    """

    wanted: FloatArray
    usage: FloatArray
    unit: FloatArray
    weight: FloatArray
    capacity: FloatArray
    limit: FloatArray | None
    waiting: WaitingPods | None
    keeps: BoolArray
    relends: BoolArray
    owed: FloatArray

    def lend(self, allocation: FloatArray) -> FloatArray:
        """Return the (N, K) allocation with idle capacity lent; `allocation` itself if nothing is. Its sum stays within capacity.

        A queue whose demand is met does not participate. O(N K), and O(log N) more for each run of equal pods that fits.
        """
        idle = self.capacity - column_sum(self.usage)
        rows = np.flatnonzero(row_any_short(allocation, self.usage) & self.relends & ~self.keeps)
        if (idle <= slack_of(self.capacity)).all() and rows.size == 0:
            return allocation
        running = _Running.of(self, allocation, rows)
        uncovered = self.capacity - _covered(allocation, self.usage) + running.total
        if self.waiting is None:  # then no queue gives, and `uncovered` is all that can be lent
            if (uncovered < -slack_of(self.capacity)).all():  # no pod beyond an allocation fits again
                return allocation
            running = running.that_fit(uncovered)
        lines = self._lines(allocation, running, uncovered if self.waiting is None else idle)
        if lines.rows.size == 0:
            return allocation
        covered = np.maximum(take_rows(allocation, lines.rows), lines.usage)
        reach = lines.reach(covered)
        blocked = lines.left > 0
        gives = lines.known & ~self.keeps[lines.rows] & np.logical_or.reduceat(blocked, lines.start)
        held = covered.copy()
        put_rows(held, np.flatnonzero(gives), reach[gives])
        pool = uncovered + column_sum(covered - held)
        lent = self._lend_pods(lines, reach, held - reach, pool)
        if not lent:
            return allocation
        return self._settled(allocation, lines, reach, gives, lent)

    def _lines(self, allocation: FloatArray, running: _Running, most: FloatArray) -> _Lines:
        """Return the pods that run beyond their queues' allocations, and the waiting ones of queues below their demand. A queue without
        listed pods counts if its next `unit` takes at most (K,) `most`."""
        parts: list[tuple[IntArray, FloatArray, FloatArray]] = []
        short, beyond = row_any_short(allocation, self.wanted), np.zeros(len(allocation), dtype=bool)
        if running.rows.size:
            parts.append((running.rows, running.request, running.count))
            beyond[running.rows] = True
        listed = np.zeros(len(short), dtype=bool)
        if self.waiting is not None and self.waiting.row.size:
            some = np.flatnonzero(short[self.waiting.row] & (self.waiting.count > 0) & row_any(self.waiting.request > SMALLEST))
            parts.append((self.waiting.row[some], self.waiting.request[some], self.waiting.count[some]))
            listed[self.waiting.row] = True
        rows = np.flatnonzero(short & ~listed)
        rows = rows[beyond[rows] | self._may_borrow(allocation, rows, most)]
        if rows.size:
            request = take_rows(self.unit, rows)
            count = _whole(take_rows(self.wanted, rows) - take_rows(self.usage, rows), request, np.full(rows.size, math.inf))
            some = np.flatnonzero(np.isfinite(count) & (count > 0))
            parts.append((rows[some], request[some], count[some]))
        if not parts:
            return _Lines.none(len(most))
        row, request, count = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(row, kind="stable")
        lines = _Lines.of(row[order], request[order], count[order], listed, self)
        some = np.flatnonzero(beyond[lines.rows])
        put_rows(lines.usage, some, np.minimum(take_rows(lines.usage, some), take_rows(allocation, lines.rows[some])))
        return lines

    def _may_borrow(self, allocation: FloatArray, rows: IntArray, most: FloatArray) -> BoolArray:
        """(M,) whether the first `unit` of each of these queues beyond its allocation takes at most (K,) `most` in addition to it."""
        number = np.full(len(rows), math.inf)
        columns = [
            (allocation[:, column].take(rows), self.usage[:, column].take(rows), self.unit[:, column].take(rows))
            for column in range(len(most))
        ]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for given, used, unit in columns:
                times = given - used
                np.maximum(times, 0.0, out=times)
                times /= unit
                np.fmin(number, times, out=number)  # 0 / 0 is NaN, which fmin ignores
        number += 1.0 + _NEARLY
        np.floor(number, out=number)
        result: BoolArray = np.isfinite(number)
        number[~result] = 0.0
        for (given, used, unit), available in zip(columns, most, strict=True):
            beyond = number - _NEARLY
            beyond *= unit
            beyond += used
            beyond -= np.maximum(given, used)
            result &= beyond <= available
        return result

    def _lend_pods(self, lines: _Lines, reach: FloatArray, own: FloatArray, pool: FloatArray) -> dict[int, list[float]]:
        """Start pods beyond `reach`. own: (R, K) rest of each queue's allocation, which is used before the `pool` (K,).

        Return the queues' use after that, by position in `lines.rows`.
        """
        fits = lines.may_start()
        beyond = lines.request - own[lines.position]
        for column, most in enumerate(pool):
            fits &= beyond[:, column] <= most + _NEARLY * lines.request[:, column]
        positions = np.unique(lines.position[fits])
        if positions.size == 0:
            return {}
        rows, its_lines = lines.rows[positions], np.flatnonzero(np.isin(lines.position, positions))
        requests, counts = lines.request[its_lines].tolist(), lines.left[its_lines].tolist()
        ends = np.cumsum(np.diff(lines.start, append=len(lines.left))[positions]).tolist()
        limits = [None] * rows.size if self.limit is None else (self.limit[rows] * (1.0 + TOLERANCE)).tolist()
        borrowers = [
            _Borrower(row, weight, owed, used, its_own, limit, lines.in_order, requests[start:end], counts[start:end])
            for row, weight, owed, used, its_own, limit, start, end in zip(
                rows.tolist(), self.weight[rows].tolist(), self.owed[rows].tolist(), reach[positions].tolist(), own[positions].tolist(),
                limits, [0, *ends[:-1]], ends, strict=True,
            )
        ]  # fmt: skip
        lend_in_turn(borrowers, (pool + slack_of(self.capacity)).tolist(), self.capacity.tolist())
        pairs = zip(positions.tolist(), borrowers, strict=True)
        return {position: borrower.used for position, borrower in pairs if borrower.borrowed}

    def _settled(
        self, allocation: FloatArray, lines: _Lines, reach: FloatArray, gives: BoolArray, lent: dict[int, list[float]]
    ) -> FloatArray:  # fmt: skip
        """Return allocations that cover the lent capacity. Each giver keeps the same fraction of its unused part."""
        rows = lines.rows
        former = take_rows(allocation, rows)
        least = np.where(gives[:, None], np.minimum(former, reach), former)
        positions = list(lent)
        least[positions] = np.maximum(least[positions], list(lent.values()))
        more = np.maximum(former - least, 0.0)
        result = allocation.copy(order="K")
        put_rows(result, rows, least)
        left, desired = np.maximum(self.capacity - column_sum(result), 0.0), column_sum(more)
        part = np.minimum(np.divide(left, desired, out=np.zeros_like(left), where=desired > 0), 1.0)
        put_rows(result, rows, least + more * part)
        return result


def _covered(allocation: FloatArray, usage: FloatArray) -> FloatArray:
    """(K,) sum of each queue's allocation or use, whichever is larger; computed without an intermediate matrix."""
    result, more = np.empty(usage.shape[1]), np.empty(len(usage))
    for column in range(usage.shape[1]):
        np.maximum(allocation[:, column], usage[:, column], out=more)
        result[column] = more.sum()
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """Pods that run beyond their queues' allocations: `count` (R,) equal parts of `request` (R, K), about a `unit` each, of R queues.

    total: (K,) amounts that all of these pods use.
    """

    rows: IntArray
    request: FloatArray
    count: FloatArray
    total: FloatArray

    @classmethod
    def of(cls, lender: Lender, allocation: FloatArray, rows: IntArray) -> _Running:
        if rows.size == 0:
            return cls(rows, np.zeros((0, len(lender.capacity))), np.zeros(0), np.zeros(len(lender.capacity)))
        given, usage = take_rows(allocation, rows), take_rows(lender.usage, rows)
        total = column_sum(np.maximum(usage - given, 0.0))
        more, unit = np.maximum(np.minimum(usage, take_rows(lender.wanted, rows)) - given, 0.0), take_rows(lender.unit, rows)
        count = np.ceil(np.divide(more, unit, out=np.ones_like(more), where=unit > SMALLEST).max(axis=1) - _NEARLY)
        request = more / np.maximum(count, 1.0)[:, None]
        some = row_any(more > SMALLEST)
        return cls(rows[some], request[some], np.maximum(count, 1.0)[some], total)

    def that_fit(self, most: FloatArray) -> _Running:
        """Return the rows of which one pod takes at most `most` (K,)."""
        some = (self.request <= most + _NEARLY * self.request).all(axis=1)
        return replace(self, rows=self.rows[some], request=self.request[some], count=self.count[some])


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """Runs of equal waiting pods, by queue: L lines of R queues.

    start: (R,) a queue's first line. position: (L,) index in `rows` (R,) of a line's queue. left: (L,) pods of each line that do not fit
    their queue's allocation, written by `reach`. known: (R,) whether the pods are listed.
    """

    rows: IntArray
    start: IntArray
    position: IntArray
    request: FloatArray
    left: FloatArray
    usage: FloatArray
    known: BoolArray
    in_order: bool

    @classmethod
    def none(cls, width: int) -> _Lines:
        nothing, whole = np.zeros((0, width)), np.zeros(0, dtype=np.int64)
        return cls(whole, whole, whole, nothing, np.zeros(0), nothing, np.zeros(0, dtype=bool), False)

    @classmethod
    def of(cls, row: IntArray, request: FloatArray, count: FloatArray, listed: BoolArray, lender: Lender) -> _Lines:
        rows, start, position = np.unique(row, return_index=True, return_inverse=True)
        in_order = lender.waiting is not None and lender.waiting.in_order
        return cls(rows, start, position, request, count.copy(), take_rows(lender.usage, rows), listed[rows], in_order)

    def may_start(self) -> BoolArray:
        """(L,) lines with pods left that wait for no other line."""
        some = self.left > 0
        if not self.in_order:
            return some
        number = np.arange(len(some))
        first = np.minimum.reduceat(np.where(some, number, len(some)), self.start)
        result: BoolArray = number == first[self.position]
        return result

    def reach(self, allowed: FloatArray) -> FloatArray:
        """Start every pod that fits the allocation `allowed` (R, K): take it out of `left`, and return the (R, K) use after that."""
        used, active = self.usage.copy(), np.ones(len(self.rows), dtype=bool)
        ends = np.append(self.start[1:], len(self.left))
        for number in range(int((ends - self.start).max())):
            active &= self.start + number < ends
            some = np.flatnonzero(active)
            line = self.start[some] + number
            pods = _whole(take_rows(allowed, some) - take_rows(used, some), self.request[line], self.left[line])
            put_rows(used, some, take_rows(used, some) + pods[:, None] * self.request[line])
            self.left[line] -= pods
            if self.in_order:
                active[some] = self.left[line] <= 0
            if not active.any():
                break
        return used


def _whole(room: FloatArray, request: FloatArray, most: FloatArray) -> FloatArray:
    """(M,) how many pods of `request` (M, K) fit `room` (M, K), at most `most` (M,)."""
    number = most
    for column in range(request.shape[1]):
        asked = request[:, column]
        needed = asked > SMALLEST
        times = np.divide(room[:, column], asked, out=np.full(len(asked), math.inf), where=needed)
        number = np.minimum(number, np.floor(times + _NEARLY))
    return np.maximum(number, 0.0)


@dataclass(slots=True)
class _Borrower:
    """A queue that borrows idle capacity: plain numbers, because pods are lent one run after the other.

    used, own, limit: by resource, its use, the rest of its allocation, and the most that it may use. requests, counts: its lines.
    """

    row: int
    weight: float
    owed: float
    used: list[float]
    own: list[float]
    limit: list[float] | None
    in_order: bool
    requests: list[list[float]]
    counts: list[float]
    line: int = 0
    borrowed: bool = False

    def share(self, capacity: Sequence[float]) -> float:
        """Dominant share per weight."""
        largest = 0.0
        for used, most in zip(self.used, capacity, strict=True):
            if most > SMALLEST and used / most > largest:
                largest = used / most
        return largest / self.weight

    def pods(self, pool: Sequence[float]) -> float:
        """Return how many pods of its next startable line fit. After 0 none fits later either, because the pool only shrinks."""
        while self.line < len(self.counts):
            fitting = min(math.floor(self.counts[self.line]), self._room(pool))
            if fitting > 0:
                return fitting
            if self.in_order and self.counts[self.line] > 0:
                return 0
            self.line += 1
        return 0

    def _room(self, pool: Sequence[float]) -> float:
        """Return how many pods of the present line fit. Most queues have room for none, and often the first resource shows it."""
        least = math.inf
        for column, need in enumerate(self.requests[self.line]):
            if need > SMALLEST:
                room = pool[column] + self.own[column]
                if self.limit is not None:
                    room = min(room, self.limit[column] - self.used[column])
                if room < need:
                    return 0
                least = min(least, room / need)
        return least if math.isinf(least) else math.floor(least)

    def pods_until(self, share: float, capacity: Sequence[float]) -> float:
        """Return how many pods bring its dominant share per weight above `share`; at least one."""
        if math.isinf(share):
            return math.inf
        least, reached = math.inf, share * self.weight
        for used, most, need in zip(self.used, capacity, self.requests[self.line], strict=True):
            if need > SMALLEST and most > SMALLEST:
                pods = (reached * most - used) / need
                least = min(least, pods)
        return 1 if math.isinf(least) else 1 + max(0, math.floor(least))

    def start(self, pods: float, pool: list[float]) -> None:
        """Start `pods` pods of the present line, first from its own rest and then from the pool."""
        for column, need in enumerate(self.requests[self.line]):
            amount, own = pods * need, self.own[column]
            self.used[column] += amount
            if amount > own:
                pool[column] -= amount - own
                self.own[column] = 0.0
            else:
                self.own[column] = own - amount
        self.counts[self.line] -= pods
        self.borrowed = True


def lend_in_turn(borrowers: Sequence[_Borrower], pool: list[float], capacity: Sequence[float]) -> None:
    """Lend `pool` (by resource): the borrower of the lowest dominant share per weight starts its next pod, until none fits.

    After `SINGLE_TURNS` turns a borrower starts an eighth of its part of the pods that fit, and those behind it catch up in one turn each:
    room for a hundred thousand pods does not take as many turns.
    """
    heap = [(borrower.share(capacity), -borrower.owed, borrower.row, number) for number, borrower in enumerate(borrowers)]
    heapq.heapify(heap)
    turns = 0
    while heap:
        *_, number = heapq.heappop(heap)
        borrower = borrowers[number]
        fitting = borrower.pods(pool)
        if fitting <= 0:
            continue
        next_share = heap[0][0] if heap else math.inf
        least = 1 if turns < SINGLE_TURNS else max(1, fitting // (PARTS * (1 + len(heap))))
        borrower.start(min(fitting, max(least, borrower.pods_until(next_share, capacity))), pool)
        turns += 1
        heapq.heappush(heap, (borrower.share(capacity), -borrower.owed, borrower.row, number))
