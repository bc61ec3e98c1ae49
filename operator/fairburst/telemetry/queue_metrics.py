"""Series of each queue, at most thirty. They change when a round computes the queue's status, and are removed with the queue."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fairburst.policy.model import GuaranteeClass, QueueDecision, QueueKind, WindowState

QueueLabels = tuple[str, str, str]  # namespace, name, kind

CLASSES = (*(item.value for item in GuaranteeClass), "Rejected")
CONDITIONS = ("Admitted", "Guaranteed", "Attainable", "Enforced", "JobsFit", "Elastic", "Ready")
_OUTCOMES = ("met", "missed")
_WAIT_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)


class Totals:
    """Publishes totals that are stored elsewhere, in a status or an informer, as counters."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], float] = {}

    def raise_to(self, counter: Counter, key: tuple[str, ...], total: float) -> None:
        """Raise a counter by the increase of `total` since the last call. A lower total, as in an edited status, starts a new count."""
        counter.inc(max(total - self._last.get(key, 0.0), 0.0))
        self._last[key] = total

    def forget(self, key: tuple[str, ...]) -> None:
        """Start from zero at the next call."""
        self._last.pop(key, None)


class QueueMetrics:
    """The series of all queues."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["namespace", "queue", "kind"]
        self._labels: set[QueueLabels] = set()
        self._totals = Totals()
        self._pending_since: dict[QueueLabels, float] = {}
        gauge = partial(Gauge, registry=registry)
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.queue_class = gauge(
            "fairburst_queue_class", "1 for the class granted (Hard, Soft, Elastic, Rejected), else 0.", [*labels, "class"]
        )
        self.window_state = gauge(
            "fairburst_queue_window", "1 for the window's state (Closed, Armed, Open, Overdue), else 0.", [*labels, "state"]
        )
        self.share = gauge("fairburst_queue_fair_share_ratio", "Fair share of the pool, a fraction of capacity.", labels)
        self.allocated = gauge("fairburst_queue_allocation_ratio", "Dominant share allocated now, a fraction of capacity.", labels)
        self.used = gauge("fairburst_queue_usage_ratio", "Dominant share of pods bound and not ended.", labels)
        self.ledger = gauge("fairburst_queue_ledger_seconds", "Guaranteed use in the current period, dominant-share-seconds.", labels)
        self.fair_share_of_period = gauge(
            "fairburst_queue_fair_share_of_period_seconds",
            "Fair share of the period, dominant-share-seconds; the ledger stays at or below it.",
            labels,
        )
        self.debt = gauge("fairburst_queue_debt_seconds", "Overrun carried into the period, dominant-share-seconds.", labels)
        self.pending = gauge(
            "fairburst_queue_pending_ratio",
            "Dominant share of what a queue wants and does not have, at most that of its whole demand.",
            labels,
        )
        self.pending_since = gauge(
            "fairburst_queue_pending_since_seconds",
            "When a queue last began to want more than it has, seconds since the epoch; 0 while it has all.",
            labels,
        )
        self.waits = histogram(
            "fairburst_queue_wait_seconds",
            "Seconds from a queue's first unmet demand until all of its demand was met, by kind of queue.",
            ["kind"],
            buckets=_WAIT_BUCKETS,
        )
        self.bursts = counter(
            "fairburst_queue_bursts_total", "Bursts by outcome (met, missed), as the queue's status has them.", [*labels, "outcome"]
        )
        self.queue_unhealthy = gauge(
            "fairburst_queue_condition_false", "1 where the condition is False on a queue.", [*labels, "condition"]
        )

    def show(
        self,
        decision: QueueDecision,
        *,
        allocated: float,
        used: float,
        pending: float,
        met: int,
        missed: int,
        false_conditions: set[str],
        wall: float,
    ) -> None:
        """Publish one queue. allocated, used, pending: dominant shares. wall: seconds since the epoch."""
        namespace, _, name = decision.queue.partition("/")
        labels = (namespace, name, decision.kind.value)
        self._labels.add(labels)
        granted = decision.guarantee_class.value if decision.guarantee_class else "Rejected"
        for value in CLASSES:
            self.queue_class.labels(*labels, value).set(value == granted)
        if decision.kind is QueueKind.LATENCY:
            for state in WindowState:
                self.window_state.labels(*labels, state.value).set(decision.window is not None and state is decision.window.state)
        self.share.labels(*labels).set(decision.share)
        self.allocated.labels(*labels).set(allocated)
        self.used.labels(*labels).set(used)
        self.ledger.labels(*labels).set(decision.ledger)
        self.fair_share_of_period.labels(*labels).set(decision.fair_share_of_period)
        self.debt.labels(*labels).set(decision.debt)
        self._show_pending(labels, pending, wall)
        for outcome, count in zip(_OUTCOMES, (met, missed), strict=True):
            self._totals.raise_to(self.bursts.labels(*labels, outcome), (*labels, outcome), count)
        for condition in CONDITIONS:
            self.queue_unhealthy.labels(*labels, condition).set(condition in false_conditions)

    def _show_pending(self, labels: QueueLabels, pending: float, wall: float) -> None:
        self.pending.labels(*labels).set(pending)
        since = self._pending_since.get(labels)
        if pending > 0 and since is None:
            self._pending_since[labels] = wall
        elif pending <= 0 and since is not None:
            self.waits.labels(labels[2]).observe(max(wall - since, 0.0))
            del self._pending_since[labels]
        self.pending_since.labels(*labels).set(self._pending_since.get(labels, 0.0))

    def forget(self, keep: set[QueueLabels]) -> None:
        """Remove the series of deleted queues. keep: (namespace, queue, kind) of the existing ones."""
        plain: tuple[Gauge, ...] = (self.share, self.allocated, self.used, self.pending, self.pending_since)
        plain += (self.ledger, self.fair_share_of_period, self.debt)
        by_value: tuple[tuple[Gauge | Counter, tuple[str, ...]], ...] = (
            (self.queue_class, CLASSES),
            (self.window_state, tuple(state.value for state in WindowState)),
            (self.bursts, _OUTCOMES),
            (self.queue_unhealthy, CONDITIONS),
        )
        for labels in self._labels - keep:
            self._pending_since.pop(labels, None)
            for outcome in _OUTCOMES:
                self._totals.forget((*labels, outcome))
            for gauge in plain:
                _remove(gauge, labels)
            for metric, values in by_value:
                for value in values:
                    _remove(metric, (*labels, value))
        self._labels &= keep


def _remove(gauge: Gauge | Counter, labels: tuple[str, ...]) -> None:
    try:
        gauge.remove(*labels)
    except KeyError:
        return
