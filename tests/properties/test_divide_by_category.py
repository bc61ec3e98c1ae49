"""The division of queues' levels between small and large jobs (design: "DRESS inside E")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.divide import divide_by_category

EXACT = 1e-9


@dataclass(frozen=True)
class Case:
    totals: FloatArray
    small: FloatArray
    large: FloatArray
    pool: FloatArray
    ratio: float


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count, width = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    amounts = st.lists(st.integers(0, 12), min_size=count * width, max_size=count * width)
    totals, small, large = (np.array(draw(amounts), dtype=np.float64).reshape(count, width) for _ in range(3))
    pool = totals.sum(axis=0) + np.array(draw(st.lists(st.integers(0, 5), min_size=width, max_size=width)))
    return Case(totals, small, large, pool, draw(st.integers(0, 20)) / 20)


class TestDivision:
    """Design §4: "small work gets at least min(δ · pool, what totals and small demand allow). δ never moves capacity between queues"."""

    @given(cases())
    def test_small_work_gets_its_reserve_as_far_as_totals_and_demand_allow(self, case: Case) -> None:
        small, _ = divide_by_category(case.totals, case.small, case.large, case.pool, case.ratio)
        want = np.minimum(case.ratio * case.pool, np.minimum(case.totals, case.small).sum(axis=0))
        assert (small.sum(axis=0) >= want - EXACT).all()

    @given(cases(), st.booleans(), st.booleans())
    def test_no_queue_gets_more_than_its_total_and_no_category_more_than_it_wants(self, case: Case, one: bool, other: bool) -> None:
        small, large = divide_by_category(
            case.totals, case.small, case.large, case.pool, case.ratio, lend_to_small=one, lend_to_large=other
        )  # fmt: skip
        assert (small >= 0).all()
        assert (large >= -EXACT).all()
        assert (small + large <= case.totals + EXACT).all()
        assert (small <= case.small + EXACT).all()
        assert (large <= case.large + EXACT).all()

    @given(cases())
    def test_nothing_of_a_total_is_left_while_the_queue_wants_it(self, case: Case) -> None:
        """Task by task: leftovers are never idle while demand is unmet."""
        small, large = divide_by_category(case.totals, case.small, case.large, case.pool, case.ratio)
        assert np.allclose(small + large, np.minimum(case.totals, case.small + case.large), atol=EXACT)

    @given(cases())
    def test_without_lending_small_jobs_stay_within_the_reserve_and_large_ones_outside(self, case: Case) -> None:
        """DRESS §IV-C: Tot_R x δ for small, Tot_R x (1 - δ) for large jobs."""
        small, large = divide_by_category(
            case.totals, case.small, case.large, case.pool, case.ratio, lend_to_small=False, lend_to_large=False
        )  # fmt: skip
        assert (small.sum(axis=0) <= case.ratio * case.pool + EXACT).all()
        kept = np.maximum(case.ratio * case.pool - small.sum(axis=0), 0.0)
        assert (large.sum(axis=0) <= np.maximum(case.totals.sum(axis=0) - small.sum(axis=0) - kept, 0.0) + EXACT).all()

    @given(cases(), st.integers(0, 20))
    def test_a_larger_reserve_never_takes_from_small_work(self, case: Case, twentieths: int) -> None:
        low, high = sorted((case.ratio, twentieths / 20))
        less, _ = divide_by_category(case.totals, case.small, case.large, case.pool, low)
        more, _ = divide_by_category(case.totals, case.small, case.large, case.pool, high)
        assert (more.sum(axis=0) >= less.sum(axis=0) - EXACT).all()

    @given(cases(), st.sampled_from([1e-3, 0.5, 2.0**30]))
    def test_units_do_not_matter(self, case: Case, scale: float) -> None:
        small, _ = divide_by_category(case.totals, case.small, case.large, case.pool, case.ratio)
        scaled, _ = divide_by_category(case.totals * scale, case.small * scale, case.large * scale, case.pool * scale, case.ratio)
        assert np.allclose(scaled, small * scale, rtol=1e-9, atol=1e-9 * scale)

    @given(cases(), st.randoms(use_true_random=False))
    def test_the_order_of_queues_does_not_matter(self, case: Case, random: object) -> None:
        order = np.arange(len(case.totals))
        random.shuffle(order)  # type: ignore[attr-defined]
        small, _ = divide_by_category(case.totals, case.small, case.large, case.pool, case.ratio)
        shuffled, _ = divide_by_category(case.totals[order], case.small[order], case.large[order], case.pool, case.ratio)
        assert np.allclose(shuffled, small[order])
