"""Settings of the decision: the pool, admission, allocation, reclaim, small jobs, elastic jobs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fairburst.config.group import DnsLabel, Group, QuantityText
from fairburst.policy.dress.values import DressConfig, StartMode
from fairburst.policy.reclaim.values import ReclaimRules


class PoolConfig(Group):
    """The shared nodes, and the shared part of their capacity."""

    name: DnsLabel = Field(
        default="default",
        description="Name of the pool. Queues with the same spec.pool are this operator's; cluster-scoped objects carry it. "
        "One pool is the usual case, hence a default that queues have too.",
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the pool's nodes; the admission policy adds them to every pod of a managed namespace. "
        "Empty, the default, means all nodes, since most clusters are one pool. Several operators need disjoint selectors. Pods keep the "
        "labels of their creation: after a change, delete those that wait.",
    )
    declared_capacity: dict[str, QuantityText] = Field(
        default_factory=dict,
        description="Capacity that promises are made against, quantities by resource. A resource not named here counts with the low-water "
        "mark of what its nodes offer. Empty by default: the present nodes are the best figure, unless the pool is autoscaled.",
    )
    autoscaled: bool = Field(
        default=False,
        description="True if an autoscaler adds nodes on demand: allocation then uses declaredCapacity too, so that a pool at zero nodes "
        "can grow. False by default, because on a fixed pool it would hand out nodes that never come.",
    )
    capacity_window_seconds: int = Field(
        default=600,
        ge=0,
        le=86_400,
        description="Seconds over which the lowest capacity seen counts for admission. Ten minutes: longer than a node's reboot, so that "
        "one does not flip classes.",
    )
    head_room_percent: int = Field(
        default=0,
        ge=0,
        le=90,
        description="Percent of capacity that is never promised or allocated. None by default: rates are declared against what remains, "
        "and the operator should not hide capacity by itself.",
    )
    head_room: dict[str, QuantityText] = Field(
        default_factory=dict,
        description="Quantities by resource that are never promised or allocated, besides headRoomPercent. Empty by default, for the same "
        "reason.",
    )
    counted_resources: tuple[str, ...] = Field(
        default=("cpu", "memory"),
        min_length=1,
        max_length=16,
        description="Resources that are shared: cpu, memory, ephemeral-storage, or extended ones such as nvidia.com/gpu. A queue that "
        "names another reports it in its status. cpu and memory by default, since every node has them and most pods request them.",
    )

    @model_validator(mode="after")
    def _autoscaled_needs_a_declaration(self) -> PoolConfig:
        if self.autoscaled and not self.declared_capacity:
            raise ValueError("expected declaredCapacity beside autoscaled: true, since an empty pool shows no capacity of its own")
        return self


class AdmissionConfig(Group):
    """Conditions under which a queue's declaration is promised."""

    expected_queues: int = Field(
        default=4,
        ge=1,
        le=1_000_000,
        description="N_min of BoPF section 3.3, in units of weight: admission divides capacity by at least this, so that the first queue "
        "to come cannot claim what later ones need. 4: no promise takes more than a quarter of the pool's time, and three more queues of "
        "weight 1 always find room. The paper's three bursts (section 5.2.5) get the classes that they get with 1.",
    )
    max_cycle_seconds: int = Field(
        default=3600,
        ge=1,
        le=31_536_000,
        description="Longest time between bursts, in seconds, that counts in the fairness conditions. An hour: a burst a day must not be "
        "able to save up a day's fair share and then hold back all other queues for long.",
    )
    max_profile_events: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Windows that the exact profile of the resource condition may enumerate before the faster upper bound is used instead. "
        "10,000 keeps one admission within milliseconds.",
    )


