"""Sending a round's writes to a server: each by itself, in order, with the answers put into the caches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairburst.kube.apply import MOST_CUT_SHORT, WAIT_SECONDS, Applier
from fairburst.kube.enforce.quota_plan import WriteOrder
from fairburst.kube.enforce.suspend import JobStart
from fairburst.kube.jobs.elasticity import RESIZED, ElasticPlan, JobEvent
from fairburst.kube.jobs.parallelism_plan import ParallelismWrite
from fairburst.kube.names import MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL
from fairburst.kube.object_writes import ObjectWrites
from fairburst.kube.queues.job_annotations import Mark, mark_annotations, read_mark
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.sending import STARTS_AT_ONCE, Channel
from fairburst.kube.usage.demand import Owner
from tests.support.fake_api import FakeApi, status
from tests.support.measured import Measured
from tests.support.objects import World, job, latency_spec, pod, quota
from tests.support.tasks import running, until

QUOTAS, JOBS, NAMESPACES = "/api/v1/resourcequotas", "/apis/batch/v1/jobs", "/api/v1/namespaces"


class AppliedWorld(Measured):
    """A fake server that holds what a world holds, and an applier."""

    def __init__(self, api: FakeApi, world: World) -> None:
        super().__init__()
        self.api, self.world = api, world
        self.client = api.client()
        self.seen: list[dict[str, Any]] = []
        seen = self.seen.append
        writes = ObjectWrites(self.client, "default", namespace_seen=seen, quota_seen=seen, job_seen=seen)
        self.applier = Applier(Channel(writes, self.metrics, lambda: None))
        self.quotas_written: list[str] = []
        self.quotas_not_sent: list[str] = []
        self.not_resynced: list[tuple[str, bool]] = []
        for _, name in world.namespaces:
            # Namespaces are objects without a namespace; the fake server files them under "".
            api.put(NAMESPACES, {"metadata": {"name": name, "labels": {}}})

    async def apply(self, plan: RoundPlan) -> bool:
        return await self.applier.apply(
            plan,
            lambda write, _, done: (self.quotas_not_sent if done is None else self.quotas_written).append(write.namespace),
            lambda owner, sent: self.not_resynced.append((owner.name, sent)),
        )

    def paths(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.api.requests if method != "GET"]


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AppliedWorld]:
    """A batch queue with a Job that has no running pods, and a latency queue. A round waits for its writes, however busy the machine is."""
    monkeypatch.setattr("fairburst.kube.apply.CALM_WAIT_SECONDS", 60.0)
    world = World("smallJobs: {enabled: false}")  # one quota a namespace is enough to look at
    world.queue("ThroughputQueue", "batch")
    world.controller("Job", None, job("batch", "work", 4))
    world.queue("LatencyQueue", "burst", spec=latency_spec())
    async with FakeApi(QUOTAS, JOBS, NAMESPACES) as api:
        made = AppliedWorld(api, world)
        api.put(JOBS, {"metadata": {"name": "work", "namespace": "batch"}})
        yield made
        await made.applier.cancel()
        await made.client.close()


async def test_everything_a_round_wants_is_on_the_server_afterwards(site: AppliedWorld) -> None:
    assert await site.apply(site.world.plan())
    written = site.api.objects[QUOTAS]["batch", "fairburst"]
    assert written["spec"]["hard"] == written["status"]["hard"]
    assert written["spec"]["hard"]["requests.cpu"] == "48", "four pods run; it would be given all that an armed burst of 16 leaves"
    assert written["status"]["used"] == {"requests.cpu": "0", "requests.memory": "0"}
    assert "ownerReferences" not in written["metadata"]
    assert site.api.objects[NAMESPACES]["", "batch"]["metadata"]["labels"] == {
        MANAGED_LABEL: "true",
        POOL_LABEL: "default",
        PRIORITY_LABEL: "large",
    }
    assert sorted(site.quotas_written) == ["batch", "burst"]


async def test_what_the_server_answers_goes_into_the_caches(site: AppliedWorld) -> None:
    await site.apply(site.world.plan())
    assert sorted(obj.get("kind", "Namespace") for obj in site.seen) == ["Namespace", "Namespace", "ResourceQuota", "ResourceQuota"]
    assert all(obj["metadata"]["resourceVersion"] for obj in site.seen)


async def test_labels_come_before_quotas(site: AppliedWorld) -> None:
    await site.apply(site.world.plan())
    assert ["resourcequotas" in path for _, path in site.api.written()] == [False] * 2 + [True] * 4


async def test_bursts_are_raised_before_the_others_are_written(site: AppliedWorld) -> None:
    await site.apply(site.world.plan())
    creations = [path for method, path in site.api.written() if method == "POST" and path.endswith("resourcequotas")]
    assert creations == ["/api/v1/namespaces/burst/resourcequotas", "/api/v1/namespaces/batch/resourcequotas"]


async def test_a_write_that_fails_stops_no_other_and_is_counted(site: AppliedWorld) -> None:
    plan = site.world.plan()
    plan.labels = {}
    site.api.fail(1, 403, status(403, "Forbidden"))
    assert not await site.apply(plan)
    assert site.writes("quota", "error") == 1.0
    assert site.writes("quota", "ok") == 1.0
    assert len(site.quotas_written) == 2, "a failed write counts for the rate as well"


async def test_a_job_is_resized_with_our_notes_as_ourselves(site: AppliedWorld) -> None:
    plan = site.world.plan()
    write = ParallelismWrite("batch", "work", "102", 4, 2, Mark(4, 2, 0.0))
    plan.elastic = ElasticPlan([write])
    assert await site.apply(plan)
    stored = site.api.objects[JOBS]["batch", "work"]
    assert stored["spec"]["parallelism"] == 2
    assert read_mark(stored["metadata"]["annotations"]) == Mark(4, 2, 0.0)
    [params] = [query for method, path, query in site.api.requests if method == "PATCH" and path.endswith("/jobs/work")]
    assert params == {"fieldManager": "fairburst"}


async def test_a_job_that_gets_its_parallelism_back_keeps_no_note_of_ours(site: AppliedWorld) -> None:
    plan = site.world.plan()
    site.api.put(JOBS, {"metadata": {"name": "work", "namespace": "batch", "annotations": {"other": "x", **marked()}}})
    plan.elastic = ElasticPlan([ParallelismWrite("batch", "work", "103", 2, 4, None)])
    assert await site.apply(plan)
    assert site.api.objects[JOBS]["batch", "work"]["metadata"]["annotations"] == {"other": "x"}


async def test_slots_are_freed_before_quotas_and_taken_after_them(site: AppliedWorld) -> None:
    site.api.put(JOBS, {"metadata": {"name": "other", "namespace": "batch"}})
    plan = site.world.plan()
    sizes = [("work", 4, 2), ("other", 2, 4)]
    plan.elastic = ElasticPlan([ParallelismWrite("batch", name, "1", before, after, None) for name, before, after in reversed(sizes)])
    await site.apply(plan)
    order = [path.rsplit("/", 1)[1] for _, path in site.api.written() if "/jobs/" in path or path.endswith("/resourcequotas")]
    assert order == ["work", "resourcequotas", "resourcequotas", "other"]


def sizes(site: AppliedWorld) -> RoundPlan:
    """A round that takes slots from a Job and gives them to another one, and the Events on both."""
    plan = site.world.plan()
    plan.labels, plan.resyncs = {}, []
    site.api.put(JOBS, {"kind": "Job", "metadata": {"name": "other", "namespace": "batch"}})
    writes = [ParallelismWrite("batch", "work", "1", 4, 2, None), ParallelismWrite("batch", "other", "1", 2, 4, None)]
    events = [JobEvent("batch", write.name, write.name, RESIZED, "", warning=False) for write in writes]
    plan.elastic = ElasticPlan(writes, [*events, JobEvent("batch", "work", "work", "CurveRefused", "", warning=True)])
    return plan


async def test_only_a_new_size_that_was_written_is_told(site: AppliedWorld) -> None:
    """A webhook that refuses it does so in every round."""
    plan = sizes(site)
    site.api.refuse("PATCH", "/jobs/work", 403)
    assert not await site.apply(plan)
    assert [(event.name, event.reason) for event in plan.elastic.events] == [("other", RESIZED), ("work", "CurveRefused")]


async def test_a_job_that_has_changed_since_is_overtaken_and_no_error(site: AppliedWorld) -> None:
    plan = site.world.plan()
    plan.labels, plan.quota_writes, plan.resyncs = {}, [], []
    plan.elastic = ElasticPlan([ParallelismWrite("batch", "work", "1", 4, 2, None)])
    site.api.fail(1, 409, status(409, "Conflict"))
    assert not await site.apply(plan)
    assert site.writes("parallelism", "overtaken") == 1.0


def held(site: AppliedWorld, names: Sequence[str]) -> RoundPlan:
    """A round that starts these held Jobs."""
    plan = site.world.plan()
    plan.labels, plan.quota_writes, plan.resyncs = {}, [], []
    for name in names:
        site.api.put(JOBS, {"kind": "Job", "metadata": {"name": name, "namespace": "batch"}, "spec": {"suspend": True}})
    plan.starts = [JobStart("Job", "batch", name, "") for name in names]
    return plan


def still_held(site: AppliedWorld) -> list[str]:
    return [name for (_, name), job in site.api.objects[JOBS].items() if job.get("spec", {}).get("suspend")]


NAMES = [f"held-{number}" for number in range(3 * STARTS_AT_ONCE)]


async def test_a_job_that_cannot_be_started_holds_up_no_other(site: AppliedWorld) -> None:
    """Its owner changes it all the time, or a webhook refuses the start. The queues' Jobs are started together."""
    plan = held(site, NAMES)
    site.api.refuse("PATCH", "/jobs/held-0", 409)
    assert not await site.apply(plan)
    assert still_held(site) == ["held-0"]


