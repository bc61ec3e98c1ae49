"""JobSets: several Jobs that their own controller creates, suspends and starts together. Pure.

The Jobs of a JobSet announce their pods themselves once they have been started. Until then the JobSet announces them: while it is held, and
after its start for the Jobs that its controller has not started yet. Otherwise other work would be given their room meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from fairburst.kube.api.objects import Job, JobSpec, Object, PodTemplate, Struct, controller_of
from fairburst.kube.names import RELEASED_ANNOTATION
from fairburst.kube.workloads.job import pods_at_once
from fairburst.kube.workloads.kind import Controllers, PodsToCome, WorkloadKind

GROUP = "jobset.x-k8s.io"
PART_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"


class JobTemplate(Struct):
    """batch/v1 JobTemplateSpec."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)


class ReplicatedJob(Struct):
    """One Job template of a JobSet and its number of Jobs. `replicas` None means 1."""

    name: str = ""
    replicas: int | None = None
    template: JobTemplate = msgspec.field(default_factory=JobTemplate)


class JobSetSpec(Struct):
    """jobset.x-k8s.io/v1alpha2 JobSetSpec."""

    suspend: bool | None = None
    replicated_jobs: list[ReplicatedJob] = msgspec.field(default_factory=list)


class ReplicatedJobStatus(Struct):
    """Number of succeeded Jobs of one template. The Jobs may have been deleted since."""

    name: str = ""
    succeeded: int = 0


class JobSetStatus(Struct):
    """jobset.x-k8s.io/v1alpha2 JobSetStatus. `terminal_state` is empty until the JobSet has ended."""

    terminal_state: str = ""
    replicated_jobs_status: list[ReplicatedJobStatus] = msgspec.field(default_factory=list)


class JobSet(Object):
    """jobset.x-k8s.io/v1alpha2 JobSet: Jobs that another controller creates and suspends together."""

    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)
    status: JobSetStatus = msgspec.field(default_factory=JobSetStatus)

    @property
    def finished(self) -> bool:
        """Whether the JobSet is complete or has failed."""
        return bool(self.status.terminal_state)

    @property
    def first_template(self) -> PodTemplate:
        """The pod template of its first part."""
        return self.spec.replicated_jobs[0].template.spec.template if self.spec.replicated_jobs else PodTemplate()


def _to_come(job_set: JobSet, controllers: Controllers, held: bool) -> Iterator[PodsToCome]:
    """Yield the pods of Jobs that the JobSet has not started yet; none of one that has ended or that its user suspended.

    A JobSet that is neither held nor started by fairburst counts by its Jobs alone: its controller may start them one after the other, and
    the room of the later ones must not be kept from others.
    """
    released = not job_set.spec.suspend and RELEASED_ANNOTATION in (job_set.metadata.annotations or {})
    if job_set.finished or job_set.metadata.deletion_timestamp is not None or not (held or released):
        return
    started = Counter[str]() if held else _started(job_set, controllers.of("Job"))
    for part in job_set.spec.replicated_jobs:
        jobs = (1 if part.replicas is None else part.replicas) - started[part.name]
        if jobs > 0:
            yield PodsToCome(part.template.spec.template, jobs * pods_at_once(part.template.spec))


def _started(job_set: JobSet, jobs: Iterable[Job]) -> Counter[str]:
    """Count the started Jobs of each part. Succeeded ones may have been deleted; the JobSet's status still counts them."""
    found = Counter[str]()
    for job in jobs:
        owner = controller_of(job.metadata)
        if owner is not None and owner.uid == job_set.metadata.uid and not job.spec.suspend:
            found[(job.metadata.labels or {}).get(PART_LABEL, "")] += 1
    for part in job_set.status.replicated_jobs_status:
        found[part.name] = max(found[part.name], part.succeeded)
    return found


KIND = WorkloadKind("JobSet", GROUP, "v1alpha2", "jobsets", JobSet, optional=True, suspends=True, to_come=_to_come)
