"""The operator's configuration: one YAML file, read once at start, validated as a whole, frozen.

Every key documents its meaning, its unit, and the reason for its default; `docs/configuration.md` is generated from that. Keys are
camelCase in the file and snake_case here. An error about an unknown key suggests the nearest valid one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from fairburst.policy.dress.values import DressConfig, StartMode
from fairburst.policy.model import PolicyConfig
from fairburst.policy.reclaim.values import ReclaimRules
from fairburst.quantity import parse_exact, parse_quantity
from fairburst.validation import problems_of


class ConfigError(Exception):
    """The configuration file is unusable. The message lists every problem, one a line."""


def _quantity_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _not_negative(value: str) -> str:
    if parse_exact(value) < 0:
        raise ValueError("expected a quantity of zero or more")
    return value


def _dns_label(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", value):
        raise ValueError("expected at most 40 lower-case letters, digits and inner dashes, for it becomes part of object names")
    return value


QuantityText = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_not_negative)]


class _Group(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        strict=True,
        use_attribute_docstrings=False,
    )


class PoolConfig(_Group):
    """The shared nodes, and the shared part of their capacity."""

    name: Annotated[str, AfterValidator(_dns_label)] = Field(
        default="default",
        description="Name of the pool. Queues with the same spec.pool are this operator's; cluster-scoped objects carry it. "
        "One pool is the usual case, hence a default that queues have too.",
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the pool's nodes; the admission policy adds them to every pod of a managed namespace. "
        "Empty, the default, means all nodes, since most clusters are one pool. Several operators need disjoint selectors.",
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


class AdmissionConfig(_Group):
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


class AllocationConfig(_Group):
    """Behaviour of the division from round to round."""

    level_dead_band_percent: int = Field(
        default=5,
        ge=0,
        le=50,
        description="Percent by which the level of a latency queue outside its windows must change before it is written. 5 saves a quota "
        "write a round at no cost that anybody notices.",
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


class RoundConfig(_Group):
    """When rounds run."""

    interval_seconds: int = Field(
        default=10,
        ge=1,
        le=300,
        description="Longest time between two rounds, in seconds. 10 repairs missed events soon enough for users.",
    )
    debounce_milliseconds: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="Time from the first event to the round that answers it, in milliseconds. 20 drains a burst of pods into one round and "
        "is not felt.",
    )
    status_interval_seconds: int = Field(
        default=5,
        ge=0,
        le=300,
        description="Shortest time between two status writes of one queue that only change figures, in seconds; a change of class, window "
        "or condition is written at once. 5 reads as live and keeps busy queues from filling etcd.",
    )


class WriteConfig(_Group):
    """Limits on the operator's requests to the API server."""

    per_second: int = Field(
        default=300,
        ge=1,
        le=10_000,
        description="Writes per second in the long run. 300 is what an API server on small machines carries besides its other work.",
    )
    burst: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Writes that may be made at once before perSecond applies. 1,000 lets a whole round of a large cluster pass.",
    )
    quota_interval_seconds: int = Field(
        default=1,
        ge=0,
        le=60,
        description="Shortest time between two writes of one ResourceQuota, in seconds. 1: pod creation in the namespace fails with a "
        "conflict when its quota is written much more often.",
    )


class EnforcementConfig(_Group):
    """Writes to the cluster that enforce the queues' levels."""

    floors: dict[str, QuantityText] = Field(
        default_factory=lambda: {"cpu": "1", "memory": "1Gi"},
        description="Level, by resource, below which no managed namespace's quota ever goes. One small pod: never zero, so that a "
        "waiting user sees progress, and small enough not to matter in the division.",
    )


class ReclaimConfig(_Group):
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
        """The part that the decision core reads."""
        return ReclaimRules(
            float(self.grace_seconds), float(self.minimum_run_seconds), float(self.evictions_per_second), float(self.longest_grace_seconds)
        )


class SmallJobsConfig(_Group):
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
        default=0,
        ge=0,
        le=100,
        description="Percent of the elastic pool below which the reserve ratio never falls. 0 as in the paper: an unused "
        "reserve helps no job.",
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
        """The part that the decision core reads, or None if the reserve is off."""
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


class ElasticityConfig(_Group):
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


