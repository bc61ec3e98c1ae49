"""JobSets: several Jobs that their own controller makes, suspends and starts together. What of one still has to come. Pure.

The Jobs of a JobSet say themselves what they want once they have been started. Until then the JobSet says it for them: while it is held,
and from our start on for what its controller has not started yet, or somebody else would be given its room meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from fairburst.kube.api.objects import Job, JobSet, JobSpec, controller_of
from fairburst.kube.names import RELEASED_ANNOTATION

GROUP = "jobset.x-k8s.io"
PATH = f"/apis/{GROUP}/v1alpha2"
PART_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"


def parts_to_come(job_set: JobSet, jobs: Iterable[Job], *, held: bool) -> Iterator[tuple[JobSpec, int]]:
    """Specs of Jobs that the JobSet has not started yet, and how many of each; none of one that has ended or that its user suspended.

    `jobs`: those of its namespace. `held`: whether it is suspended until we start it. One that is neither held nor started by us counts by
    its Jobs alone: its controller may start them one after the other, and what waits for that must not be kept from others.
    """
    released = not job_set.spec.suspend and RELEASED_ANNOTATION in (job_set.metadata.annotations or {})
    if job_set.finished or job_set.metadata.deletion_timestamp is not None or not (held or released):
        return
    started = Counter[str]() if held else _started(job_set, jobs)
    for part in job_set.spec.replicated_jobs:
        to_come = (1 if part.replicas is None else part.replicas) - started[part.name]
        if to_come > 0:
            yield part.template.spec, to_come


def _started(job_set: JobSet, jobs: Iterable[Job]) -> Counter[str]:
    """How many Jobs of each part have been started: those that ended well may be gone, and are in its status."""
    found = Counter[str]()
    for job in jobs:
        owner = controller_of(job.metadata)
        if owner is not None and owner.uid == job_set.metadata.uid and not job.spec.suspend:
            found[(job.metadata.labels or {}).get(PART_LABEL, "")] += 1
    for part in job_set.status.replicated_jobs_status:
        found[part.name] = max(found[part.name], part.succeeded)
    return found
