"""The MutatingWebhookConfiguration: the scope and the objects of the mutating policies, for clusters without such policies."""

from __future__ import annotations

from fairburst.config import Config
from fairburst.kube.install.mutating_policies import NEW_JOB_SETS, NEW_JOBS, PRIORITIZED_PODS, SIZED_JOBS
from fairburst.kube.install.scope import POLICY_API, Manifest, managed_namespaces
from fairburst.kube.jobs.job_size import IS_LABELLED
from fairburst.kube.names import HOLDS_LABEL, PRIORITY_CLASS_PREFIX

# Such an object would keep a place among the queues that its tenant has chosen: a class, with its quota, or the size of a Job.
_NAMES_A_CLASS = f"object.spec.?priorityClassName.orValue('').startsWith('{PRIORITY_CLASS_PREFIX}')"
CLAIMS = f"request.resource.resource == 'pods' ? {_NAMES_A_CLASS} : ({IS_LABELLED})"
TIMEOUT_SECONDS = 2  # an answer takes milliseconds; a longer wait means that the network is down


def mutating_webhook(config: Config, client: Manifest) -> Manifest:
    """Return the webhook. `client`: a clientConfig, the address for the API server.

    The quota still counts a pod that the webhook missed, so creations need not wait for an operator that is away. In a namespace whose pods
    are held by a gate, a pod without the gate would run; there creations fail instead. So do those of pods that name a class of ours, such
    as that of a further queue whose quota has no limits, and of Jobs that name a size. Only creations fail: tenant_rules.py refuses a
    later change of size.
    """
    claims = [{"name": "claims", "expression": CLAIMS}]
    webhooks = [  # in this order: once `priority` has set a class, each pod names one
        _webhook("claim", "Fail", [PRIORITIZED_PODS, NEW_JOBS], "NotIn", config, client) | {"matchConditions": claims},
        _webhook("priority", "Ignore", [PRIORITIZED_PODS, SIZED_JOBS, NEW_JOB_SETS], "NotIn", config, client),
        _webhook("hold", "Fail", [PRIORITIZED_PODS, NEW_JOBS], "In", config, client),
    ]
    return {
        "apiVersion": POLICY_API,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"fairburst-priority.{config.pool.name}"},
        "webhooks": webhooks,
    }


def _webhook(name: str, failure_policy: str, rules: list[Manifest], gated: str, config: Config, client: Manifest) -> Manifest:
    """Return one webhook. `gated`: whether it is for namespaces whose pods are held ("In") or for the others ("NotIn")."""
    where = {"key": HOLDS_LABEL, "operator": gated, "values": ["Pods"]}
    selector = managed_namespaces(config)
    return {
        "name": f"{name}.{config.pool.name}.fairburst.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": failure_policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": selector | {"matchExpressions": [*selector["matchExpressions"], where]},
        "reinvocationPolicy": "IfNeeded",
        "rules": [{**rule, "scope": "Namespaced"} for rule in rules],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
