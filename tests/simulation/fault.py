"""A fault of a run: when it begins and ends, and for how long it is felt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fault:
    """`begin` is called at `at`, and `end` after `seconds`. `felt`: the longest time for which its effects last, if longer."""

    name: str
    at: float
    seconds: float
    begin: Callable[[], Any]
    end: Callable[[], Any] = lambda: None
    felt: float = 0.0

    @property
    def over(self) -> float:
        """The time from which on only the operator's recovery is left."""
        return self.at + max(self.seconds, self.felt)
