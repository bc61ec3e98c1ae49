"""The state that a question of the operator describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairburst.forecast.state import ENDLESS_SECONDS, JobState, StageState, State
from fairburst.forecast.units import in_countable_units, scaled
from fairburst.kube.forecasts.messages import Question, Work
from fairburst.policy import memory as saved
from fairburst.policy.model import QueueSpec
from fairburst.recording.lines import decode_header
from fairburst.sim.cluster import one_machine
from fairburst.sim.engine import EPOCH


@dataclass(frozen=True, slots=True)
class AskedState:
    """A state in countable units, the names of its jobs, and the largest pod of each queue by name, in the order of the resources."""

    state: State
    names: frozenset[str]
    units: Mapping[str, tuple[float, ...]]


def asked_state(question: Question, means: Mapping[str, float]) -> AskedState:
    """Return the state that a question describes. means: by uid of the work, the mean duration of its ended pods."""
    specs = tuple(saved.decode_spec(spec) for spec in question.queues)
    jobs = tuple(_job(work, specs, means.get(work.uid)) for work in question.work)
    now = question.now - EPOCH
    machine, memory = one_machine(question.resources, question.capacity), saved.decode(question.memory)
    state = State(machine, specs, decode_header(question.config), memory, jobs, now)
    small = in_countable_units(state)
    units = {spec.name: scaled(tuple(unit), small.factors) for spec, unit in zip(specs, question.units, strict=True)}
    return AskedState(small, frozenset(job.name for job in jobs), units)


def _job(work: Work, specs: tuple[QueueSpec, ...], mean: float | None) -> JobState:
    running = tuple((count, started - EPOCH) for count, started in work.running)
    seconds = ENDLESS_SECONDS if work.endless else mean
    stage = StageState(work.tasks, work.waiting, running, tuple(work.demand), seconds, waves=work.waves)
    return JobState(work.uid, specs[work.queue].name, work.created - EPOCH, (stage,), has_started=bool(running), whole=work.whole)
