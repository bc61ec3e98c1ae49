"""The governing queue and the spec in force of each namespace. Pure but for a parse cache.

One queue governs a namespace: the one that already governs it, else the first by creation. Further throughput queues govern the work that
asks for them (`lanes.py`). An invalid edit keeps the last valid spec. An invalid object never stops a round: it becomes a problem
of that object, and the rest is scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairburst.kube.containment import Containment
from fairburst.kube.modes.mode import Mode
from fairburst.kube.modes.registry import mode_of
from fairburst.kube.queues.burst_history import BurstHistory
from fairburst.kube.queues.core_values import listed_until, to_queue_spec
from fairburst.kube.queues.lanes import Lanes, no_lane, obstacle
from fairburst.kube.queues.objects import InvalidQueueError, LatencyQueue, ThroughputQueue, parse_queue
from fairburst.kube.queues.spaces import UNDIVIDED, Spaces, space_of
from fairburst.policy.model import Memory, QueueKind, QueueSpec

ObjectKey = tuple[str, str, str]  # kind, namespace, name
Queue = LatencyQueue | ThroughputQueue

KINDS = {"LatencyQueue": QueueKind.LATENCY, "ThroughputQueue": QueueKind.THROUGHPUT}
SECOND_QUEUE = "SecondQueue"
INTERNAL_ERROR = "InternalError"  # reason of a problem that fairburst caused, not the object
NEVER_MANAGED = frozenset({"kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a queue is not in force as written: a CamelCase word, and a sentence with the expected and the found value."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One queue object of this pool.

    governs: whether its spec (or its last valid one) is in force in its namespace.
    queue: None if the object as written is invalid.
    lane: of a further queue; None for the default queue.
    mode: of enforcement, as written; invalid edits elsewhere in the spec do not change it.
    """

    key: ObjectKey
    uid: str
    generation: int
    obj: Mapping[str, Any]
    queue: Queue | None
    spec: QueueSpec | None
    problem: Problem | None
    governs: bool
    lane: int | None = None
    mode: Mode = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", mode_of(self.obj.get("spec")))

    @property
    def namespace(self) -> str:
        """The namespace that contains it."""
        return self.key[1]

    @property
    def space(self) -> str:
        """The space that it governs if `governs` is true: its namespace, or the part of it with its lane's class."""
        return self.namespace if self.lane is None else space_of(self.namespace, self.key[2])

    @property
    def observed_only(self) -> bool:
        """Whether fairburst only decides and reports, and writes nothing else for it."""
        return not self.mode.enforced

    @property
    def reclaims(self) -> bool:
        """Whether spec.reclaim is Evict, as written. An observed-only queue never reclaims."""
        return self.obj["spec"].get("reclaim") == "Evict" and not self.observed_only

    @property
    def starts_whole(self) -> bool:
        """Whether a throughput queue may have work that starts whole: it is held, and no Job is given another size."""
        return self.key[0] == "ThroughputQueue" and self.mode.holds is not None and self.obj["spec"].get("elasticity") is None

    @property
    def qualified_name(self) -> str:
        """The core's name of the queue: "namespace/name"."""
        return f"{self.key[1]}/{self.key[2]}"


@dataclass(frozen=True, slots=True)
class QueueSet:
    """The pool's queues in this round. `specs` is the previous tuple object if no spec in force changed.

    `elsewhere`: namespaces with queues of other pools, in which none of this pool governs. `left_as_is`: namespaces that stay unchanged
    because an internal error prevents a decision on their queue. `observed`: namespaces whose queues of this pool are all in Observe mode;
    this queue set has none of these. `spaces`: those that the governing queues govern.
    """

    entries: tuple[QueueEntry, ...]
    governing: tuple[QueueEntry, ...]
    specs: tuple[QueueSpec, ...]
    elsewhere: frozenset[str]
    left_as_is: frozenset[str] = frozenset()
    observed: frozenset[str] = frozenset()
    spaces: Spaces = UNDIVIDED


