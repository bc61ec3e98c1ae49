"""Check that an installation is complete and works: definitions, policies, rights, the operator's Lease, and the admission of a pod.

The checks only read, and ask the API server to admit a pod without storing it (dry run).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairburst.config import Config, usual_lease_name
from fairburst.kube.api.client import ApiClient, JsonObject
from fairburst.kube.api.errors import ApiError, Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from fairburst.kube.install.crd import all_crds
from fairburst.kube.install.manifests import priority_classes
from fairburst.kube.install.mutating_policies import policies
from fairburst.kube.install.tenant_rules import tenant_policies
from fairburst.kube.modes.registry import mode_of
from fairburst.kube.names import GROUP
from fairburst.kube.queues.listing import Queues, is_decided, read_queues
from fairburst.kube.queues.queue_set import ObjectKey, pool_name

OLDEST_MINOR = 30
LARGEST_CLOCK_DIFFERENCE_SECONDS = 5.0
APPLY = "fairburst manifests | kubectl apply --server-side -f -   (or: helm upgrade, where Helm installed it)"
_COLLECTIONS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "PriorityClass": "priorityclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
# Rights that the commands need: verb, group, resource. The operator's own rights are checked by its readiness.
_NEEDED = (
    ("list", GROUP, "latencyqueues"), ("list", GROUP, "throughputqueues"), ("list", "", "pods"), ("list", "", "nodes"),
    ("list", "", "namespaces"), ("list", "", "resourcequotas"), ("list", "", "limitranges"), ("list", "batch", "jobs"),
    ("list", "apps", "deployments"), ("list", "apps", "replicasets"), ("list", "apps", "statefulsets"), ("list", "", "events"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. `ok`: None if the check could not be made. `mend`: a command or an instruction; empty if none is needed."""

    check: str
    ok: bool | None
    message: str
    mend: str = ""


Check = Callable[[ApiClient, Config], Awaitable[Finding]]


async def check_installation(client: ApiClient, config: Config) -> list[Finding]:
    """Make every check. Raises ApiError only if the API server does not answer at all, or does not know the user."""
    version = await _version(client)
    checks: list[Callable[[ApiClient, Config], Awaitable[Finding]]] = [
        _rights,
        _definitions,
        _classes,
        _policies,
        _lease,
        _queues,
        _pools,
        _tried_pod,
    ]
    return [version, *await asyncio.gather(*(_contained(check, client, config) for check in checks))]


async def _contained(check: Check, client: ApiClient, config: Config) -> Finding:
    name = str(getattr(check, "__name__", "")).strip("_").replace("_", " ")
    try:
        return await check(client, config)
    except Forbidden as error:
        if error.unknown_user:
            raise
        return Finding(name, None, f"this user may not look: {error.message}", "ask again as a user with more rights")
    except NotFound as error:
        return Finding(name, False, f"not installed: {error.message}", APPLY)
    except (Unavailable, Unauthorized):
        raise
    except ApiError as error:
        return Finding(name, False, f"the API server fails: {error}", "look at what the message names, often a webhook")


async def _version(client: ApiClient) -> Finding:
    try:
        found = await client.get_json("/version")
    except (Forbidden, NotFound) as error:
        if error.unknown_user:
            raise
        return Finding("version", None, f"the API server does not report its version: {error.message}", "ask again as another user")
    minor = int(re.sub(r"\D.*", "", str(found.get("minor", "0"))) or 0)
    message = f"Kubernetes {found.get('gitVersion', 'unknown')}"
    if int(re.sub(r"\D.*", "", str(found.get("major", "1"))) or 1) == 1 and minor < OLDEST_MINOR:
        return Finding("version", False, f"{message}; expected 1.{OLDEST_MINOR} or newer", "upgrade the cluster")
    return Finding("version", True, message)