async def test_a_start_that_is_not_answered_holds_up_no_other(site: AppliedWorld) -> None:
    """A webhook hangs."""
    plan = held(site, NAMES)
    site.api.hold("/jobs/held-0")
    async with running(site.apply(plan)):
        await until(lambda: still_held(site) == ["held-0"], "all others", seconds=5.0)
        site.api.release()


async def test_jobs_start_also_where_their_quota_was_not_written(site: AppliedWorld) -> None:
    """Someone else denies writes of the quota. Its former size may suffice."""
    plan = site.world.plan()
    site.api.put(JOBS, {"kind": "Job", "metadata": {"name": "first", "namespace": "batch"}, "spec": {"suspend": True}})
    plan.starts = [JobStart("Job", "batch", "first", "")]
    site.api.refuse("POST", "/batch/resourcequotas", 403)
    assert not await site.apply(plan)
    assert still_held(site) == []


async def test_a_start_that_fails_after_its_quota_was_written_is_a_failed_write(site: AppliedWorld) -> None:
    plan = site.world.plan()
    plan.starts = [JobStart("Job", "batch", "gone", "")]
    assert not await site.apply(plan)
    assert site.writes("start", "overtaken") == 1.0


def marked() -> dict[str, str]:
    return {name: text for name, text in mark_annotations(Mark(4, 2, 0.0)).items() if text is not None}


