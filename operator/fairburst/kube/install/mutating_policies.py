"""The mutating admission policies: the API server writes the priority of new pods, their gates, and the sizes and holds of new Jobs.

The operator labels each managed namespace (`enforce/namespace_labels.py`), and the labels bind these policies. A policy therefore applies
one constant patch and reads no queue; the threshold of small Jobs is on the namespace quota. The policies never fail closed: the quota
still holds a pod that they have missed. docs/decisions/0276-what-policies-cost.md has the costs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairburst.config import Config
from fairburst.kube.api.objects import DISRUPTION, OWN_CONTROLLERS
from fairburst.kube.enforce.namespace_labels import BY_QUEUE, BY_SIZE, HARD, LARGE, PRIORITIES, SOFT
from fairburst.kube.enforce.pod_priority import class_values
from fairburst.kube.install.scope import POLICY_API, Manifest, managed_namespaces, outside_system, owned_by
from fairburst.kube.jobs.job_size import (
    IS_LABELLED,
    IS_NEW_OR_RELABELLED,
    SIZE_LABEL,
    SMALL,
    label_patches,
    size_variables,
    unlabel_patches,
)
from fairburst.kube.modes.registry import HELD_KINDS
from fairburst.kube.names import (
    GATE,
    HELD_ANNOTATION,
    HOLDS_LABEL,
    LANE_CLASSES,
    LANE_LABELS,
    LANES,
    LANES_HOLD_LABEL,
    LARGE_CLASS,
    LOWEST_CLASS,
    MANAGED_LABEL,
    POOL_LABEL,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    QUOTA_NAME,
    SMALL_CLASS,
    SMALL_UP_TO_ANNOTATION,
    class_name,
)
from fairburst.kube.workloads.job_set import GROUP as JOB_SET_GROUP

PRIORITIZED_PODS: Manifest = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
SIZED_JOBS: Manifest = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]}
NEW_JOBS: Manifest = SIZED_JOBS | {"operations": ["CREATE"]}
NEW_JOB_SETS: Manifest = {"apiGroups": [JOB_SET_GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobsets"]}
HELD_JOBS = (NEW_JOBS, NEW_JOB_SETS)

_ORDINARY = (  # neither of the system nor of a DaemonSet: such pods belong to no queue
    f"(!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')) && !({owned_by('DaemonSet')})"
)
# Only a Job's template is labelled by us: a label on a pod of another kind has no effect.
_OF_A_SMALL_JOB = f"object.metadata.?labels[?'{SIZE_LABEL}'].orValue('') == '{SMALL}' && {owned_by('Job')}"
# A gate is set once, whatever other gates the pod has; a pod that names its node can have none.
_OUR_GATE = f"Object.spec.schedulingGates{{name: '{GATE}'}}"
_GATED = f"(has(object.spec.nodeName) || object.spec.?schedulingGates.orValue([]).exists(one, one.name == '{GATE}'))"
_GATE_PATCHES = (
    f"({_GATED} ? [] : [has(object.spec.schedulingGates) ? "
    f"JSONPatch{{op: 'add', path: '/spec/schedulingGates/-', value: {_OUR_GATE}}} : "
    f"JSONPatch{{op: 'add', path: '/spec/schedulingGates', value: [{_OUR_GATE}]}}])"
)
# A match condition cannot read this.
_HOLDS_PODS = f"namespaceObject.metadata.?labels[?'{HOLDS_LABEL}'].orValue('') == 'Pods'"
# Of a Job, or of a JobSet's first part, as an optional.
_FIRST_TEMPLATE = "(has(object.spec.replicatedJobs) ? object.spec.replicatedJobs[?0].?template.?spec.?template : object.spec.?template)"
# Another controller than Kubernetes' own need not know what a policy writes into a Job.
_NOT_MANAGED_ELSEWHERE = {
    "name": "not-managed-elsewhere",
    "expression": f"!has(object.spec.managedBy) || object.spec.managedBy in {list(OWN_CONTROLLERS)}",
}
# A controller that makes Jobs suspends and resumes them as it sees fit (JobSet does); a CronJob only creates them. Kueue holds its own.
_STARTED_BY_FAIRBURST = [
    {
        "name": "not-controlled",
        "expression": "!has(object.metadata.ownerReferences) || "
        "!object.metadata.ownerReferences.exists(one, has(one.controller) && one.controller && one.kind != 'CronJob')",
    },
    {"name": "not-queued-by-kueue", "expression": "!object.metadata.?labels[?'kueue.x-k8s.io/queue-name'].hasValue()"},
    _NOT_MANAGED_ELSEWHERE,
]


@dataclass(frozen=True, slots=True)
class _Given:
    """CEL for the class that a policy gives to a pod: its name and its value."""

    name: str
    value: str


def policies(config: Config) -> list[Manifest]:
    """Return the policies with their bindings: priorities of pods, holds and failures of Jobs, sizes of Jobs."""
    by_size = config.small_jobs.enabled
    priorities = PRIORITIES if by_size else tuple(priority for priority in PRIORITIES if priority != BY_SIZE)
    sized = [*_size_policy(config), *_no_size_policy(config)] if by_size else []
    return [
        *(manifest for priority in priorities for manifest in _priority_policy(priority, config)),
        *_by_queue_policy(priorities, config),
        *_no_queue_policy(config, (*priorities, *BY_QUEUE.values())),
        *_gate_policy(config, priorities),
        *_hold_policy(config),
        *_disruption_policy(config),
        *sized,
    ]


def _priority_policy(priority: str, config: Config) -> list[Manifest]:
    """Give new pods one priority where a queue governs, and the gate where it holds pods.

    The match condition keeps the policy from patching a pod a second time. Each patch costs the API server an encoding and a decoding of
    the pod, and the API server calls every policy again after any of them has changed it.
    """
    name, given, selector = _name(f"priority-{priority}", config), _given(priority, config), config.pool.node_selector
    done = _has_class(given) + _has_node_selector(selector)
    patches = _class_patches(given) + _node_selector_patches(selector) + f" + ({_HOLDS_PODS} ? {_GATE_PATCHES} : [])"
    policy = _pod_policy(name, config, patches, f"!({done})")
    return [policy, _of_pods(name, _in_pool(config), _where(PRIORITY_LABEL, "In", priority))]


def _gate_policy(config: Config, priorities: Sequence[str]) -> list[Manifest]:
    """Gate new pods that name a class of ours themselves where the only queue holds pods: the policy of their priority may pass them over.

    It is called whether or not that policy has changed the pod before, and in any order.
    """
    name = _name("gate", config)
    classes = sorted({_class_of(priority) for priority in priorities if priority != BY_SIZE} | {SMALL_CLASS, LARGE_CLASS})
    policy = _pod_policy(name, config, _GATE_PATCHES, f"object.spec.?priorityClassName.orValue('') in {json.dumps(classes)} && !{_GATED}")
    held = _where(HOLDS_LABEL, "In", "Pods"), _where(PRIORITY_LABEL, "NotIn", *BY_QUEUE.values())
    return [policy, _of_pods(name, _in_pool(config), *held)]


def _by_queue_policy(priorities: Sequence[str], config: Config) -> list[Manifest]:
    """Give new pods the priority of the further queue that they ask for, where such queues have lanes, else that of the default queue.

    `priorities`: those that a default queue can have, by the size of a pod's Job among them where it keeps a reserve.
    Pods of a queue that holds them get the gate. The labels that name the lanes are out of reach of a match condition, so the policy is
    evaluated for every pod of such a namespace.
    """
    name, labelled = _name("priority-by-queue", config), f"variables.labels[?'{PRIORITY_LABEL}'].orValue('')"
    defaults = {BY_QUEUE[priority]: _given(priority, config) for priority in priorities}
    names = ", ".join(f"{_text(label)}: {given.name}" for label, given in defaults.items())
    values = ", ".join(f"{_text(label)}: {given.value}" for label, given in defaults.items())
    lowest, given = _of_class(LOWEST_CLASS, config), _Given("variables.given", "variables.value")
    patches = _class_patches(given) + _node_selector_patches(config.pool.node_selector)
    policy = _pod_policy(name, config, f"variables.done ? [] : {patches} + (variables.held == 'Pods' ? {_GATE_PATCHES} : [])")
    policy["spec"]["variables"] = [
        *_lane_variables(f"object.metadata.?labels[?'{QUEUE_LABEL}'].orValue('')"),
        {
            "name": "given",
            "expression": f"size(variables.lanes) > 0 ? {_text(LANE_CLASSES[1][:-1])} + variables.lanes[0] : "
            f"{{{names}}}[?{labelled}].orValue({lowest.name})",
        },
        {
            "name": "value",
            "expression": f"size(variables.lanes) > 0 ? {_of_class(LANE_CLASSES[1], config).value} : "
            f"{{{values}}}[?{labelled}].orValue({lowest.value})",
        },
        {
            "name": "done",
            "expression": _has_class(given) + _has_node_selector(config.pool.node_selector) + f" && (variables.held != 'Pods' || {_GATED})",
        },
    ]
    return [policy, _of_pods(name, _in_pool(config), _where(PRIORITY_LABEL, "In", *BY_QUEUE.values()))]


def _lane_variables(queue: str) -> list[dict[str, str]]:
    """Return CEL variables for the lane of a queue that is asked for, at most one, and for the kind of objects which that queue holds.

    `queue`: CEL for the name of the queue. Without a lane, that of the default queue is the kind.
    """
    kinds = json.dumps(HELD_KINDS)
    return [
        {"name": "queue", "expression": queue},
        {"name": "labels", "expression": "namespaceObject.metadata.?labels.orValue({})"},
        {
            "name": "lanes",
            "expression": f"variables.queue == '' ? [] : {json.dumps([str(lane) for lane in LANES])}"
            f".filter(lane, variables.labels[?'{LANE_LABELS[1][:-1]}' + lane].orValue('') == variables.queue)",
        },
        {
            "name": "held",
            "expression": f"size(variables.lanes) == 0 ? variables.labels[?'{HOLDS_LABEL}'].orValue('') : {kinds}.filter(kind, "
            f"(variables.lanes[0] + '-' + kind) in variables.labels[?'{LANES_HOLD_LABEL}'].orValue('').split('.')).join('')",
        },
    ]


def _no_queue_policy(config: Config, priorities: Sequence[str]) -> list[Manifest]:
    """Give the lowest class to new pods of managed namespaces in which no queue governs, whatever class they name."""
    name, given = _name("priority-no-queue", config), _of_class(LOWEST_CLASS, config)
    policy = _pod_policy(name, config, _class_patches(given), f"!({_has_class(given)})")
    return [policy, _of_pods(name, _where(MANAGED_LABEL, "In", "true"), _where(PRIORITY_LABEL, "NotIn", *priorities))]


def _given(priority: str, config: Config) -> _Given:
    """Return the class that a priority stands for."""
    if priority == BY_SIZE:
        small, large = _of_class(SMALL_CLASS, config), _of_class(LARGE_CLASS, config)
        return _Given(*(f"({_OF_A_SMALL_JOB} ? {one} : {other})" for one, other in ((small.name, large.name), (small.value, large.value))))
    return _of_class(_class_of(priority), config)


def _class_of(priority: str) -> str:
    return {HARD: class_name("hard"), SOFT: class_name("soft"), LARGE: LARGE_CLASS}[priority]


def _of_class(name: str, config: Config) -> _Given:
    return _Given(_text(name), str(class_values(config)[name]))


def _size_policy(config: Config) -> list[Manifest]:
    """Write the size of each Job into it and into its pod template; also in updates, since a suspended Job's template can be edited.

    In a namespace with several queues also those of further queues, whose pods fall to the default queue if theirs is deleted. The
    threshold comes from the namespace quota, which the API server need not copy as it would a queue. The policy is called once: it
    depends on nothing that another policy changes, and each call costs an encoding and a decoding of the Job.
    """
    name = _name("size", config)
    policy = _policy(name, [SIZED_JOBS], label_patches(), [{"name": "new-or-relabelled", "expression": IS_NEW_OR_RELABELLED}])
    policy["spec"]["reinvocationPolicy"] = "Never"
    note = f"params.metadata.?annotations[?'{SMALL_UP_TO_ANNOTATION}']"
    pairs = f"{note}.optMap(text, text.split(',').map(pair, pair.split('='))).orValue([])"
    policy["spec"]["variables"] = size_variables(f"{pairs}.transformMapEntry(i, pair, {{pair[0]: pair[1]}})")
    policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "ResourceQuota"}
    binding = _binding(name, config, _in_pool(config), _where(PRIORITY_LABEL, "In", BY_SIZE, BY_QUEUE[BY_SIZE]))
    binding["spec"]["paramRef"] = {"name": QUOTA_NAME, "parameterNotFoundAction": "Allow"}
    return [policy, binding]


def _no_size_policy(config: Config) -> list[Manifest]:
    """Remove sizes from new Jobs where no queue sizes them: a queue that comes later would otherwise believe the Job's own label."""
    name = _name("no-size", config)
    policy = _policy(name, [NEW_JOBS], unlabel_patches(), [{"name": "labelled", "expression": IS_LABELLED}])
    return [policy, _binding(name, config, _where(PRIORITY_LABEL, "NotIn", BY_SIZE, BY_QUEUE[BY_SIZE]))]


