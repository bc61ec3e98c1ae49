"""Bursts met before and after a change, as `fairburst plan` asks for them, prints them and judges them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairburst.forecast.from_cluster import Known
    from fairburst.forecast.planned import Foretold, Met
    from fairburst.kube.look import Look
    from fairburst.whatif.rounds import DecidedRound, QueueChange

SECONDS_PER_HOUR = 3600.0


def of_recording(before: DecidedRound, after: DecidedRound, hours: float) -> Foretold:
    """Foretell from two decided rounds alone, whose work has amounts and no lengths."""
    from fairburst.forecast.from_cluster import Known  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.forecast.from_round import jobs_of  # noqa: PLC0415
    from fairburst.forecast.planned import Side, foretell  # noqa: PLC0415

    sides = [Side(one, jobs_of(one), Known()) for one in (before, after)]
    return foretell(sides[0], sides[1], hours * SECONDS_PER_HOUR)


def of_cluster(
    before: tuple[DecidedRound, Look, Known], after: tuple[DecidedRound, Look, Known], gone: frozenset[str], hours: float
) -> Foretold:
    """Foretell from a cluster. gone: queues that the change removes with their work."""
    from fairburst.forecast.from_cluster import jobs_of  # noqa: PLC0415
    from fairburst.forecast.planned import Side, foretell  # noqa: PLC0415

    sides = [Side(one, jobs_of(seen, known), known) for one, seen, known in (before, after)]
    return foretell(sides[0], sides[1].without(gone), hours * SECONDS_PER_HOUR)


def cell(found: Foretold, one: QueueChange) -> str:
    """Return the bursts met of one queue as a cell of the table."""
    before, after = (_text(side.get(one.queue)) for side in (found.before, found.after))
    return before if before == after else f"{before} -> {after}"


def differs(found: Foretold | None, one: QueueChange) -> bool:
    """Return whether the bursts that are met or due differ."""
    return found is not None and _text(found.before.get(one.queue)) != _text(found.after.get(one.queue))


def _text(met: Met | None) -> str:
    return "-" if met is None else f"{met.met} of {met.due}"


def notes(found: Foretold) -> Iterator[str]:
    """Yield the lines below the table: the horizon, and what is not known."""
    yield f"Bursts met, of those due within {_span(found.seconds)}, from {found.runs} forward run{'s' * (found.runs != 1)} of each side."
    if found.seconds < found.asked_seconds:
        yield f"The first {_span(found.seconds)} only: the {_span(found.asked_seconds)} asked for take longer than a command should."
    if found.guesses:
        yield "No ended pods are known, so all lengths of batch work are guesses, and bursts missed do not change the exit status."
    if not found.arrivals:
        yield "No further batch work comes in these runs, because too few past Jobs are known."


def _span(seconds: float) -> str:
    from fairburst.kube.views.forecast_view import duration  # noqa: PLC0415  keeps `fairburst --help` quick

    return duration(seconds)


def as_data(found: Foretold, one: QueueChange) -> dict[str, Any]:
    """Return the bursts of one queue as they are printed with -o json; a side without a due burst is null."""
    sides = {"before": found.before.get(one.queue), "after": found.after.get(one.queue)}
    told = {side: None if met is None else {"due": met.due, "met": met.met, "meanMet": round(met.mean, 3)} for side, met in sides.items()}
    return told | {"horizonSeconds": found.seconds, "runs": found.runs, "guessedLengths": found.guesses, "knownArrivals": found.arrivals}


def objection(found: Foretold | None, one: QueueChange) -> str | None:
    """Return what speaks against the change: a queue that stays would miss bursts that it meets now. None if nothing does.

    Guessed lengths of batch work are no ground for an objection: other guesses would have other outcomes.
    """
    if found is None or found.guesses or one.is_new or one.is_gone:
        return None
    before, after = found.before.get(one.queue), found.after.get(one.queue)
    if before is None or after is None or not (lost := before.lost(after)):
        return None
    return (
        f"{one.queue} would miss {lost} burst{'s' * (lost != 1)} that it meets now: "
        f"{_text(after)} instead of {_text(before)} due within {_span(found.seconds)}."
    )
