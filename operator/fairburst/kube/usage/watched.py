"""The collections of work that the operator watches: live pods, and the controllers that create pods."""

from __future__ import annotations

from fairburst.kube.api.objects import Deployment, Job, JobSet, ReplicaSet, StatefulSet
from fairburst.kube.usage.job_sets import PATH as JOB_SETS

CONTROLLERS = {
    "Job": ("/apis/batch/v1/jobs", Job),
    "Deployment": ("/apis/apps/v1/deployments", Deployment),
    "ReplicaSet": ("/apis/apps/v1/replicasets", ReplicaSet),
    "StatefulSet": ("/apis/apps/v1/statefulsets", StatefulSet),
    "JobSet": (f"{JOB_SETS}/jobsets", JobSet),
}
LIVE_PODS = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
