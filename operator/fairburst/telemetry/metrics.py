"""All Prometheus metrics, each with a help text from which docs/metrics.md is generated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from fairburst.policy.dress.values import DressResult
from fairburst.telemetry.process_metrics import ProcessMetrics
from fairburst.telemetry.queue_metrics import QueueMetrics, Totals

_UNGATE_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600)
_ROUND_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class ElasticFigures:
    """Figures of one elastic queue, for fair shares and for the given slots.

    fair_slots, given_slots: totals. fair_progress, given_progress: mean predicted progress, None without a curve. jobs: counts by reason.
    """

    fair_slots: int
    given_slots: int
    fair_progress: float | None
    given_progress: float | None
    jobs: Mapping[str, int]


class Metrics:
    """All metrics of one operator process, in a separate registry so that tests do not share state."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.queues = QueueMetrics(self.registry)
        self._totals = Totals()
        self._capacity_gauges()
        self._reserve_gauges()
        self._elastic_gauges()
        self._round_metrics()
        self._gate_metrics()
        self._write_metrics()
        self._webhook_metrics()
        self._forecast_metrics()

    def _capacity_gauges(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        self.live_capacity = gauge(
            "fairburst_capacity_live", "Capacity now after head-room and unmanaged pods, in resource units.", ["resource"]
        )
        self.committed_capacity = gauge(
            "fairburst_capacity_committed", "Capacity that admission counts on, in resource units.", ["resource"]
        )
        self.idle = Counter(
            "fairburst_idle_seconds_total",
            "Idle fraction of the live capacity times seconds, so its rate is that fraction, by cause: who has to act before it is used "
            "(unbound, gated, burst, uncreated, kept, unwanted: docs/operations.md).",
            ["resource", "cause"],
            registry=self.registry,
        )
        self._idle_since: tuple[float, dict[tuple[str, str], float]] | None = None

    def _reserve_gauges(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        self.reserve_ratio = gauge(
            "fairburst_reserve_ratio", "Part of the elastic pool that is kept for small jobs; 0 while there is no reserve."
        )
        self.jobs = gauge("fairburst_jobs", "Jobs that run or wait in queues with a reserve, by size (small, large).", ["size"])
        self.jobs_too_large = gauge("fairburst_jobs_too_large", "Waiting jobs that ask for more at once than the pool has.")
        self.estimator_error = gauge(
            "fairburst_release_estimate_error_ratio",
            "Absolute error of the release estimated ten seconds ahead, recent average, fraction of the pool, by estimator.",
            ["estimator"],
        )
        self.estimator_bias = gauge(
            "fairburst_release_estimate_bias_ratio",
            "Estimated release less what was released, recent average, fraction of the pool, by estimator.",
            ["estimator"],
        )
        self.estimator_used = gauge("fairburst_release_estimator", "1 for the estimator in use (phases, learned), else 0.", ["estimator"])

    def _elastic_gauges(self) -> None:
        labels = ["namespace", "queue", "division"]
        gauge = partial(Gauge, registry=self.registry)
        self.elastic_slots = gauge(
            "fairburst_elastic_slots",
            "Slots of an elastic queue's jobs by division (fair: by fair sharing, given: by what they are worth).",
            labels,
        )
        self.elastic_progress = gauge(
            "fairburst_elastic_progress_ratio",
            "Mean predicted progress rate of an elastic queue's jobs with a curve, by division (fair, given); 1 is alone at full size.",
            labels,
        )
        self.elastic_jobs = gauge(
            "fairburst_elastic_jobs",
            "Jobs of an elastic queue by the reason for the slots they are given (docs/policies/paf.md).",
            ["namespace", "queue", "reason"],
        )
        self.job_families = gauge(
            "fairburst_job_families",
            "Job families whose runs are remembered, by state (learned: their curve is in use, refused: it is not yet known or no good).",
            ["state"],
        )
        self.job_runs_unreadable = gauge(
            "fairburst_job_runs_unreadable", "1 while the saved runs of job families can't be read: the log says why."
        )

    def _forecast_metrics(self) -> None:
        counter = partial(Counter, registry=self.registry)
        self.forecasts = counter(
            "fairburst_forecasts_total",
            "Forecasts of when waiting work starts, by result (made; too slow: the limit on processor time left no forward run).",
            ["result"],
        )
        self.forecast_outcomes = counter(
            "fairburst_forecast_outcomes_total",
            "Starts that had been forecast, by interval (50, 90: percent that it is to cover) and outcome (inside, outside). "
            "inside / (inside + outside) is the coverage.",
            ["interval", "outcome"],
        )
        self.forecast_processor_seconds = counter(
            "fairburst_forecast_processor_seconds_total", "Processor time of the forecaster's answers, in seconds."
        )

    def _round_metrics(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.leader = gauge(
            "fairburst_leader",
            "1 while this process decides and writes; 0 while it stands by, and what it last said of queues is then withdrawn.",
        )
        self.rounds = counter("fairburst_rounds_total", "Scheduling rounds run.")
        self.round_failures = counter("fairburst_round_failures_total", "Rounds that raised an unexpected error.")
        self.rounds_failed_in_a_row = gauge(
            "fairburst_rounds_failed_in_a_row", "Rounds that have failed since the last one that did not; unready from 3."
        )
        self.contained_failures = counter(
            "fairburst_contained_failures_total",
            "Errors that concerned one object only, by step: the object says so in its Ready condition, the others are served.",
            ["step"],
        )
        self.task_restarts = counter(
            "fairburst_task_restarts_total", "Tasks of the operator that ended unexpectedly and were started again.", ["task"]
        )
        self.decide_seconds = histogram("fairburst_decide_seconds", "Time of one decision by the core.", buckets=_ROUND_BUCKETS)
        self.round_seconds = histogram(
            "fairburst_round_seconds", "Time of one round: snapshot, decision, plan, writes.", buckets=_ROUND_BUCKETS
        )
        self.reaction_seconds = histogram("fairburst_reaction_seconds", "From an event to the start of its round.", buckets=_ROUND_BUCKETS)

    def _gate_metrics(self) -> None:
        histogram = partial(Histogram, registry=self.registry)
        self.queue_patch_seconds = histogram(
            "fairburst_queue_patch_seconds", "Gates: from the event that lets a pod go to its patch being sent.", buckets=_UNGATE_BUCKETS
        )
        self.queue_reaction_seconds = histogram(
            "fairburst_queue_reaction_seconds",
            "Gates: from the event that let pods go to the API server's answer to the last of their patches.",
            buckets=_UNGATE_BUCKETS,
        )
        self.queue_ungate_seconds = histogram(
            "fairburst_queue_ungate_seconds",
            "Gates: from a pod's creation, a time in whole seconds, to its gate's removal.",
            buckets=_UNGATE_BUCKETS,
        )

    def _write_metrics(self) -> None:
        counter = partial(Counter, registry=self.registry)
        self.refused = counter(
            "fairburst_refused_controllers_total",
            "How often a controller was found to want pods for which its queue's quota has no room; each such time costs it a back-off.",
        )
        self.writes = counter(
            "fairburst_writes_total",
            "Writes to the API server by kind and result (ok, error, overtaken; postponed: not sent, too soon after failures).",
            ["kind", "result"],
        )
        self.evictions = counter(
            "fairburst_evictions_total",
            "Evictions for what queues are owed, by ground (Burst, FairShare) and result (ok; refused: by a disruption budget or a server "
            "under load; gone: by itself; overtaken; error).",
            ["ground", "result"],
        )
        self.queue_watch_restarts = counter("fairburst_queue_watch_restarts_total", "Restarts of the queue watch.")
        self.informer_relists = counter("fairburst_informer_relists_total", "Full lists by resource.", ["resource"])
        self.quotas_out_of_sync = Gauge(
            "fairburst_quotas_out_of_sync",
            "Quotas whose enforced values differed from the written ones in the last round.",
            registry=self.registry,
        )
        self.unprocessed_jobs = Gauge(
            "fairburst_unprocessed_jobs",
            "Jobs that lack pods and that the Job controller has still to process, because they are new or pods of them have ended.",
            registry=self.registry,
        )

    def _webhook_metrics(self) -> None:
        counter = partial(Counter, registry=self.registry)
        self.admission_reviews = counter(
            "fairburst_admission_reviews_total",
            "Requests to the admission webhook by result (patched, left, error, not ready).",
            ["result"],
        )
        self.admission_seconds = Histogram(
            "fairburst_admission_seconds",
            "Seconds from an admission review to its answer, without the network.",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0),
            registry=self.registry,
        )
        self.admission_certificate_valid = Gauge(
            "fairburst_admission_certificate_valid",
            "1 if the webhook's certificate was good at the last check, a minute ago at most; 0 if not, or where no webhook is served.",
            registry=self.registry,
        )

    def lead(self) -> None:
        """Mark this process as the leader."""
        self.leader.set(1)

    def stand_by(self) -> None:
        """Mark this process as a standby and remove all series that describe decisions, which the leader publishes."""
        self.leader.set(0)
        self._idle_since = None
        self.queues.forget(set())
        self.show_elasticity({})
        for gauge in (self.live_capacity, self.committed_capacity, self.jobs, self.job_families):
            gauge.clear()
        for gauge in (self.estimator_error, self.estimator_bias, self.estimator_used):
            gauge.clear()
        for gauge in (self.reserve_ratio, self.jobs_too_large, self.quotas_out_of_sync, self.unprocessed_jobs):
            gauge.set(0)

    def show_capacity(self, resources: Iterable[str], live: Iterable[float], committed: Iterable[float]) -> None:
        """Publish the live and the committed capacity, (K,) each, by resource name."""
        for resource, now, promised in zip(resources, live, committed, strict=True):
            self.live_capacity.labels(resource).set(now)
            self.committed_capacity.labels(resource).set(promised)

    def show_idle(self, resources: Iterable[str], parts: Mapping[str, Iterable[float]], now: float) -> None:
        """Count the time since the last call as idle by the fractions given then, and keep the new ones.

        parts: (K,) idle fractions of the live capacity by cause. now: monotonic seconds at which they became true.
        """
        if self._idle_since is not None:
            since, former = self._idle_since
            for labels, part in former.items():
                self.idle.labels(*labels).inc(part * max(0.0, now - since))
        names = list(resources)
        found = {(name, cause): float(part) for cause, each in parts.items() for name, part in zip(names, each, strict=True)}
        self._idle_since = now, found

    def show_reserve(self, outcome: DressResult) -> None:
        """Publish the reserve for small jobs and the errors of the release estimates."""
        self.reserve_ratio.set(outcome.reserve_ratio)
        self.jobs.labels("small").set(outcome.small_jobs)
        self.jobs.labels("large").set(outcome.large_jobs)
        self.jobs_too_large.set(len(outcome.never_fits))
        for name, score in (("phases", outcome.phases_score), ("learned", outcome.learned_score)):
            self.estimator_error.labels(name).set(score.absolute_error)
            self.estimator_bias.labels(name).set(score.bias)
            self.estimator_used.labels(name).set(outcome.estimator == name)

    def show_elasticity(self, queues: Mapping[str, ElasticFigures]) -> None:
        """Publish all elastic queues, by namespace/name, and remove the series of all others."""
        for gauge in (self.elastic_slots, self.elastic_progress, self.elastic_jobs):
            gauge.clear()
        for qualified, figures in queues.items():
            namespace, _, name = qualified.partition("/")
            self.elastic_slots.labels(namespace, name, "fair").set(figures.fair_slots)
            self.elastic_slots.labels(namespace, name, "given").set(figures.given_slots)
            if figures.fair_progress is not None and figures.given_progress is not None:
                self.elastic_progress.labels(namespace, name, "fair").set(figures.fair_progress)
                self.elastic_progress.labels(namespace, name, "given").set(figures.given_progress)
            for reason, count in figures.jobs.items():
                self.elastic_jobs.labels(namespace, name, reason).set(count)

    def show_forecasts(self, outcomes: Mapping[int, tuple[int, int]], processor_seconds: float, *, made: bool) -> None:
        """Count one answer of the forecaster. outcomes: (inside, outside) by interval in percent, since the last answer."""
        self.forecasts.labels("made" if made else "too slow").inc()
        self.forecast_processor_seconds.inc(processor_seconds)
        for level, (inside, outside) in outcomes.items():
            self.forecast_outcomes.labels(str(level), "inside").inc(inside)
            self.forecast_outcomes.labels(str(level), "outside").inc(outside)

    def show_families(self, learned: int, refused: int, *, unreadable: bool) -> None:
        """Publish the number of job families with and without a curve, and whether the saved runs were unreadable."""
        self.job_families.labels("learned").set(learned)
        self.job_families.labels("refused").set(refused)
        self.job_runs_unreadable.set(unreadable)

    def show_watches(self, queue_watch_restarts: int, lists: Mapping[str, int]) -> None:
        """Publish counts that are kept elsewhere since the process began. lists: full lists by resource."""
        self._totals.raise_to(self.queue_watch_restarts, ("queue watch",), queue_watch_restarts)
        for resource, count in lists.items():
            self._totals.raise_to(self.informer_relists.labels(resource), ("lists", resource), count)


class ExtenderMetrics:
    """All metrics of one extender process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "fairburst_extender_requests_total",
            "Questions of kube-scheduler by verb (filter, prioritize) and result: ours, neutral (nothing changed), not ready, error.",
            ["verb", "result"],
        )
        self.seconds = histogram(
            "fairburst_extender_seconds",
            "Seconds from a question of kube-scheduler to its answer, without the network.",
            ["verb"],
            buckets=(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
        )
        self.kept_nodes = gauge("fairburst_extender_nodes_kept", "Nodes that are kept free for a burst now.")


def definitions() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield (name, type, labels, help text) of every metric, sorted by name."""
    process = Metrics()
    everything = {**vars(process), **vars(process.queues), **vars(ExtenderMetrics())}
    metrics = [metric for metric in everything.values() if isinstance(metric, MetricWrapperBase)]
    families = [(family, metric._labelnames) for metric in metrics for family in metric.describe()]
    families += [(family, family._labelnames) for family in process.queues.describe()]
    families += [(family, ()) for family in ProcessMetrics(CollectorRegistry()).describe()]
    for family, labels in sorted(families, key=lambda one: one[0].name):
        suffix = "_total" if family.type == "counter" else ""
        yield family.name + suffix, family.type, tuple(labels), family.documentation


def to_markdown() -> str:
    """Return the page docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Served on `/metrics` of the port that `metrics.port` names, those of the extender on `extender.port`, as Prometheus text. A "
        "dominant share is a fraction of capacity.",
        "Generated from `operator/fairburst/telemetry/metrics.py` by `fairburst metrics --markdown`.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {meaning} |"
        for name, kind, labels, meaning in definitions()
    ]
    return "\n".join(lines) + "\n"
