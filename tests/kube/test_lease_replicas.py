"""Two replicas may never write at once, whatever the network and their clocks do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairburst.kube.api.lease import Candidacy, LeaseRecord, LeaseTimes

TIMES = LeaseTimes(lease=8.0, renew_deadline=5.0, retry=1.0)


@dataclass
class Request:
    """One request of a replica. `served`: what the server answered; an answer may come late, or never."""

    claim: LeaseRecord | None  # None reads
    sent_at: float
    served: bool = False
    answer: LeaseRecord | None = None
    refused: bool = False


class Replicas(RuleBasedStateMachine):
    """Three replicas and a server that compares and swaps. Requests are delayed, lost before or after they are served, or served long
    after they were given up; processes freeze; clocks have nothing in common; the Lease is edited or deleted by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.stored: LeaseRecord | None = None
        self.version = 0
        self.deleted = False
        self.replicas = [Candidacy(f"replica-{number}", TIMES) for number in range(3)]
        self.skew = [0.0, 1e6, -5e5]
        self.pending: list[Request | None] = [None, None, None]
        self.adrift: list[Request] = []

    @initialize()
    def all_have_looked(self) -> None:
        for number in range(3):
            self.replicas[number].read(None, self.clock(number))

    def clock(self, number: int) -> float:
        return self.now + self.skew[number]

    def store(self, record: LeaseRecord | None) -> None:
        self.version += 1
        self.stored = None if record is None else replace(record, renewed=str(self.now), version=str(self.version))

    def begin(self, number: int, claim: LeaseRecord | None) -> None:
        self.pending[number] = Request(claim, self.clock(number))

    def execute(self, request: Request) -> None:
        """Compare the version, then store, as the server does."""
        claim = request.claim
        request.served = True
        if claim is not None:
            present = "" if self.stored is None else self.stored.version
            request.refused = claim.version != present
            if not request.refused:
                self.store(claim)
        request.answer = self.stored

    @rule(number=st.integers(0, 2))
    def turn(self, number: int) -> None:
        if self.pending[number] is None:
            replica = self.replicas[number]
            self.begin(number, replica.claim(self.clock(number)) if replica.leads(self.clock(number)) else None)

    @rule(number=st.integers(0, 2))
    def serve(self, number: int) -> None:
        request = self.pending[number]
        if request is not None and not request.served:
            self.execute(request)

    @rule(number=st.integers(0, 2))
    def answer(self, number: int) -> None:
        request, replica, now = self.pending[number], self.replicas[number], self.clock(number)
        if request is None or not request.served:
            return
        self.pending[number] = None
        led = replica.leads(now)
        if request.claim is None:
            replica.read(request.answer, now)
            claim = replica.claim(now)
            if claim is not None:
                self.begin(number, claim)
        elif request.refused or request.answer is None:
            self.begin(number, None)
        else:
            replica.written(request.answer, request.sent_at, now)
        if replica.leads(now) and not led:
            self.took_over(number, request.sent_at - self.skew[number])

    def took_over(self, number: int, since: float) -> None:
        """Writes that others may still have in flight have had their time on the server before we asked."""
        for other in range(3):
            ended = self.replicas[other].writes_until - self.skew[other]
            if other != number and ended > -math.inf:
                assert ended + TIMES.lease - TIMES.renew_deadline <= since + 1e-6

    @rule(number=st.integers(0, 2))
    def give_up(self, number: int) -> None:
        request = self.pending[number]
        if request is not None:
            self.pending[number] = None
            if not request.served:
                self.adrift.append(request)

    @precondition(lambda self: self.adrift)
    @rule(position=st.integers(0, 100))
    def arrive_late(self, position: int) -> None:
        self.execute(self.adrift.pop(position % len(self.adrift)))

    @rule(seconds=st.sampled_from([0.001, 0.4, 1.0, 2.0, 3.0, 5.0, 8.0]), number=st.integers(0, 2), answers=st.booleans())
    def wait(self, seconds: float, number: int, answers: bool) -> None:
        """Time passes, and one replica continues first: with an answer that came long ago, or with a turn."""
        self.now += seconds
        if answers:
            self.answer(number)
        else:
            self.visit([number])

    @rule()
    def edit(self) -> None:
        if self.stored is not None:
            self.version += 1
            self.stored = replace(self.stored, version=str(self.version))

    @precondition(lambda self: not self.deleted and all(replica._last is not None for replica in self.replicas))
    @rule()
    def delete(self) -> None:
        """By hand, once, while all know that it was held. (A process that starts in this moment knows nothing.)"""
        self.deleted = True
        self.store(None)

    @rule(numbers=st.lists(st.integers(0, 2), min_size=1, max_size=3))
    def visit(self, numbers: list[int]) -> None:
        """Whole turns in a moment, as on a healthy network: a look and a write where they are due."""
        for number in numbers:
            for _ in range(2):
                self.turn(number)
                self.serve(number)
                self.answer(number)

    @rule(number=st.integers(0, 2))
    def restart(self, number: int) -> None:
        """Asked to stop, it releases the Lease and comes back under another name, and looks before anything else."""
        if self.pending[number] is not None or self.stored is None:
            return
        record = self.replicas[number].resign()
        if record is not None and self.stored is not None and record.version == self.stored.version:
            self.store(record)
        self.replicas[number] = Candidacy(f"replica-{self.version}-{number}", TIMES)
        self.replicas[number].read(self.stored, self.clock(number))

    @invariant()
    def at_most_one_may_write(self) -> None:
        assert sum(replica.leads(self.clock(number)) for number, replica in enumerate(self.replicas)) <= 1


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=200, stateful_step_count=30, deadline=None, derandomize=True)
