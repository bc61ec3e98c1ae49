"""Settings of the process: rounds, writes, leadership, priorities, and what it serves, logs and records."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fairburst.config.group import DnsLabel, Group, QuantityText


class RoundConfig(Group):
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


class WriteConfig(Group):
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


class EnforcementConfig(Group):
    """Writes to the cluster that enforce the queues' levels."""

    floors: dict[str, QuantityText] = Field(
        default_factory=lambda: {"cpu": "1", "memory": "1Gi"},
        description="Level, by resource, below which no managed namespace's quota goes, except while room is kept from its queue for a "
        "burst or for a Job that starts whole. One small pod: not zero, so that a waiting user sees progress, and small enough not to "
        "matter in the division.",
    )


class LeaderElectionConfig(Group):
    """The choice among several operator processes of one pool: only the holder of a Lease writes."""

    enabled: bool = Field(
        default=True,
        description="False writes without asking for the Lease. True by default, also for a single process: two that are started by "
        "mistake, or during an update, would contradict each other; the price is that after a crash the next one waits for leaseSeconds.",
    )
    lease_name: DnsLabel | None = Field(
        default=None,
        description="Name of the Lease in the operator's namespace. None, the default, makes it fairburst-POOL: operators of different "
        "pools never wait for each other. Change it, or the namespace, only while no process runs: two Leases have two holders.",
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


class PriorityClassConfig(Group):
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


class MetricsConfig(Group):
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


class WebhookConfig(Group):
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


class ExtenderConfig(Group):
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


class ForecastConfig(Group):
    """Forecasts of when waiting work starts (docs/forecast.md), made in a separate process."""

    enabled: bool = Field(
        default=True,
        description="Whether forecasts are made. True by default: waiting work then says when it starts. The process begins with the first "
        "work that waits for five seconds, and takes about 70 MB.",
    )
    interval_seconds: int = Field(
        default=30,
        ge=5,
        le=3600,
        description="Shortest time between two forecasts, in seconds. 30: most waits that raise a question are longer.",
    )
    core_percent: int = Field(
        default=5,
        ge=1,
        le=100,
        description="Processor time that forecasts may take, in percent of one core, three seconds of it at once. 5 is below what "
        "rounds of a busy cluster take; a forecast that costs more comes later.",
    )


class LogConfig(Group):
    """Logging, on standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe level that is logged. INFO is one line a round and one for each changed decision."
    )
    json_lines: bool = Field(
        default=False,
        alias="json",
        description="True writes one JSON object a line, for collectors. False by default: key=value is easier to read.",
    )


class RecordingConfig(Group):
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
