"""The pods that each of our ResourceQuotas counts, by their priority class: each pod counts for one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairburst.kube.api.quota_objects import ResourceQuota
from fairburst.kube.names import LANE_CLASSES, LANE_QUOTAS, QUOTA_NAME, SMALL_CLASS, SMALL_QUOTA

SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")


@dataclass(frozen=True, slots=True)
class Scope:
    """The pods that a quota counts, by their priority class: `operator` is In or NotIn."""

    operator: str
    classes: tuple[str, ...]

    def body(self) -> dict[str, Any]:
        """Return the scope as a ResourceQuota's scopeSelector."""
        return {"matchExpressions": [{"operator": self.operator, "scopeName": "PriorityClass", "values": list(self.classes)}]}

    def is_of(self, quota: ResourceQuota) -> bool:
        """Return whether the quota counts exactly these pods; its scope may have been changed by hand."""
        selector = quota.spec.scope_selector
        terms = selector.match_expressions or [] if selector is not None else []
        if len(terms) != 1 or quota.spec.scopes:
            return False
        only = terms[0]
        return only.scope_name == "PriorityClass" and only.operator == self.operator and set(only.values or ()) == set(self.classes)


# The namespace quota also matches pods without a class.
SCOPES = {
    QUOTA_NAME: Scope("NotIn", SYSTEM_CLASSES),
    SMALL_QUOTA: Scope("In", (SMALL_CLASS,)),
    **{LANE_QUOTAS[lane]: Scope("In", (LANE_CLASSES[lane],)) for lane in LANE_QUOTAS},
}


def default_scope(lanes: Iterable[int]) -> Scope:
    """Return the pods that the namespace quota counts where further queues have these lanes: all but theirs."""
    return Scope("NotIn", (*SYSTEM_CLASSES, *(LANE_CLASSES[lane] for lane in sorted(lanes))))


def leaves_to(quota: ResourceQuota | None, name: str) -> bool:
    """Return whether this namespace quota leaves the pods of the quota `name` to that quota."""
    terms = (quota.spec.scope_selector.match_expressions or ()) if quota is not None and quota.spec.scope_selector is not None else ()
    return name in SCOPES and {one for term in terms if term.operator == "NotIn" for one in term.values or ()} >= {*SCOPES[name].classes}
