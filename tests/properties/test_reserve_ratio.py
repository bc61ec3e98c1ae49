"""Algorithm 3 (DRESS §IV-C): against a plain transcription for one resource, and what holds of δ for any input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.reserve import Balance, adjust_reserve, cap_for_waiting, split_free


@dataclass(frozen=True)
class Containers:
    """The paper's own terms: whole containers."""

    ratio: float
    total: int
    free_small: int
    free_large: int
    release_small: int
    release_large: int
    small: list[int]
    large: list[int]


def algorithm_3(given: Containers) -> float:
    """Algorithm 3 line by line, 0-based, with the mended lines marked."""
    delta, total = given.ratio, given.total
    a1, a2, f1, f2 = given.free_small, given.free_large, given.release_small, given.release_large
    p1 = p2 = 0
    for r in given.small:
        p1 += r
    for r in given.large:
        p2 += r
    if a1 + f1 >= p1:
        delta = delta - (a1 + f1 - p1) / total
    elif a2 + f2 >= p2:
        delta = delta + (a2 + f2 - p2) / total
    else:
        sd, ld = sorted(given.small), sorted(given.large)
        a1 = a1 + f1
        a2 = a2 + f2  # line 14: printed F1
        i = 0
        while i < len(sd) and a1 - sd[i] >= 0:  # line 16: printed > 0
            a1 = a1 - sd[i]
            i += 1
        j = 0
        while j < len(ld) and a2 - ld[j] >= 0:  # line 19: printed > 0
            a2 = a2 - ld[j]  # line 20: printed r_2
            j += 1
        while i < len(sd) and sd[i] <= a1 + a2:  # lines 21, 22: printed j, <
            rest = sd[i] - min(a1, sd[i])  # lines 23, 24: printed r_i
            a1 = a1 - (sd[i] - rest)
            a2 = a2 - rest
            delta = delta + rest / total
            i += 1
    return min(max(delta, 0.0), 1.0)


containers = st.builds(
    Containers,
    ratio=st.integers(0, 20).map(lambda twentieths: twentieths / 20),
    total=st.integers(1, 60),
    free_small=st.integers(0, 20),
    free_large=st.integers(0, 20),
    release_small=st.integers(0, 10),
    release_large=st.integers(0, 10),
    small=st.lists(st.integers(1, 12), max_size=6),
    large=st.lists(st.integers(1, 40), max_size=6),
)


def balance(given: Containers, scale: tuple[float, ...] = (1.0,)) -> Balance:
    """The same in resource units; `scale`: units a container."""
    unit = np.array(scale)

    def stacked(requests: list[int]) -> FloatArray:
        return np.array(requests, dtype=np.float64).reshape(-1, 1) * unit

    small, large = stacked(given.small), stacked(given.large)
    return Balance(
        given.total * unit, given.free_small * unit, given.free_large * unit, given.release_small * unit, given.release_large * unit,
        small.sum(axis=0), large.sum(axis=0), lambda: (small, large),
    )  # fmt: skip


class TestAlgorithm3:
    """DRESS §IV-C, Algorithm 3, with the misprints mended."""

    @given(containers)
    def test_equals_its_plain_transcription_for_one_resource(self, value: Containers) -> None:
        assert abs(adjust_reserve(value.ratio, balance(value)).reserve_ratio - algorithm_3(value)) < 1e-9

    @given(containers)
    def test_resources_in_equal_proportion_are_one_resource(self, value: Containers) -> None:
        one = adjust_reserve(value.ratio, balance(value)).reserve_ratio
        assert abs(adjust_reserve(value.ratio, balance(value, (1.0, 1.0, 1.0))).reserve_ratio - one) < 1e-9


class TestUnitInvariance:
    """Counting memory in bytes or gibibytes decides nothing: δ is a ratio."""

    @given(containers, st.sampled_from([1e-3, 0.25, 7.0, 2.0**30]), st.sampled_from([1e-3, 1.0, 1e9]))
    def test_scaling_a_resource_leaves_the_ratio(self, value: Containers, first: float, second: float) -> None:
        plain = adjust_reserve(value.ratio, balance(value, (1.0, 1.0))).reserve_ratio
        assert abs(adjust_reserve(value.ratio, balance(value, (first, second))).reserve_ratio - plain) < 1e-9


class TestTheRatioIsAFraction:
    """DRESS §IV-C: δ in (0, 1); here the closed interval, and above the configured floor."""

    @given(containers, st.integers(0, 10).map(lambda tenths: tenths / 10))
    def test_stays_between_the_floor_and_one(self, value: Containers, floor: float) -> None:
        assert floor <= adjust_reserve(value.ratio, balance(value), floor).reserve_ratio <= 1.0

    @given(containers)
    def test_falls_only_when_small_jobs_have_a_surplus(self, value: Containers) -> None:
        result = adjust_reserve(value.ratio, balance(value))
        if result.reserve_ratio < value.ratio:
            assert result.reason == "SmallHasSurplus"
            assert value.free_small + value.release_small >= sum(value.small)

    @given(containers, st.integers(1, 12))
    def test_one_more_waiting_small_job_never_lowers_it_while_small_jobs_have_a_surplus(self, value: Containers, request: int) -> None:
        more = Containers(**{**vars_of(value), "small": [*value.small, request]})
        before = adjust_reserve(value.ratio, balance(value))
        if before.reason == "SmallHasSurplus":
            assert adjust_reserve(value.ratio, balance(more)).reserve_ratio >= before.reserve_ratio - 1e-12

    @given(containers)
    def test_an_empty_pool_changes_nothing(self, value: Containers) -> None:
        nothing = Containers(**{**vars_of(value), "total": 0})
        result = adjust_reserve(value.ratio, balance(nothing))
        assert (result.reserve_ratio, result.reason) == (value.ratio, "EmptyPool")

    @given(containers)
    def test_leftovers_handed_to_small_jobs_are_never_more_than_what_large_jobs_leave(self, value: Containers) -> None:
        result = adjust_reserve(value.ratio, balance(value))
        if result.reason == "BothShort":
            grown = (result.reserve_ratio - value.ratio) * value.total
            assert grown <= value.free_large + value.release_large + 1e-9


class TestParts:
    """DRESS §IV-C: A_c = A_c1 + A_c2; and our bound for the oldest large job."""

    @given(containers, st.integers(0, 60))
    def test_parts_of_what_is_free_add_up(self, value: Containers, used: int) -> None:
        free = np.array([float(value.free_small + value.free_large)])
        small, large = split_free(value.ratio, np.array([float(value.total)]), free, np.array([float(used)]))
        assert (small >= 0).all()
        assert (large >= 0).all()
        assert np.allclose(small + large, free)

    @given(containers, st.integers(0, 60))
    def test_the_large_part_holds_a_job_that_has_waited_and_fits(self, value: Containers, request: int) -> None:
        capped = cap_for_waiting(value.ratio, np.array([float(request)]), np.array([float(value.total)]))
        assert 0.0 <= capped <= value.ratio
        assert capped == 0.0 or (1.0 - capped) * value.total >= request - 1e-9


def vars_of(value: Containers) -> dict[str, object]:
    return {name: getattr(value, name) for name in Containers.__dataclass_fields__}
