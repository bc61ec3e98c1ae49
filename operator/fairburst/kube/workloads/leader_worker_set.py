"""LeaderWorkerSets: groups of a leader and its workers that are created together, as for inference over several nodes. Pure.

Their controller creates a StatefulSet of the leaders, and for each leader that exists a StatefulSet of its workers. These announce their
pods themselves. Until they exist the LeaderWorkerSet announces the pods, so that its queue's level has room for whole groups.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairburst.bounds import bounded_count
from fairburst.kube.api.objects import Object, PodTemplate, Struct
from fairburst.kube.workloads.kind import Controllers, PodsToCome, WorkloadKind
from fairburst.kube.workloads.replicas import replicas

GROUP = "leaderworkerset.x-k8s.io"
NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"


class LeaderWorkerTemplate(Struct):
    """leaderworkerset.x-k8s.io/v1 LeaderWorkerTemplate. `size` counts the leader. Without a leader template, leaders are like workers."""

    leader_template: PodTemplate | None = None
    worker_template: PodTemplate = msgspec.field(default_factory=PodTemplate)
    size: int | None = None


class LeaderWorkerSetSpec(Struct):
    """leaderworkerset.x-k8s.io/v1 LeaderWorkerSetSpec. `replicas` counts groups; None means 1."""

    replicas: int | None = None
    leader_worker_template: LeaderWorkerTemplate = msgspec.field(default_factory=LeaderWorkerTemplate)


class LeaderWorkerSet(Object):
    """leaderworkerset.x-k8s.io/v1 LeaderWorkerSet."""

    spec: LeaderWorkerSetSpec = msgspec.field(default_factory=LeaderWorkerSetSpec)


def _to_come(groups: LeaderWorkerSet, controllers: Controllers, _held: bool) -> Iterator[PodsToCome]:
    """Yield the leaders and workers that no StatefulSet announces yet; none of a set that is being deleted."""
    if groups.metadata.deletion_timestamp is not None:
        return
    name, template = groups.metadata.name, groups.spec.leader_worker_template
    announced = {"leaders": 0, "workers": 0}
    for one in controllers.of("StatefulSet"):
        if (one.metadata.labels or {}).get(NAME_LABEL) == name:
            announced["leaders" if one.metadata.name == name else "workers"] += replicas(one)
    leaders = bounded_count(1 if groups.spec.replicas is None else groups.spec.replicas)
    workers = bounded_count(leaders * (max(1 if template.size is None else template.size, 1) - 1))
    for part, count, pods in (
        ("leaders", leaders, template.leader_template or template.worker_template),
        ("workers", workers, template.worker_template),
    ):
        if count > announced[part]:
            yield PodsToCome(pods, count - announced[part])


KIND = WorkloadKind("LeaderWorkerSet", GROUP, "v1", "leaderworkersets", LeaderWorkerSet, optional=True, patched=False, to_come=_to_come)