async def test_what_is_gone_in_the_meantime_is_overtaken_and_no_error(site: AppliedWorld) -> None:
    plan = site.world.plan()
    site.api.remove(NAMESPACES, "", "burst")
    assert not await site.apply(plan)
    assert (site.writes("label", "overtaken"), site.writes("label", "error"), site.writes("label", "ok")) == (1.0, 0.0, 1.0)


async def test_a_quota_that_somebody_else_created_first_is_overtaken(site: AppliedWorld) -> None:
    plan = site.world.plan()
    site.api.put(QUOTAS, {"metadata": {"name": "fairburst", "namespace": "batch"}})
    assert not await site.apply(plan)
    assert site.writes("quota", "overtaken") == 1.0


async def test_a_changed_quota_is_patched_and_a_foreign_limit_removed(site: AppliedWorld) -> None:
    world = site.world
    await site.apply(world.round())
    hard = site.api.objects[QUOTAS]["batch", "fairburst"]
    site.api.put(QUOTAS, {**hard, "metadata": {**hard["metadata"], "labels": {}}, "spec": {"hard": {"requests.cpu": "99", "pods": "1"}}})
    world.quotas["batch", "fairburst"] = quota("batch", {"requests.cpu": "99", "pods": "1"}, pool=None)
    world.after(2.0)
    await site.apply(world.plan())
    mended = site.api.objects[QUOTAS]["batch", "fairburst"]
    assert mended["spec"]["hard"] == mended["status"]["hard"]
    assert mended["spec"]["hard"].keys() == {"requests.cpu", "requests.memory"}
    assert mended["spec"]["hard"]["requests.cpu"] == "48"
    assert mended["metadata"]["labels"] == {"fairburst.dev/pool": "default"}


