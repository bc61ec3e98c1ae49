"""The annotation for the temporary part of a quota, and when it is written (docs/decisions/0122-a-quota-that-expires.md)."""

from __future__ import annotations

from datetime import datetime

import pytest

from fairburst.kube.enforce.expiry import SLACK_SECONDS, WINDOW_SECONDS, Temporary, expiry_annotations, lasting_amounts, notes
from fairburst.kube.names import EXPIRES_ANNOTATION, LASTING_ANNOTATION, QUOTA_NAME
from tests.support.objects import World, job, latency_spec

LQ, TQ = "LatencyQueue", "ThroughputQueue"
WALL = 1_767_225_600.0
LASTING = {"requests.cpu": "2"}


def expires(annotations: dict[str, str]) -> float:
    return datetime.fromisoformat(annotations[EXPIRES_ANNOTATION]).timestamp()


def written(world: World, namespace: str) -> dict[str, str]:
    """The annotations of the namespace's quota."""
    return world.quotas[namespace, QUOTA_NAME].metadata.annotations or {}


@pytest.fixture
def bursting() -> World:
    """A hard queue (16 cpu for 20 s) in its window on 64 cpu, and a batch queue that wants all."""
    world = World()
    world.queue(LQ, "burst", spec=latency_spec("16", 20))
    world.queue(TQ, "batch")
    world.controller("Job", None, job("batch", "work", 64))
    world.round()
    world.after(5.0)
    world.round()
    world.controller("Job", None, job("burst", "burst", 16))
    world.round()
    return world


def test_an_open_windows_rate_ends_two_minutes_after_its_deadline_and_a_fair_share_lasts(bursting: World) -> None:
    opened = bursting.wall
    for _ in range(15):
        bursting.after(1.0)
        bursting.round()
    noted = written(bursting, "burst")
    assert expires(noted) == pytest.approx(opened + 20 + WINDOW_SECONDS, abs=2.0)
    assert "requests.cpu=16" in noted[LASTING_ANNOTATION], "half of 64 is fair, and the rate is less"


def test_in_a_bursts_first_seconds_its_quota_is_not_written_for_it(bursting: World) -> None:
    before = bursting.quotas["burst", QUOTA_NAME]
    bursting.after(1.0)
    bursting.round()
    bursting.after(1.0)
    bursting.round()
    assert bursting.quotas["burst", QUOTA_NAME] is before


def test_once_the_window_is_closed_the_quota_says_no_more_that_it_expires(bursting: World) -> None:
    for second in range(300):
        bursting.after(1.0)
        if second == 20:
            bursting.controller("Job", job("burst", "burst", 16), None)
        bursting.round()
    assert EXPIRES_ANNOTATION not in written(bursting, "burst")


def test_what_says_the_same_and_does_not_expire_soon_stays() -> None:
    slack = Temporary(None, LASTING)
    first, renews = notes(slack, {}, WALL)
    assert renews
    assert expires(first) == WALL + SLACK_SECONDS
    assert notes(slack, first, WALL + 600) == (first, False)
    later, renews = notes(slack, first, WALL + SLACK_SECONDS / 2 + 1)
    assert renews, "it is renewed long before it expires"
    assert expires(later) > expires(first)


def test_other_amounts_that_last_wait_for_the_next_write() -> None:
    first, _ = notes(Temporary(None, LASTING), {}, WALL)
    other, renews = notes(Temporary(None, {"requests.cpu": "3"}), first, WALL + 60)
    assert not renews
    assert other[LASTING_ANNOTATION] == "requests.cpu=3"


def test_a_window_shortens_what_slack_has_written() -> None:
    present = expiry_annotations(WALL + SLACK_SECONDS, LASTING)
    wanted, renews = notes(Temporary(WALL + 20, LASTING), present, WALL)
    assert renews
    assert expires(wanted) == WALL + 20 + WINDOW_SECONDS


def test_an_operator_that_runs_lets_nothing_expire() -> None:
    """Also where a window outlasts its deadline: the quota is renewed while at least a minute is left."""
    present: dict[str, str] = {}
    overdue = Temporary(WALL, LASTING)
    for second in range(0, 900, 30):
        wanted, renews = notes(overdue, present, WALL + second)
        if renews:
            present = {name: text for name, text in wanted.items() if text is not None}
        assert expires(present) >= WALL + second + 60 - 1


@pytest.mark.parametrize("text", ["", "tomorrow", "9999-99-99T00:00:00Z"])
def test_annotations_that_cannot_be_read_are_written_again(text: str) -> None:
    wanted, renews = notes(Temporary(None, LASTING), {EXPIRES_ANNOTATION: text, LASTING_ANNOTATION: "nonsense"}, WALL)
    assert renews
    assert expires(wanted) == WALL + SLACK_SECONDS


def test_what_is_no_longer_temporary_loses_its_annotations_before_they_expire() -> None:
    present = expiry_annotations(WALL + SLACK_SECONDS, LASTING)
    nothing = {EXPIRES_ANNOTATION: None, LASTING_ANNOTATION: None}
    assert notes(None, present, WALL) == (nothing, False)
    assert notes(None, present, WALL + SLACK_SECONDS - WINDOW_SECONDS + 1) == (nothing, True)


def test_what_lasts_is_read_as_it_was_written() -> None:
    lasting = {"requests.cpu": "1500m", "requests.memory": "3Gi"}
    assert lasting_amounts(expiry_annotations(WALL, lasting)) == {"requests.cpu": 1.5, "requests.memory": 3 * 2**30}


@pytest.mark.parametrize("text", ["", ",", "=", "requests.cpu", "requests.cpu=", "requests.cpu=two", "requests.cpu=1,x=١e", "a=b=c", "\0"])
def test_what_someone_has_written_there_is_nothing(text: str) -> None:
    assert lasting_amounts({LASTING_ANNOTATION: text}) == {}


@pytest.mark.parametrize("text", ["requests.cpu=1e999", "requests.cpu=-5", "requests.cpu=9223372036854775807E"])
def test_absurd_amounts_there_begin_with_no_slack_beyond_what_the_work_can_use(text: str) -> None:
    world = World()
    world.queue(TQ, "batch")
    world.controller("Job", None, job("batch", "work", 100))
    world.settle()
    world.quotas["batch", QUOTA_NAME].metadata.annotations = {LASTING_ANNOTATION: text, EXPIRES_ANNOTATION: "2126-01-01T00:00:00Z"}
    again = world.restarted()
    again.round()
    assert 64 <= float(again.hard("batch")["requests.cpu"]) <= 66
