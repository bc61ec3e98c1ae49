"""A managed namespace in a round: its queue, level and room. A value; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairburst.kube.enforce.enforceability import Obstacle
from fairburst.kube.enforce.quota_plan import QuotaKey
from fairburst.kube.enforce.slack import FIRST_PODS
from fairburst.kube.enforce.suspend import LevelParts
from fairburst.kube.modes.mode import Mode
from fairburst.kube.modes.registry import DEFAULT
from fairburst.kube.names import LANE_QUOTAS, QUOTA_NAME, SMALL_QUOTA
from fairburst.kube.queues.queue_set import QueueEntry
from fairburst.kube.queues.spaces import namespace_of
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.policy.arrays import FloatArray


@dataclass(slots=True)
class ManagedNamespace:
    """A managed namespace in a round: its governing queue and that queue's row, if any, and the level of its quota.

    `namespace`: its name; the space of one queue if it has several. `lanes`: for the default queue, the lanes of the others.
    `unit`: the largest pod for which the quota always leaves room, by resource. `held_back`: room is kept from it for another's burst.
    `slack`: pods of that size above its level; `takes_head_room`: its level limits it, and the pool's head-room is used.
    `entitled`: amounts that it may use at once if it demands more; `bound_by_burst`: an armed burst limits these.
    `slots`: its greatest number of pods; None: any number.
    `parts`: how a queue in Suspend mode divides its level by the size of Jobs. `mode`: that of its queue; without a queue the quota holds
    the namespace at the floor. `quota_key`: the quota that holds it, the namespace quota or that of its queue's lane. `quota_keys`: all
    quotas that its pods count for, if they exist.
    """

    namespace: str
    entry: QueueEntry | None
    row: int | None
    demand: NamespaceDemand
    unit: Mapping[str, float]
    level: FloatArray
    obstacles: list[Obstacle]
    held_back: bool = False
    slack: float = FIRST_PODS
    takes_head_room: bool = False
    entitled: FloatArray | None = None
    bound_by_burst: bool = False
    slots: int | None = None
    parts: LevelParts | None = None
    lanes: tuple[int, ...] = ()
    mode: Mode = field(init=False)
    quota_key: QuotaKey = field(init=False)
    quota_keys: tuple[QuotaKey, ...] = field(init=False)

    def __post_init__(self) -> None:
        namespace, lane = namespace_of(self.namespace), None if self.entry is None else self.entry.lane
        self.mode = DEFAULT if self.entry is None else self.entry.mode
        self.quota_key = namespace, QUOTA_NAME if lane is None else LANE_QUOTAS[lane]
        self.quota_keys = (self.quota_key, (namespace, SMALL_QUOTA)) if lane is None else (self.quota_key,)