def _hold_policy(config: Config) -> list[Manifest]:
    """Suspend new Jobs and JobSets of queues in Suspend mode and annotate them as held, also those that their users have suspended.

    Where further queues have lanes, the queue is the one that the pods ask for, those of a JobSet's first part.
    """
    name, key = _name("hold", config), _text(HELD_ANNOTATION)
    note = (
        "has(object.metadata.annotations) ? "
        f"JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey({key}), value: 'true'}} : "
        f"JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{{key}: 'true'}}}}"
    )
    held = f"object.spec.?suspend.orValue(false) && object.metadata.?annotations[?{key}].orValue('') == 'true'"
    conditions = [*_STARTED_BY_FAIRBURST, {"name": "not-held", "expression": f"!({held})"}]
    patches = f"[JSONPatch{{op: 'add', path: '/spec/suspend', value: true}}, {note}]"
    pool, by_queue = _in_pool(config), _name("hold-by-queue", config)
    several = _policy(by_queue, HELD_JOBS, f"variables.held == 'Jobs' ? {patches} : []", conditions)
    several["spec"]["variables"] = _lane_variables(f"{_FIRST_TEMPLATE}.?metadata.?labels[?'{QUEUE_LABEL}'].orValue('')")
    return [
        _policy(name, HELD_JOBS, patches, conditions),
        _binding(name, config, pool, _where(HOLDS_LABEL, "In", "Jobs"), _where(PRIORITY_LABEL, "NotIn", *BY_QUEUE.values())),
        several,
        _binding(by_queue, config, pool, _where(PRIORITY_LABEL, "In", *BY_QUEUE.values())),
    ]


