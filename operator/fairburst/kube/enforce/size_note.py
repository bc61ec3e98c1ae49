"""The threshold of small Jobs as an annotation of the namespace quota, where the policy on Jobs reads it. Pure.

The status of the queue has it too, for people. The API server would copy the whole queue each time that it evaluates a policy with the
queue as its parameter (docs/decisions/0276-what-policies-cost.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fairburst.kube.names import SMALL_UP_TO_ANNOTATION
from fairburst.quantity import format_quantity, parse_quantity

WORTH_A_WRITE = 0.05  # relative change of an amount; a smaller one waits for the quota's next write


def size_note(threshold: Mapping[str, float] | None, present: Mapping[str, str]) -> tuple[dict[str, str | None], bool]:
    """Return the annotation that the quota should have, and whether it is worth a write of its own.

    `threshold`: in resource units by resource; None where no Job is small. `present`: the quota's annotations now.
    """
    written = present.get(SMALL_UP_TO_ANNOTATION)
    if threshold is None:
        return ({} if written is None else {SMALL_UP_TO_ANNOTATION: None}), False
    wanted = ",".join(f"{name}={format_quantity(name, amount)}" for name, amount in sorted(threshold.items()))
    return {SMALL_UP_TO_ANNOTATION: wanted}, written != wanted and not _close(written, threshold)


def _close(written: str | None, threshold: Mapping[str, float]) -> bool:
    """Return whether the written amounts are those of the threshold, or nearly."""
    if written is None:
        return False
    try:
        amounts = {name: parse_quantity(text) for name, text in (pair.split("=") for pair in written.split(","))}
    except ValueError:
        return False
    return amounts.keys() == threshold.keys() and all(
        math.isclose(amount, threshold[name], rel_tol=WORTH_A_WRITE) for name, amount in amounts.items()
    )
