"""The operator is started again with another configuration, again and again, in the midst of bursts: it keeps every promise and count.

What changes here gives no reason to break a promise: the capacity stays. `invariants.py` checks the rest, among others that each pod counts
for one quota in the end, and that no round fails.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator

import pytest

from fairburst.config import Config, parse_config
from fairburst.kube.containment import Containment
from tests.simulation.fault import Fault
from tests.simulation.faults import FaultPlan
from tests.simulation.run import Result, simulate
from tests.simulation.scenario import OWN_NAMESPACE, Scenario

pytestmark = pytest.mark.filterwarnings("default::RuntimeWarning")  # as in the operator, where a figure that is no number raises nothing

SEEDS = (6, 11, 15, 16, 20, 124)
CHANGES_SECONDS = (20.0, 45.0, 70.0)  # when another configuration comes
COUNTED = ("[cpu, memory]", "[cpu]", "[memory]", "[memory, cpu, ephemeral-storage]", "[cpu, memory, nvidia.com/gpu]")
OTHERS = (
    ("smallJobs: {enabled: false}", "smallJobs: {thresholdPercent: 2, initialReservePercent: 50}", "smallJobs: {thresholdPercent: 60}"),
    ("", "enforcement: {floors: {cpu: 100m}}", "enforcement: {floors: {memory: 2Gi, cpu: '2'}}"),
    ("", "reclaim: {graceSeconds: 5, minimumRunSeconds: 2}", "reclaim: {evictionsPerSecond: 1}"),
    ("", "elasticity: {learn: false}", "elasticity: {explore: true}"),
    ("", "allocation: {batchMemorySeconds: 0}", "allocation: {softEndsAtDeadline: true, largestTurnPercent: 0}"),
    ("", "rounds: {intervalSeconds: 3}", "leaderElection: {leaseSeconds: 20, renewDeadlineSeconds: 15}"),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A restart fills the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def drawn(scenario: Scenario, source: random.Random) -> Config:
    """Return a configuration with the capacity that the scenario's own one declares, if any."""
    declared = ", ".join(f"{name}: {amount}" for name, amount in scenario.config.pool.declared_capacity.items())
    pool = f"pool: {{countedResources: {source.choice(COUNTED)}, declaredCapacity: {{{declared}}}}}"
    return parse_config("\n".join([f"namespace: {OWN_NAMESPACE}", pool, *filter(None, map(source.choice, OTHERS))]))


def reconfigured(seed: int) -> Result:
    source, scenarios, restarts = random.Random(f"configuration {seed}"), list[Scenario](), set[asyncio.Task[None]]()

    def change(plan: FaultPlan, config: Config, *, killed: bool) -> None:
        async def restart() -> None:
            for replica in plan._replicas:
                replica._config = config
                if killed:
                    replica.kill()
                else:
                    await replica.stop()
                replica.start()
                await asyncio.sleep(source.uniform(0, 4))

        plan._server.config = config  # the admission policies follow it
        restarts.add(asyncio.get_running_loop().create_task(restart()))

    def chosen(plan: FaultPlan) -> list[Fault]:
        found = [(drawn(scenarios[0], source), source.random() < 0.5) for _ in CHANGES_SECONDS]
        return [
            Fault("another configuration", at, 15.0, lambda config=config, killed=killed: change(plan, config, killed=killed))
            for at, (config, killed) in zip(CHANGES_SECONDS, found, strict=True)
        ]

    return simulate(seed, chosen=chosen, shape=scenarios.append)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_configuration_breaks_no_promise_and_causes_no_internal_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    contained = list[tuple[str, str, Exception]]()
    monkeypatch.setattr(Containment, "note", lambda _, *what: contained.append(what))
    assert reconfigured(seed).broken == []
    assert contained == []
