"""What the API server adds to the requests of a template's pods: the defaults of LimitRanges and the overheads of RuntimeClasses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairburst.kube.api.objects import PodSpec, Quantity
from fairburst.kube.api.quota_objects import LimitRange
from fairburst.kube.usage.effective_requests import ContainerDefaults, Overheads, milli, template_requests, with_overhead


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """The additions to the pods of one namespace. `containers`: requests for each container that has none of its own."""

    overheads: Overheads = field(default_factory=dict)
    containers: ContainerDefaults = ()

    def requests_of(self, spec: PodSpec) -> Mapping[str, float]:
        """Return the effective requests of a pod made from a template."""
        return with_overhead(template_requests(spec, self.containers), spec, self.overheads)


NO_DEFAULTS = PodDefaults()


def container_defaults(limit_ranges: Iterable[LimitRange]) -> ContainerDefaults:
    """Return the requests that the LimitRanges of a namespace give to containers, in order of the resources' names.

    Of several defaults for a resource the API server takes any; the largest counts here, so that no Job starts without room for its pods.
    """
    found = dict[str, Quantity]()
    for limit_range in limit_ranges:
        for item in limit_range.spec.limits:
            if item.type != "Container":
                continue
            for resource, quantity in {**(item.default or {}), **(item.default_request or {})}.items():
                if resource not in found or milli(quantity) > milli(found[resource]):
                    found[resource] = quantity
    return tuple(sorted(found.items()))