def _disruption_policy(config: Config) -> list[Manifest]:
    """Keep evictions from counting as failures of new Jobs that say nothing about failures themselves.

    Kubernetes accepts such a rule only with restartPolicy Never, and only if pods are replaced once they have failed.
    """
    name = _name("disruption", config)
    pattern = f"Object.spec.podFailurePolicy.rules.onPodConditions{{type: '{DISRUPTION}', status: 'True'}}"
    rule = f"Object.spec.podFailurePolicy.rules{{action: 'Ignore', onPodConditions: [{pattern}]}}"
    expression = (
        "[JSONPatch{op: 'add', path: '/spec/podReplacementPolicy', value: 'Failed'}, "
        f"JSONPatch{{op: 'add', path: '/spec/podFailurePolicy', value: Object.spec.podFailurePolicy{{rules: [{rule}]}}}}]"
    )
    condition = "!has(object.spec.podFailurePolicy) && object.spec.template.spec.?restartPolicy.orValue('') == 'Never'"
    conditions = [{"name": "has-no-rule", "expression": condition}, _NOT_MANAGED_ELSEWHERE]
    return [_policy(name, [NEW_JOBS], expression, conditions), _binding(name, config)]


def _name(what: str, config: Config) -> str:
    return f"fairburst-{what}.{config.pool.name}"


