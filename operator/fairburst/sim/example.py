"""The example of `fairburst simulate --example`: one busy cluster under three policies, with an honest and with a greedy latency queue.

Eight queues of generated batch jobs demand more than the cluster has. Every 300 s a dashboard needs the whole cluster for 20 s. It declares
bursts of at most 25 s. The greedy dashboard sends five times that work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairburst.policy.model import QueueKind
from fairburst.sim.cluster import Cluster
from fairburst.sim.engine import run
from fairburst.sim.experiment import batch_with_bursts
from fairburst.sim.figures import mean, met_fraction
from fairburst.sim.generate import generate
from fairburst.sim.scenario import Scenario
from fairburst.sim.workload import DagJob, Stage, scaled

CORES = 1000
PERIOD_SECONDS, DECLARED_SECONDS, DEADLINE_SECONDS = 300.0, 25.0, 50.0
TASK_SECONDS, TASKS = 10.0, 2 * CORES
GREED = 5
# Names of the policies for readers, by their names in the simulator.
POLICIES = {"drf": "fair sharing", "sp": "strict priority", "bopf": "fairburst"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. burst_seconds and batch_seconds: mean completion of a burst and of a batch job. met: fraction of bursts in time."""

    policy: str
    greedy: bool
    bursts: int
    burst_seconds: float
    met: float
    batch_seconds: float


def scenario(times: int, seed: int) -> Scenario:
    """Return the example. The dashboard sends `times` its declared work."""
    batch = [scaled(job, 1.5) for job in generate("bb", seed)]
    burst = DagJob("dashboard", (Stage("queries", TASKS * times, TASK_SECONDS, (1.0, 1.0)),))
    return batch_with_bursts(
        Cluster(("cpu", "memory"), ((float(CORES), float(CORES)),)), batch, 8, [burst], period=PERIOD_SECONDS, first=60.0,
        on_seconds=DECLARED_SECONDS, deadline=DEADLINE_SECONDS,
    )  # fmt: skip


def outcomes(seed: int, progress: Callable[[float, str], None]) -> list[Outcome]:
    """Run all policies. `progress` receives the fraction done and the running policy."""
    cases = [(times, policy) for times in (1, GREED) for policy in POLICIES]
    found = []
    for number, (times, policy) in enumerate(cases):

        def show(part: float, done: int = number, name: str = policy) -> None:
            progress((done + part) / len(cases), POLICIES[name])

        record = run(scenario(times, seed), policy, progress=show)
        latency = {spec.name for spec in record.queues if spec.kind is QueueKind.LATENCY}
        bursts = [job for name in latency for job in record.ended(name)]
        batch = [job for spec in record.queues if spec.name not in latency for job in record.ended(spec.name)]
        found.append(
            Outcome(
                POLICIES[policy], times > 1, len(bursts), mean([job.completion for job in bursts]), met_fraction(bursts, record.end),
                mean([job.completion for job in batch]),
            )
        )  # fmt: skip
    return found


def conclusion(found: list[Outcome]) -> list[str]:
    """Return the conclusions from the figures, a sentence each."""
    by_case = {(one.policy, one.greedy): one for one in found}
    fair, ours = by_case["fair sharing", False], by_case["fairburst", False]
    fair_greedy, strict_greedy, ours_greedy = (by_case[name, True] for name in POLICIES.values())

    def longer(one: Outcome, than: Outcome) -> str:
        return f"{max(0.0, one.batch_seconds / than.batch_seconds - 1):.0%}"

    return [
        f"Bursts end after {ours.burst_seconds:.0f} s under fairburst and after {fair.burst_seconds:.0f} s under fair sharing; "
        f"batch jobs take {longer(ours, fair)} longer.",
        f"A dashboard that sends {GREED} times what it declared makes batch jobs take {longer(strict_greedy, fair_greedy)} longer under "
        f"strict priority, and {longer(ours_greedy, fair_greedy)} longer under fairburst, where the excess waits for its fair share.",
    ]
