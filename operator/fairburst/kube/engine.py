"""One scheduling round: cluster view in, decisions and writes out. No I/O; this module and `rounds` hold the state between rounds.

The queues, their demand and the capacity form the core's snapshot; `policy.decide` decides; quotas, releases, resyncs, statuses and events
are views of the result. The cost of a round is proportional to the changes since the last one: the steps look only at namespaces that have
changed, whose decision differs, or that are due. An unchanged cluster yields no write.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping

from fairburst.config import Config
from fairburst.kube.api.objects import Pod
from fairburst.kube.containment import Containment
from fairburst.kube.culprits import UndecidableError, culprits
from fairburst.kube.enforce.gate import UngatePlanner
from fairburst.kube.enforce.quota_plan import QuotaWrite
from fairburst.kube.enforce.reclaim import Reclaimer
from fairburst.kube.jobs.elasticity import SlotPlanner
from fairburst.kube.jobs.reserve import Reserve
from fairburst.kube.names import QUOTA_NAME
from fairburst.kube.rounds.absence import Absence
from fairburst.kube.rounds.cluster_state import Changes, ClusterState
from fairburst.kube.rounds.core_input import CoreInput
from fairburst.kube.rounds.decision_changes import DecisionChanges
from fairburst.kube.rounds.differences import Agenda
from fairburst.kube.rounds.governing import GoverningQueues
from fairburst.kube.rounds.managed import ManagedNamespaces
from fairburst.kube.rounds.places import Places
from fairburst.kube.rounds.quotas import QuotaRounds
from fairburst.kube.rounds.reclaiming import plan_reclaim
from fairburst.kube.rounds.releases import ReleaseRounds
from fairburst.kube.rounds.resync import ResyncRounds
from fairburst.kube.rounds.statuses import StatusRounds
from fairburst.kube.rounds.suggestions import Suggestions
from fairburst.kube.rounds.view import ClusterView, RoundContext, RoundPlan, events_with_queues
from fairburst.kube.usage.demand import NamespaceDemand
from fairburst.kube.usage.pod_defaults import PodDefaults
from fairburst.kube.usage.pod_index import PodIndex
from fairburst.kube.views.forecast_view import Forecasts, QueueForecast, StartForecast
from fairburst.kube.views.idle_room import idle_room
from fairburst.kube.views.lead_time_view import LeadTimeForecasts
from fairburst.kube.views.status_plan import StatusWrite
from fairburst.kube.wall_clock import WallClock
from fairburst.policy.arrays import FloatArray
from fairburst.policy.baselines import Policy
from fairburst.policy.clock_step import shifted, shifted_reclaim
from fairburst.policy.decide import decide
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.model import Memory
from fairburst.policy.windows import burst_waits
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)


class Engine:
    """Holds the memory of the core and of the steps between rounds.

    `observing`: whether queues in Observe mode take part, and only their statuses are planned (`shadow.py`).
    """

    def __init__(self, config: Config, own_namespace: str, policy: Policy = decide, *, observing: bool = False) -> None:
        self._decide = policy
        self._policy = config.policy()
        self.memory, self.contained = Memory(), Containment()
        self.reserve = Reserve.of(config)
        self.slots = SlotPlanner(config.elasticity)
        self.gates = UngatePlanner()
        self.reclaim = Reclaimer(config.reclaim.rules())
        self._agenda = Agenda()
        cluster = self._cluster = ClusterState(config, own_namespace)
        self.gates.fits, self.gates.lacking = cluster.holds, cluster.lacking
        self.queues = GoverningQueues(config, own_namespace, self.contained, self.gates.gated, observing=observing)
        self.resyncs = ResyncRounds(self.reserve, self._agenda)
        largest_turn = self._policy.largest_turn
        self._input = CoreInput(cluster, self.contained, self.reserve, self.slots, self.reclaim, self.gates, self.resyncs, largest_turn)
        self._decision_changes = DecisionChanges(self.contained, self.reserve)
        self._lead_times = LeadTimeForecasts(learning=self.reserve is not None)
        self.managed = ManagedNamespaces(config, cluster, self.contained, self.reserve)
        self._places = Places()
        self._quotas = QuotaRounds(config, self.contained, self.reserve, self._agenda)
        self._releases = ReleaseRounds(self.gates, self.reserve, self._agenda)
        self._statuses = StatusRounds(config, cluster, self.contained, self.reserve, self.gates, self.queues.history, observing=observing)
        self._in_trouble: set[str] = set()
        self._unfinished = True
        self._wall_clock = WallClock()
        self.absence = Absence(self.contained)
        self.forecasts = self._statuses.forecasts = Forecasts()

    @property
    def demands(self) -> Mapping[str, NamespaceDemand]:
        """The demand of each managed namespace, as the last round read it."""
        return self._input.demands.by_namespace

    def pod_defaults(self, space: str) -> PodDefaults:
        """Return what the API server adds to the pods of a space's templates."""
        return self._cluster.pod_defaults(space)

    @property
    def changed_namespaces(self) -> frozenset[str]:
        """The namespaces whose work the last round read again."""
        return self._input.changed_namespaces

    def remember_committed(self, resources: tuple[str, ...], committed: FloatArray, as_of_monotonic: float) -> None:
        """Restore the low-water mark of an earlier process."""
        self._cluster.low_water.observe(resources, committed, as_of_monotonic)

    def remember_reserve(self, memory: DressMemory) -> None:
        """Restore the reserve ratio and the learned durations of an earlier process."""
        self.memory = Memory(self.memory.queues, self.memory.next_admission_order, self.memory.columns, memory)

    def pod_changed(self, old: Pod | None, new: Pod | None, pods: PodIndex, wall: float, now: float) -> None:
        """Apply one change of a pod that `pods` has seen."""
        if self.reserve is not None:
            self.reserve.pod_changed(old, new, pods, wall, now)

    def pod_ended(self, space: str, now: float) -> None:
        """Note the end of a counted pod: a successor may take its place."""
        self._quotas.slack.ended((space, QUOTA_NAME), now)

    def quota_written(self, write: QuotaWrite, now: float, done: bool | None) -> None:
        """Note a quota write. `done`: it succeeded; None: it was not sent."""
        self._quotas.written(write, now, done)

    def status_sent(self, write: StatusWrite, now: float) -> None:
        """Note a status write in flight."""
        self._statuses.planner.sent(write, now)

    def status_written(self, write: StatusWrite, now: float, took_seconds: float = 0.0, stored: Mapping[str, object] | None = None) -> None:
        """Note the answer to a status write, successful or not. `stored`: the queue, if it is known to have that status."""
        self._statuses.written(write, now, took_seconds, stored)

    def suggest(self, suggestions: Suggestions, plan: RoundPlan, wall: float, now: float) -> None:
        """Look for a suggestion for one observed queue after a round; if there is a new one, look at its status again."""
        namespace = suggestions.look(plan, self.memory, self._policy, wall, now)
        if namespace is not None:
            self._statuses.suggestions = suggestions.of
            self._statuses.look_again(namespace, now)

    def forecast(self, starts: Mapping[str, StartForecast], queues: Mapping[str, QueueForecast], wall: float, now: float) -> None:
        """Replace the forecasts of all queues, and look again at the statuses of those whose forecast has changed."""
        for queue in self.forecasts.replace(starts, queues, wall):
            self._statuses.look_again(queue.partition("/")[0], now)

    def round(self, view: ClusterView, wall: float, now: float) -> RoundPlan:
        """Compute one round. `wall` is seconds since the epoch, `now` monotonic seconds.

        A queue on which the core cannot decide stays as it is and gets a condition that says so; the core then decides on the others.
        Raises if it cannot decide on these either; the next round then looks at everything.
        """
        self._in_trouble |= self.contained.problems.keys()
        self.contained.begin_round()
        wall = self._follow_clock(wall, now)
        changes = self._cluster.look(view)
        changes.everything |= self._unfinished
        self._unfinished = True
        while True:  # each pass leaves out at least one more queue: the next queue of its namespace may fail too
            try:
                plan = self._round(view, changes, wall, now)
            except UndecidableError as failure:
                self._exclude(failure, wall)
                changes.everything = True
                continue
            self._unfinished, self._in_trouble = False, set()
            return plan

    def _follow_clock(self, wall: float, now: float) -> float:
        """Return the time to decide by. If it steps, shift the remembered times and look at everything."""
        wall, step = self._wall_clock.read(wall, now)
        if step:
            event(logger, logging.WARNING, "the wall clock stepped; open windows and accounts continue", seconds=round(step, 1))
            self.memory, self.reclaim.memory = shifted(self.memory, step), shifted_reclaim(self.reclaim.memory, step)
            self._unfinished = True
        return wall

    def _exclude(self, failure: UndecidableError, wall: float) -> None:
        """Leave out the queues on which the core cannot decide. Raise the failure's cause if there are none."""
        names = culprits(failure.snapshot, self.memory, self._policy, wall)
        if not names:
            raise failure.cause from failure
        for entry in failure.members:
            if entry.qualified_name in names:
                self.contained.note("decide on", entry.space, names[entry.qualified_name])
                self.queues.exclude(entry)

    def _round(self, view: ClusterView, changes: Changes, wall: float, now: float) -> RoundPlan:
        self.memory = self.queues.read(view, changes, self._cluster, self.memory, wall)
        if changes.everything:
            self._statuses.lay_out(self.queues.queue_set)
        self._quotas.note_holds(self.queues, changes, self._cluster.labels, now)
        changed = changes.namespaces | self._in_trouble
        changed = self.queues.queue_set.spaces.whole(changed | self._input.read(view, changes, self.queues, wall, now))
        self._quotas.retain(self._cluster.managed)
        plan, round_ = self._decided(view, changes, changed, wall, now)
        self._enforce(round_, changes, plan)
        self._agenda.put_written(plan.writes(), now)
        plan.due = min(plan.due, now + plan.elastic.wait, now + plan.reclaim.due, self._agenda.next(), self._input.due)
        return plan

    def _decided(self, view: ClusterView, changes: Changes, changed: set[str], wall: float, now: float) -> tuple[RoundPlan, RoundContext]:
        """Return a plan with the decision, and the round's context, which every later step reads."""
        snapshot, queue_set = self._input.snapshot(view, changes, self.queues, changed, wall, now), self.queues.queue_set
        created = functools.partial(self._input.demands.created, view, queue_set.governing)
        self.memory, snapshot = self.absence.make_up(self.memory, snapshot, created, view.pods, self._policy, wall, now)
        started = time.perf_counter()
        try:
            result, self.memory = self._decide(snapshot, self.memory, self._policy, wall)
        except Exception as error:
            raise UndecidableError(snapshot, queue_set.governing, error) from error
        self._input.demands.next_starts.note_granted(queue_set.governing, snapshot.usage, result.level)
        plan = RoundPlan(result, snapshot, queue_set, time.perf_counter() - started, events=events_with_queues(queue_set, result))
        self.queues.watch_bursts(snapshot, self.memory, wall)
        plan.burst_waits = burst_waits(self.memory.columns)
        plan.idle = idle_room(snapshot, result, self._input.demands.unbound, self.memory.columns)
        plan.due = min(now + max(0.0, result.next_boundary - wall), self._cluster.low_water.next_expiry())
        plan.elastic = self.slots.plan(result, view.controllers.marked_jobs(), queue_set, self.queues.absent, wall, now)
        plan.lead_times = self._lead_times.views(snapshot, result, self.memory)
        left_alone = self._cluster.elsewhere(queue_set) | queue_set.left_as_is | self.queues.absent | self._cluster.never_managed
        where = frozenset(changed), queue_set.spaces.whole(changed | self._agenda.take(now)), changes.everything
        return plan, RoundContext(view, queue_set, snapshot, result, self.memory, self.queues.rows, *where, left_alone, wall, now)

    def _enforce(self, round_: RoundContext, changes: Changes, plan: RoundPlan) -> None:
        """Turn the decision into writes, step by step."""
        demands = self._input.demands
        entitled = self._decision_changes.touch(round_)
        if round_.everything:
            round_.touched.update(self._cluster.managed)
        news = self.managed.refresh(round_, demands.by_namespace, plan)
        with self.contained.object("reclaim for", ""):
            plan_reclaim(round_, self.reclaim, self._cluster, self.managed, self.queues.reclaiming, plan)
        with self.contained.object("divide places for pods of", ""):
            self._places.divide(round_, self.managed, self._cluster.slots(round_.view), demands.pods, promises_changed=bool(changes.queues))
        items = self.managed.touched(round_)
        with self.contained.object("steer the quota of", ""):
            self._quotas.steer(round_, items, demands.uncharged)
            self._quotas.entitle(round_, items, entitled)
        with self.contained.object("release work of", ""):
            self._releases.plan(round_, self.managed, items, plan, suspending=self.queues.holding["Jobs"])
        margins = self._quotas.plan(round_, self.managed, items, plan, roomy=entitled.roomy)
        self._decision_changes.note_margins(margins, round_.snapshot.resources)
        with self.contained.object("resync the controllers of", ""):
            self.resyncs.plan(round_, items, plan)
        with self.contained.object("remember the bursts of", ""):
            self._statuses.remember_bursts(round_)
        self._statuses.plan_in_time(round_, self.managed, demands.by_namespace, plan, news=news)
