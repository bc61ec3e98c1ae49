"""`fairburst import kueue`: translates ClusterQueues and LocalQueues to our queues, and reports what is lost.

A namespace with LocalQueues becomes one ThroughputQueue. Its weight is its LocalQueues' part of the ClusterQueues' nominal quotas, because
Kueue's administrators divide the cluster by nominal quotas.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from fairburst.cli.arguments import readable
from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError
from fairburst.kube.names import USERS_API_VERSION

imports = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Translate the queues of other systems.")
LARGEST_WEIGHT = 1000  # weights are whole numbers; finer parts than a thousandth have no meaning
KINDS = frozenset({"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass", "AdmissionCheck", "Topology"})
# The parts that the translation goes through. A text cannot be missing.
SHAPE: dict[str, Any] = {
    "metadata": {},
    "spec": {"resourceGroups": [{"flavors": [{"resources": [{"name": ""}]}]}], "preemption": {}, "fairSharing": {}},
}
Object = Mapping[str, Any]


@dataclass(slots=True)
class Translated:
    """Manifests to apply, and a sentence for each property that they lack."""

    queues: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


@imports.callback()
def _group() -> None:
    """Translate the queues of other systems."""


@imports.command()
def kueue(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Of `kubectl get clusterqueues,localqueues -A -o yaml`.")],
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="The pool of the new queues.")] = "default",
) -> None:
    """Print ThroughputQueues for Kueue's ClusterQueues and LocalQueues; standard error names the settings that have no counterpart."""
    import yaml  # noqa: PLC0415  keeps `fairburst --help` quick

    translated = translate([one for file in files for one in _objects(file)], pool)
    sys.stdout.write(yaml.safe_dump_all(translated.queues, sort_keys=False, explicit_start=True))
    sys.stderr.writelines(f"lost: {line}\n" for line in translated.lost)


def _objects(file: Path) -> Sequence[Object]:
    from fairburst.cli.yaml_objects import read_objects  # noqa: PLC0415

    readable(file)
    found = [one for one in read_objects(file) if isinstance(one.get("kind"), str) and one["kind"] in KINDS]
    if not found:
        raise CommandError(f"{file}: expected a ClusterQueue or a LocalQueue of Kueue, found none", WRONG_ARGUMENTS)
    for one in found:
        for name in ("metadata", "spec"):
            if (path := _misplaced(one.get(name), SHAPE[name], name)) is not None:
                raise CommandError(f"{file}: {one['kind']}: {path}: expected it as `kubectl get -o yaml` prints it", WRONG_ARGUMENTS)
    return found


def _misplaced(value: Any, shape: Any, path: str) -> str | None:
    """Return the path of the first part that has not the form that `shape` has there; None if all have. Most parts may be missing."""
    if value is None and not isinstance(shape, str):
        return None
    if not isinstance(value, type(shape)):
        return path
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(shape, dict):
        parts = [(value.get(name), inner, f"{path}.{name}") for name, inner in shape.items()]
    elif isinstance(shape, list):
        parts = [(item, shape[0], f"{path}[{at}]") for at, item in enumerate(value)]
    return next((found for part in parts if (found := _misplaced(*part)) is not None), None)


def translate(objects: Iterable[Object], pool: str = "default") -> Translated:
    """Return one ThroughputQueue for each namespace with LocalQueues."""
    by_kind: dict[str, list[Object]] = {}
    for obj in objects:
        by_kind.setdefault(str(obj.get("kind")), []).append(obj)
    clusters = {_name(one): one for one in by_kind.get("ClusterQueue", [])}
    locals_of: dict[str, list[Object]] = {}
    for one in by_kind.get("LocalQueue", []):
        locals_of.setdefault((one.get("metadata") or {}).get("namespace") or "default", []).append(one)
    found = Translated()
    parts = _parts(clusters, locals_of, found)
    weights = _whole(parts)
    for namespace, queues in sorted(locals_of.items()):
        if namespace in weights:
            found.queues.append(_queue(namespace, queues, clusters, weights[namespace], pool, found))
    _report_lost(clusters, by_kind, found)
    return found


def _parts(clusters: Mapping[str, Object], locals_of: Mapping[str, Sequence[Object]], found: Translated) -> dict[str, Fraction]:
    """Return each namespace's dominant part of all nominal quotas. A ClusterQueue's quota is divided equally among its LocalQueues."""
    nominal = {name: _quantities(one, "nominalQuota") for name, one in clusters.items()}
    total: dict[str, Fraction] = {}
    for amounts in nominal.values():
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    users: dict[str, int] = {}
    for queues in locals_of.values():
        for one in queues:
            users[_cluster_of(one)] = users.get(_cluster_of(one), 0) + 1
    parts: dict[str, Fraction] = {}
    for namespace, queues in locals_of.items():
        for one in queues:
            name = _cluster_of(one)
            if name not in clusters:
                found.lost.append(f"LocalQueue {namespace}/{_name(one)}: its ClusterQueue {name} is not among the manifests")
                continue
            share = max((amount / total[resource] for resource, amount in nominal[name].items() if total[resource]), default=Fraction(0))
            parts[namespace] = parts.get(namespace, Fraction(0)) + share / users[name]
    for name in clusters.keys() - users.keys():
        found.lost.append(f"ClusterQueue {name}: no LocalQueue uses it, so no namespace gets its part")
    for name, count in users.items():
        if count > 1 and name in clusters:
            found.lost.append(f"ClusterQueue {name}: {count} LocalQueues share it; its part is divided among their namespaces alike")
    return parts


