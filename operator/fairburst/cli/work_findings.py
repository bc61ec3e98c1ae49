"""State of a pod or a Job, and the events that explain it. The queue's part comes from `explain QUEUE`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from fairburst.kube.names import GATE, HELD_ANNOTATION, OUR_QUOTAS
from fairburst.kube.rounds.work_events import LARGER_THAN_LEVEL, NEVER_STARTS
from fairburst.kube.views.explanation import CAUSES
from fairburst.kube.views.forecast_view import START_FORECAST

if TYPE_CHECKING:
    from fairburst.kube.api.client import ApiClient

EVENTS_SHOWN = 3
SUSPENDED = "Job suspended"  # the Job controller's Event says no more than the Job's own field
_EXCEEDED = re.compile(r"exceeded quota: (?P<quota>[^,\s]+)")
_OUR_CLASS = re.compile(r"no PriorityClass with name fairburst-")
_EXPLAINING = frozenset({"FailedCreate", "FailedScheduling", "Preempted", "Evicted", "TaintManagerEviction"})
_OURS = frozenset({*CAUSES, LARGER_THAN_LEVEL, *NEVER_STARTS})  # each tells the cause of its time: only the last holds
_SHOWN = _EXPLAINING | _OURS | {START_FORECAST}


async def read_work(client: ApiClient, kind: str, namespace: str, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a pod or a Job, and its events. Raises ApiError."""
    from fairburst.kube.api.errors import Forbidden  # noqa: PLC0415
    from fairburst.kube.queues.listing import read_all  # noqa: PLC0415

    group = "/api/v1" if kind == "pod" else "/apis/batch/v1"
    found = await client.get_json(f"{group}/namespaces/{namespace}/{kind}s/{name}")
    try:
        events = await read_all(client, f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": f"involvedObject.name={name}"})
    except Forbidden:
        events = []
    mine = [one for one in events if (one.get("involvedObject") or {}).get("kind", "").lower() == kind]
    return found, mine


def pod_findings(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences that say why a pod waits, or that it does not; the decisive one first."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase", "Unknown")
    gates = [one.get("name") for one in spec.get("schedulingGates") or []]
    scheduled: Mapping[str, Any] = next((one for one in status.get("conditions") or [] if one.get("type") == "PodScheduled"), {})
    if phase in {"Running", "Succeeded", "Failed"}:
        found = [f"The pod is {phase.lower()} on node {spec.get('nodeName', 'unknown')}; it does not wait."]
    elif GATE in gates:
        found = ["SchedulingGated: fairburst holds the pod until its queue's level has room for it."]
    elif gates:
        found = [f"SchedulingGated: {', '.join(map(str, gates))} holds the pod; that is not a gate of fairburst."]
    elif spec.get("nodeName"):
        found = [f"The pod is bound to node {spec['nodeName']} and starts there; its queue let it through."]
    elif scheduled.get("status") == "False":
        reason, message = scheduled.get("reason", "Unschedulable"), scheduled.get("message", "no reason given")
        found = [f"{reason}: the quota admitted the pod, and the scheduler finds no node for it: {message}"]
    else:
        found = ["The pod exists, so the quota admitted it; the scheduler has not looked at it yet."]
    return found + _explanations(events)


def job_findings(job: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences that say why a Job lacks pods, or that it lacks none."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    done = [one.get("type") for one in status.get("conditions") or [] if one.get("status") == "True"]
    held = HELD_ANNOTATION in ((job.get("metadata") or {}).get("annotations") or {})
    active = int(status.get("active") or 0)
    wanted = _wanted(job, active)
    if "Complete" in done or "Failed" in done:
        found = [f"The Job has ended: {'Complete' if 'Complete' in done else 'Failed'}."]
    elif spec.get("suspend") and held:
        found = ["fairburst holds the Job suspended until its queue's level has room for all of it."]
    elif spec.get("suspend"):
        found = ["The Job is suspended (spec.suspend), and not by fairburst: its owner has to resume it."]
    elif active < wanted and (quota := _exceeded(events)):
        exceeded = "the namespace's quota, which is the queue's level"
        if quota not in OUR_QUOTAS:
            exceeded = f"ResourceQuota {quota}, which is not fairburst's; raise or delete it"
        found = [f"The Job has {active} of {wanted} pods: the next exceeds {exceeded}."]
    elif active < wanted and (refusal := _refusal(events)):
        found = [f"The Job has {active} of {wanted} pods: the API server refuses the next, and not because of a quota: {refusal}"]
    elif active < wanted:
        found = [f"The Job has {active} of {wanted} pods; the Job controller has not created the others yet."]
    else:
        found = [_complete(job, wanted, int(status.get("ready") or 0))]
        events = [one for one in events if one.get("reason") != "FailedCreate"]  # it was refused before, and exists now
    return found + _explanations(events)


def _complete(job: Mapping[str, Any], wanted: int, ready: int) -> str:
    """Return a sentence on a Job that has all its pods, and where to ask for those that do not run."""
    said = f"The Job has all {wanted} pods that it wants at once, {ready} of them ready."
    if ready >= wanted:
        return said
    name, namespace = (str((job.get("metadata") or {}).get(part, "")) for part in ("name", "namespace"))
    listed = f"`kubectl get pods -n {namespace} -l job-name={name}`"
    return f"{said} Why one waits: `fairburst explain pod/NAME -n {namespace}`, of those that {listed} lists."


def _wanted(job: Mapping[str, Any], active: int) -> int:
    """Return how many pods the Job still wants at once, of which it has `active`."""
    from fairburst.kube.api.objects import Job  # noqa: PLC0415
    from fairburst.kube.usage.pod_usage import NO_PODS  # noqa: PLC0415
    from fairburst.kube.workloads.job import pods_wanted  # noqa: PLC0415

    return pods_wanted(msgspec.convert(job, Job), replace(NO_PODS, active=active))


def _exceeded(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the quota that refused a pod last; empty if none did, or another refusal has come since."""
    found = _EXCEEDED.search(_last_refusal(events))
    return found["quota"] if found else ""


def _refusal(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the words of the last refusal of a pod and who mends it; empty if there was none."""
    said = " ".join(_last_refusal(events).split()).rpartition("is forbidden: ")[2]
    if _OUR_CLASS.search(said):
        return f"{said}. An administrator applies `fairburst manifests` again; `fairburst doctor` names what is missing."
    return said


def _last_refusal(events: Sequence[Mapping[str, Any]]) -> str:
    refusals = [str(one.get("message")) for one in _in_order(events) if one.get("reason") == "FailedCreate"]
    return refusals[-1] if refusals else ""


def _in_order(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(events, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))


def _explanations(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the last event of each kind that explains why work waits or was evicted.

    Of the operator's it is the last cause, and the forecast that came after it: an Event of a cause has a forecast of its own.
    """
    last: dict[Any, str] = {}
    for one in _in_order(events):
        reason = one.get("reason")
        if reason not in _SHOWN or one.get("message") == SUSPENDED:
            continue
        if reason in _OURS:
            last.pop(START_FORECAST, None)
        last["ours" if reason in _OURS else reason] = f"Event {reason}: {' '.join(str(one.get('message')).split())}"
    return list(last.values())[-EVENTS_SHOWN:]