async def test_what_a_quota_enforces_is_written_before_what_it_declares(site: AppliedWorld) -> None:
    """kube-controller-manager looks at a quota when its spec changes, and writes its status if that differs."""
    world = site.world
    await site.apply(world.round())
    world.quotas["batch", "fairburst"] = quota("batch", {"requests.cpu": "1", "requests.memory": "1Gi"})
    world.after(2.0)
    site.api.requests.clear()
    assert await site.apply(world.plan())
    path = "/api/v1/namespaces/batch/resourcequotas/fairburst"
    assert site.api.written()[:2] == [("PATCH", f"{path}/status"), ("PATCH", path)]


async def test_the_scope_of_a_quota_changes_with_its_amounts_so_that_no_pod_counts_for_none(site: AppliedWorld) -> None:
    world = site.world
    await site.apply(world.round())
    world.quotas["batch", "fairburst"].spec.scope_selector = None
    world.after(2.0)
    site.api.requests.clear()
    assert await site.apply(world.plan())
    path = "/api/v1/namespaces/batch/resourcequotas/fairburst"
    assert site.api.written()[:2] == [("PATCH", path), ("PATCH", f"{path}/status")]
    assert "scopeSelector" in site.api.objects[QUOTAS]["batch", "fairburst"]["spec"]


async def test_small_jobs_quota_stays_while_the_namespace_quota_leaves_pods_to_it_on_the_server(site: AppliedWorld) -> None:
    """A leader took over while its watch of quotas stood still: its cache was from before the last leader divided the level again."""
    key, body = ("batch", "fairburst-small"), {"metadata": {"name": "fairburst-small", "namespace": "batch"}}
    leaving = {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["fairburst-small"]}]}}
    plan = site.world.plan()
    plan.labels, plan.quota_writes, plan.quota_deletions = {}, [], [key]
    site.api.put(QUOTAS, body)
    site.api.put(QUOTAS, {"metadata": {"name": "fairburst", "namespace": "batch"}, "spec": leaving})
    assert not await site.apply(plan)
    assert key in site.api.objects[QUOTAS]
    assert [obj["metadata"]["name"] for obj in site.seen] == ["fairburst"], "the next round knows better"
    assert (site.writes("quota", "overtaken"), site.writes("quota", "error")) == (1.0, 0.0)
    site.api.put(QUOTAS, {"metadata": {"name": "fairburst", "namespace": "batch"}, "spec": {}})
    assert await site.apply(plan)
    assert key not in site.api.objects[QUOTAS]


async def test_a_blocked_job_is_resynced_by_an_annotation(site: AppliedWorld) -> None:
    world = site.world
    world.round()
    world.put(pod("batch", "other", owner=("ReplicaSet", "rs")))
    world.after(5.0)
    plan = world.plan()
    assert [owner.name for owner in plan.resyncs] == ["work"]
    await site.apply(plan)
    assert "fairburst.dev/resynced-at" in site.api.objects[JOBS]["batch", "work"]["metadata"]["annotations"]


def blocked(site: AppliedWorld) -> RoundPlan:
    """The plan of a round that writes a quota and resyncs a Job that lacks pods there."""
    world = site.world
    first = world.round()
    world.put(pod("batch", "other", owner=("ReplicaSet", "rs")))
    world.after(5.0)
    plan = world.plan()
    assert [owner.name for owner in plan.resyncs] == ["work"]
    plan.quota_writes = [write for write in first.quota_writes if write.namespace == "batch"]
    return plan


