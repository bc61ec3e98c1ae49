"""Small or large (DRESS §IV-C): the rule for a Job, in Python for the operator and in CEL for the API server.

A Job is small if its full request is at most the threshold in every counted resource. The full request is one pod's effective requests
times the pods it runs at once. The API server writes the result into the Job and its pod template at creation and keeps it, because a
category is fixed at submission. A Job of unknown size (no requests, no pods yet) is large; otherwise a tenant could omit requests to become
small. tests/t1/test_job_size.py checks both forms against one table of Jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairburst.kube.api.objects import Job
from fairburst.kube.usage.effective_requests import template_lacks_requests, template_requests
from fairburst.kube.workloads.job import pods_at_once

SIZE_LABEL = "fairburst.dev/size"
SMALL, LARGE = "small", "large"
MOST_CONTAINERS = 100  # of a pod, init containers included; at 400 the expression still costs less than the API server permits
ROUNDING = 1e-9  # relative; hides floating-point noise, so that three pods of 100m are not more than 300m


def full_request(job: Job) -> dict[str, float]:
    """Return one pod's effective requests times the pods it runs at once, by resource, in resource units; empty for a Job without pods."""
    pods = pods_at_once(job.spec)
    return {resource: pods * amount for resource, amount in template_requests(job.spec.template.spec).items()} if pods > 0 else {}


def size_of(job: Job, threshold: Mapping[str, float]) -> str:
    """Return the label's value for a Job, in the operator's arithmetic. `threshold` in resource units by resource; empty: all Jobs are
    large.
    """
    pod = job.spec.template.spec
    if len(pod.containers) + len(pod.init_containers or ()) > MOST_CONTAINERS:
        return LARGE
    request = full_request(job)
    if not threshold or not request or template_lacks_requests(pod, threshold):
        return LARGE
    fits = all(request.get(resource, 0.0) <= limit * (1 + ROUNDING) for resource, limit in threshold.items())
    return SMALL if fits else LARGE


# The same in CEL ------------------------------------------------------------------------------------------------------------------
# Quantities are read as floats, whose error is smaller than ROUNDING. Optional fields are read with `?`, so nothing here can fail
# on a Job that the API server would accept.


def _quantity(optional: str) -> str:
    return f'quantity({optional}.orValue("0")).asApproximateFloat()'


def _named(container: str, resource: str) -> str:
    """Return CEL for a container's request. The limit replaces a missing request, as the API server's default for the pod does."""
    return f"{container}.?resources.?requests[?{resource}].or({container}.?resources.?limits[?{resource}])"


def _together(resource: str) -> str:
    """Return CEL for containers and sidecars together, which run at the same time."""
    return (
        f"(variables.containers.map(c, {_quantity(_named('c', resource))}).sum() + "
        f"variables.sidecars.map(c, {_quantity(_named('c', resource))}).sum())"
    )


def _starting(resource: str, limit: str) -> str:
    """Return CEL for whether each init container fits together with the sidecars started before it."""
    earlier = f"variables.inits.transformList(j, s, j < i && s.?restartPolicy.orValue('') == 'Always', {_quantity(_named('s', resource))})"
    return f"variables.inits.all(i, c, {_quantity(_named('c', resource))} + {earlier}.sum() <= {limit})"


