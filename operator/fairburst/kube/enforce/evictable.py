"""Decide whether a pod can be evicted without a failure (docs/decisions/0063). Pure.

The Job controller counts an evicted pod as a failure unless the Job's failure policy ignores disruptions, so only pods of such Jobs are
evicted. Other pods are evicted only if an annotation of their owner permits it.
"""

from __future__ import annotations

from fairburst.kube.api.objects import DISRUPTION, Job, Pod, controller_of
from fairburst.kube.names import RECLAIMABLE_ANNOTATION


def evictable(pod: Pod, job: Job | None) -> bool:
    """Return whether the pod's eviction causes no failure. `job`: the Job with its controller's name, if any."""
    if pod.unmanaged:
        return False
    owner = controller_of(pod.metadata)
    if owner is None or owner.kind != "Job":
        return (pod.metadata.annotations or {}).get(RECLAIMABLE_ANNOTATION) == "true"
    return job is not None and job.metadata.uid == owner.uid and survives_evictions(job)


def survives_evictions(job: Job) -> bool:
    """Return whether the first rule of the Job that matches an evicted pod ignores it, and the lost time can miss no deadline."""
    if job.spec.active_deadline_seconds is not None or job.spec.pod_failure_policy is None:
        return False
    for rule in job.spec.pod_failure_policy.rules:
        if rule.action != "Ignore":  # the exit code of a container that received SIGTERM may match
            return False
        if any(one.type == DISRUPTION and one.status == "True" for one in rule.on_pod_conditions or ()):
            return True
    return False
