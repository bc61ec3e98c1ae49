"""`fairburst import kueue`: translates ClusterQueues and LocalQueues to our queues, and reports what is lost.

A LocalQueue becomes a ThroughputQueue of its name. Its weight is its part of the ClusterQueues' nominal quotas, because Kueue's
administrators divide the cluster by nominal quotas.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from fairburst.cli.arguments import readable
from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError
from fairburst.kube.names import LANES, QUEUE_LABEL, STEP_LABEL, USERS_API_VERSION

imports = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Translate the queues of other systems.")
LARGEST_WEIGHT = 1000  # weights are whole numbers; finer parts than a thousandth have no meaning
MOST_QUEUES = 1 + len(LANES)  # of a namespace
KINDS = frozenset({"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass", "AdmissionCheck", "Topology"})
# The parts that the translation goes through. A text cannot be missing.
SHAPE: dict[str, Any] = {
    "metadata": {},
    "spec": {"resourceGroups": [{"flavors": [{"resources": [{"name": ""}]}]}], "preemption": {}, "fairSharing": {}},
}
Object = Mapping[str, Any]
Key = tuple[str, str]  # namespace and name of a queue


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

    found = [one for file in files for one in _objects(file)]
    if not found:
        named = ", ".join(map(str, files))
        raise CommandError(f"{named}: expected a ClusterQueue or a LocalQueue of Kueue, found none", WRONG_ARGUMENTS)
    translated = translate(found, pool)
    sys.stdout.write(yaml.safe_dump_all(translated.queues, sort_keys=False, explicit_start=True))
    sys.stderr.writelines(f"lost: {line}\n" for line in translated.lost)


def _objects(file: Path) -> Sequence[Object]:
    from fairburst.cli.yaml_objects import read_objects  # noqa: PLC0415

    readable(file)
    found = [one for one in read_objects(file) if isinstance(one.get("kind"), str) and one["kind"] in KINDS]
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
    """Return a ThroughputQueue for each LocalQueue, sorted by namespace and name."""
    by_kind: dict[str, list[Object]] = {}
    for obj in objects:
        by_kind.setdefault(str(obj.get("kind")), []).append(obj)
    clusters = {_name(one): one for one in by_kind.get("ClusterQueue", [])}
    locals_ = {(_namespace(one), _name(one)): one for one in by_kind.get("LocalQueue", [])}
    found = Translated()
    parts = _gathered(_parts(clusters, locals_, found), found)
    for key, weight in sorted(_whole(parts).items()):
        found.queues.append(_queue(key, locals_[key], clusters[_cluster_of(locals_[key])], weight, pool))
    _report_lost(clusters, by_kind, found)
    return found


def _parts(clusters: Mapping[str, Object], locals_: Mapping[Key, Object], found: Translated) -> dict[Key, Fraction]:
    """Return each LocalQueue's dominant part of all nominal quotas. A ClusterQueue's quota is divided equally among its LocalQueues."""
    nominal = {name: _quantities(one, "nominalQuota") for name, one in clusters.items()}
    total: dict[str, Fraction] = {}
    for amounts in nominal.values():
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    users = Counter(map(_cluster_of, locals_.values()))
    parts: dict[Key, Fraction] = {}
    for key, one in locals_.items():
        name = _cluster_of(one)
        if name not in clusters:
            found.lost.append(f"LocalQueue {'/'.join(key)}: its ClusterQueue {name} is not among the manifests")
            continue
        share = max((amount / total[resource] for resource, amount in nominal[name].items() if total[resource]), default=Fraction(0))
        parts[key] = share / users[name]
    for name in sorted(clusters.keys() - users.keys()):
        found.lost.append(f"ClusterQueue {name}: no LocalQueue uses it, so no namespace gets its part")
    for name, count in sorted(users.items()):
        if count > 1 and name in clusters:
            found.lost.append(f"ClusterQueue {name}: {count} LocalQueues share it; its part is divided among them alike")
    return parts


def _gathered(parts: Mapping[Key, Fraction], found: Translated) -> dict[Key, Fraction]:
    """Return the parts of the queues that a namespace can have. The first one by name, its default queue, gets those of the others."""
    gathered: dict[Key, Fraction] = {}
    for namespace, keys in itertools.groupby(sorted(parts), key=lambda key: key[0]):
        first, *further = keys
        kept, others = further[: MOST_QUEUES - 1], further[MOST_QUEUES - 1 :]
        gathered |= {key: parts[key] for key in (first, *kept)}
        gathered[first] += sum((parts[key] for key in others), Fraction(0))
        if kept:
            chosen = f"the label {QUEUE_LABEL} of a pod chooses one of its queues, in place of kueue.x-k8s.io/queue-name on a Job"
            found.lost.append(f"namespace {namespace}: {chosen}; pods without it are of {first[1]}")
        if others:
            names = ", ".join(name for _, name in others)
            found.lost.append(f"namespace {namespace}: at most {MOST_QUEUES} queues; {first[1]} gets the parts of {names}")
    return gathered


def _whole(parts: Mapping[Key, Fraction]) -> dict[Key, int]:
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


def _queue(key: Key, queue: Object, cluster: Object, weight: int, pool: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"pool": pool, "weight": weight}
    if limits := _limits(cluster):
        spec["limits"] = limits
    if any((one.get("spec") or {}).get("stopPolicy", "None") != "None" for one in (queue, cluster)):
        spec["suspended"] = True
    namespace, name = key
    return {"apiVersion": USERS_API_VERSION, "kind": "ThroughputQueue", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _limits(cluster: Object) -> dict[str, str]:
    """Return nominal quota plus borrowing limit of the resources that the ClusterQueue may not borrow without limit."""
    from fairburst.quantity import format_quantity  # noqa: PLC0415

    borrowed, in_cohort = _quantities(cluster, "borrowingLimit"), bool(_cohort(cluster))
    most = {
        resource: amount + (borrowed[resource] if in_cohort else 0)
        for resource, amount in _quantities(cluster, "nominalQuota").items()
        if resource in borrowed or not in_cohort
    }
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
            found.lost.append(f"ClusterQueue {name}: priorities within a queue; the label {STEP_LABEL} orders it in Gate and Suspend mode")
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


def _namespace(queue: Object) -> str:
    return str((queue.get("metadata") or {}).get("namespace") or "default")


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))