class LeaderElectionConfig(_Group):
    """The choice among several operator processes of one pool: only the holder of a Lease writes."""

    enabled: bool = Field(
        default=True,
        description="False writes without asking for the Lease. True by default, also for a single process: two that are started by "
        "mistake, or during an update, would contradict each other; the price is that after a crash the next one waits for leaseSeconds.",
    )
    lease_name: Annotated[str, AfterValidator(_dns_label)] | None = Field(
        default=None,
        description="Name of the Lease in the operator's namespace. None, the default, makes it fairburst-POOL: operators of different "
        "pools never wait for each other.",
    )
    lease_seconds: int = Field(
        default=8,
        ge=2,
        le=60,
        description="Seconds for which the other processes wait for a silent holder. 8: a take-over within nine seconds of a crash, "
        "and still longer than a slow API server takes for a renewal.",
    )
    renew_deadline_seconds: int = Field(
        default=5,
        ge=1,
        le=59,
        description="Seconds after its last renewal for which a holder still writes; below leaseSeconds, and the difference is what the "
        "API server has to finish a last write. 5 leaves it 3.",
    )
    retry_seconds: int = Field(
        default=1,
        ge=1,
        le=30,
        description="Seconds between two renewals, or two looks of a replica that stands by; up to a fifth more by chance. 1: four "
        "renewals in a row must fail before the right to write is lost.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> LeaderElectionConfig:
        if not 1.2 * self.retry_seconds < self.renew_deadline_seconds < self.lease_seconds:
            raise ValueError("expected 1.2 × retrySeconds < renewDeadlineSeconds < leaseSeconds")
        return self


class PriorityClassConfig(_Group):
    """Values of the PriorityClasses; they cannot change once installed. No class preempts."""

    large: int = Field(
        default=-2,
        ge=-2_147_483_648,
        le=1_000_000_000,
        description="Value of fairburst-large. Below 0, so that ordinary services outrank batch work.",
    )
    small: int = Field(
        default=-1,
        ge=-2_147_483_648,
        le=1_000_000_000,
        description="Value of fairburst-small. Above large, so that small work passes; below 0 as large, but close enough that "
        "autoscalers, which ignore pods far below 0, still see both.",
    )
    soft: int = Field(
        default=1000,
        ge=-2_147_483_648,
        le=1_000_000_000,
        description="Value of fairburst-soft. Above batch work and ordinary services, below hard.",
    )
    hard: int = Field(
        default=2000,
        ge=-2_147_483_648,
        le=1_000_000_000,
        description="Value of fairburst-hard. The highest of ours, far below the system- classes.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> PriorityClassConfig:
        if not self.large < self.small < self.soft < self.hard:
            raise ValueError("expected large < small < soft < hard")
        return self


class MetricsConfig(_Group):
    """The address of /metrics, /healthz and /readyz."""

    host: str = Field(
        default="0.0.0.0",  # noqa: S104  the kubelet's probes and Prometheus come from outside the pod
        description="Address to listen on. All by default, since the kubelet and Prometheus come from outside the pod.",
    )
    port: int = Field(
        default=9090,
        ge=0,
        le=65_535,
        description="Port to listen on; 0 lets the system choose one (the log names it). 9090 as most exporters use.",
    )


class WebhookConfig(_Group):
    """The admission webhook, for clusters without MutatingAdmissionPolicy (Kubernetes below 1.36)."""

    enabled: bool = Field(
        default=False, description="Whether this process sets the pods' priority class. False by default: newer API servers do it."
    )
    host: str = Field(
        default="0.0.0.0",  # noqa: S104  the API server comes from outside the pod
        description="Address to listen on. All by default, since the API server comes from outside the pod.",
    )
    port: int = Field(default=9443, ge=0, le=65_535, description="Port to listen on; 0 lets the system choose one (the log names it).")
    certificates: str = Field(
        default="/etc/fairburst-webhook",
        description="Folder with tls.crt, tls.key and ca.crt, read again when they change. By default where the chart mounts its Secret.",
    )
    server_name: str = Field(
        default="",
        description="Name by which the API server calls; the certificate is checked for it every minute. Empty by default: any will do.",
    )


class ExtenderConfig(_Group):
    """The scheduler extender (`fairburst extender`), a separate process."""

    host: str = Field(
        default="0.0.0.0",  # noqa: S104  kube-scheduler comes from outside the pod
        description="Address to listen on. All by default, since kube-scheduler calls from outside the pod; 127.0.0.1 if both share a pod.",
    )
    port: int = Field(
        default=9444,
        ge=0,
        le=65_535,
        description="Port to listen on, for metrics and probes too; 0 lets the system choose one (the log names it).",
    )


class LogConfig(_Group):
    """Logging, on standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe level that is logged. INFO is one line a round and one for each changed decision."
    )
    json_lines: bool = Field(
        default=False,
        alias="json",
        description="True writes one JSON object a line, for collectors. False by default: key=value is easier to read.",
    )


class RecordingConfig(_Group):
    """Recording of rounds, for `fairburst replay`."""

    file: str | None = Field(
        default=None,
        description="File to which every round's snapshot and decision is written, for `fairburst replay` and bug reports "
        "(docs/recordings.md). None, the default, records nothing and costs nothing.",
    )
    max_megabytes: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Size at which the file is moved to FILE.1 and a new one begun. 64 holds hours of a small cluster and opens in an "
        "editor.",
    )
    files: int = Field(
        default=2,
        ge=1,
        le=100,
        description="Number of files kept, the current one included. 2: the recent past survives the moment of the change.",
    )


class Config(_Group):
    """All settings of the operator."""

    kubeconfig: str | None = Field(
        default=None,
        description="Path of a kubeconfig file. None by default: $KUBECONFIG, else the service account of the operator's own pod, else "
        "~/.kube/config.",
    )
    context: str | None = Field(default=None, description="Context in the kubeconfig. None by default: its current one.")
    namespace: Annotated[str, AfterValidator(_dns_label)] = Field(
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
    log: LogConfig = Field(default_factory=LogConfig, description="Logging. By default key=value lines on standard error.")
    recording: RecordingConfig = Field(default_factory=RecordingConfig, description="Recording of rounds. Off by default.")

    @property
    def lease_name(self) -> str:
        """The name of the Lease whose holder writes."""
        return self.leader_election.lease_name or f"fairburst-{self.pool.name}"

    def policy(self) -> PolicyConfig:
        """The part that the decision core reads."""
        return PolicyConfig(
            expected_queues=float(self.admission.expected_queues),
            max_cycle_seconds=float(self.admission.max_cycle_seconds),
            max_profile_events=self.admission.max_profile_events,
            level_dead_band=self.allocation.level_dead_band_percent / 100,
            soft_ends_at_deadline=self.allocation.soft_ends_at_deadline,
            batch_memory_seconds=float(self.allocation.batch_memory_seconds),
            dress=self.small_jobs.policy(),
        )


def natural_units(quantities: dict[str, str]) -> dict[str, float]:
    """Return configured quantities in natural units (cores, bytes, devices)."""
    return {resource: parse_quantity(text) for resource, text in quantities.items()}


def load_config(path: str | Path) -> Config:
    """Read and validate a configuration file; an empty one is all defaults. Raises ConfigError with every problem, naming the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a readable YAML file: {error}") from error
    return parse_config(text, source=str(path))


def parse_config(text: str, source: str = "configuration") -> Config:
    """Validate the text of a configuration file. Raises ConfigError with every problem, one a line, each beginning with `source`."""
    try:
        content = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: expected YAML: {' '.join(str(error).split())}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigError(f"{source}: expected keys and values, found {type(content).__name__}")
    try:
        return Config.model_validate(_tuples(content), by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems_of(error, [path for path, _ in keys()]))) from error


def _tuples(content: Any) -> Any:
    """Return the content with lists as tuples. Strict validation, which keeps "5" from passing as 5, requires tuples."""
    if isinstance(content, dict):
        return {key: _tuples(value) for key, value in content.items()}
    return tuple(_tuples(value) for value in content) if isinstance(content, list) else content


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a duplicate key; YAML would silently keep the last one."""


def _unique_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if key_node.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"expected each key once, found {key_node.value!r} twice", key_node.start_mark
            )
        seen.add(str(key_node.value))
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def keys(group: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of the file as (dotted path, pydantic field), groups before their members."""
    for name, field in group.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{path}.")


def to_markdown() -> str:
    """Return the page docs/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "One YAML file, given to `fairburst run --config FILE` and `fairburst manifests --config FILE`. Every key is optional.",
        "Generated from `operator/fairburst/config.py` by `fairburst config --markdown`.",
        "",
        "| key | default | meaning |",
        "| --- | --- | --- |",
    ]
    for path, field in keys():
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = (
            ""
            if isinstance(default, BaseModel)
            else f"`{yaml.safe_dump(_plain(default), default_flow_style=True, width=1000).splitlines()[0]}`"
        )
        lines.append(f"| `{path}` | {shown} | {field.description} |")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
