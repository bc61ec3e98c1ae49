"""DRESS inside `decide`: memory and restarts, bad input, and levels that it leaves unchanged."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.decide import decide
from fairburst.policy.dress.learned import DURATIONS, FAMILIES, FamilyDurations, Outlook, learn, nothing_learned
from fairburst.policy.dress.memory import dump_dress, load_dress
from fairburst.policy.dress.values import DemandCategory, DressConfig, DressResult, Job, StartMode
from fairburst.policy.errors import InvalidConfigError, InvalidSnapshotError, MemoryFormatError, NewerMemoryError
from fairburst.policy.memory import dump, load
from fairburst.policy.model import ClusterSnapshot, Memory, PolicyConfig, RoundResult, Sporadic
from fairburst.recording.values import encode
from tests.support.dress import Task, jobs_part, task_table
from tests.support.policy import latency, snapshot, throughput
from tests.support.strategies import START

NOW = 1_000_000.0
CONFIG = PolicyConfig(dress=DressConfig())
SMALL, LARGE = DemandCategory.SMALL, DemandCategory.LARGE


def job(name: str, cpu: float, queue: str = "a/q", submitted: float = NOW - 10, category: DemandCategory | None = None) -> Job:
    return Job(name, queue, submitted, np.array([cpu]), category)


def tasks_of(count: int, started: float, ended: float | None, name: str = "run", family: str = "") -> list[Task]:
    return [Task(f"{name}-{at}", name, LARGE, np.array([1.0]), started, ended, family) for at in range(count)]


def cluster(pending: list[Job], tasks: list[Task] | None = None, running: list[Job] | None = None, used: float = 0.0) -> ClusterSnapshot:
    value = snapshot((throughput("a/q"),), [100.0], [[200.0]], [[used]])
    return dataclasses.replace(value, jobs=jobs_part(pending, running or [], tasks or [], 1))


def dress_of(result: RoundResult) -> DressResult:
    assert result.dress is not None
    return result.dress


class TestMemory:
    def run_a_while(self) -> Memory:
        memory = Memory()
        for second in range(40):
            ended = NOW + 5 if second > 5 else None
            value = cluster([job("one", 5.0), job("two", 60.0)], tasks_of(20, NOW - 55, ended, family="etl"), used=20.0)
            _, memory = decide(value, memory, CONFIG, NOW + second)
        return memory

    def test_a_restart_keeps_the_ratio_the_scores_and_what_was_learned(self) -> None:
        memory = self.run_a_while()
        assert memory.dress is not None
        assert memory.dress.families.oldest_first["etl"] == (60.0,) * 20
        assert memory.dress.phases_score.count > 0
        assert load(dump(memory)) == memory
        assert load_dress(dump_dress(memory.dress)) == memory.dress
        value = cluster([job("one", 5.0)], used=20.0)
        before, after = (decide(value, one, CONFIG, NOW + 60)[0] for one in (memory, load(dump(memory))))
        assert before.reserve_ratio == after.reserve_ratio

    def test_without_dress_the_saved_bytes_do_not_know_it(self) -> None:
        _, memory = decide(snapshot((throughput("a/q"),), [100.0], [[50.0]]), Memory(), PolicyConfig(), NOW)
        assert "dress" not in dump(memory)

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            pytest.param("{", MemoryFormatError, id="no JSON"),
            pytest.param("[]", MemoryFormatError, id="no object"),
            pytest.param('{"version": 2}', NewerMemoryError, id="newer"),
            pytest.param('{"version": 1}', MemoryFormatError, id="fields missing"),
            pytest.param("[" * 100_000, MemoryFormatError, id="nested too deeply to be read"),
            pytest.param('{"version": 1, "reserve_ratio": 1%s}' % ("0" * 400), MemoryFormatError, id="a number that no float holds"),
        ],
    )
    def test_damaged_memory_is_refused_as_a_whole(self, text: str, error: type[Exception]) -> None:
        with pytest.raises(error):
            load_dress(text)

    def test_a_ratio_outside_its_range_is_refused(self) -> None:
        memory = self.run_a_while().dress
        assert memory is not None
        with pytest.raises(MemoryFormatError, match="expected a fraction between 0 and 1, found 7"):
            load_dress(dump_dress(dataclasses.replace(memory, reserve_ratio=7.0)))

    def test_what_is_learned_is_bounded(self) -> None:
        many = FamilyDurations.of({f"f{at}": [1.0] * 99 for at in range(FAMILIES + 5)}, {f"f{at}": float(at) for at in range(FAMILIES + 5)})
        assert len(many.row_of) == FAMILIES
        assert "f0" not in many.row_of
        assert len(many.oldest_first["f99"]) == DURATIONS


class TestLearnedDurations:
    def test_the_many_families_of_one_namespace_push_out_its_own(self) -> None:
        names = [*(f"loud/{at}" for at in range(2 * FAMILIES)), *(f"quiet/{at}" for at in range(5))]
        learned = FamilyDurations.of({name: [1.0] for name in names}, {name: float(len(names) - at) for at, name in enumerate(names)})
        assert {f"quiet/{at}" for at in range(5)} < learned.row_of.keys()
        assert {f"loud/{at}" for at in range(FAMILIES - 5)} < learned.row_of.keys()

    def test_a_task_is_expected_to_end_when_those_of_its_family_did(self) -> None:
        done = task_table(tasks_of(10, NOW - 100, NOW - 40, family="etl"), 1)
        families = learn(nothing_learned(), done, -math.inf, NOW)
        running = task_table(tasks_of(3, NOW - 55, None, family="etl") + tasks_of(1, NOW - 55, None, "new", "new"), 1)
        outlook = Outlook.of(families, running, NOW)
        assert outlook.ending_chance(4.0).tolist() == [0.0] * 3
        assert outlook.ending_chance(5.0).tolist() == [1.0] * 3

    def test_a_task_that_runs_longer_than_its_family_ever_did_is_expected_at_no_time(self) -> None:
        families = FamilyDurations.of({"etl": [60.0] * 10}, {"etl": NOW})
        running = task_table(tasks_of(1, NOW - 61, None, family="etl"), 1)
        assert len(Outlook.of(families, running, NOW).age) == 0

    def test_the_chance_is_that_of_the_durations_longer_than_its_age(self) -> None:
        families = FamilyDurations.of({"etl": [10.0, 20.0, 30.0, 40.0, 50.0]}, {"etl": NOW})
        running = task_table(tasks_of(1, NOW - 15, None, family="etl"), 1)
        assert Outlook.of(families, running, NOW).ending_chance(15.0).tolist() == [0.5]


class TestRound:
    def test_a_second_round_at_the_same_time_moves_nothing(self) -> None:
        value = cluster([job("one", 5.0)])
        first, memory = decide(value, Memory(), CONFIG, NOW)
        second, _ = decide(value, memory, CONFIG, NOW)
        assert first.reserve_ratio == second.reserve_ratio
        assert dress_of(second).reason == "Unchanged"

    def test_levels_of_queues_are_those_of_fair_sharing(self) -> None:
        value = snapshot((throughput("a/q"), throughput("b/q", 1.0)), [100.0], [[80.0], [90.0]])
        jobs = jobs_part([job("s", 4.0), job("l", 80.0), job("m", 90.0, "b/q")], [], [], 1)
        plain, _ = decide(value, Memory(), CONFIG, NOW)
        divided, _ = decide(dataclasses.replace(value, jobs=jobs), Memory(), CONFIG, NOW)
        assert np.array_equal(plain.level, divided.level)
        assert np.array_equal(plain.allocation, divided.allocation)
        assert divided.small_level is not None
        assert divided.small_level.tolist() == [[4.0], [0.0]]
        assert plain.small_level is None

    def test_the_category_is_the_one_fixed_at_submission(self) -> None:
        result, _ = decide(cluster([job("was-small", 50.0, category=SMALL), job("was-large", 5.0, category=LARGE)]), Memory(), CONFIG, NOW)
        dress = dress_of(result)
        assert dress.small_pending.tolist() == [50.0]
        assert dress.large_pending.tolist() == [5.0]

    def test_a_tenth_of_the_pool_is_small_and_more_is_large(self) -> None:
        dress = dress_of(decide(cluster([job("a", 10.0), job("b", 10.1)]), Memory(), CONFIG, NOW)[0])
        assert (dress.small_jobs, dress.large_jobs) == (1, 1)
        assert dress.size_limit.tolist() == [10.0]

    def test_the_part_of_the_oldest_large_job_is_kept_once_it_has_waited(self) -> None:
        config = PolicyConfig(dress=DressConfig(max_wait_seconds=60.0, initial_reserve=0.9, min_reserve=0.5))
        pending = [job("big", 70.0, submitted=NOW - 61), job("one", 5.0)]
        result, _ = decide(cluster(pending, used=90.0), Memory(), config, NOW)
        assert result.reserve_ratio == pytest.approx(0.3)
        assert dress_of(result).reason == "LargeWaited"

    @given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=8), st.booleans())
    def test_jobs_that_have_all_they_want_may_be_told_as_one(self, small: list[int], large: list[int], waits: bool) -> None:
        """Decisions are the same to the byte: amounts are whole, and so are their sums."""
        running = [job(f"s{at}", cpu, category=SMALL) for at, cpu in enumerate(small)]
        running += [job(f"l{at}", cpu, category=LARGE) for at, cpu in enumerate(large)]
        as_one = [dataclasses.replace(job("s", sum(small), category=SMALL), count=len(small))]
        as_one += [dataclasses.replace(job("l", sum(large), category=LARGE), count=len(large))]
        pending, used = [job("one", 5.0), job("big", 70.0)] if waits else [], float(sum(small) + sum(large))
        each, told = (decide(cluster(pending, running=jobs, used=used), Memory(), CONFIG, NOW)[0] for jobs in (running, as_one))
        assert encode(told.dress) == encode(each.dress)

    def test_whole_jobs_start_in_order_within_a_category_and_the_first_that_does_not_fit_holds_up_its_own(self) -> None:
        config = PolicyConfig(dress=DressConfig(start_mode=StartMode.WHOLE_JOBS, initial_reserve=0.1))
        pending = [
            job("big", 95.0, submitted=NOW - 9), job("next", 30.0, submitted=NOW - 8), job("s1", 6.0, submitted=NOW - 7),
            job("s2", 3.0, submitted=NOW - 6),
        ]  # fmt: skip
        assert dress_of(decide(cluster(pending), Memory(), config, NOW)[0]).startable == ("s1", "s2")


class TestBadInput:
    def test_a_job_that_requests_more_than_there_is_can_never_run_whole(self) -> None:
        dress = dress_of(decide(cluster([job("huge", 120.0)]), Memory(), CONFIG, NOW)[0])
        assert [one.message for one in dress.never_fits] == [
            "Job huge requests 120 cpu in all and the pool has 100: it can never run whole at one time."
        ]

    def test_a_job_that_can_never_run_whole_holds_nobody_up(self) -> None:
        config = PolicyConfig(dress=DressConfig(start_mode=StartMode.WHOLE_JOBS))
        pending = [job("huge", 120.0, submitted=NOW - 9), job("fits", 40.0, submitted=NOW - 5)]
        assert dress_of(decide(cluster(pending), Memory(), config, NOW)[0]).startable == ("fits",)

    def test_jobs_of_a_queue_that_is_gone_count_nowhere(self) -> None:
        dress = dress_of(decide(cluster([job("orphan", 5.0, "gone/q")]), Memory(), CONFIG, NOW)[0])
        assert (dress.small_jobs, dress.large_jobs) == (0, 0)

    def test_tasks_whose_job_was_deleted_in_mid_phase_still_release(self) -> None:
        ended = tasks_of(8, NOW - 30, NOW - 3)
        value = cluster([], ended + tasks_of(8, NOW - 29, None, "run"), used=8.0)
        assert dress_of(decide(value, Memory(), CONFIG, NOW)[0]).odd_tasks == 0

    def test_tasks_that_end_before_they_start_are_counted_and_left_out(self) -> None:
        assert dress_of(decide(cluster([], tasks_of(2, NOW, NOW - 50)), Memory(), CONFIG, NOW)[0]).odd_tasks == 2

    def test_a_clock_that_stepped_back_does_not_stop_the_adjustments(self) -> None:
        value = cluster([job("one", 5.0)])
        _, memory = decide(value, Memory(), CONFIG, NOW)
        result, _ = decide(value, memory, CONFIG, NOW - 3600)
        assert dress_of(result).reason != "Unchanged"

    def test_an_empty_pool_leaves_the_ratio(self) -> None:
        value = snapshot((throughput("a/q"),), [0.0], [[200.0]])
        result, _ = decide(dataclasses.replace(value, jobs=jobs_part([job("one", 5.0)], [], [], 1)), Memory(), CONFIG, NOW)
        assert (result.reserve_ratio, dress_of(result).reason) == (0.1, "EmptyPool")

    @pytest.mark.parametrize("amount", [[1.0, 2.0], [-1.0], [math.nan], [math.inf]])
    def test_a_job_without_proper_amounts_is_refused_by_name(self, amount: list[float]) -> None:
        with pytest.raises(InvalidSnapshotError, match="job odd: expected"):
            decide(cluster([Job("odd", "a/q", NOW, np.array(amount))]), Memory(), CONFIG, NOW)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("size_threshold", 1.5), ("initial_reserve", -0.1), ("min_reserve", math.nan), ("step_seconds", 0.0), ("start_threshold", -1)],
    )
    def test_a_setting_out_of_range_is_refused_by_name(self, name: str, value: float) -> None:
        config = PolicyConfig(dress=dataclasses.replace(DressConfig(), **{name: value}))
        with pytest.raises(InvalidConfigError, match=r"expected"):
            decide(cluster([]), Memory(), config, NOW)


def test_a_reserve_at_its_floor_waits_for_a_small_job_and_not_for_the_next_step() -> None:
    """At its floor line 7 of Algorithm 3 lowers it no further, so that a round in every second would find nothing."""
    memory = Memory()
    value = cluster([job("large", 60.0)], tasks_of(20, NOW - 55, None), used=50.0)
    for second in range(20):
        result, memory = decide(value, memory, CONFIG, NOW + second)
    assert (dress_of(result).reserve_ratio, dress_of(result).reason) == (
        CONFIG.dress.min_reserve if CONFIG.dress else None,
        "SmallHasSurplus",
    )
    assert dress_of(result).next_boundary > NOW + 20 + 60
    for second in range(20, 80):  # and indeed
        later, memory = decide(value, memory, CONFIG, NOW + second)
        assert later.reserve_ratio == result.reserve_ratio
    small, _ = decide(cluster([job("large", 60.0), job("small", 5.0)], used=100.0), memory, CONFIG, NOW + 80)
    assert dress_of(small).next_boundary == NOW + 81


def test_the_pool_that_small_and_large_jobs_divide_is_what_other_queues_leave() -> None:
    """DRESS's Tot_R: 100 of either resource less the burst's 40 and 20, and less the 10 and 5 of a queue that does not take part."""
    queues = (latency("l/q", 0.0, [40.0, 20.0], 10, Sporadic(100)), throughput("a/q", 1.0), throughput("b/q", 2.0))
    value = snapshot(queues, [100.0, 100.0], [[40.0, 20.0], [99.0, 9.0], [10.0, 5.0]])
    jobs = dataclasses.replace(jobs_part([], [], [], 2), taking_part=np.array([False, True, False]))
    result, _ = decide(dataclasses.replace(value, jobs=jobs), Memory(), PolicyConfig(dress=DressConfig()), START)
    assert result.dress is not None
    assert result.dress.pool.tolist() == [50.0, 75.0]
