"""All kinds of work that fairburst reads. To add one, add its module to this package and list it in `KINDS`."""

from __future__ import annotations

from fairburst.kube.workloads import job, job_set, leader_worker_set, replicas
from fairburst.kube.workloads.kind import WorkloadKind

KINDS: dict[str, WorkloadKind] = {
    kind.name: kind
    for kind in (job.KIND, replicas.STATEFUL_SET, replicas.REPLICA_SET, replicas.DEPLOYMENT, job_set.KIND, leader_worker_set.KIND)
}
# Kinds that pods name as their controller: these announce the successors of their pods.
ANNOUNCED_KINDS = frozenset(name for name, kind in KINDS.items() if kind.creates_pods)