def _policy(name: str, rules: Sequence[Manifest], expression: str, conditions: Sequence[Mapping[str, str]]) -> Manifest:
    return {
        "apiVersion": POLICY_API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Ignore",  # the quota still holds a pod that has no priority; a refused one is lost
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": list(rules)},
            "matchConditions": [dict(condition) for condition in conditions],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    }


def _pod_policy(name: str, config: Config, expression: str, condition: str | None = None) -> Manifest:
    """Return a policy for new pods of queues that fulfil `condition`. It is one expression: the API server evaluates each of several."""
    concerned = " && ".join(part for part in (outside_system(config), _ORDINARY, condition) if part is not None)
    return _policy(name, [PRIORITIZED_PODS], expression, [{"name": "concerned", "expression": concerned}])


def _of_pods(name: str, *where: Manifest) -> Manifest:
    """Bind a policy for pods to the namespaces whose labels fulfil `where`. One of these labels is written with `managed`."""
    return _bound(name, {"matchExpressions": [*where]})


def _binding(name: str, config: Config, *where: Manifest) -> Manifest:
    """Bind a policy to the managed namespaces whose labels fulfil `where`."""
    return _bound(name, managed_namespaces(config, *where))


def _bound(name: str, selector: Manifest) -> Manifest:
    return {
        "apiVersion": POLICY_API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "matchResources": {"namespaceSelector": selector}},
    }


