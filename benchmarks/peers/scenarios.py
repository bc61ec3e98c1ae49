"""The workloads of the comparison, seeded or from public traces: every contender gets the same. A pod is one place: a core and a GiB.

`size` scales pods and places alike; 1 is the stated size, which needs an otherwise idle machine with four cores or more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from e2e.workload.arrivals import compressed_bursts, read_requests, request_trace
from e2e.workload.stages import GIB, data_folder, reshaped, tpch_jobs

NODE_PLACES = 32
BATCH_SECONDS = 20.0  # mean run of a batch pod; a Job's pods run equally long, Jobs between half and one and a half times this
TPCH = "dagsched-tpch"
FAR_APART = 600  # seconds between the bursts of a queue that sends only one
FULL_AFTER = 50.0  # the cluster is full and its pods no longer start and end together
LONGEST_WAIT = 240.0  # seconds after a burst's arrival at which the run ends, even if the burst is not done


@dataclass(frozen=True, slots=True)
class Work:
    """One Job: `pods` at once, each of `seconds`. It starts when the Jobs at the indices `parents` of its graph are done."""

    pods: int
    seconds: float
    parents: tuple[int, ...] = ()


Graph = tuple[Work, ...]  # of one batch job; mostly a single Job


@dataclass(frozen=True, slots=True)
class Promise:
    """A burst as its queue declares it: `pods` places for `seconds`, within `deadline` seconds, every `period` at most.

    first_at: seconds after the start of a periodic queue's first burst; None for a sporadic one.
    """

    pods: int
    seconds: int
    deadline: int
    period: int
    first_at: float | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """One tenant with a namespace of the same name. A queue with a promise sends bursts, any other one has batch work."""

    name: str
    promise: Promise | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Burst:
    """Jobs that `queue` sends `at` seconds after the start, to be done within `deadline` seconds."""

    queue: str
    at: float
    jobs: tuple[Work, ...]
    deadline: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One workload on one cluster.

    backlog: batch work by queue, submitted as long as fewer than `deep` of the queue's pods are unfinished.
    given: batch work by queue that is submitted at once at the start. The run then ends when all is done (or bound: `until_bound`).
    seconds: length of a run with backlogs, which also ends when its last burst is done if `until_burst`.
    measured_from: start of the interval over which shares and use are averaged.
    gang: every Job must start whole. killed_at: when the contender's controller is killed; it starts again 5 s later.
    """

    name: str
    title: str
    nodes: int
    queues: tuple[Queue, ...]
    node_places: int = NODE_PLACES
    bursts: tuple[Burst, ...] = ()
    backlog: dict[str, Callable[[], Iterator[Graph]]] = field(default_factory=dict)
    given: Mapping[str, Sequence[Work]] = field(default_factory=dict)
    deep: int = 0
    seconds: float = FULL_AFTER + LONGEST_WAIT
    until_burst: bool = False
    until_bound: bool = False
    measured_from: float = 0.0
    gang: bool = False
    evicts: bool = False
    killed_at: float | None = None

    @property
    def places(self) -> int:
        return self.nodes * self.node_places


def _batch(number: int, seconds: float, widest: int = 6) -> Callable[[], Iterator[Graph]]:
    def stream() -> Iterator[Graph]:
        chance = random.Random(number)
        while True:
            yield (Work(chance.randint(2, widest), round(seconds * chance.uniform(0.5, 1.5), 2)),)

    return stream


def _filled(name: str, title: str, size: float, latency: Sequence[Queue], bursts: Sequence[Burst], batch: int, seconds: float) -> Scenario:
    """Return a cluster of 640 places that `batch` queues keep full, and bursts that arrive in it."""
    nodes = max(2, round(20 * size))
    names = [f"batch-{number}" for number in range(batch)]
    backlog = {queue: _batch(number, seconds) for number, queue in enumerate(names)}
    deep = 2 * nodes * NODE_PLACES // batch + 12
    queues = (*latency, *(Queue(queue) for queue in names))
    return Scenario(name, title, nodes, queues, bursts=tuple(bursts), backlog=backlog, deep=deep, measured_from=FULL_AFTER - 10)


def _jobs(pods: int, seconds: float, wide: int = 10) -> tuple[Work, ...]:
    """Return `pods` in Jobs of `wide`."""
    full, rest = divmod(pods, wide)
    return (Work(wide, seconds),) * full + ((Work(rest, seconds),) if rest else ())


