"""Series of each queue, at most thirty. They change when a round computes the queue's status, and are removed with the queue.

A queue's figures are stored in one small object and become series when `/metrics` is read: an object of the library for each of
its twenty series would take 14 kB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from fairburst.policy.model import GuaranteeClass, QueueDecision, QueueKind, WindowState

QueueLabels = tuple[str, str, str]  # namespace, name, kind
Family = GaugeMetricFamily | CounterMetricFamily

LABELS = ("namespace", "queue", "kind")
CLASSES = (*(item.value for item in GuaranteeClass), "Rejected")
WINDOWS = tuple(state.value for state in WindowState)
CONDITIONS = ("Admitted", "Guaranteed", "Attainable", "Enforced", "JobsFit", "Elastic", "Ready")
_OUTCOMES = ("met", "missed")
_WAIT_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)


class Totals:
    """Publishes totals that are stored elsewhere, such as in an informer, as counters."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], float] = {}

    def raise_to(self, counter: Counter, key: tuple[str, ...], total: float) -> None:
        """Raise a counter by the increase of `total` since the last call. A lower total starts a new count."""
        counter.inc(max(total - self._last.get(key, 0.0), 0.0))
        self._last[key] = total


@dataclass(slots=True)
class _Shown:
    """What is shown of one queue. Shares: fractions of capacity; ledger, fair share of the period and debt: dominant-share-seconds.

    `pending_since`: seconds since the epoch, 0 while nothing is pending. `bursts`: met and missed ones, as counted here; `told`: as in the
    status of the last call. `window`: None between windows.
    """

    granted: str
    window: str | None
    share: float
    allocated: float
    used: float
    ledger: float
    fair_share_of_period: float
    debt: float
    pending: float
    pending_since: float
    bursts: tuple[int, ...]
    told: tuple[int, ...]
    false_conditions: frozenset[str]


_FIGURES = {
    "share": ("fairburst_queue_fair_share_ratio", "Fair share of the pool, a fraction of capacity."),
    "allocated": ("fairburst_queue_allocation_ratio", "Dominant share allocated now, a fraction of capacity."),
    "used": ("fairburst_queue_usage_ratio", "Dominant share of pods bound and not ended."),
    "ledger": ("fairburst_queue_ledger_seconds", "Guaranteed use in the current period, dominant-share-seconds."),
    "fair_share_of_period": (
        "fairburst_queue_fair_share_of_period_seconds",
        "Fair share of the period, dominant-share-seconds; the ledger stays at or below it.",
    ),
    "debt": ("fairburst_queue_debt_seconds", "Overrun carried into the period, dominant-share-seconds."),
    "pending": (
        "fairburst_queue_pending_ratio",
        "Dominant share of what a queue wants and does not have, at most that of its whole demand.",
    ),
    "pending_since": (
        "fairburst_queue_pending_since_seconds",
        "When a queue last began to want more than it has, seconds since the epoch; 0 while it has all.",
    ),
}


class QueueMetrics(Collector):
    """The series of all queues. Another thread may collect them while a round shows queues."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._shown: dict[QueueLabels, _Shown] = {}
        self.waits = Histogram(
            "fairburst_queue_wait_seconds",
            "Seconds from a queue's first unmet demand until all of its demand was met, by kind of queue.",
            ["kind"],
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        registry.register(self)

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
        before = self._shown.get(labels)
        told, last, counted = (met, missed), (before.told if before else (0, 0)), (before.bursts if before else (0, 0))
        self._shown[labels] = _Shown(
            granted=decision.guarantee_class.value if decision.guarantee_class else "Rejected",
            window=decision.window.state.value if decision.window is not None else None,
            share=decision.share,
            allocated=allocated,
            used=used,
            ledger=decision.ledger,
            fair_share_of_period=decision.fair_share_of_period,
            debt=decision.debt,
            pending=pending,
            pending_since=self._pending_since(labels[2], before.pending_since if before else 0.0, pending, wall),
            # a lower total, as in an edited status, starts a new count
            bursts=tuple(count + max(now - then, 0) for count, now, then in zip(counted, told, last, strict=True)),
            told=told,
            false_conditions=frozenset(false_conditions),
        )

    def _pending_since(self, kind: str, since: float, pending: float, wall: float) -> float:
        """Return since when the queue's demand has been unmet, 0 if it is met; count a wait that has ended."""
        if pending > 0:
            return since or wall
        if since:
            self.waits.labels(kind).observe(max(wall - since, 0.0))
        return 0.0

    def forget(self, keep: set[QueueLabels]) -> None:
        """Remove the series of deleted queues. keep: (namespace, queue, kind) of the existing ones."""
        self._shown = {labels: one for labels, one in self._shown.items() if labels in keep}

    def describe(self) -> Iterator[Family]:
        """Yield all families without their series."""
        return _families([])

    @override
    def collect(self) -> Iterator[Family]:
        """Yield all families."""
        return _families(list(self._shown.items()))


def _families(shown: list[tuple[QueueLabels, _Shown]]) -> Iterator[Family]:
    """Yield the families of these queues, one after the other: all at once would take memory."""
    for figure, (name, meaning) in _FIGURES.items():
        yield _filled(GaugeMetricFamily(name, meaning, labels=LABELS), ((labels, getattr(one, figure)) for labels, one in shown))
    yield _by_value(
        "fairburst_queue_class", "1 for the class granted (Hard, Soft, Elastic, Rejected), else 0.", "class", CLASSES,
        shown, lambda one, value: value == one.granted,
    )  # fmt: skip
    yield _by_value(
        "fairburst_queue_window", "1 for the window's state (Closed, Armed, Open, Overdue), else 0.", "state", WINDOWS,
        [(labels, one) for labels, one in shown if labels[2] == QueueKind.LATENCY.value], lambda one, value: value == one.window,
    )  # fmt: skip
    yield _by_value(
        "fairburst_queue_condition_false", "1 where the condition is False on a queue.", "condition", CONDITIONS,
        shown, lambda one, value: value in one.false_conditions,
    )  # fmt: skip
    bursts = CounterMetricFamily(
        "fairburst_queue_bursts", "Bursts by outcome (met, missed), as the queue's status has them.", labels=(*LABELS, "outcome")
    )
    yield _filled(bursts, (((*labels, by), count) for labels, one in shown for by, count in zip(_OUTCOMES, one.bursts, strict=True)))


def _by_value(
    name: str, meaning: str, label: str, values: tuple[str, ...], shown: list[tuple[QueueLabels, _Shown]],
    holds: Callable[[_Shown, str], bool],
) -> Family:  # fmt: skip
    """Return a family with a series of 0 or 1 for each queue and value of a further label."""
    family = GaugeMetricFamily(name, meaning, labels=(*LABELS, label))
    return _filled(family, (((*labels, value), holds(one, value)) for labels, one in shown for value in values))


def _filled(family: Family, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    for labels, value in samples:
        family.add_metric(labels, float(value))
    return family
