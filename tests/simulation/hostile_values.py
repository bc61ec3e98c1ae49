"""Values at the ends of every range that a schema allows, and draws from them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

YEAR, MOST_INT = 31_536_000, 2**31 - 1
AMOUNTS = [
    "0",
    "1",
    "2",
    "7",
    "1m",
    "999m",
    "1n",
    "1u",
    "0.000000001",
    "100m",
    "0.1",
    "1.5",
    "1k",
    "1Ki",
    "1Mi",
    "1.5Gi",
    "2Gi",
    "1Ti",
    "8Pi",
    "1Ei",
    "7.999Ei",
    "8Ei",
    "16Ei",
    "9223372036854775807",
    "9223372036854775808",
    "1e3",
    "1E3",
    "1e18",
    "1e30",
    "1e-9",
    "1e-30",
    "1E",
    "1000000000000000000000",
    "00000001",
    "+1",
    ".5",
    "5.",
    "12345678901234567890n",
]
TIMES = [
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2026-02-28T00:00:00Z",
    "2026-05-28T20:26:40Z",
    "2026-05-28T20:27:00Z",
    "2026-05-28T20:26:41.5Z",
    "2026-05-29T00:00:00+23:59",
    "2026-05-28T00:00:00-23:59",
    "2038-01-19T03:14:08Z",
    "2262-04-11T23:47:17Z",
    "2100-01-01T00:00:00.123456789Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
]
NAMES = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "a.example.com/b", "hugepages-2Mi")
TEXTS = ("", " ", "0", "-1", "1", "true", "null", "{}", "[]", "NaN", "1e400", "9" * 400, "\u0000", "é" * 100, '{"points": [[1, 1]]}')
CURVES = (
    *TEXTS,
    '{"points": [[1, 0.2], [8, 0.9], [16, 1]]}',
    '{"points": [[1, 1e308], [2, 1e308]]}',
    '{"points": [[100000, 1], [1, 0]]}',
    '{"coefficients": [1e308, -1e308, 1e308, 0]}',
    '{"coefficients": [0, 0, 0, 0]}',
    '{"points": ' + "[" * 500 + "]" * 500 + "}",
    '{"points": [[1, NaN]]}',
)
PRIORITIES = ("", "fairburst-hard", "fairburst-small", "system-node-critical", "other")


class Draws:
    """Draws values from one source."""

    def __init__(self, source: random.Random) -> None:
        self.source = source

    def maybe(self, chance: float, value: Callable[[], Any]) -> Any:
        """Return a value with this chance, else None."""
        return value() if self.source.random() < chance else None

    def amount(self) -> str:
        """Return a quantity."""
        return self.source.choice(AMOUNTS)

    def amounts(self) -> dict[str, Any]:
        """Return quantities of up to three resources."""
        count = self.source.choice((0, 1, 2, 2, 3))
        return {name: self.amount() for name in self.source.sample(NAMES, count)}

    def count(self) -> int:
        """Return a number of pods."""
        return self.source.choice((0, 1, 2, 3, 10, 1000, 100_000, MOST_INT - 1, MOST_INT))

    def seconds(self) -> int:
        """Return a length that a queue may declare."""
        return self.source.choice((1, 1, 2, 5, 30, 60, 3600, 86_400, YEAR - 1, YEAR))

    def time(self) -> str:
        """Return a timestamp."""
        return self.source.choice(TIMES)
