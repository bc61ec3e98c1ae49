"""Annotations on Jobs: the tenant's declaration of elasticity and the operator's record.

A tenant declares a progress curve, the least and the most pods at once, a weight, and a family whose runs are alike. The operator records
the parallelism it found, the one it wrote and when, so that it can undo its change, also after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fairburst.bounds import MOST_PARALLELISM, MOST_WEIGHT
from fairburst.kube.api.objects import Job, controller_of
from fairburst.kube.queues.curve_text import MalformedCurveError, read_curve
from fairburst.kube.times import from_epoch, to_epoch
from fairburst.policy.paf.curves import Curve
from fairburst.validation import found

CURVE = "fairburst.dev/progress-curve"
MINIMUM = "fairburst.dev/min-parallelism"
MAXIMUM = "fairburst.dev/max-parallelism"
JOB_WEIGHT = "fairburst.dev/job-weight"
FAMILY = "fairburst.dev/family"  # a label, so that `kubectl get jobs -l` finds a family
ORIGINAL = "fairburst.dev/original-parallelism"
GIVEN = "fairburst.dev/given-parallelism"
CHANGED_AT = "fairburst.dev/parallelism-changed-at"

FIELD_MANAGER = "fairburst"
# "clean-28391040" and "clean-x7k2p" are runs of "clean": the suffixes of a CronJob and of generateName.
_GENERATED = re.compile(r"-(\d{6,}|[bcdfghjklmnpqrstvwxz2456789]{5})$")


class MalformedAnnotationError(Exception):
    """An annotation is unusable. The message names it and says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A Job's declaration. None: not declared. `alone_seconds`: its run time alone at full parallelism, if the curve gives one."""

    curve: Curve | None = None
    alone_seconds: float | None = None
    minimum: int | None = None
    maximum: int | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """The operator's record on a Job that it has resized. `changed_at`: seconds since the epoch."""

    original: int
    given: int
    changed_at: float


def read_declaration(annotations: Mapping[str, str] | None) -> Declaration:
    """Return the declaration in the annotations.

    Raises
    ------
    MalformedAnnotationError : one of them is no number, out of bounds, no curve, or an unusable curve.
    """
    given = annotations or {}
    minimum, maximum = _whole(given, MINIMUM), _whole(given, MAXIMUM)
    if minimum is not None and maximum is not None and minimum > maximum:
        raise MalformedAnnotationError(f"{MINIMUM}: expected at most {MAXIMUM}, found {minimum} > {maximum}")
    curve, alone = _curve(given, maximum)
    return Declaration(curve, alone, minimum, maximum, _weight(given))


def mark_annotations(mark: Mark | None) -> dict[str, str | None]:
    """Return the annotations of a mark as a merge patch; None removes them."""
    if mark is None:
        return dict.fromkeys((ORIGINAL, GIVEN, CHANGED_AT))
    changed_at = from_epoch(mark.changed_at).isoformat().replace("+00:00", "Z")
    return {ORIGINAL: str(mark.original), GIVEN: str(mark.given), CHANGED_AT: changed_at}


def read_mark(annotations: Mapping[str, str] | None) -> Mark | None:
    """Return the mark, or None if there is none or its values are impossible."""
    given = annotations or {}
    if ORIGINAL not in given:
        return None
    try:
        original, last = int(given[ORIGINAL]), int(given.get(GIVEN, ""))
        changed_at = to_epoch(datetime.fromisoformat(given.get(CHANGED_AT, "")))
    except (TypeError, ValueError, OverflowError):  # TypeError: a time without a time zone
        return None
    return Mark(original, last, changed_at) if 0 <= original <= MOST_PARALLELISM and 0 <= last <= MOST_PARALLELISM else None


def family_of(job: Job) -> str | None:
    """Return the family of the Job's runs, "namespace/name": the label, else the owning CronJob, else the name before generateName's
    suffix.

    Without a label, runs with different completions are different work, so "/completions" is appended, except for runs whose pods each
    complete once: there the number is the run's size, not its work. None for a Job without a family.
    """
    metadata, completions = job.metadata, job.spec.completions
    labelled = (metadata.labels or {}).get(FAMILY)
    if labelled:
        return f"{metadata.namespace}/{labelled}"
    owner = controller_of(metadata)
    if owner is not None and owner.kind == "CronJob":
        name = owner.name
    elif _GENERATED.search(metadata.name):
        name = _GENERATED.sub("", metadata.name)
    else:
        return None
    once = completions is None or completions == original_parallelism(job)
    return f"{metadata.namespace}/{name}" if once else f"{metadata.namespace}/{name}/{completions}"


def original_parallelism(job: Job) -> int:
    """Return the parallelism that the Job's owner set, before any change of ours."""
    present, mark = parallelism_of(job), read_mark(job.metadata.annotations)
    return mark.original if mark is not None and mark.given == present else present


def parallelism_of(job: Job) -> int:
    """Return the present spec.parallelism."""
    return 1 if job.spec.parallelism is None else job.spec.parallelism


def foreign_manager(job: Job) -> str | None:
    """Return the other manager of the Job's parallelism, if any: a declared configuration, or a client that set it after the Job's
    creation.

    The client that created the Job imperatively has set its parallelism too, but owns the whole template, so it does not count. A client
    that changed the parallelism after our change counts.
    """
    for entry in job.metadata.managed_fields or ():
        spec = entry.fields.spec if entry.fields is not None else None
        if spec is None or spec.parallelism is None or entry.manager == FIELD_MANAGER:
            continue
        if entry.operation == "Apply" or spec.template is None:
            return entry.manager
    mark = read_mark(job.metadata.annotations)
    return "another client" if mark is not None and mark.given != parallelism_of(job) else None


def _curve(given: Mapping[str, str], maximum: int | None) -> tuple[Curve | None, float | None]:
    if CURVE not in given:
        return None, None
    try:
        return read_curve(given[CURVE], maximum)
    except MalformedCurveError as error:
        raise MalformedAnnotationError(f"{CURVE}: {error}") from error


def _whole(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= MOST_PARALLELISM:
        raise MalformedAnnotationError(f"{name}: expected a whole number from 1 to {MOST_PARALLELISM}, found {found(text)}")
    return int(text)


def _weight(given: Mapping[str, str]) -> float:
    text = given.get(JOB_WEIGHT, "1")
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,6})?", text) or not 0 < float(text) <= MOST_WEIGHT:
        raise MalformedAnnotationError(f"{JOB_WEIGHT}: expected a number above 0 and at most {MOST_WEIGHT}, found {found(text)}")
    return float(text)