class QueueSetBuilder:
    """Caches parsed specs by (uid, generation), so that a round parses only the changed ones.

    `observing`: whether queues in Observe mode are entries. The enforced decision leaves them out.
    """

    def __init__(self, pool: str, own_namespace: str, contained: Containment | None = None, *, observing: bool = False) -> None:
        self._observing = observing
        self._pool = pool
        self._contained = contained or Containment()
        self.excluded: dict[str, tuple[int, str]] = {}  # uid: generation, sentence; excluded from decisions until the object changes
        self._never_managed = NEVER_MANAGED | {own_namespace}
        self._parsed: dict[tuple[str, int], tuple[Queue | None, QueueSpec | None, Problem | None]] = {}
        self._last = QueueSet((), (), (), frozenset())
        self._positions: dict[ObjectKey, tuple[int, int | None]] = {}  # index among all entries, and among governing ones
        self._other_pools: dict[ObjectKey, tuple[Any, ...]] = {}
        self._left_out: dict[ObjectKey, tuple[Any, ...]] = {}  # queues in Observe mode, of any pool
        self._declared: object = None
        self._problems = False
        self.wall = 0.0  # seconds since the epoch, as of this round
        self.history = BurstHistory()
        self._history_version = 0
        self._asking: dict[tuple[str, int], tuple[object, QueueSpec]] = {}  # percent that a queue with uncertainty asks for, and its spec
        self._calendars: dict[tuple[str, int], float] = {}  # until when the listed arrivals of a parsed calendar hold
        self.lanes = Lanes()

    def update(self, objects: Mapping[ObjectKey, Mapping[str, Any]], changed: Collection[ObjectKey], memory: Memory) -> QueueSet | None:
        """Return the last queue set with the present objects of `changed` queues if only their statuses have changed, otherwise None.

        O(1) per changed queue, apart from two tuples; `build` reads all queues. An invalid or second queue depends on `memory`, so it needs
        `build`.
        """
        if self.history.version != self._history_version or any(self.wall >= until for until in self._calendars.values()):
            return None
        others = [key for key in changed if not self._leave_out(key, objects.get(key))]
        if len(others) < len(changed):
            self._last, changed = replace(self._last, observed=self._observed_only()), others
        remembers_the_same = not self._problems or memory.columns is None or memory.columns.declared is self._declared
        if not remembers_the_same or not all(self._same_but_status(objects.get(key), key) for key in changed):
            return None
        own = [key for key in changed if key in self._positions]
        if not own:
            return self._last
        entries, governing = list(self._last.entries), list(self._last.governing)
        for key in own:
            position, among_governing = self._positions[key]
            entries[position] = replace(entries[position], obj=objects[key])
            if among_governing is not None:
                governing[among_governing] = entries[position]
        self._last = replace(self._last, entries=tuple(entries), governing=tuple(governing))
        return self._last

    def _leave_out(self, key: ObjectKey, obj: Mapping[str, Any] | None) -> bool:
        """Return whether the object, or its absence, concerns observed queues only. If so, note it."""
        if self._observing or key in self._positions or key in self._other_pools:
            return False
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return self._left_out.pop(key, None) is not None
        if not is_observed(obj):
            return False
        self._left_out[key] = _version(obj)
        return True

    @property
    def observed(self) -> dict[ObjectKey, tuple[Any, ...]]:
        """The pool's queues in Observe mode that are left out, each with a value that changes with its spec."""
        return {key: version for key, version in self._left_out.items() if version[-1] == self._pool}

    def _observed_only(self) -> frozenset[str]:
        """Return the namespaces of `QueueSet.observed`."""
        governed = {entry.namespace for entry in self._last.governing} if self._left_out else set()
        return frozenset(namespace for _, namespace, _ in self.observed) - governed

    def _same_but_status(self, obj: Mapping[str, Any] | None, key: ObjectKey) -> bool:
        """Return whether the object equals that of the last `build` in every respect that the queue set depends on."""
        position = self._positions.get(key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return False
        if position is None or pool_name(obj) != self._pool:
            return position is None and self._other_pools.get(key) == _other_pool_mark(obj)
        entry, metadata = self._last.entries[position[0]], obj["metadata"]
        same = (entry.uid, entry.generation) == (metadata.get("uid", ""), int(metadata.get("generation", 0)))
        return same and obj["spec"] == entry.obj["spec"]

    def build(self, objects: Mapping[ObjectKey, Mapping[str, Any]], memory: Memory, ending: frozenset[str]) -> QueueSet:
        """Build the queue set from all queue objects. `ending`: namespaces that are being deleted or no longer exist."""
        alive = {key: obj for key, obj in objects.items() if key[1] not in ending}
        going = [_going(key, alive.pop(key)) for key in [*alive] if "deletionTimestamp" in alive[key]["metadata"]]
        if not self._observing:
            self._left_out = {key: _version(obj) for key, obj in alive.items() if is_observed(obj)}
            alive = {key: obj for key, obj in alive.items() if key not in self._left_out}
        kinds = memory.kinds()
        found = [self._entry(key, obj, memory) for key, obj in alive.items() if pool_name(obj) == self._pool]
        others = _first_by_namespace(obj for obj in alive.values() if pool_name(obj) != self._pool)
        self._other_pools = {key: _other_pool_mark(obj) for key, obj in alive.items() if pool_name(obj) != self._pool}
        self._declared = None if memory.columns is None else memory.columns.declared
        self.history.keep(entry.uid for entry in found)
        self._history_version = self.history.version
        self._asking = {cache: asking for cache, asking in self._asking.items() if cache[0] in {entry.uid for entry in found}}
        self._parsed = {cache: self._parsed[cache] for entry in found if (cache := (entry.uid, entry.generation)) in self._parsed}
        self._calendars = {cache: until for cache, until in self._calendars.items() if cache in self._parsed}
        governing: dict[str, QueueEntry] = {}
        further: dict[str, list[QueueEntry]] = {}
        entries: list[QueueEntry] = []
        self.lanes.recall((entry.namespace, entry.key[2], entry.obj) for entry in found)
        ranked = [(_rank(entry, kinds), entry) for entry in found]
        # enforced ones first: they would stay in force if one in Observe mode were enforced
        ranked.sort(key=lambda pair: (pair[1].observed_only, self.lanes.has(pair[1].namespace, pair[1].key[2]), pair[0]))
        order = {entry.key: position for position, (_, entry) in enumerate(ranked)}
        for rank, entry in ranked:
            other = others.get(entry.namespace)
            holder = governing.get(entry.namespace)
            first = other if other is not None and _other_rank(other) < rank else holder.obj if holder is not None else None
            if entry.governs and first is None:
                governing[entry.namespace] = entry
            elif entry.governs and holder is not None and first is holder.obj:
                further.setdefault(entry.namespace, []).append(entry)
            else:
                entries.append(_not_governing(entry, first))
        for namespace, those in further.items():
            beside = self._with_lanes(governing[namespace], those)
            further[namespace] = [entry for entry in beside if entry.governs]
            entries += beside
        entries += governing.values()
        entries.sort(key=lambda one: order[one.key])
        entries += [one for one in going if not (self._observing or one.observed_only) and pool_name(one.obj) == self._pool]
        in_force = [*governing.values(), *(entry for beside in further.values() for entry in beside)]
        self.lanes.keep({name: {one.key[2]: one.lane for one in beside if one.lane} for name, beside in further.items() if beside})
        broken = {one.namespace for one in entries if one.problem is not None and one.problem.reason == INTERNAL_ERROR}
        elsewhere, left_as_is = frozenset(others.keys() - governing.keys()), frozenset(broken - governing.keys())
        return self._keep_identity(entries, sorted(in_force, key=_order), elsewhere, left_as_is)

    def _with_lanes(self, default: QueueEntry, beside: Sequence[QueueEntry]) -> list[QueueEntry]:
        """Return the queues beside the default queue, in their order, with their lanes or the reasons why they have none."""
        refused = {one.uid: obstacle(one.key[0], one.key[2], one.mode, default.key, default.mode) for one in beside}
        lanes = self.lanes.give(default.namespace, [one.key[2] for one in beside if refused[one.uid] is None])
        found = list[QueueEntry]()
        for one in beside:
            why = refused[one.uid]
            if why is None and one.key[2] in lanes:
                found.append(replace(one, lane=lanes[one.key[2]]))
            else:
                reason, message = (SECOND_QUEUE, why) if why is not None else ("TooManyQueues", no_lane(default.key))
                found.append(replace(one, spec=None, problem=one.problem or Problem(reason, message), governs=False))
        return found

    def _entry(self, key: ObjectKey, obj: Mapping[str, Any], memory: Memory) -> QueueEntry:
        metadata = obj["metadata"]
        uid, generation = metadata.get("uid", ""), int(metadata.get("generation", 0))
        if (uid, generation) not in self._parsed or self.wall >= self._calendars.get((uid, generation), math.inf):
            self._parsed[uid, generation] = parsed = self._parse(obj)
            self._asking.pop((uid, generation), None)
            self._note_calendar((uid, generation), parsed[0])
        queue, spec, problem = self._parsed[uid, generation]
        if queue is not None and spec is not None:
            spec = self._asked_for(uid, generation, queue, spec, obj)
        excluded = self.excluded.get(uid)
        if excluded is not None and excluded[0] == generation:
            return QueueEntry(key, uid, generation, obj, queue, None, Problem(INTERNAL_ERROR, excluded[1]), governs=False)
        if spec is None and problem is not None and problem.reason == "InvalidSpec" and (last := _last_valid(key, memory)) is not None:
            spec = last
            problem = Problem(problem.reason, f"{problem.message} The last valid spec stays in force.")
        return QueueEntry(key, uid, generation, obj, queue, spec, problem, governs=spec is not None)

    def _asked_for(self, uid: str, generation: int, queue: Queue, spec: QueueSpec, obj: Mapping[str, Any]) -> QueueSpec:
        """Return `spec` with the amounts that the queue asks for now; `spec` itself without uncertainty."""
        asked = self.history.asked(uid, queue, obj)
        if asked is None:
            return spec
        known = self._asking.get((uid, generation))
        if known is None or known[0] != asked.percent:
            self._asking[uid, generation] = known = asked.percent, to_queue_spec(queue, self.wall, asked)
        return known[1]

    def _note_calendar(self, cache: tuple[str, int], queue: Queue | None) -> None:
        until = math.inf if queue is None else listed_until(queue, self.wall)
        if math.isfinite(until):
            self._calendars[cache] = until

    def _parse(self, obj: Mapping[str, Any]) -> tuple[Queue | None, QueueSpec | None, Problem | None]:
        namespace = obj["metadata"]["namespace"]
        if namespace in self._never_managed:
            return None, None, Problem("NamespaceForbidden", f"namespace {namespace} cannot be managed; create the queue in another one.")
        try:
            queue = parse_queue(dict(obj))
            spec = to_queue_spec(queue, self.wall)
        except InvalidQueueError as error:
            return None, None, Problem("InvalidSpec", str(error))
        except Exception as error:
            self._contained.note("read", namespace, error)
            return None, None, Problem(INTERNAL_ERROR, self._contained.problems[namespace])
        return queue, spec, None

    def _keep_identity(
        self, entries: list[QueueEntry], governing: list[QueueEntry], elsewhere: frozenset[str], left_as_is: frozenset[str]
    ) -> QueueSet:
        specs = tuple(entry.spec for entry in governing if entry.spec is not None)
        if specs == self._last.specs:
            specs = self._last.specs
        self._last = QueueSet(tuple(entries), tuple(governing), specs, elsewhere, left_as_is, spaces=self.lanes.spaces)
        self._last = replace(self._last, observed=self._observed_only())
        self._problems = any(entry.problem is not None for entry in entries)
        among_governing = {entry.key: position for position, entry in enumerate(governing)}
        self._positions = {entry.key: (position, among_governing.get(entry.key)) for position, entry in enumerate(entries)}
        return self._last


def _going(key: ObjectKey, obj: Mapping[str, Any]) -> QueueEntry:
    """Return the entry of an enforced queue that finalizers keep after its deletion. It governs no more."""
    metadata, kept = obj["metadata"], ", ".join(obj["metadata"].get("finalizers") or ())
    problem = Problem("BeingDeleted", f"the queue is deleted and promises nothing any more; the object stays for its finalizers: {kept}.")
    return QueueEntry(key, metadata.get("uid", ""), int(metadata.get("generation", 0)), obj, None, None, problem, governs=False)


def _not_governing(entry: QueueEntry, first: Mapping[str, Any] | None) -> QueueEntry:
    problem = entry.problem
    if first is not None and problem is None:
        problem = Problem(
            SECOND_QUEUE,
            f"{first.get('kind')} {first['metadata']['name']} of pool {pool_name(first)} already governs namespace {entry.namespace}; "
            "expected one queue a namespace. Delete one of the two.",
        )
    return replace(entry, spec=None, problem=problem, governs=False)


def is_observed(obj: Mapping[str, Any]) -> bool:
    """Return whether the queue object is in Observe mode, as written."""
    spec = obj.get("spec")
    return not mode_of(spec).enforced


def pool_name(obj: Mapping[str, Any]) -> str:
    """Return the pool that a queue object names."""
    spec = obj.get("spec")
    pool = spec.get("pool", "default") if isinstance(spec, Mapping) else "default"
    return str(pool)


def _is_remembered(key: ObjectKey, kinds: Mapping[str, QueueKind]) -> bool:
    """Return whether the memory has an entry for this object, and not for one of the other kind under the same name."""
    return kinds.get(f"{key[1]}/{key[2]}") is KINDS[key[0]]


def _last_valid(key: ObjectKey, memory: Memory) -> QueueSpec | None:
    """Return the last valid spec of this object, and not of one of the other kind under the same name."""
    promised = memory.promised(f"{key[1]}/{key[2]}")
    return promised.promise if promised is not None and promised.promise.kind is KINDS[key[0]] else None


Rank = tuple[bool, str, str, str]


def _rank(entry: QueueEntry, kinds: Mapping[str, QueueKind]) -> Rank:
    """Rank a queue: a governing queue comes first, then the oldest."""
    return (not _is_remembered(entry.key, kinds), *_creation(entry.obj))


def _other_rank(obj: Mapping[str, Any]) -> Rank:
    """Rank a queue of another pool in the same order; its operator's memory is its status."""
    return (not (obj.get("status") or {}).get("promise"), *_creation(obj))


def _other_pool_mark(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return every value of another pool's queue that our queues depend on."""
    metadata = obj["metadata"]
    return metadata.get("uid"), metadata.get("generation"), _other_rank(obj), pool_name(obj)


def _version(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return every value of a queue in Observe mode that the enforced ones depend on."""
    return obj["metadata"].get("uid"), obj["metadata"].get("generation"), is_observed(obj), pool_name(obj)


def _first_by_namespace(others: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {obj["metadata"]["namespace"]: obj for obj in sorted(others, key=_other_rank, reverse=True)}


def _creation(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the rank by creation. Of queues created in one second a LatencyQueue comes first: others can stand beside it."""
    metadata = obj["metadata"]
    return metadata.get("creationTimestamp") or "", obj.get("kind", ""), metadata["name"]


def _order(entry: QueueEntry) -> tuple[float, str]:
    assert entry.spec is not None  # noqa: S101 (governing entries have a spec)
    return entry.spec.order