class AllocationConfig(Group):
    """Behaviour of the division from round to round."""

    level_dead_band_percent: int = Field(
        default=5,
        ge=0,
        le=50,
        description="Percent by which the level of a latency queue outside its windows must change before it is written. 5 saves a quota "
        "write a round at no noticeable cost.",
    )
    soft_ends_at_deadline: bool = Field(
        default=False,
        description="Whether the turn of a Soft queue ends with its deadline, served or not, as in line 34 of BoPF's Algorithm 1. False "
        "keeps it, after all queues that are in time, until the declared demand is served: in the simulator bursts and batch work then end "
        "earlier.",
    )
    batch_memory_seconds: int = Field(
        default=600,
        ge=0,
        le=86_400,
        description="Half-life, in seconds, of what throughput queues are remembered to lack of their fair shares: a queue that was short "
        "while it had work waiting has up to twice its weight until it has caught up, and none falls below a quarter of its share. "
        "600 is longer than most tasks run. 0 turns it off.",
    )
    largest_turn_percent: int = Field(
        default=50,
        ge=0,
        le=100,
        description="The largest part of the pool, in percent, that a throughput queue has in the turn of a Job or group that starts whole "
        "and that its share does not hold. While such work runs, other queues may have less than their shares, and no running pod is "
        "evicted for a queue without reclaim: Evict. 50 leaves them half of the pool; 0 turns such turns off.",
    )


class ReclaimConfig(Group):
    """Eviction of work for queues with reclaim: Evict."""

    grace_seconds: int = Field(
        default=300,
        ge=0,
        le=86_400,
        description="How long, in seconds, a throughput queue has been short of its fair share before work is evicted for it. 300: most "
        "work ends by itself within minutes, and nothing is lost then. Bursts inside their guarantee do not wait.",
    )
    minimum_run_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="Least run time, in seconds, of an evicted pod, and least time between two evictions for the same waiting pod. "
        "60: a pod that runs for a minute makes progress however often bursts come, and one that ends within it is not worth evicting.",
    )
    evictions_per_second: int = Field(
        default=100,
        ge=1,
        le=1000,
        description="Evictions per second; as many may go at once. 100 makes room for a burst of hundreds of pods within seconds, and an "
        "API server on two cores takes it (140 a second measured).",
    )

    longest_grace_seconds: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="The most time, in seconds, that an evicted pod is given to end. 30: what Kubernetes gives a pod that names no grace "
        "period of its own. A pod that names a shorter one keeps it. Without a bound, pods with a grace period of a day would be safe from "
        "reclaim.",
    )

    def rules(self) -> ReclaimRules:
        """Return the settings that the decision core reads."""
        return ReclaimRules(
            float(self.grace_seconds), float(self.minimum_run_seconds), float(self.evictions_per_second), float(self.longest_grace_seconds)
        )