def _in_pool(config: Config) -> Manifest:
    return _where(POOL_LABEL, "In", config.pool.name)


def _where(label: str, operator: str, *values: str) -> Manifest:
    """Return one requirement of a namespaceSelector; NotIn also selects namespaces without the label."""
    return {"key": label, "operator": operator, "values": [*values]}


def _class_patches(given: _Given) -> str:
    """Return CEL that sets class, value and preemption policy together: the Priority plugin has run before and does not run again."""
    return (
        f'[JSONPatch{{op: "add", path: "/spec/priority", value: {given.value}}}, '
        f'JSONPatch{{op: "add", path: "/spec/preemptionPolicy", value: "Never"}}, '
        f'JSONPatch{{op: "add", path: "/spec/priorityClassName", value: {given.name}}}]'
    )


def _has_class(given: _Given) -> str:
    """Return CEL for whether the pod has the class with its value and preemption policy."""
    return (
        f"object.spec.?priorityClassName.orValue('') == {given.name} && object.spec.?priority.orValue(0) == {given.value} && "
        "object.spec.?preemptionPolicy.orValue('') == 'Never'"
    )


def _has_node_selector(selector: dict[str, str]) -> str:
    """Return CEL, to be added to a condition, for whether the pod selects the pool's nodes."""
    labels = ", ".join(f"{_text(key)}: {_text(value)}" for key, value in sorted(selector.items()))
    mine = "object.spec.?nodeSelector.orValue({})"
    return f" && {{{labels}}}.all(key, key in {mine} && {mine}[key] == {{{labels}}}[key])" if selector else ""


def _node_selector_patches(selector: dict[str, str]) -> str:
    if not selector:
        return ""
    whole = ", ".join(f"{_text(key)}: {_text(value)}" for key, value in sorted(selector.items()))
    single = ", ".join(
        f'JSONPatch{{op: "add", path: "/spec/nodeSelector/" + jsonpatch.escapeKey({_text(key)}), value: {_text(value)}}}'
        for key, value in sorted(selector.items())
    )
    return f' + (has(object.spec.nodeSelector) ? [{single}] : [JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {{{whole}}}}}])'


def _text(value: str) -> str:
    """Return a CEL string literal. JSON's string literals are valid CEL."""
    return json.dumps(value)