def _whole(parts: Mapping[str, Fraction]) -> dict[str, int]:
    """Return the smallest whole weights in the ratio of the parts."""
    if not parts:
        return {}
    least = min((part for part in parts.values() if part), default=Fraction(1))
    scaled = {name: part / least for name, part in parts.items()}
    common = math.lcm(*(part.denominator for part in scaled.values()))
    if max(scaled.values()) * common <= LARGEST_WEIGHT:
        return {name: max(1, int(part * common)) for name, part in scaled.items()}
    largest = max(parts.values())
    return {name: max(1, round(part / largest * LARGEST_WEIGHT)) for name, part in parts.items()}


def _queue(
    namespace: str, queues: Sequence[Object], clusters: Mapping[str, Object], weight: int, pool: str, found: Translated
) -> dict[str, Any]:
    names = sorted({_cluster_of(one) for one in queues} & clusters.keys())
    if len(queues) > 1:
        more = "more ThroughputQueues there would keep their work apart, by the pods' label fairburst.dev/queue"
        found.lost.append(f"namespace {namespace}: {len(queues)} LocalQueues become one queue; {more}")
    spec: dict[str, Any] = {"pool": pool, "weight": weight}
    if limits := _limits([clusters[name] for name in names]):
        spec["limits"] = limits
    stopped = [one for one in (*queues, *(clusters[name] for name in names)) if (one.get("spec") or {}).get("stopPolicy", "None") != "None"]
    if stopped:
        spec["suspended"] = True
    return {
        "apiVersion": USERS_API_VERSION,
        "kind": "ThroughputQueue",
        "metadata": {"name": _name(queues[0]), "namespace": namespace},
        "spec": spec,
    }


def _limits(clusters: Sequence[Object]) -> dict[str, str]:
    """Return nominal quota plus borrowing limit, summed over the ClusterQueues, of resources that none may borrow without limit."""
    from fairburst.quantity import format_quantity  # noqa: PLC0415

    most: dict[str, Fraction | None] = {}
    for one in clusters:
        nominal, borrowed = _quantities(one, "nominalQuota"), _quantities(one, "borrowingLimit")
        for resource, amount in nominal.items():
            may = borrowed.get(resource) if _cohort(one) else Fraction(0)
            before = most.get(resource, Fraction(0))
            most[resource] = None if may is None or before is None else before + amount + may
    return {resource: format_quantity(resource, float(amount)) for resource, amount in sorted(most.items()) if amount}


def _quantities(cluster: Object, name: str) -> dict[str, Fraction]:
    """Return one kind of quota by resource, summed over all flavors; a borrowing limit only if every flavor has one."""
    from fairburst.quantity import QuantityError, parse_exact  # noqa: PLC0415

    found: dict[str, Fraction] = {}
    without: set[str] = set()
    for group in (cluster.get("spec") or {}).get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for one in flavor.get("resources") or []:
                if one.get(name) is None:
                    without.add(one["name"])
                    continue
                try:
                    found[one["name"]] = found.get(one["name"], Fraction(0)) + parse_exact(one[name])
                except QuantityError as error:
                    raise CommandError(f"ClusterQueue {_name(cluster)}: {name} of {one['name']}: {error}", WRONG_ARGUMENTS) from error
    return {resource: amount for resource, amount in found.items() if resource not in without}


def _report_lost(clusters: Mapping[str, Object], by_kind: Mapping[str, Sequence[Object]], found: Translated) -> None:
    """Add a sentence for each property that our queues can't express."""
    for name, one in sorted(clusters.items()):
        spec = one.get("spec") or {}
        flavors = max((len(group.get("flavors") or []) for group in spec.get("resourceGroups") or []), default=0)
        if flavors > 1:
            found.lost.append(f"ClusterQueue {name}: {flavors} flavors count together; use one pool for each kind of node instead")
        if spec.get("queueingStrategy") == "StrictFIFO":
            found.lost.append(f"ClusterQueue {name}: StrictFIFO; `enforcement: Suspend` starts whole Jobs in order, by queue")
        if spec.get("admissionChecks") or spec.get("admissionChecksStrategy"):
            found.lost.append(f"ClusterQueue {name}: admission checks have no counterpart")
        if _quantities(one, "lendingLimit"):
            found.lost.append(f"ClusterQueue {name}: lendingLimit; a queue lends all that it does not use")
        if (spec.get("preemption") or {}).get("withinClusterQueue", "Never") != "Never":
            found.lost.append(f"ClusterQueue {name}: priorities within a queue; all pods of a queue have one priority here")
        if (spec.get("preemption") or {}).get("reclaimWithinCohort", "Never") != "Never":
            found.lost.append(f"ClusterQueue {name}: reclaimWithinCohort; `reclaim: Evict` takes back a fair share after the grace time")
        weight = (spec.get("fairSharing") or {}).get("weight")
        if weight is not None and str(weight) != "1":
            found.lost.append(f"ClusterQueue {name}: fairSharing.weight {weight} orders borrowers; our weight is the whole share")
    if clusters:
        found.lost.append("nominal quotas as guarantees: a weight is a part of the pool, and shrinks as queues are added")
    if len({_cohort(one) for one in clusters.values()}) > 1:
        found.lost.append("cohorts: in one pool all queues lend to each other; use a pool for each cohort to keep them apart")
    for kind in ("Cohort", "WorkloadPriorityClass", "AdmissionCheck", "Topology"):
        if by_kind.get(kind):
            found.lost.append(f"{kind}: {', '.join(sorted(_name(one) for one in by_kind[kind]))}: no counterpart")


def _cohort(cluster: Object) -> str:
    spec = cluster.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _cluster_of(queue: Object) -> str:
    return str((queue.get("spec") or {}).get("clusterQueue", ""))


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))
