"""Sums of request vectors that are kept up to date by addition and removal, in whole thousandths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fairburst.kube.usage.pod_usage import Amounts, RequestVector


class VectorSum:
    """A sum of request vectors, and their number."""

    __slots__ = ("amounts", "count")

    def __init__(self, width: int) -> None:
        self.amounts = [0] * width
        self.count = 0

    def add(self, requests: RequestVector, sign: int) -> None:
        """Add a request vector (+1) or remove it (-1)."""
        self.count += sign
        for index, amount in enumerate(requests):
            self.amounts[index] += sign * amount


class VectorBag:
    """A sum of request vectors, the largest and the smallest of them."""

    __slots__ = ("_largest", "_smallest", "_vectors", "sum")

    def __init__(self, width: int) -> None:
        self.sum = VectorSum(width)
        self._vectors: Counter[RequestVector] = Counter()
        self._largest: RequestVector | None = None
        self._smallest: RequestVector | None = None

    def add(self, requests: RequestVector, sign: int) -> None:
        """Add a request vector (+1) or remove it (-1)."""
        self.sum.add(requests, sign)
        self._vectors[requests] += sign
        if self._vectors[requests] == 0:
            del self._vectors[requests]
            self._largest = self._smallest = None
        elif self._vectors[requests] == 1 and sign > 0:
            self._largest = self._smallest = None

    @property
    def vectors(self) -> Mapping[RequestVector, int]:
        """How often the bag has each request vector."""
        return self._vectors

    @property
    def largest(self) -> RequestVector:
        """The largest request per resource; empty without any."""
        if self._largest is None:
            self._largest = tuple(max(column) for column in zip(*self._vectors, strict=True)) if self._vectors else ()
        return self._largest

    @property
    def smallest(self) -> RequestVector:
        """The smallest request per resource; empty without any."""
        if self._smallest is None:
            self._smallest = tuple(min(column) for column in zip(*self._vectors, strict=True)) if self._vectors else ()
        return self._smallest


def add_thousandths(total: Amounts, resources: Sequence[str], amounts: Sequence[int]) -> None:
    """Add a vector in thousandths to a sum in natural units."""
    for resource, amount in zip(resources, amounts, strict=True):
        total[resource] = total.get(resource, 0.0) + amount / 1000
