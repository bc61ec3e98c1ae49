"""Over-claiming does not pay (BoPF §3.4, long-term fairness): a queue that wants all it can get, whatever burst it declares.

It declares 1 to 40 times an honest burst: up to its fair share of a period, and far beyond. The measure is all of its use over whole
periods, with spare.
"""

from __future__ import annotations

import pytest

from fairburst.policy.model import GuaranteeClass, Periodic, QueueSpec
from tests.support.policy import Work, backlog, bursts_of, latency, run_fluid, throughput
from tests.support.strategies import START

CAPACITY = [12.0]
PERIOD, PERIODS = 40.0, 10
UNTIL = START + PERIODS * PERIOD
HONEST_CPU, HONEST_SECONDS = 2.0, 5.0
CLAIMS = [1, 2, 8, 16, 17, 40]
TOLERANCE = 1e-3  # of the cluster: what the time between two rounds makes of it
BATCH, MODEST = throughput("batch/q"), latency("modest/q", 1.0, [4.0], 5.0, Periodic(PERIOD, START + 20))


def greedy(claim: float, weight: float = 1.0) -> QueueSpec:
    """A burst of `claim` times the honest demand: more cpu up to the whole cluster, then more seconds."""
    cpu = min(HONEST_CPU * claim, CAPACITY[0])
    seconds = HONEST_SECONDS * HONEST_CPU * claim / cpu
    return latency("greedy/q", 2.0, [cpu], seconds, Periodic(PERIOD, START), weight=weight)


def used(claimant: QueueSpec, beside: list[QueueSpec], work: list[Work]) -> tuple[dict[str, float], GuaranteeClass | None]:
    """The part of the cluster that each queue used, and the class that the claimant had in the end."""
    history = run_fluid((*beside, claimant), CAPACITY, work, START, UNTIL)
    return {name: amount / (UNTIL - START) for name, amount in history.total.items()}, history.results[-1].classes[-1]


@pytest.mark.parametrize("weight", [1.0, 2.0])
@pytest.mark.parametrize("claim", CLAIMS)
def test_where_everybody_wants_more_no_claim_gets_a_queue_above_its_fair_share(claim: int, weight: float) -> None:
    """A large claim costs it nothing. A claim with a rate below the fair share does: in its window a queue has the claimed rate."""
    fair = weight / (2.0 + weight)
    other = throughput("other/q", 1.0)
    work = [backlog(name, CAPACITY) for name in ("batch/q", "other/q", "greedy/q")]
    shares, granted = used(greedy(claim, weight), [BATCH, other], work)
    assert shares["greedy/q"] <= fair + TOLERANCE
    if min(claim * HONEST_CPU, CAPACITY[0]) >= fair * CAPACITY[0]:
        assert shares["greedy/q"] == pytest.approx(fair, abs=TOLERANCE)
    claimed = claim * HONEST_CPU * HONEST_SECONDS / (CAPACITY[0] * PERIOD)
    assert (granted is GuaranteeClass.HARD) == (claimed <= fair), "a claim beyond the fair share is not promised"


@pytest.mark.parametrize("backlogged", [True, False], ids=["always wants everything", "works off what it claims"])
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_others_leave_is_no_reason_to_over_claim(claim: int, backlogged: bool) -> None:
    """A promised queue keeps to its fair share; one that claimed too much is promised nothing and is what a throughput queue would be."""
    claimant = greedy(claim)
    work = [backlog("batch/q", CAPACITY), *bursts_of(MODEST, CAPACITY, START, UNTIL)]
    work += [backlog("greedy/q", CAPACITY)] if backlogged else bursts_of(claimant, CAPACITY, START, UNTIL)
    shares, granted = used(claimant, [BATCH, MODEST], work)
    assert shares["modest/q"] == pytest.approx(4.0 * 5.0 / (CAPACITY[0] * PERIOD), abs=TOLERANCE), "the bursts beside it are served in full"
    assert shares["greedy/q"] <= (1 / 3 if granted is GuaranteeClass.HARD else shares["batch/q"]) + TOLERANCE


@pytest.mark.parametrize("factor", [0.1, 0.5, 1, 2, 6])
def test_an_odd_mix_gets_no_queue_above_its_fair_share(factor: float) -> None:
    """It wants all cores always and declares memory that it never uses: its guarantee lasts longer, and its periods are not larger."""
    capacity = [*CAPACITY, 12.0]
    claimant = latency("greedy/q", 2.0, [HONEST_CPU, min(HONEST_CPU * factor, 12.0)], HONEST_SECONDS, Periodic(PERIOD, START))
    queues, cores = (BATCH, throughput("other/q", 1.0), claimant), [*CAPACITY, 0.0]
    history = run_fluid(queues, capacity, [backlog(spec.name, cores) for spec in queues], START, UNTIL)
    assert history.results[-1].classes[-1] is GuaranteeClass.HARD
    assert history.total["greedy/q"] / (UNTIL - START) == pytest.approx(1 / 3, abs=TOLERANCE)
