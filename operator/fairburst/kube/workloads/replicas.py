"""StatefulSets, ReplicaSets and Deployments: controllers that keep a number of replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fairburst.bounds import bounded_count
from fairburst.kube.api.objects import Object, PodTemplate, Struct, controller_of
from fairburst.kube.workloads.kind import Controllers, CountedPods, WorkloadKind, all_of_kind


class ReplicatedSpec(Struct):
    """Common part of ReplicaSet, Deployment and StatefulSet specs. `replicas` None means 1."""

    replicas: int | None = None
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class _Replicated(Object):
    spec: ReplicatedSpec = msgspec.field(default_factory=ReplicatedSpec)

    @property
    def wanted(self) -> int:
        """Desired replicas."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class ReplicaSet(_Replicated):
    """apps/v1 ReplicaSet."""


class Deployment(_Replicated):
    """apps/v1 Deployment."""


class StatefulSet(_Replicated):
    """apps/v1 StatefulSet."""


def replicas(controller: _Replicated) -> int:
    """Return how many pods the controller keeps; none while it is being deleted."""
    return 0 if controller.metadata.deletion_timestamp is not None else bounded_count(controller.wanted)


def _wanted(controller: _Replicated, _: CountedPods) -> int:
    return replicas(controller)


def _without_replica_set(controllers: Controllers) -> Iterable[Any]:
    """Return the Deployments whose ReplicaSet has not been seen yet. The others are counted by their ReplicaSets."""
    left = {deployment.metadata.uid: deployment for deployment in controllers.of("Deployment")}
    for replica_set in controllers.of("ReplicaSet") if left else ():
        reference = controller_of(replica_set.metadata)
        left.pop(reference.uid if reference is not None else "", None)
    return left.values()


STATEFUL_SET = WorkloadKind(
    "StatefulSet", "apps", "v1", "statefulsets", StatefulSet, creates_pods=True, wanting=all_of_kind("StatefulSet"), wanted=_wanted
)
REPLICA_SET = WorkloadKind(
    "ReplicaSet", "apps", "v1", "replicasets", ReplicaSet, creates_pods=True, wanting=all_of_kind("ReplicaSet"), wanted=_wanted
)
DEPLOYMENT = WorkloadKind("Deployment", "apps", "v1", "deployments", Deployment, wanting=_without_replica_set, wanted=_wanted)