def _single_burst(name: str, title: str, size: float, batch: int, batch_seconds: float = BATCH_SECONDS) -> Scenario:
    pods = round(500 * size)
    promise = Promise(pods, 45, 45, FAR_APART)
    bursts = [Burst("latency", FULL_AFTER, _jobs(pods, BATCH_SECONDS), 45.0)]
    made = _filled(name, title, size, [Queue("latency", promise)], bursts, batch, batch_seconds)
    return replace(made, until_burst=True)


def quick_burst() -> Scenario:
    """Return a burst of 40 pods into 64 places with pods of four seconds: small enough for a test."""
    made = _single_burst("quick", "A small burst into a full cluster", 0.1, 4, 4.0)
    promise = Promise(40, 10, 10, FAR_APART)
    bursts = (Burst("latency", 8.0, _jobs(40, 4.0), 10.0),)
    queues = (Queue("latency", promise), *(queue for queue in made.queues if queue.promise is None))
    return replace(made, queues=queues, bursts=bursts, seconds=24.0, measured_from=6.0)


def burst_into_full(batch: int) -> Callable[[float], Scenario]:
    return lambda size: _single_burst(f"s9-{batch}", f"A burst into a cluster filled by {_count(batch, 'batch queue')}", size, batch)


def burst_with_eviction(batch: int) -> Callable[[float], Scenario]:
    """Batch pods run for five minutes on average: only eviction makes room within the burst's deadline."""

    def make(size: float) -> Scenario:
        made = _single_burst(
            f"s9e-{batch}", f"The burst among {_count(batch, 'batch queue')} with long pods, eviction allowed", size, batch, 300.0
        )
        return replace(made, evicts=True)

    return make


def burst_without_controller(batch: int) -> Callable[[float], Scenario]:
    def make(size: float) -> Scenario:
        made = _single_burst(
            f"s11-{batch}", f"The burst among {_count(batch, 'batch queue')}, with the controller killed as it begins", size, batch
        )
        return replace(made, killed_at=FULL_AFTER)

    return make


def bursts_every_minute(minutes: int) -> Callable[[float], Scenario]:
    def make(size: float) -> Scenario:
        pods, period = round(500 * size), 60
        promise = Promise(pods, 15, 40, period, FULL_AFTER)
        bursts = [Burst("latency", FULL_AFTER + period * number, _jobs(pods, 10.0), 40.0) for number in range(minutes)]
        made = _filled(f"s10-{minutes}", f"A burst a minute for {minutes} min", size, [Queue("latency", promise)], bursts, 4, BATCH_SECONDS)
        return replace(made, seconds=FULL_AFTER + period * minutes, measured_from=FULL_AFTER)

    return make


def greedy_queue(minutes: int) -> Callable[[float], Scenario]:
    """One latency queue sends four times its declaration each minute, another one keeps to its own."""

    def make(size: float) -> Scenario:
        greedy, honest, period = round(250 * size), round(125 * size), 60
        queues = [
            Queue("greedy", Promise(greedy, 15, 40, period, FULL_AFTER)),
            Queue("honest", Promise(honest, 15, 40, period, FULL_AFTER + 20)),
        ]
        bursts = []
        for number in range(minutes):
            at = FULL_AFTER + period * number
            bursts.append(Burst("greedy", at, _jobs(4 * greedy, 10.0), 40.0))
            bursts.append(Burst("honest", at + 20, _jobs(honest, 10.0), 40.0))
        made = _filled(
            f"s12-{minutes}", f"A queue sends four times its declaration for {minutes} min", size, queues, bursts, 4, BATCH_SECONDS
        )
        return replace(made, seconds=FULL_AFTER + period * minutes, measured_from=FULL_AFTER)

    return make


