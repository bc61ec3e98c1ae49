"""ResourceQuota as Kubernetes enforces it: admission checks `status.used` against `status.hard`, and a slow controller corrects both."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fairburst.quantity import parse_exact
from tests.simulation.resources import PODS, QUOTAS, Object, Refused

if TYPE_CHECKING:
    from tests.simulation.api_server import ApiServer

ENDED = frozenset({"Succeeded", "Failed"})
Amounts = dict[str, Fraction]
_MOST_KNOWN = 5_000
_known: dict[int, tuple[Mapping[str, Any], Amounts]] = {}  # by the id of a pod's spec, which is kept so that no other object gets this id


@functools.lru_cache(maxsize=10_000)
def exact(text: str) -> Fraction:
    """Return the value of a quantity."""
    return Fraction(parse_exact(text))


def requests_of(pod: Mapping[str, Any]) -> Amounts:
    """Return a pod's requests: its containers' sum, or its largest init container, plus overhead. Stored specs never change."""
    spec = pod["spec"]
    known = _known.get(id(spec))
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[id(spec)] = spec, _requests(spec)
    return known[1]


def _requests(spec: Mapping[str, Any]) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, Fraction(0)) + exact(str(text))
    for container in spec.get("initContainers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = max(total.get(name, Fraction(0)), exact(str(text)))
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Fraction(0)) + exact(str(text))
    return total


def charged(pod: Mapping[str, Any], key: str) -> Fraction | None:
    """Return what a quota's key counts for a pod; None if the key does not count pods, or if the pod omits the request."""
    if key in {"pods", "count/pods"}:
        return Fraction(1)
    resource = key.removeprefix("requests.")
    return requests_of(pod).get(resource)


def matches(quota: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return True if the quota counts the pod, by its priority class."""
    name = pod["spec"].get("priorityClassName", "")
    for term in (quota["spec"].get("scopeSelector") or {}).get("matchExpressions") or ():
        listed = name in (term.get("values") or ())
        if (term["operator"] == "In") is not listed:
            return False
    return True


def charge(server: ApiServer, pod: Mapping[str, Any]) -> None:
    """Charge a new pod to every quota of its namespace that counts it. Raises Refused if a quota has no room."""
    changes = []
    for quota in server.of(QUOTAS, pod["metadata"]["namespace"]):
        hard = (quota.get("status") or {}).get("hard") or {}
        if not hard or not matches(quota, pod):
            continue
        used = dict((quota.get("status") or {}).get("used") or {})
        for key, limit in hard.items():
            amount = charged(pod, key)
            if amount is None:
                raise Refused(403, "Forbidden", f"failed quota: {quota['metadata']['name']}: must specify {key}")
            total = exact(str(used.get(key, "0"))) + amount
            if total > exact(str(limit)) and amount > 0:
                raise Refused(403, "Forbidden", f"exceeded quota: {quota['metadata']['name']}, requested: {key}={float(amount):g}")
            used[key] = text_of(total)
        changes.append((quota, used))
    for quota, used in changes:
        server.update(QUOTAS, quota, {"status": {"used": used}}, "admission")


def text_of(amount: Fraction) -> str:
    """Return an amount as a quantity."""
    return f"{int(amount)}" if amount.denominator == 1 else f"{int(amount * 1000)}m"


def recount(server: ApiServer, quota: Object) -> None:
    """Correct a quota's status as the quota controller does: copy spec.hard, and sum the pods."""
    hard = quota["spec"].get("hard") or {}
    pods = [pod for pod in server.of(PODS, quota["metadata"]["namespace"]) if not is_released(pod) and matches(quota, pod)]
    used = {key: text_of(sum((charged(pod, key) or Fraction(0) for pod in pods), Fraction(0))) for key in hard}
    status = quota.get("status") or {}
    if status.get("hard") == hard and status.get("used") == used:
        return
    gone = {part: dict.fromkeys(set(status.get(part) or {}) - set(hard)) for part in ("hard", "used")}
    server.update(QUOTAS, quota, {"status": {"hard": {**hard, **gone["hard"]}, "used": {**used, **gone["used"]}}}, "quota-controller")


def is_released(pod: Mapping[str, Any]) -> bool:
    """Return True if a pod has ended, so that quotas do not count it."""
    return (pod.get("status") or {}).get("phase") in ENDED
