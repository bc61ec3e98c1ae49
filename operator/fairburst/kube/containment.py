"""Boundaries around single objects: an error that one object causes concerns that object alone.

Each step of a round that treats objects one by one does so inside `Containment.object`. An exception there is logged once for each cause,
counted, and remembered as the object's problem, which becomes its Ready condition. The step continues with the next object, and the
cluster's state for this one stays as it is.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from dataclasses import dataclass
from types import TracebackType

logger = logging.getLogger(__name__)

LONGEST_TEXT = 300  # characters of an error's own words in a condition
REMEMBERED_CAUSES = 1000


class Containment:
    """Problems with objects, by namespace.

    Attributes
    ----------
    failures : how often an error was contained, by step, since the caller last cleared it.
    problems : namespace to sentence, for the errors of the present round.
    """

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.problems: dict[str, str] = {}
        self._logged: set[tuple[str, str, str]] = set()

    def begin_round(self) -> None:
        """Forget the problems of the last round."""
        self.problems.clear()

    def object(self, step: str, namespace: str) -> _Boundary:
        """Contain any exception of the block. `step`: what is done to the object; `namespace`: the one whose problem it becomes."""
        return _Boundary(self, step, namespace)

    def note(self, step: str, namespace: str, error: Exception) -> None:
        """Count the error and make it the namespace's problem; log it if its cause is new."""
        self.failures[step] += 1
        problem = f"{type(error).__name__}: {error}"[:LONGEST_TEXT]
        self.problems[namespace] = f"fairburst could not {step} this queue and left it as it was: {problem}. Please report this as a bug."
        where = "".join(f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-1:])
        cause = (step, type(error).__name__, where)
        if cause not in self._logged and len(self._logged) < REMEMBERED_CAUSES:
            self._logged.add(cause)
            logger.error("an object's error is contained", extra={"step": step, "namespace": namespace, "problem": problem}, exc_info=error)


@dataclass(slots=True)
class _Boundary:
    """The block of `Containment.object`. A class, because a generator is slower and a round enters several blocks for each queue."""

    contained: Containment
    step: str
    namespace: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.contained.note(self.step, self.namespace, error)
        return True