async def _rights(client: ApiClient, _: Config) -> Finding:
    """Ask by SelfSubjectAccessReview, which every user may create."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    async def may(verb: str, group: str, resource: str) -> bool:
        body = {"spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}}}
        review = await client.create(path, {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", **body})
        return bool((review.get("status") or {}).get("allowed"))

    allowed = await asyncio.gather(*(may(*one) for one in _NEEDED))
    missing = [f"{verb} {resource}" for (verb, _, resource), yes in zip(_NEEDED, allowed, strict=True) if not yes]
    if missing:
        message = f"this user may not {', '.join(missing)} in all namespaces: `explain` and `plan` then know less"
        return Finding("rights", None, message, "ask for a role that may list these, such as the cluster role `view` with nodes")
    return Finding("rights", True, "this user may read all that commands look at")


async def _definitions(client: ApiClient, _: Config) -> Finding:
    return await _compared(client, "definitions", all_crds().values(), "the queue kinds")


async def _classes(client: ApiClient, config: Config) -> Finding:
    return await _compared(client, "classes", priority_classes(config), "the priority classes")


async def _policies(client: ApiClient, config: Config) -> Finding:
    try:
        priorities = [] if config.webhook.enabled else policies(config)
        return await _compared(client, "policies", [*priorities, *tenant_policies(config)], "the admission policies")
    except NotFound as error:
        return Finding(
            "policies", False, f"the cluster does not serve them: {error.message}", "use the webhook (webhook.mode of the chart)"
        )


async def _compared(client: ApiClient, name: str, wanted: Iterable[Mapping[str, Any]], what: str) -> Finding:
    """Compare stored objects with those that this version would install. Further stored fields are the API server's defaults."""
    missing, different = [], []
    for manifest in wanted:
        called = manifest["metadata"]["name"]
        path = f"/apis/{manifest['apiVersion']}/{_COLLECTIONS[manifest['kind']]}/{called}"
        try:
            found = await client.get_json(path)
        except NotFound:
            missing.append(called)
            continue
        part = {key: value for key, value in manifest.items() if key not in {"apiVersion", "kind", "metadata"}}
        if (where := difference(part, found)) is not None:
            different.append(f"{called} ({where})")
    if missing:
        return Finding(name, False, f"{what}: {', '.join(dict.fromkeys(missing))} missing", APPLY)  # a binding is called as its policy
    if different:
        return Finding(name, False, f"{what} are not those of this version: {', '.join(different)}", APPLY)
    return Finding(name, True, f"{what} are those of this version")


