"""All settings of the operator. `docs/configuration.md` is generated from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from fairburst.config.decision import AdmissionConfig, AllocationConfig, ElasticityConfig, PoolConfig, ReclaimConfig, SmallJobsConfig
from fairburst.config.group import DnsLabel, Group
from fairburst.config.process import (
    EnforcementConfig,
    ExtenderConfig,
    ForecastConfig,
    LeaderElectionConfig,
    LogConfig,
    MetricsConfig,
    PriorityClassConfig,
    RecordingConfig,
    RoundConfig,
    WebhookConfig,
    WriteConfig,
)
from fairburst.policy.model import PolicyConfig


def usual_lease_name(pool: str) -> str:
    """Return the name of the Lease of a pool's operator whose configuration names no other one."""
    return f"fairburst-{pool}"


class Config(Group):
    """All settings of the operator."""

    kubeconfig: str | None = Field(
        default=None,
        description="Path of a kubeconfig file. None by default: $KUBECONFIG, else the service account of the operator's own pod, else "
        "~/.kube/config.",
    )
    context: str | None = Field(default=None, description="Context in the kubeconfig. None by default: its current one.")
    namespace: DnsLabel = Field(
        default="fairburst-system",
        description="Namespace of the operator's own objects; it is never managed. fairburst-system by default, so that they stand apart.",
    )
    pool: PoolConfig = Field(default_factory=PoolConfig, description="Which nodes are shared. By default all of them, whole.")
    admission: AdmissionConfig = Field(default_factory=AdmissionConfig, description="When promises are made. By default as in the paper.")
    allocation: AllocationConfig = Field(
        default_factory=AllocationConfig, description="Damping of level changes. By default small ones are not written."
    )
    rounds: RoundConfig = Field(default_factory=RoundConfig, description="When rounds run. By default at once after an event.")
    writes: WriteConfig = Field(default_factory=WriteConfig, description="Limits on writes. By default what a small API server takes.")
    enforcement: EnforcementConfig = Field(
        default_factory=EnforcementConfig, description="Limits of the written quotas. By default never below a small pod."
    )
    reclaim: ReclaimConfig = Field(
        default_factory=ReclaimConfig, description="Eviction of work for queues that request it. By default rarely and after a delay."
    )
    small_jobs: SmallJobsConfig = Field(
        default_factory=SmallJobsConfig, description="The reserve for small jobs. By default as in the paper."
    )
    elasticity: ElasticityConfig = Field(
        default_factory=ElasticityConfig, description="Exchange of slots between elastic jobs. By default as in the paper, damped."
    )
    priority_classes: PriorityClassConfig = Field(
        default_factory=PriorityClassConfig, description="Values of the PriorityClasses. By default around those of ordinary services."
    )
    leader_election: LeaderElectionConfig = Field(
        default_factory=LeaderElectionConfig, description="The choice of the writing process. By default the holder of the Lease."
    )
    metrics: MetricsConfig = Field(default_factory=MetricsConfig, description="The HTTP endpoint. By default on all addresses.")
    webhook: WebhookConfig = Field(default_factory=WebhookConfig, description="The admission webhook. Off by default.")
    extender: ExtenderConfig = Field(
        default_factory=ExtenderConfig, description="Where the scheduler extender listens. By default on all addresses."
    )
    forecast: ForecastConfig = Field(
        default_factory=ForecastConfig, description="Forecasts of when waiting work starts. On by default, a twentieth of a core at most."
    )
    log: LogConfig = Field(default_factory=LogConfig, description="Logging. By default key=value lines on standard error.")
    recording: RecordingConfig = Field(default_factory=RecordingConfig, description="Recording of rounds. Off by default.")

    @property
    def lease_name(self) -> str:
        """The name of the Lease whose holder writes."""
        return self.leader_election.lease_name or usual_lease_name(self.pool.name)

    def policy(self) -> PolicyConfig:
        """Return the settings that the decision core reads."""
        return PolicyConfig(
            expected_queues=float(self.admission.expected_queues),
            max_cycle_seconds=float(self.admission.max_cycle_seconds),
            max_profile_events=self.admission.max_profile_events,
            level_dead_band=self.allocation.level_dead_band_percent / 100,
            soft_ends_at_deadline=self.allocation.soft_ends_at_deadline,
            batch_memory_seconds=float(self.allocation.batch_memory_seconds),
            largest_turn=self.allocation.largest_turn_percent / 100,
            dress=self.small_jobs.policy(),
        )


def keys(group: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of the file as (dotted path, pydantic field), groups before their members."""
    for name, field in group.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{path}.")
