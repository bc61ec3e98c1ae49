"""The MutatingWebhookConfiguration: the same scope and the same objects as the stamping policies, for clusters that have none."""

from __future__ import annotations

from fairburst.config import Config
from fairburst.kube.install.manifests import NEW_JOB_SETS, NEW_JOBS, STAMPED_JOBS, STAMPED_PODS
from fairburst.kube.install.scope import POLICY_API, Manifest, managed_namespaces
from fairburst.kube.names import HOLDS_LABEL

TIMEOUT_SECONDS = 2  # an answer is ready within milliseconds: what takes longer is a network that is down


def mutating_webhook(config: Config, client: Manifest) -> Manifest:
    """`client`: where the API server finds it, a clientConfig.

    A pod that is not stamped is still held by the quota, so nobody waits for an operator that is away. Where a gate is what holds a
    namespace, a pod that missed it would run: there creations fail instead (and only they: a size that is changed later is refused by
    tenant_rules.py).
    """
    webhooks = [
        _webhook(
            "stamp", "Ignore", [STAMPED_PODS, STAMPED_JOBS, NEW_JOB_SETS], {"key": HOLDS_LABEL, "operator": "DoesNotExist"}, config, client
        ),
        _webhook("hold", "Fail", [STAMPED_PODS, NEW_JOBS], {"key": HOLDS_LABEL, "operator": "Exists"}, config, client),
    ]
    return {
        "apiVersion": POLICY_API,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"fairburst-stamp.{config.pool.name}"},
        "webhooks": webhooks,
    }


def _webhook(name: str, failure_policy: str, rules: list[Manifest], where: Manifest, config: Config, client: Manifest) -> Manifest:
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