def difference(wanted: Any, found: Any, path: str = "") -> str | None:
    """Return the path of the first part of `wanted` that `found` lacks or has with another value; None if it has all of it."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return path
        parts = ((f"{path}.{key}".lstrip("."), value, found.get(key)) for key, value in wanted.items())
    elif isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return path
        parts = ((f"{path}[{at}]", one, other) for at, (one, other) in enumerate(zip(wanted, found, strict=True)))
    else:
        is_empty = not wanted and found is None  # the API server leaves out false, 0 and ""
        return None if wanted == found or is_empty else path
    for where, one, other in parts:
        if (deeper := difference(one, other, where)) is not None and not (one in ({}, []) and other is None):
            return deeper
    return None


async def _lease(client: ApiClient, config: Config) -> Finding:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases/{config.lease_name}"
    look = f"kubectl -n {config.namespace} get pods,leases; kubectl -n {config.namespace} logs deployment/fairburst"
    if not config.leader_election.enabled:
        return Finding("lease", None, "leader election is off, so there is no Lease to look at", look)
    try:
        spec = (await client.get_json(path)).get("spec") or {}
    except NotFound:
        missing = f"no Lease {config.namespace}/{config.lease_name}: no operator leads, and none has since the last uninstall"
        return Finding("lease", False, missing, look)
    if problem := _without_leader(spec, "the Lease"):
        return Finding("lease", False, problem, look)
    return Finding("lease", True, f"{spec['holderIdentity']} renewed it {max(0.0, _age(spec)):.0f} s ago")


def _age(spec: Mapping[str, Any]) -> float:
    """Return the seconds since a Lease was renewed."""
    return time.time() - datetime.fromisoformat(spec["renewTime"]).timestamp()


def _without_leader(spec: Mapping[str, Any], lease: str) -> str:
    """Return why the holder of a Lease does not lead; empty if it does. `lease`: what the sentence calls it."""
    if not spec.get("holderIdentity"):
        return f"{lease} has no holder: no operator runs"
    if (age := _age(spec)) > float(spec.get("leaseDurationSeconds") or 15):
        return f"{spec['holderIdentity']} renewed {lease} {age:.0f} s ago: the operator hangs or is gone"
    return ""


async def _queues(client: ApiClient, config: Config) -> Finding:
    """Report the queues that no operator has decided on since they changed."""
    mine = _of_pool(await read_queues(client), config)
    late = [f"{key[1]}/{key[2]}" for key, obj in mine.items() if not is_decided(obj)]
    if late:
        look = f"kubectl -n {config.namespace} logs deployment/fairburst"
        return Finding("queues", False, f"{len(late)} of {len(mine)} queues have no decision on their present spec: {_shown(late)}", look)
    return Finding("queues", True, f"{len(mine)} queues in pool {config.pool.name}, all decided on")


def _of_pool(queues: Queues, config: Config) -> Queues:
    return {key: obj for key, obj in queues.items() if pool_name(obj) == config.pool.name}


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


async def _pools(client: ApiClient, config: Config) -> Finding:
    """Report the queues that name a pool for which no operator runs: nothing limits or promises their work."""
    queues, pool = await read_queues(client), config.pool.name
    named = dict[str, Queues]()
    for key, obj in queues.items():
        if (other := pool_name(obj)) != pool:
            named[other] = {**named.get(other, {}), key: obj}
    absences = [(other, *await _without_operator(client, other, named[other])) for other in sorted(named)]
    found = sorted((one for one in absences if one[2]), key=lambda one: not one[1])  # the advice is on the first, which is sure if any is
    if not found:
        return Finding("pools", True, f"each pool that a queue names has an operator: {', '.join([pool, *sorted(named)])}")
    message = "; ".join(f"pool {other} ({_shown([f'{one[1]}/{one[2]}' for one in named[other]])}): {why}" for other, _, why in found)
    ok = False if any(is_sure for _, is_sure, _ in found) else None
    return Finding("pools", ok, message, _mend_pool(next(iter(named[found[0][0]])), found[0][0], pool))


async def _without_operator(client: ApiClient, pool: str, named: Queues) -> tuple[bool, str]:
    """Return whether it is sure that no operator of the pool runs, and why one may be missing; empty if one runs.

    An operator can have a Lease of another name, or none. Then only a queue without a decision shows that it is missing.
    """
    name = usual_lease_name(pool)
    try:
        leases = (await client.get_json("/apis/coordination.k8s.io/v1/leases", {"fieldSelector": f"metadata.name={name}"}))["items"]
        unknown = f"no Lease has the name {name}, so it is not known whether its operator runs"
    except Forbidden as error:
        if error.unknown_user:
            raise
        leases, unknown = [], "its Lease may not be read, so it is not known whether its operator runs"
    problems = [_without_leader(one.get("spec") or {}, f"Lease {one['metadata']['namespace']}/{name}") for one in leases]
    if problems:
        return True, "" if "" in problems else problems[0]
    if not all(map(is_decided, named.values())):
        return True, "no operator has decided on them"
    return False, unknown


def _mend_pool(key: ObjectKey, pool: str, ours: str) -> str:
    """Return what gives a queue an operator: another pool, for which the queue is created again, or an operator of its pool."""
    kind, namespace, name = key
    return (
        f"if the name is wrong, create the queue again, because its pool cannot change: kubectl get {kind.lower()} {name} -n {namespace} "
        f"-o yaml > queue.yaml; set `pool: {ours}` in its spec; kubectl replace --force -f queue.yaml. If it is right, start the pool's "
        f"operator: helm install fairburst-{pool} charts/fairburst -n fairburst-{pool} --create-namespace --set crds.install=false "
        f"--set priorityClasses.install=false --set config.pool.name={pool}"
    )


async def _tried_pod(client: ApiClient, config: Config) -> Finding:
    """Have the API server admit a pod in a queue's namespace without storing it: its priority shows whether policies are in force."""
    governed = [
        (key[1], (obj.get("status") or {}).get("podPriority", {}).get("className"))
        for key, obj in _of_pool(await read_queues(client), config).items()
        if (obj.get("status") or {}).get("podPriority") and mode_of(obj.get("spec")).enforced
    ]
    if not governed:
        return Finding("tried pod", None, "no queue has a namespace in which a pod could be tried", "create a queue")
    namespace, wanted = governed[0]
    try:
        made = await client.create(f"/api/v1/namespaces/{namespace}/pods", _pod(), {"dryRun": "All"})
    except (Forbidden, Invalid) as error:
        if "exceeded quota" in error.message:
            return Finding("tried pod", True, f"a pod in {namespace} was refused by its quota, which is in force")
        return Finding("tried pod", None, f"a pod in {namespace} was refused: {error.message}", "try as a user who may create pods there")
    found = (made.get("spec") or {}).get("priorityClassName")
    created = (made.get("metadata") or {}).get("creationTimestamp")
    if found != wanted:
        message = f"a pod in {namespace} would get the priority class {found}, expected {wanted}: the policies are not in force"
        return Finding("tried pod", False, message, APPLY)
    apart = 0.0 if created is None else abs(time.time() - datetime.fromisoformat(created).timestamp())
    if apart > LARGEST_CLOCK_DIFFERENCE_SECONDS:
        message = f"the API server's clock and this one are {apart:.0f} s apart"
        return Finding("clock", False, message, "set the clocks by NTP: windows and deadlines are read from them")
    return Finding("tried pod", True, f"a pod in {namespace} would get {wanted}; the clocks agree to {max(1.0, apart):.0f} s")


def _pod() -> JsonObject:
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "tried",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": restricted,
    }
    user = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "fairburst-doctor-"},
        "spec": {"containers": [container], "securityContext": user, "automountServiceAccountToken": False},
    }