class SmallJobsConfig(Group):
    """A reserve for the small jobs of throughput queues (DRESS)."""

    enabled: bool = Field(
        default=True,
        description="True keeps small jobs of throughput queues from waiting behind large ones; a queue with reserve: Off is left out.",
    )
    threshold_percent: int = Field(
        default=10,
        ge=1,
        le=100,
        description="θ of DRESS section IV-C: a job is small if its full request is at most this percent of the committed capacity in "
        "every resource. 10 as in the paper. A queue's smallJobs.thresholdPercent overrides it.",
    )
    initial_reserve_percent: int = Field(
        default=10,
        ge=0,
        le=100,
        description="The reserve ratio δ to begin with, in percent of the elastic pool; from then on Algorithm 3 moves it. 10 as in the "
        "paper.",
    )
    min_reserve_percent: int = Field(
        default=10,
        ge=0,
        le=100,
        description="Percent of the elastic pool below which the reserve ratio never falls, so that a small job that comes alone "
        "finds room. Large jobs use what small ones leave. 0 as in the paper.",
    )
    phase_window_seconds: int = Field(
        default=10,
        ge=1,
        le=3600,
        description="pw of DRESS Algorithms 1 and 2, in seconds: as long as tasks of a job keep starting within it they are one phase. "
        "10 as in the paper.",
    )
    start_threshold: int = Field(
        default=5,
        ge=0,
        le=100_000,
        description="t_s: more tasks than this must start within a phase window for a phase to begin. 5 as in the paper.",
    )
    end_threshold: int = Field(
        default=5,
        ge=0,
        le=100_000,
        description="t_e: more tasks than this must end within a phase window before the phase counts as releasing; fewer are heading "
        "tasks. 5 as in the paper.",
    )
    step_seconds: int = Field(
        default=1,
        ge=1,
        le=31_536_000,
        description="The step of Algorithm 3, in seconds: the reserve ratio moves at most once in it, by what will end meanwhile. "
        "1, about the heartbeat of the paper's scheduler. A step longer than the operator runs keeps the initial ratio.",
    )
    max_wait_seconds: int = Field(
        default=900,
        ge=1,
        le=31_536_000,
        description="Once the oldest large job of which nothing runs has waited this long, in seconds, what large jobs leave stays with "
        "them and the reserve makes room for it. A quarter of an hour: far above the waits that a reserve of a tenth causes; the paper "
        "has no bound.",
    )
    start_mode: Literal["TaskByTask", "WholeJobs"] = Field(
        default="TaskByTask",
        description="How waiting work starts. TaskByTask: with as many pods as there is room for, and what one size leaves is lent to "
        "the other. WholeJobs, the paper's model, needs jobs to be held whole, which quotas cannot do: not supported yet.",
    )

    @model_validator(mode="after")
    def _whole_jobs_are_not_held(self) -> SmallJobsConfig:
        if self.start_mode == "WholeJobs":
            raise ValueError("startMode: WholeJobs is not supported yet; expected TaskByTask")
        return self

    def policy(self) -> DressConfig | None:
        """Return the settings that the decision core reads, or None if the reserve is off."""
        if not self.enabled:
            return None
        return DressConfig(
            size_threshold=self.threshold_percent / 100,
            initial_reserve=self.initial_reserve_percent / 100,
            phase_window_seconds=float(self.phase_window_seconds),
            start_threshold=self.start_threshold,
            end_threshold=self.end_threshold,
            min_reserve=self.min_reserve_percent / 100,
            step_seconds=float(self.step_seconds),
            max_wait_seconds=float(self.max_wait_seconds),
            start_mode=StartMode(self.start_mode),
        )


class ElasticityConfig(Group):
    """Exchange of slots between the jobs of throughput queues that request it (PAF)."""

    fairness_percent: int = Field(
        default=90,
        ge=1,
        le=100,
        description="The fairness knob α of PAF section III-A, in percent: a job or queue that gives slots keeps at least this much of the "
        "progress that its fair share gives it. 90 as in the paper's testbed: with few slots a whole one is more than a percent of a job. "
        "A queue's elasticity.fairnessPercent overrides it.",
    )
    change_interval_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="Shortest time between two changes of one Job's parallelism, in seconds. 60: a pod that is deleted or started too "
        "early costs more than a minute at the wrong size.",
    )
    hysteresis_percent: int = Field(
        default=10,
        ge=0,
        le=100,
        description="Percent of its parallelism (at least one pod) by which a Job's slots must change before it is written. 10 keeps "
        "capacity that comes and goes from resizing every Job.",
    )
    status_jobs: int = Field(
        default=10,
        ge=0,
        le=100,
        description="Jobs that a queue's status names, those first whose slots differ most from the fair ones; the rest are counted. 10 "
        "reads at a glance and keeps the object small.",
    )
    learn: bool = Field(
        default=True,
        description="Whether completed runs of elastic queues' job families are remembered, and curves fitted to them. True by default: it "
        "costs a ConfigMap of at most some 150 kB, and a curve that is updated by hand is soon wrong.",
    )
    explore: bool = Field(
        default=False,
        description="True lets the first runs of a family without a curve have other sizes than the fair one, as far as the fairness knob "
        "holds for any job that does not speed up more than linearly. False by default: the sizes that come by themselves often do.",
    )
