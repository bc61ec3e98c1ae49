"""The Lease: plain numbers decide which replica may write, and on a server one replica takes over from another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import NotLeading, Unavailable
from fairburst.kube.api.lease import LONGEST_LEASE_SECONDS, Candidacy, LeaderElection, LeaseRecord, LeaseTimes
from tests.support.fake_api import FakeApi, Server, status
from tests.support.tasks import running, until

TIMES = LeaseTimes(lease=8.0, renew_deadline=5.0, retry=1.0)
LEASES = "/apis/coordination.k8s.io/v1/leases"
WHERE = ("fairburst-system", "fairburst-default")


def held_by(holder: str, version: str = "7", seconds: float = 8.0, transitions: int = 3) -> LeaseRecord:
    return LeaseRecord(holder, seconds, "then", "now", transitions, version)


def leader(now: float = 100.0) -> Candidacy:
    """A replica that has just made the Lease, with a request sent at `now`."""
    made = Candidacy("us", TIMES)
    made.read(None, now)
    claim = made.claim(now)
    assert claim is not None
    made.written(replace(claim, version="1"), now, now)
    return made


def standby(now: float = 100.0) -> Candidacy:
    """A replica that has just seen that others hold the Lease."""
    made = Candidacy("us", TIMES)
    made.read(held_by("them"), now)
    return made


class TestAcquiring:
    def test_before_it_was_read_nothing_is_claimed(self) -> None:
        assert Candidacy("us", TIMES).claim(1e9) is None

    def test_where_there_is_none_it_is_made(self) -> None:
        made = Candidacy("us", TIMES)
        made.read(None, 100.0)
        claim = made.claim(100.0)
        assert claim is not None
        assert (claim.holder, claim.version, claim.transitions) == ("us", "", 0)

    def test_one_that_was_released_is_taken_at_once(self) -> None:
        made = standby()
        made.read(held_by("", "8"), 100.5)
        claim = made.claim(100.5)
        assert claim is not None
        assert (claim.version, claim.transitions) == ("8", 4)

    def test_one_that_is_held_is_taken_once_it_was_seen_unchanged_for_its_length(self) -> None:
        made = standby(100.0)
        made.read(held_by("them"), 107.9)
        assert made.claim(107.9) is None
        assert made.claim(108.0) is not None

    def test_a_renewal_begins_the_wait_anew(self) -> None:
        made = standby(100.0)
        made.read(held_by("them", "8"), 107.0)
        assert made.claim(114.9) is None
        assert made.claim(115.0) is not None

    def test_the_holder_s_own_length_is_waited_for(self) -> None:
        made = Candidacy("us", TIMES)
        made.read(held_by("them", seconds=30.0), 100.0)
        assert made.free_at == 130.0

    def test_a_length_without_sense_is_not(self) -> None:
        made = Candidacy("us", TIMES)
        made.read(held_by("them", seconds=1e9), 100.0)
        assert made.free_at == 100.0 + LONGEST_LEASE_SECONDS
        made.read(held_by("them", "8", seconds=0.0), 100.0)
        assert made.free_at == 108.0

    def test_one_that_was_deleted_is_waited_for_since_its_holder_may_not_know(self) -> None:
        made = standby(100.0)
        made.read(None, 107.0)
        assert made.claim(114.9) is None
        claim = made.claim(115.0)
        assert claim is not None
        assert claim.version == ""

    def test_an_answer_makes_leader_from_when_the_request_was_sent(self) -> None:
        made = standby(100.0)
        claim = made.claim(108.0)
        assert claim is not None
        made.written(replace(claim, version="8"), 108.0, 110.0)
        assert made.writes_until == 113.0
        assert made.leads(112.9)

    def test_an_answer_that_comes_too_late_makes_nobody_leader(self) -> None:
        made = standby(100.0)
        claim = made.claim(108.0)
        assert claim is not None
        made.written(replace(claim, version="8"), 108.0, 113.0)
        assert not made.leads(113.0)

    @pytest.mark.parametrize(
        ("seen", "want"),
        [
            pytest.param([(held_by("them"), 100.0), (held_by("them", "8"), 103.0)], 103.0, id="its holder was silent since then"),
            pytest.param([(held_by("them"), 100.0), (held_by("", "8"), 103.0)], 112.0, id="released, its holder led until just before"),
            pytest.param([(None, 100.0)], 112.0, id="never held"),
        ],
    )
    def test_it_is_known_since_when_there_may_have_been_no_leader(self, seen: list[tuple[LeaseRecord | None, float]], want: float) -> None:
        made = Candidacy("us", TIMES)
        for record, at in seen:
            made.read(record, at)
        claim = made.claim(112.0)
        assert claim is not None
        made.written(replace(claim, version="9"), 112.0, 112.0)
        assert made.vacant_since == want
        renewal = made.claim(113.0)
        assert renewal is not None
        made.written(replace(renewal, version="10"), 113.0, 113.0)
        assert made.vacant_since == want, "a renewal begins no term"

    def test_one_that_could_not_renew_knows_since_when(self) -> None:
        made = leader(100.0)
        first = made.claim(101.0)
        assert first is not None
        made.written(replace(first, version="2"), 101.0, 101.1)
        made.read(replace(first, version="2"), 150.0)
        again = made.claim(150.0)
        assert again is not None
        made.written(replace(again, version="3"), 150.0, 150.1)
        assert made.vacant_since == 101.1


class TestKeeping:
    def test_a_renewal_names_the_version_and_keeps_the_count(self) -> None:
        made = leader(100.0)
        claim = made.claim(101.0)
        assert claim is not None
        assert (claim.version, claim.transitions) == ("1", 0)
        made.written(replace(claim, version="2"), 101.0, 101.1)
        assert made.writes_until == 106.0

    def test_without_renewal_the_right_ends_by_itself_before_others_take_it(self) -> None:
        made = leader(100.0)
        assert made.leads(104.9)
        assert not made.leads(105.0)

    def test_a_clock_that_stood_still_for_the_process_has_ended_it_when_the_process_goes_on(self) -> None:
        made = leader(100.0)
        claim = made.claim(101.0)  # then SIGSTOP for half a minute, with the answer in the socket
        assert claim is not None
        made.written(replace(claim, version="2"), 101.0, 131.0)
        assert not made.leads(131.0)

    def test_somebody_else_s_name_ends_it_at_once(self) -> None:
        made = leader(100.0)
        made.read(held_by("them"), 101.0)
        assert not made.leads(101.0)
        assert made.claim(101.0) is None

    def test_a_deleted_lease_ends_it_at_once_and_is_made_again_when_nobody_else_can_be_holder_any_more(self) -> None:
        made = leader(100.0)
        made.read(None, 101.0)
        assert not made.leads(101.0)
        assert made.claim(108.9) is None
        claim = made.claim(109.0)
        assert claim is not None
        assert claim.version == ""

    def test_an_answer_that_was_lost_is_found_out_and_harms_nothing(self) -> None:
        made = leader(100.0)
        assert made.claim(101.0) is not None  # stored as version 2, but the answer was lost
        made.read(LeaseRecord("us", 8.0, "then", "now", 0, "2"), 102.0)
        assert made.writes_until == 105.0, "it is not known when that was sent, so it does not count"
        claim = made.claim(102.0)
        assert claim is not None
        assert claim.version == "2"

    def test_one_that_comes_back_after_its_deadline_claims_anew_what_nobody_has_taken(self) -> None:
        made = leader(100.0)
        made.read(LeaseRecord("us", 8.0, None, None, 0, "1"), 106.0)
        assert made.claim(106.0) is not None

    def test_the_wall_clock_does_not_matter(self) -> None:
        """A change of the time counts, not its value."""
        made = standby(100.0)
        for number, renewed in enumerate(("2099-01-01", "1970-01-01", "nonsense")):
            made.read(replace(held_by("them", str(8 + number)), renewed=renewed), 101.0 + number)
            assert made.free_at == 109.0 + number


class TestResigning:
    def test_it_ends_the_right_and_the_wish(self) -> None:
        made = leader(100.0)
        record = made.resign()
        assert record is not None
        assert (record.holder, record.version) == ("", "1")
        assert not made.leads(100.1)
        assert made.claim(1000.0) is None

    def test_a_renewal_that_was_under_way_gives_no_right_back_but_the_version_to_release(self) -> None:
        made = leader(100.0)
        claim = made.claim(101.0)
        assert claim is not None
        made.resign()
        made.written(replace(claim, version="2"), 101.0, 101.1)
        assert not made.leads(101.1)
        record = made.resign()
        assert record is not None
        assert record.version == "2"

    def test_what_is_not_ours_is_not_released(self) -> None:
        assert standby().resign() is None


class TestWaiting:
    def test_turns_are_a_retry_time_apart_and_up_to_a_fifth_more(self) -> None:
        assert leader(100.0).pause(100.0, 100.0, 0.0) == 1.0
        assert leader(100.0).pause(100.0, 100.0, 1.0) == 1.2

    def test_slow_answers_leave_time_for_other_writes(self) -> None:
        """The right to write counts from the sending of a renewal, so the next one is not put off by its answer."""
        assert leader(100.0).pause(100.0, 100.7, 0.0) == pytest.approx(0.3)
        assert leader(100.0).pause(100.0, 102.0, 1.0) == pytest.approx(0.1)

    def test_the_end_of_our_right_and_of_others_is_not_overslept(self) -> None:
        assert leader(100.0).pause(104.75, 104.75, 1.0) == 0.25
        assert standby(100.0).pause(107.5, 107.5, 1.0) == 0.5

    def test_what_has_ended_long_ago_is_no_reason_to_hurry(self) -> None:
        assert standby(100.0).pause(200.0, 200.0, 0.0) == 1.0


# On a server -------------------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def candidate(api: FakeApi, identity: str, times: LeaseTimes = TIMES) -> AsyncIterator[LeaderElection]:
    async with api.client() as client:
        election = LeaderElection(client, *WHERE, identity, times)
        async with running(election.run()):
            yield election


def holder(api: FakeApi) -> str:
    return str(api.objects[LEASES][WHERE]["spec"]["holderIdentity"])


async def test_one_leads_and_the_other_takes_over_when_it_is_released() -> None:
    async with FakeApi(LEASES) as api, candidate(api, "first") as first:
        await until(first.leading.is_set, "the first to lead")
        async with candidate(api, "second") as second:
            await until(lambda: second.unread is None, "the second to look")
            assert second.standing_by.is_set()
            assert second.seconds_left() <= 0
            asked = time.monotonic()
            await first.resign()
            assert first.seconds_left() <= 0
            assert holder(api) == "first", "no other replica begins until it is released"
            await first.release()
            await until(second.leading.is_set, "the second to lead")
            assert time.monotonic() - asked < TIMES.lease, "it did not wait for the Lease to expire"
            spec = api.objects[LEASES][WHERE]["spec"]
            assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("second", 1, 8)


async def test_a_holder_that_is_not_heard_of_is_replaced() -> None:
    times = LeaseTimes(2.0, 1.5, 0.2)
    async with FakeApi(LEASES) as api:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "leaseTransitions": 0}
        api.put(LEASES, {"metadata": {"namespace": WHERE[0], "name": WHERE[1]}, "spec": spec})
        began = time.monotonic()
        async with candidate(api, "second", times) as second:
            await until(second.leading.is_set, "the second to lead")
            assert time.monotonic() - began >= times.lease


async def test_the_right_to_write_ends_by_itself_while_the_server_is_away_and_comes_back_with_it() -> None:
    times = LeaseTimes(3.0, 2.0, 0.2)
    async with FakeApi(LEASES) as api, candidate(api, "first", times) as first:
        await until(first.leading.is_set, "it to lead")
        await api.stop()
        await until(lambda: first.seconds_left() <= 0, "its right to end")
        await until(first.standing_by.is_set, "it to say so")
        await api.start()
        await until(first.leading.is_set, "it to lead again")


async def test_a_lease_that_somebody_takes_by_hand_is_lost_at_the_next_renewal() -> None:
    async with FakeApi(LEASES) as api, candidate(api, "first") as first:
        await until(first.leading.is_set, "it to lead")
        stored = api.objects[LEASES][WHERE]
        api.put(LEASES, {**stored, "spec": {**stored["spec"], "holderIdentity": "another"}})
        await until(first.standing_by.is_set, "it to notice")
        assert first.seconds_left() <= 0


async def test_a_replica_that_may_not_read_the_lease_says_so() -> None:
    async with FakeApi(LEASES) as api:
        api.fail(1000, 403, status(403, "Forbidden", "leases is forbidden"))
        async with candidate(api, "first") as first:
            assert first.unread is not None
            await until(lambda: "leases is forbidden" in (first.unread or ""), "the reason")


class FixedFence:
    """A right to write until a given time."""

    def __init__(self, seconds: float) -> None:
        self.server_seconds = 3.0
        self._until = time.monotonic() + seconds

    def seconds_left(self) -> float:
        return self._until - time.monotonic()


async def test_without_the_right_to_write_nothing_is_sent_and_reading_goes_on() -> None:
    async with FakeApi(LEASES) as api, api.client() as client:
        client.fence = FixedFence(0.0)
        for write in (client.create, client.replace, client.merge_patch):
            with pytest.raises(NotLeading):
                await write(LEASES, {})
        with pytest.raises(NotLeading):
            await client.delete(f"{LEASES}/x")
        assert (await client.get_json(LEASES))["items"] == []
        assert [method for method, _, _ in api.requests] == ["GET"]


async def test_a_write_ends_with_the_right_to_write_and_the_server_is_told_to_hurry() -> None:
    asked: list[str] = []

    async def hang(request: web.Request) -> web.StreamResponse:
        asked.append(request.query["timeout"])
        await asyncio.sleep(60.0)
        return web.Response()

    from fairburst.kube.api.auth import Credentials

    async with Server(hang) as url, ApiClient(Credentials(url)) as client:
        client.fence = FixedFence(0.5)
        began = time.monotonic()
        write = asyncio.create_task(client.merge_patch("/x", {}))
        await until(lambda: asked, "the request")
        ended = asyncio.create_task(client.writes_ended())
        await asyncio.sleep(0)
        assert not ended.done()
        with pytest.raises(Unavailable, match="no answer in time"):
            await write
        assert 0.5 <= time.monotonic() - began < 30.0
        await ended
    assert asked == ["3s"]
