"""Runs of job families and the curves they teach: kept over a restart, refused where unreadable, never an obstacle to a round."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairburst.curves.observations import Observations
from fairburst.curves.runs import Run
from fairburst.kube.api.saved import SAVE_SECONDS
from fairburst.kube.jobs import learned_curves
from fairburst.kube.jobs.learned_curves import KEY, LearnedCurves, RunStore
from tests.support.fake_api import FakeApi, status

CONFIGMAPS = "/api/v1/configmaps"
NAME = "fairburst-job-runs-default"


def learned() -> LearnedCurves:
    """Five runs of a job whose time is 10 + 90 / slots."""
    found = LearnedCurves()
    for slots in (1, 2, 4, 8, 16):
        found.completed("batch/etl", Run(slots, 10.0 + 90.0 / slots), 5.0)
    return found


def test_five_runs_teach_a_curve() -> None:
    curve = learned().curves["batch/etl"]
    assert curve.alone_seconds == pytest.approx(10.0 + 90.0 / 16)


def test_one_run_teaches_none_and_says_why() -> None:
    found = LearnedCurves()
    found.completed("batch/etl", Run(4, 10.0), 5.0)
    assert found.curves == {}
    assert "at least 2 different" in found.refusals["batch/etl"].message


def test_a_family_that_is_forgotten_has_no_curve_any_more() -> None:
    found = learned()
    for number in range(300):
        found.completed(f"batch/{number:03d}", Run(1, 1.0), 10.0 + number)
    assert "batch/etl" not in found.curves
    assert len(found.refusals) <= len(found.observations.families)


async def saved_then_loaded(content: str | None) -> tuple[Observations, RunStore, FakeApi]:
    async with FakeApi(CONFIGMAPS) as api, api.client() as client:
        if content is not None:
            api.put(CONFIGMAPS, {"metadata": {"name": NAME, "namespace": "fairburst-system"}, "data": {KEY: content}})
        store = RunStore(client, "fairburst-system", "default")
        found = await store.load()
        await store.save(learned().observations)
        return found, store, api


async def test_runs_survive_a_restart() -> None:
    async with FakeApi(CONFIGMAPS) as api, api.client() as client:
        await RunStore(client, "fairburst-system", "default").save(learned().observations)
        found = await RunStore(client, "fairburst-system", "default").load()
        assert found == learned().observations
        assert LearnedCurves(found).curves == learned().curves
        before = len([method for method, _, _ in api.requests if method != "GET"])
        again = RunStore(client, "fairburst-system", "default")
        await again.save(await again.load())
        assert len([method for method, _, _ in api.requests if method != "GET"]) == before, "what is saved is not written again"


async def test_nothing_saved_is_nothing_learned_and_no_problem() -> None:
    found, store, api = await saved_then_loaded(None)
    assert found == Observations()
    assert store.unreadable is None
    assert ("fairburst-system", NAME) in api.objects[CONFIGMAPS]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", json.dumps({"version": 1}), json.dumps({"version": 1, "families": []}), "[" * 100_000, '"' + "x" * 10_000],
)
async def test_what_is_corrupt_is_refused_and_replaced(content: str) -> None:
    found, store, api = await saved_then_loaded(content)
    assert found == Observations()
    assert store.unreadable is None, "what has been learned since is saved again"
    saved = json.loads(api.objects[CONFIGMAPS]["fairburst-system", NAME]["data"][KEY])
    assert list(saved["families"]) == ["batch/etl"]


@pytest.mark.parametrize("version", [2, 0, None, "1", 1.5])
async def test_another_version_is_refused_and_left_as_it_is(version: Any) -> None:
    content = json.dumps({"version": version, "families": {"x": "whatever comes"}})
    found, store, api = await saved_then_loaded(content)
    assert found == Observations()
    assert store.unreadable is not None
    assert "expected version 1" in store.unreadable
    assert api.objects[CONFIGMAPS]["fairburst-system", NAME]["data"][KEY] == content


async def test_damaged_entries_are_left_out_and_the_rest_is_kept() -> None:
    families = {"good": {"seen": 1.0, "runs": [[2, 5.0]]}, "bad": {"seen": "x", "runs": [[1, -3], None, "y"]}, "worse": 7}
    found, _, _ = await saved_then_loaded(json.dumps({"version": 1, "families": families}))
    assert found.of("good") == (Run(2, 5.0),)
    assert found.of("bad") == ()


async def test_what_the_server_would_not_give_us_is_not_written_over() -> None:
    content = json.dumps({"version": 1, "families": {"batch/old": {"seen": 1.0, "runs": [[2, 5.0]]}}})
    async with FakeApi(CONFIGMAPS) as api, api.client() as client:
        api.put(CONFIGMAPS, {"metadata": {"name": NAME, "namespace": "fairburst-system"}, "data": {KEY: content}})
        store = RunStore(client, "fairburst-system", "default")
        api.fail(1, 403, status(403, "Forbidden"))
        assert await store.load() == Observations()
        assert store.unreadable is not None
        await store.save(learned().observations)
        assert api.objects[CONFIGMAPS]["fairburst-system", NAME]["data"][KEY] == content


async def test_what_the_server_gives_late_comes_before_what_was_learned_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(learned_curves.time, "monotonic", lambda: now)
    content = json.dumps({"version": 1, "families": {"batch/etl": {"seen": 1.0, "runs": [[2, 5.0], [4, 3.0]]}}})
    async with FakeApi(CONFIGMAPS) as api, api.client() as client:
        api.put(CONFIGMAPS, {"metadata": {"name": NAME, "namespace": "fairburst-system"}, "data": {KEY: content}})
        store, curves = RunStore(client, "fairburst-system", "default"), LearnedCurves()
        api.fail(2, 403, status(403, "Forbidden"))
        curves.remember(await store.load())
        curves.completed("batch/etl", Run(8, 2.0), 5.0)
        assert await store.load_late() is None, "refused again"
        assert await store.load_late() is None, "too soon"
        now += SAVE_SECONDS
        late = await store.load_late()
        assert late is not None
        curves.remember(late)
        assert curves.runs("batch/etl") == (Run(2, 5.0), Run(4, 3.0), Run(8, 2.0))
        assert store.unreadable is None
        assert await store.load_late() is None, "read once"
        now += SAVE_SECONDS
        await store.save(curves.observations)
        assert await RunStore(client, "fairburst-system", "default").load() == curves.observations


async def test_a_server_that_fails_for_a_moment_is_asked_again() -> None:
    async with FakeApi(CONFIGMAPS) as api, api.client() as client:
        await RunStore(client, "fairburst-system", "default").save(learned().observations)
        api.fail(1, 503, status(503, "ServiceUnavailable"))
        assert await RunStore(client, "fairburst-system", "default").load() == learned().observations
