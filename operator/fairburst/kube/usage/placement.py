"""The nodes on which the scheduler may place a pod, by its node selector and tolerations. Pure.

Affinity and spreading rules are not evaluated: callers leave out pods that have any (`has_rules_of_its_own`).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fairburst.kube.api.objects import Node, Pod, Taint, Toleration
from fairburst.policy.arrays import BoolArray


class Placement:
    """Answers for one list of nodes, cached for pods with equal rules."""

    def __init__(self, nodes: Collection[Node]) -> None:
        self._nodes = tuple(nodes)
        self._known: dict[tuple[object, ...], BoolArray | None] = {}

    def nodes_for(self, pod: Pod) -> BoolArray | None:
        """Return (M,) the nodes where the pod may run; None: all of them."""
        selector, tolerations = pod.spec.node_selector or {}, pod.spec.tolerations or ()
        key = (*sorted(selector.items()), *((one.key, one.operator, one.value, one.effect) for one in tolerations))
        if key not in self._known:
            found = np.array([_takes(node, selector, tolerations) for node in self._nodes], dtype=bool)
            self._known[key] = None if found.all() else found
        return self._known[key]


def has_rules_of_its_own(pod: Pod) -> bool:
    """Return whether the pod has placement rules besides its node selector and tolerations."""
    affinity = pod.spec.affinity
    kinds = () if affinity is None else (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity)
    if any(one is not None and one.required_during_scheduling_ignored_during_execution for one in kinds):
        return True
    return any(one.when_unsatisfiable == "DoNotSchedule" for one in pod.spec.topology_spread_constraints or ())


def _takes(node: Node, selector: dict[str, str], tolerations: Collection[Toleration]) -> bool:
    barring = [taint for taint in node.spec.taints or () if taint.effect in {"NoSchedule", "NoExecute"}]
    tolerated = all(any(_tolerates(one, taint) for one in tolerations) for taint in barring)
    return tolerated and node.has_labels(selector)


def _tolerates(one: Toleration, taint: Taint) -> bool:
    if one.effect not in {"", taint.effect} or one.key not in {"", taint.key}:
        return False
    return one.operator == "Exists" or (bool(one.key) and one.value == taint.value)
