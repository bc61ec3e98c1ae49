"""ResourceQuotas and LimitRanges, as far as fairburst reads them."""

from __future__ import annotations

import msgspec

from fairburst.kube.api.objects import Object, ResourceList, Struct


class ScopeSelectorTerm(Struct):
    """One requirement of a quota's scopeSelector."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(Struct):
    """Requirements that must all be met."""

    match_expressions: list[ScopeSelectorTerm] | None = None


class ResourceQuotaSpec(Struct):
    """The desired limits. The enforced ones are in `status.hard`."""

    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct):
    """The limits that the API server enforces, and the usage that it has counted."""

    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(Object):
    """core/v1 ResourceQuota."""

    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


class LimitRangeItem(Struct):
    """Bounds and defaults for one type ("Container", "Pod", ...)."""

    type: str = ""
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max: ResourceList | None = None


class LimitRangeSpec(Struct):
    """core/v1 LimitRangeSpec."""

    limits: list[LimitRangeItem] = msgspec.field(default_factory=list)


class LimitRange(Object):
    """core/v1 LimitRange."""

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)
