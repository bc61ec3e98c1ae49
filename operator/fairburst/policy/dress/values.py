"""Input and output values of DRESS: jobs, tasks, settings, the outcome of one round. This module decides nothing.

Paper: "DRESS: Dynamic RESource-reservation Scheme for Congested Data-intensive Computing Platforms", whose section numbers are cited. Axes
are (tasks or queues, resources); R = K resources in the snapshot's order. Times are seconds since the epoch.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from fairburst.policy.arrays import BoolArray, FloatArray, IntArray


class DemandCategory(enum.Enum):
    """Small demand (SD) or large demand (LD), fixed when the job is submitted (§IV-C)."""

    SMALL = "small"
    LARGE = "large"


class StartMode(enum.Enum):
    """Order and manner in which pending jobs start.

    TASK_BY_TASK: a job starts as many tasks as fit, and each category lends what it leaves to the other.
    WHOLE_JOBS: the paper's model. A job starts when its full demand fits its category's part, in order within the category. Capacity is
    lent only when the reserve ratio moves.
    """

    TASK_BY_TASK = "TaskByTask"
    WHOLE_JOBS = "WholeJobs"


@dataclass(frozen=True, slots=True)
class DressConfig:
    """Settings of DRESS, with the reason for each default.

    size_threshold: θ, a job is small if its dominant share of the elastic pool is at most this; 10 % as in §V-A1.
    initial_reserve: δ before the first adjustment; 10 % as in §V-A1.
    phase_window_seconds: pw of Algorithms 1 and 2; 10 s as in §V-A1.
    start_threshold, end_threshold: t_s, t_e, counts of tasks (§V-A1 prints "5 s", Algorithms 1 and 2 compare counts).
    min_reserve: floor of δ; 0 as in the paper, whose line 8 reduces an unused reserve to nothing.
    max_wait_seconds: once the oldest large job has waited this long, its part is kept for it. The paper has no bound (infinite). A quarter
    of an hour is far above the waits that a reserve of a tenth causes, and bounds them under any stream of small jobs.
    step_seconds: the time unit "t + 1" of Algorithm 3, which runs at most once in it; about a YARN heartbeat.
    horizon_seconds: how far ahead the estimators predict before they are scored.
    start_mode: see StartMode; Kubernetes Jobs start pod by pod.
    smallest_first: order of waiting jobs within a category: by request, then submission, instead of by submission, as in Fig. 1.
    """

    size_threshold: float = 0.10
    initial_reserve: float = 0.10
    phase_window_seconds: float = 10.0
    start_threshold: int = 5
    end_threshold: int = 5
    min_reserve: float = 0.0
    max_wait_seconds: float = 900.0
    step_seconds: float = 1.0
    horizon_seconds: float = 10.0
    start_mode: StartMode = StartMode.TASK_BY_TASK
    smallest_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One whole job as its owner submitted it, not a pod.

    request: (R,) resource units, its full demand at one time without limits (request x parallelism).
    category: fixed at submission; None until it is fixed (it is then decided against this round's pool).
    wanted: (R,) its present demand, running tasks and those still to start; None: its whole request.
    used: (R,) what its running tasks hold; None: nothing while the job is pending, `wanted` once it runs.
    family: jobs of one family behave alike (the same CronJob, the same template); "" if unknown.
    count: the number of jobs it stands for. Jobs with a fixed category and their full demand met may be merged, because only their sums
    matter.
    """

    name: str
    queue: str
    submitted: float
    request: FloatArray
    category: DemandCategory | None = None
    wanted: FloatArray | None = None
    used: FloatArray | None = None
    family: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class TaskTable:
    """M tasks as columns, in any order, which keeps 50,000 of them cheap. Rows of one job carry the same `job` number.

    job: (M,) number of the job.
    small: (M,) whether its job is small.
    request: (M, R).
    started, ended: (M,) seconds, NaN while running.
    family: (M,) index into `families`; -1: unknown.
    by_start: rows are known to be ascending by (job, started), which saves a sort.

    Keep an ended task for `keep_seconds` after its end, so that its phase and the estimators' scores can see it.
    """

    job: IntArray
    small: BoolArray
    request: FloatArray
    started: FloatArray
    ended: FloatArray
    family: IntArray
    families: tuple[str, ...] = ()
    by_start: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class JobsPart:
    """The part of a snapshot that DRESS needs.

    pending: jobs without running tasks, in any order.
    running: jobs with running tasks, in any order. Both are served by (submitted, name).
    tasks: all tasks of participating queues, seen and not yet dropped.
    taking_part: (N,) which queues divide their level; None: all throughput queues.
    """

    pending: Sequence[Job]
    running: Sequence[Job]
    tasks: TaskTable
    taking_part: BoolArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NeverFits:
    """A pending job whose request exceeds the elastic pool. The reserve's arithmetic leaves it out, so it blocks no other job."""

    job: str
    queue: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class EstimatorScore:
    """An estimator's accuracy, exponentially weighted over recent horizons, in fractions of the pool (dominant). `count`: horizons seen."""

    absolute_error: float = 0.0
    bias: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DressResult:
    """The outcome of one round.

    reserve_ratio: δ.
    size_limit: (R,) θ x pool.
    pool, free: (R,) Tot_R and A_c.
    small_free, large_free: (R,) A_c1, A_c2 under the new δ.
    small_pending, large_pending: (R,) P_1, P_2.
    reason, message: the branch of Algorithm 3 that was taken, and its numbers.
    startable: names of pending jobs that may start whole now, in order (WHOLE_JOBS).
    estimator: "phases" (Algorithms 1 and 2) or "learned"; phases_score, learned_score: see EstimatorScore.
    odd_tasks: number of tasks left out because they ended before they started; 0 between two steps, where no task is read.
    """

    reserve_ratio: float
    small_level: FloatArray
    size_limit: FloatArray
    pool: FloatArray
    free: FloatArray
    small_free: FloatArray
    large_free: FloatArray
    small_pending: FloatArray
    large_pending: FloatArray
    small_jobs: int
    large_jobs: int
    waiting_since: float | None
    reason: str
    message: str
    startable: tuple[str, ...]
    never_fits: tuple[NeverFits, ...]
    estimator: str
    phases_score: EstimatorScore
    learned_score: EstimatorScore
    odd_tasks: int
    next_boundary: float


def keep_seconds(config: DressConfig) -> float:
    """Return how long an ended task must stay in the table, in seconds."""
    return 2.0 * max(config.phase_window_seconds, config.horizon_seconds) + SETTLE_SECONDS


# Delay until the end of a task is known: Kubernetes writes ends in whole seconds, and they arrive a little late.
SETTLE_SECONDS = 2.0
