"""Release held work: gated pods and suspended Jobs that fit their queues' levels, most urgent queue first. Pure.

`gate.py` and `suspend.py` order the pods and Jobs of one queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairburst.kube.enforce.fifo_admission import Oversize, oversize
from fairburst.kube.enforce.gate import GateLevel, UngatePlanner, milli_level
from fairburst.kube.enforce.managed_namespace import ManagedNamespace
from fairburst.kube.enforce.next_start import group_need, highest_level, whole_work
from fairburst.kube.enforce.slack import FIRST_PODS
from fairburst.kube.enforce.suspend import JobStart, starts, too_large, unheld_starts
from fairburst.kube.names import HOLDS_LABEL, LANES_HOLD_LABEL
from fairburst.kube.queues.lanes import kind_held
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.usage.gated_pods import PodGroup
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.workloads.kind import Suspendable
from fairburst.policy.model import ClusterSnapshot, GuaranteeClass, RoundResult, WindowState

HOLD_SETTLES_SECONDS = 1.0  # until every API server's policies have seen a changed label; measured: at most 157 ms


def gate_level(item: ManagedNamespace, result: RoundResult, resources: Sequence[str], *, waiting: bool) -> GateLevel:
    """Return the level of a namespace in Gate mode. `waiting`: whether a gated pod waits there."""
    assert item.row is not None  # noqa: S101 (a queue governs it)
    early = milli_level(_early(item, resources))
    return GateLevel(_urgency(result, item.row, waiting=waiting), milli_level(item.level.tolist()), item.slots, early)


def job_starts(
    enforced: Iterable[ManagedNamespace],
    is_holding: Callable[[Suspendable], bool],
    result: RoundResult,
    resources: Sequence[str],
    noted: Iterable[Suspendable],
    left_alone: Iterable[str],
) -> list[JobStart]:
    """Return the held Jobs to start: those that fit the level of a queue in Suspend mode, and all where there is no such queue.

    `is_holding`: whether the queue of a Job or JobSet is in Suspend mode. `noted`: all with our note; `left_alone`: namespaces where others
    decide.
    """
    waiting = [item for item in enforced if item.row is not None and item.demand.held and item.mode.holds == "Jobs"]
    chosen = list[JobStart]()
    for item in sorted(waiting, key=lambda item: _urgency(result, item.row or 0, waiting=True)):
        chosen += starts(item.demand, resources, item.level.tolist(), _early(item, resources), item.parts)
    return chosen + unheld_starts(noted, is_holding, left_alone)


def _early(item: ManagedNamespace, resources: Sequence[str]) -> list[float]:
    """Return how far above the level held work is released: it waits in the scheduler's queue for the ends of earlier pods."""
    pods = 0.0 if item.held_back else max(item.slack - FIRST_PODS, 0.0)
    return [pods * item.unit[name] for name in resources]


def too_large_to_start(
    enforced: Collection[ManagedNamespace], snapshot: ClusterSnapshot, gates: UngatePlanner, pods: PodIndex
) -> dict[str, list[Oversize]]:  # fmt: skip
    """Return the work that starts whole and is larger than its queue's level, by space of queues in Suspend and Gate mode.

    Such work never runs, so the queue's condition names it. The list is empty for a queue without such work.
    """
    found = dict[str, list[Oversize]]()
    for item in enforced:
        if item.row is None or item.mode.holds is None:
            continue
        has_turns = item.row in snapshot.next_start
        work = whole_work(item.mode.holds, item.namespace, item.demand, gates, pods) if has_turns else None
        level = highest_level(item.row, item.level, work, snapshot)
        if item.mode.holds == "Jobs":
            found[item.namespace] = too_large(item.demand, pods.resources, level)
        else:
            whole = (group for group in gates.gated.groups_of(item.namespace) if group.waits_whole)
            groups = (_too_large_group(group, level, pods) for group in whole)
            found[item.namespace] = [one for one in groups if one is not None]
    return found


def _too_large_group(group: PodGroup, level: Sequence[float], pods: PodIndex) -> Oversize | None:
    name = f"the group of {len(group.gated)} pods with {'/'.join(min(group.gated))}"
    return oversize(name, dict(zip(pods.resources, group_need(group, pods).tolist(), strict=True)), pods.resources, level)


@dataclass(slots=True)
class HoldTimes:
    """Remembers since when new work of each space is held, in monotonic seconds.

    Work is held once the namespace's labels tell the policies and the queue's stored status tells the webhook.
    """

    _since: dict[str, float] = field(default_factory=dict)

    def note(self, members: Iterable[QueueEntry], labels: Mapping[str, Mapping[str, str]], now: float) -> None:
        """Read the stored statuses of these governing queues, and the labels of their namespaces."""
        for entry in members:
            held = (entry.obj.get("status") or {}).get("holds")
            if held and _held_by(labels.get(entry.namespace, {}), entry.lane) == held:
                self._since.setdefault(entry.space, now)
            else:
                self._since.pop(entry.space, None)

    def retain(self, spaces: Container[str]) -> None:
        """Drop every other space."""
        self._since = {space: since for space, since in self._since.items() if space in spaces}

    def reach_all_pods(self, space: str, now: float) -> bool:
        """Return whether every new pod of the space is sure to get the gate."""
        return self._since.get(space, math.inf) + HOLD_SETTLES_SECONDS <= now


def _held_by(labels: Mapping[str, str], lane: int | None) -> str | None:
    """Return the kind of new objects that the labels of a namespace hold, of a lane or of the default queue."""
    return labels.get(HOLDS_LABEL) if lane is None else kind_held(labels.get(LANES_HOLD_LABEL, ""), lane)


def _urgency(result: RoundResult, row: int, *, waiting: bool) -> tuple[int, int]:
    """Return the queue's rank: hard queues in their windows, then soft ones in theirs, then the rest; within each by the queues' order.

    Windows are read only where work waits.
    """
    window = result.windows[row] if waiting else None
    if waiting and (window is None or window.state is WindowState.CLOSED):
        return 2, row
    return {GuaranteeClass.HARD: 0, GuaranteeClass.SOFT: 1}.get(result.classes[row] or GuaranteeClass.ELASTIC, 2), row