def size_variables(threshold: str) -> list[dict[str, str]]:
    """Return the CEL variables of a policy on Jobs. `variables.size` is the label's value. `threshold`: CEL for quantities by resource."""
    limit = f"quantity(most).asApproximateFloat() * {1 + ROUNDING!r} / variables.pods"
    overhead = _quantity("variables.spec.?overhead[?k]")
    anybody = f"(variables.containers + variables.inits).exists(c, {_named('c', 'k')}.hasValue())"
    of_pod = f"variables.spec.?resources.?requests[?k].or({anybody} ? optional.none() : variables.spec.?resources.?limits[?k])"
    fits = (
        f"{of_pod}.hasValue() ? {_quantity(f'{of_pod}')} + {overhead} <= {limit} : "
        f"{_together('k')} + {overhead} <= {limit} && {_starting('k', f'{limit} - {overhead}')}"
    )
    variables = {
        "threshold": threshold,
        "spec": "object.spec.template.spec",
        "containers": "variables.spec.containers",
        "inits": "variables.spec.?initContainers.orValue([])",
        "sidecars": "variables.inits.filter(c, c.?restartPolicy.orValue('') == 'Always')",
        "parallelism": "object.spec.?parallelism.orValue(1)",
        "pods": "double(object.spec.?completions.orValue(variables.parallelism) < variables.parallelism ? "
        "object.spec.completions : variables.parallelism)",
        "podLevel": "size(variables.spec.?resources.?requests.orValue({})) + size(variables.spec.?resources.?limits.orValue({})) > 0",
        "known": "variables.podLevel || ['cpu', 'memory'].all(k, !(k in variables.threshold) || "
        f"(variables.containers + variables.inits).all(c, {_named('c', 'k')}.hasValue()))",
        "size": f"size(variables.threshold) > 0 && size(variables.containers) + size(variables.inits) <= {MOST_CONTAINERS} && "
        f"variables.pods > 0.0 && variables.known && variables.threshold.all(k, most, {fits}) ? "
        f"'{SMALL}' : '{LARGE}'",
    }
    return [{"name": name, "expression": expression} for name, expression in variables.items()]


_TEMPLATES = ("metadata", "spec.template.metadata")
# A size stays as it was decided at creation, so that an update matters only if it touches a label.
IS_NEW_OR_RELABELLED = "request.operation == 'CREATE' || " + " || ".join(
    f"object.{metadata}.?labels[?'{SIZE_LABEL}'] != oldObject.{metadata}.?labels[?'{SIZE_LABEL}']" for metadata in _TEMPLATES
)
IS_LABELLED = " || ".join(f"object.{metadata}.?labels[?'{SIZE_LABEL}'].hasValue()" for metadata in _TEMPLATES)


def label_patches() -> str:
    """Return CEL of the patches for a Job and for its pod template: they set the size at creation and keep it afterwards.

    While the queue has no threshold the label is removed, so that a value written by a tenant has no effect.
    """
    return " + ".join(f"({_label_patch(metadata)})" for metadata in _TEMPLATES)


def unlabel_patches() -> str:
    """Return CEL of the patches that remove the label from a Job and its pod template if no queue has set it."""
    return " + ".join(
        f'(object.{metadata}.?labels[?\'{SIZE_LABEL}\'].hasValue() ? [JSONPatch{{op: "remove", path: "{_path(metadata)}"}}] : [])'
        for metadata in _TEMPLATES
    )


def _path(metadata: str) -> str:
    escaped = SIZE_LABEL.replace("~", "~0").replace("/", "~1")
    return f"/{metadata.replace('.', '/')}/labels/{escaped}"


def _label_patch(metadata: str) -> str:
    path = _path(metadata)
    labels = path.rpartition("/")[0]
    present = f"object.{metadata}.?labels[?'{SIZE_LABEL}']"
    wanted = (
        f"(request.operation == 'CREATE' ? (size(variables.threshold) > 0 ? optional.of(variables.size) : optional.none()) : "
        f"oldObject.{metadata}.?labels[?'{SIZE_LABEL}'])"
    )
    one = f'JSONPatch{{op: "add", path: "{path}", value: {wanted}.value()}}'
    first = f'JSONPatch{{op: "add", path: "{labels}", value: {{"{SIZE_LABEL}": {wanted}.value()}}}}'
    remove = f'JSONPatch{{op: "remove", path: "{path}"}}'
    return (
        f"{wanted}.hasValue() ? ({present}.orValue('') == {wanted}.value() ? [] : has(object.{metadata}.labels) ? [{one}] : [{first}]) : "
        f"{present}.hasValue() ? [{remove}] : []"
    )