async def test_a_controller_is_resynced_after_the_quota_that_refused_it(site: AppliedWorld) -> None:
    plan = blocked(site)
    site.api.requests.clear()
    await site.apply(plan)
    assert [path.rsplit("/", 1)[1] for _, path in site.paths()][-1] == "work"


async def test_no_quota_waits_for_a_resync_that_is_not_answered(site: AppliedWorld) -> None:
    first, plan = {write.namespace: write for write in site.world.plan().quota_writes}, blocked(site)
    plan.quota_writes = [replace(first["batch"], order=WriteOrder.SHRINK), replace(first["burst"], order=WriteOrder.RAISE)]
    site.api.hold("/jobs/work")
    async with running(site.apply(plan)):
        await until(lambda: "burst" in site.quotas_written, "the other quota", seconds=5.0)
        assert site.api.held
        site.api.release()


async def test_a_job_that_is_given_more_slots_is_resynced_later(site: AppliedWorld) -> None:
    """The API server would refuse its new size, which is valid for the version before the resync only."""
    plan = blocked(site)
    plan.quota_writes = []
    plan.elastic = ElasticPlan([ParallelismWrite("batch", "work", "102", 2, 4, None)])
    site.api.requests.clear()
    assert await site.apply(plan)
    assert len(site.paths()) == 1
    assert site.api.objects[JOBS]["batch", "work"]["spec"]["parallelism"] == 4
    assert site.not_resynced == [("work", False)]


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param("resourcequotas", id="its quota was not written, which would refuse its pods again"),
        pytest.param("jobs", id="the resync failed"),
    ],
)
async def test_a_controller_that_was_not_resynced_is_named(site: AppliedWorld, failing: str) -> None:
    plan = blocked(site)
    if failing == "jobs":
        plan.quota_writes = []
    site.api.requests.clear()
    site.api.fail(1, 500, status(500, "InternalError"))
    assert not await site.apply(plan)
    assert site.not_resynced == [("work", failing == "jobs")]
    assert ("/jobs/" in " ".join(path for _, path in site.paths())) is (failing == "jobs")