def real_arrivals(size: float) -> Scenario:
    """Two services' inference requests of one hour as sporadic bursts within six minutes, among DAG jobs of TPC-H.

    Raises TraceError if the public traces are not there.
    """
    folder, queues, bursts = data_folder(), [], []
    a_pod, largest = 8 / size, round(240 * size)
    for service in ("code", "conv"):
        requests = read_requests(request_trace(folder, service))
        most, least = int(largest * a_pod), int(20 * size * a_pod)
        sent = compressed_bursts(requests, time_factor=0.1, min_interarrival_seconds=30.0, collect=least, largest=most)
        queues.append(Queue(service, Promise(largest, 10, 25, 30)))
        bursts += [Burst(service, FULL_AFTER + each.arrival, _jobs(int(each.requests / a_pod), 5.0), 25.0) for each in sent]
    bursts = [burst for burst in bursts if burst.at + burst.deadline <= FULL_AFTER + 360]
    shaped = [
        reshaped(job, time_factor=8.0, shortest=15.0, longest=60.0, widest=24, cpu=1.0, memory=GIB) for job in tpch_jobs(folder / TPCH)
    ]
    graphs = [tuple(Work(stage.tasks, round(stage.seconds, 2), stage.parents) for stage in job.stages) for job in shaped]
    made = _filled("s14", "Requests of a real service as bursts, among DAG jobs of TPC-H", size, queues, bursts, 4, BATCH_SECONDS)
    backlog = {queue: _shuffled(graphs, number) for number, queue in enumerate(made.backlog)}
    return replace(made, backlog=backlog, seconds=FULL_AFTER + 360, measured_from=FULL_AFTER)


def _shuffled(graphs: Sequence[Graph], number: int) -> Callable[[], Iterator[Graph]]:
    def stream() -> Iterator[Graph]:
        chance = random.Random(number)
        while True:
            yield chance.choice(graphs)

    return stream


def small_and_large(size: float) -> Scenario:
    """Per queue 60 small Jobs (2 pods, 10 s) and 12 large ones (36 pods, 30 s), shuffled, all submitted at once."""
    nodes, given = max(2, round(20 * size)), {}
    for number in range(4):
        jobs = [Work(2, 10.0)] * round(60 * size) + [Work(36, 30.0)] * round(12 * size)
        random.Random(number).shuffle(jobs)
        given[f"batch-{number}"] = jobs
    title = "Small and large batch jobs mixed, all submitted at once"
    return Scenario("s13", title, nodes, tuple(Queue(name) for name in given), given=given, seconds=600.0)


def many_jobs(size: float) -> Scenario:
    """15,000 Jobs of one pod of 3 s through 30 queues, with room for all that run at a time."""
    total = round(15_000 * size)
    given = {f"batch-{number}": [Work(1, 3.0)] * (total // 30 + (number < total % 30)) for number in range(30)}
    queues = tuple(Queue(name) for name in given)
    return Scenario("s15", f"{total:,} Jobs of one pod through 30 queues", 40, queues, given=given, seconds=1200.0, until_bound=True)


def jobs_by_pods(name: str, jobs: int, pods: int, gang: bool) -> Callable[[float], Scenario]:
    """The four shapes of the community's benchmark, at 2,000 pods on 200 nodes of ten places."""

    def make(size: float) -> Scenario:
        count, wide = (round(jobs * size), pods) if jobs > pods else (jobs, round(pods * size))
        title = f"{_count(count, 'Job')} of {_count(wide, 'pod')}{', each started whole' if gang else ''}"
        given = {"batch-0": [Work(wide, 600.0)] * count}
        nodes = max(2, round(200 * size))
        queues = (Queue("batch-0"),)
        return Scenario(name, title, nodes, queues, 10, given=given, seconds=400.0, until_bound=True, gang=gang)

    return make


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


SHAPES = ((2000, 1), (100, 20), (4, 500), (1, 2000))
SCENARIOS: dict[str, Callable[[float], Scenario]] = {
    **{f"s{1 + index}": jobs_by_pods(f"s{1 + index}", *shape, gang=False) for index, shape in enumerate(SHAPES)},
    **{f"s{5 + index}": jobs_by_pods(f"s{5 + index}", *shape, gang=True) for index, shape in enumerate(SHAPES)},
    **{f"s9-{batch}": burst_into_full(batch) for batch in (1, 4, 8)},
    **{f"s9e-{batch}": burst_with_eviction(batch) for batch in (1, 4, 8)},
    "s10-20": bursts_every_minute(20),
    "s10-4": bursts_every_minute(4),
    "s11-4": burst_without_controller(4),
    "s12-10": greedy_queue(10),
    "s12-4": greedy_queue(4),
    "s13": small_and_large,
    "s14": real_arrivals,
    "s15": many_jobs,
}
ALIASES = {"s9": "s9-4", "s9e": "s9e-4", "s10": "s10-20", "s11": "s11-4", "s12": "s12-10"}
