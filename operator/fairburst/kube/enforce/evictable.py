"""Which pods may be evicted without anything failing for it (docs/decisions/0063). Pure.

An evicted pod of a Job counts as a failure unless the Job's own rules ignore disruptions, so only such Jobs' pods go. Of other pods
nobody but their owner knows whether they may: those that say so.
"""

from __future__ import annotations

from fairburst.kube.api.objects import DISRUPTION, Job, Pod, controller_of
from fairburst.kube.names import RECLAIMABLE_ANNOTATION


def evictable(pod: Pod, job: Job | None) -> bool:
    """Whether the pod's eviction fails nothing. `job`: the Job of the name that its controller has, if any."""
    if pod.unmanaged:
        return False
    owner = controller_of(pod.metadata)
    if owner is None or owner.kind != "Job":
        return (pod.metadata.annotations or {}).get(RECLAIMABLE_ANNOTATION) == "true"
    return job is not None and job.metadata.uid == owner.uid and survives_evictions(job)


def survives_evictions(job: Job) -> bool:
    """Whether the first rule of the Job that can match an evicted pod ignores it, and no deadline can be missed by the lost time."""
    if job.spec.active_deadline_seconds is not None or job.spec.pod_failure_policy is None:
        return False
    for rule in job.spec.pod_failure_policy.rules:
        if rule.action != "Ignore":  # it may match the exit code of a container that is told to end
            return False
        if any(one.type == DISRUPTION and one.status == "True" for one in rule.on_pod_conditions or ()):
            return True
    return False