class TestSlowAnswers:
    """Answers take longer than a round waits for them."""

    @pytest.fixture(autouse=True)
    def slow(self, monkeypatch: pytest.MonkeyPatch, site: AppliedWorld) -> None:
        monkeypatch.setattr("fairburst.kube.apply.WAIT_SECONDS", 0.05)
        monkeypatch.setattr("fairburst.kube.apply.CALM_WAIT_SECONDS", 0.05)

    def steps(self, site: AppliedWorld) -> list[str]:
        return [path.split("/")[4] for method, path in site.paths() if method == "POST" and path.endswith("resourcequotas")]

    def quotas_only(self, site: AppliedWorld) -> RoundPlan:
        plan = site.world.plan()
        plan.labels, plan.resyncs = {}, []
        return plan

    async def answered(self, site: AppliedWorld) -> None:
        site.api.release()
        await site.applier.ended()

    async def test_all_writes_of_a_round_are_sent_after_it_too(self, site: AppliedWorld) -> None:
        site.api.hold("/burst/resourcequotas")
        assert not await site.apply(self.quotas_only(site))
        await self.answered(site)
        assert self.steps(site) == site.quotas_written == ["burst", "batch"]

    async def test_the_next_round_writes_where_the_one_before_does_not(self, site: AppliedWorld) -> None:
        plan = self.quotas_only(site)
        burst, batch = plan.quota_writes
        site.api.hold("/burst/resourcequotas")
        await site.apply(replace(plan, quota_writes=[burst]))
        await site.apply(replace(plan, quota_writes=[burst, batch]))
        await until(lambda: "batch" in site.quotas_written, "the other quota", seconds=5.0)
        assert site.quotas_not_sent == ["burst"], "nothing is written again while its answer is awaited"
        await self.answered(site)
        assert self.steps(site) == ["burst", "batch"]

    async def test_a_burst_that_waits_cuts_the_round_before_it_short(self, site: AppliedWorld) -> None:
        """Its writes may take what the burst needs, and would be sent late."""
        plan = self.quotas_only(site)
        [_, batch] = plan.quota_writes
        site.api.hold("/burst/resourcequotas")
        await site.apply(plan)
        await site.apply(replace(plan, quota_writes=[replace(batch, hard={"requests.cpu": "1"})], burst_waits=True))
        await until(lambda: "batch" in site.quotas_written, "the other quota", seconds=5.0)
        await self.answered(site)
        assert site.quotas_not_sent == ["batch"]
        assert site.api.objects[QUOTAS]["batch", "fairburst"]["spec"]["hard"] == {"requests.cpu": "1"}

    async def test_every_write_has_its_turn_all_the_same(self, site: AppliedWorld) -> None:
        """Each round has labels to write first, and a burst waits all the time."""
        plan = self.quotas_only(site)
        [_, batch] = plan.quota_writes
        site.api.hold("")
        for number in range(MOST_CUT_SHORT + 4):
            later = replace(plan, quota_writes=[batch], labels={f"other-{number}": {}}, burst_waits=True)
            assert not await site.apply(later)
        assert site.quotas_not_sent == ["batch"] * 3, "later rounds leave it to the one that is not cut short"
        await self.answered(site)
        assert self.steps(site) == site.quotas_written == ["batch"]

    async def test_work_follows_the_write_that_is_enforced(self, site: AppliedWorld) -> None:
        """The second write of a quota only tells users and the quota controller."""
        plan = blocked(site)
        plan.quota_writes = [replace(write, create=False) for write in plan.quota_writes]
        site.api.put(QUOTAS, {"metadata": {"name": "fairburst", "namespace": "batch"}, "spec": {"hard": {}}})
        site.api.put(JOBS, {"kind": "Job", "metadata": {"name": "first", "namespace": "batch"}, "spec": {"suspend": True}})
        plan.starts = [JobStart("Job", "batch", "first", "")]
        site.api.hold("/resourcequotas/fairburst")
        await site.apply(plan)
        await until(lambda: not still_held(site), "the start", seconds=5.0)
        await until(lambda: "annotations" in site.api.objects[JOBS]["batch", "work"]["metadata"], "the resync", seconds=5.0)
        assert site.quotas_written == []
        await self.answered(site)
        assert site.quotas_written == ["batch"]

    async def test_a_later_round_resyncs_where_the_quota_is_enforced_already(self, site: AppliedWorld) -> None:
        plan = blocked(site)
        resyncs, plan.resyncs = plan.resyncs, []
        plan.quota_writes = [replace(write, create=False) for write in plan.quota_writes]
        site.api.put(QUOTAS, {"metadata": {"name": "fairburst", "namespace": "batch"}, "spec": {"hard": {}}})
        site.api.hold("/resourcequotas/fairburst/status")
        await site.apply(plan)
        plan.resyncs = list(resyncs)
        await site.apply(plan)
        assert site.not_resynced == [("work", False)], "the quota would refuse its pods again"
        site.api.release()
        site.api.hold("/resourcequotas/fairburst")
        await until(lambda: site.paths()[-1][1].endswith("/fairburst"), "the second write", seconds=5.0)
        plan.resyncs = list(resyncs)
        await site.apply(plan)
        await until(lambda: "annotations" in site.api.objects[JOBS]["batch", "work"]["metadata"], "the resync", seconds=5.0)
        await self.answered(site)

    async def test_a_round_ends_early_if_a_burst_comes(self, site: AppliedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fairburst.kube.apply.CALM_WAIT_SECONDS", 60.0)
        site.api.hold("/burst/resourcequotas")
        applied = asyncio.create_task(site.apply(self.quotas_only(site)))
        await until(lambda: bool(site.api.held), "the write", seconds=5.0)
        assert not applied.done()
        site.applier.hurry()
        assert not await asyncio.wait_for(applied, 30.0)
        await self.answered(site)

    async def test_work_that_came_after_the_decision_is_not_missed(self, site: AppliedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fairburst.kube.apply.CALM_WAIT_SECONDS", 60.0)
        plan = self.quotas_only(site)
        site.applier.hurry()
        plan.started = time.monotonic() - 1.0
        site.api.hold("/burst/resourcequotas")
        assert not await asyncio.wait_for(site.apply(plan), 30.0)
        await self.answered(site)

    async def test_a_round_that_has_seen_the_work_waits_for_its_writes(self, site: AppliedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fairburst.kube.apply.CALM_WAIT_SECONDS", 60.0)
        site.applier.hurry()
        plan = self.quotas_only(site)
        plan.started = time.monotonic()
        site.api.hold("/burst/resourcequotas")
        applied = asyncio.create_task(site.apply(plan))
        await asyncio.sleep(3 * WAIT_SECONDS)
        assert not applied.done()
        site.api.release()
        await asyncio.wait_for(applied, 30.0)

    async def test_starts_end_where_a_burst_would_wait_for_them(self, site: AppliedWorld) -> None:
        site.api.hold("")
        assert not await site.apply(held(site, NAMES))
        assert await site.apply(replace(held(site, []), burst_waits=True))
        await self.answered(site)
        assert len(still_held(site)) == len(NAMES) - STARTS_AT_ONCE

    async def test_a_new_size_that_has_not_been_answered_is_not_told_yet(self, site: AppliedWorld) -> None:
        plan = sizes(site)
        site.api.hold("/jobs/other")
        assert not await site.apply(plan)
        assert ("other", RESIZED) not in [(event.name, event.reason) for event in plan.elastic.events]
        await self.answered(site)

    async def test_writes_of_all_rounds_end_with_the_leadership(self, site: AppliedWorld) -> None:
        plan = self.quotas_only(site)
        site.api.hold("")
        for write in plan.quota_writes:
            await site.apply(replace(plan, quota_writes=[write]))
        await site.applier.cancel()
        assert [task for task in asyncio.all_tasks() if task.get_name() == "writes of a round"] == []
        assert site.quotas_written == []

    async def test_an_unexpected_error_of_a_round_that_was_overtaken_is_raised_by_the_next(
        self, site: AppliedWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fails(*_: object) -> None:
            await asyncio.sleep(0.2)
            raise ValueError("a fault of ours")

        monkeypatch.setattr(ObjectWrites, "quota", fails)
        assert not await site.apply(self.quotas_only(site))
        await site.applier.ended()
        with pytest.raises(ExceptionGroup) as raised:
            await site.apply(site.world.plan())
        assert [str(one) for one in raised.value.exceptions] == ["a fault of ours"]


async def test_an_empty_plan_sends_nothing(site: AppliedWorld) -> None:
    plan = site.world.plan()
    plan.labels, plan.quota_writes = {}, []
    assert await site.apply(plan)
    assert site.api.written() == []


async def test_a_namespace_is_released_although_its_quota_has_gone_already(site: AppliedWorld) -> None:
    site.api.put(NAMESPACES, {"metadata": {"name": "batch", "labels": {MANAGED_LABEL: "true"}}})
    plan = site.world.plan()
    plan.labels, plan.quota_writes, plan.releases = {}, [], ["batch"]
    assert await site.apply(plan)
    assert MANAGED_LABEL not in site.api.objects[NAMESPACES]["", "batch"]["metadata"]["labels"]


@pytest.mark.parametrize("broken", ["quota", "resync", "label"])
async def test_an_unexpected_error_leaves_no_write_running_into_the_next_round(
    site: AppliedWorld, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an answer that violates the schema. The round fails; the next one must not meet writes of this one."""
    site.world.queue("ThroughputQueue", "other")
    site.world.controller("Job", None, job("other", "more", 4))
    plan, under_way = site.world.plan(), set[Any]()
    owner = Owner("Job", "elsewhere", "one", "1", 4, 0, {})
    plan.resyncs += [owner, replace(owner, name="two")]
    assert len(plan.labels) > 1
    assert len(plan.quota_writes) > 1
    failed = list[Any]()

    async def send(_: ObjectWrites, what: Any, *rest: Any) -> None:
        if not failed:
            failed.append(what)
            raise KeyError("a bug")
        under_way.add(str(what))
        for _ in range(50):
            await asyncio.sleep(0)
        under_way.discard(str(what))

    monkeypatch.setattr(ObjectWrites, broken, send)
    with pytest.raises((KeyError, ExceptionGroup)):
        await site.apply(plan)
    assert failed
    assert under_way == set()
