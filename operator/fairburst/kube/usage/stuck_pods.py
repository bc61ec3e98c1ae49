"""Waiting pods that no node could hold, which claim nothing of the pool. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairburst.kube.usage.pod_usage import NamespaceUsage, RequestVector


@dataclass(slots=True)
class StuckPods:
    """Waiting pods that no node could hold even if it were empty: their requests in all, by resource, in resource units.

    largest: the requests of one of them. unit: the largest pod of the others, per resource. missing: a resource that one of them asks for
    and no node offers.
    """

    amounts: dict[str, float]
    largest: Mapping[str, float]
    unit: Mapping[str, float]
    missing: str = ""

    @classmethod
    def of(
        cls, usage: NamespaceUsage, resources: tuple[str, ...], fitting: Callable[[Mapping[str, float]], float],
        lacking: Callable[[tuple[str, ...]], str],
    ) -> StuckPods:  # fmt: skip
        found, unoffered = cls({}, {}, usage.largest), Counter[RequestVector]()
        for (vector, uncounted), count in usage.uncounted.items():
            if missing := lacking(uncounted):
                found.missing = missing
                unoffered[vector] += count
        if not unoffered and (not usage.vectors or fitting(usage.largest) >= 1):  # nearly always
            return found
        found.unit = unit = dict[str, float]()
        for vector, count in usage.vectors.items():
            requests = {resource: amount / 1000 for resource, amount in zip(resources, vector, strict=True)}
            if fitting(requests) >= 1:
                if count > unoffered[vector]:
                    unit |= {resource: max(unit.get(resource, 0.0), amount) for resource, amount in requests.items()}
                if vector in unoffered:
                    found.take(requests, -unoffered[vector])
            elif (waiting := count - usage.bound_vectors.get(vector, 0)) > 0:
                found.largest = requests
                found.take(requests, -waiting)
        return found

    def take(self, requests: Mapping[str, float], pods: float) -> None:
        """Subtract pods with these requests."""
        for resource, amount in requests.items():
            self.amounts[resource] = self.amounts.get(resource, 0.0) - pods * amount
