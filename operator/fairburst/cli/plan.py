"""`fairburst plan`: the effect of new or changed queues, weights or capacity on every queue, before the change is made."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairburst.bounds import MOST_WEIGHT
from fairburst.cli import plan_bursts
from fairburst.cli.arguments import Form, OutputForm, readable_file
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, Namespace, OperatorConfig, SystemNamespace
from fairburst.cli.errors import WORSE, WRONG_ARGUMENTS, CommandError
from fairburst.cli.output import Table, is_data, print_table, print_value, wrapped

if TYPE_CHECKING:
    from fairburst.forecast.planned import Foretold
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.look import Look, Reading
    from fairburst.kube.queues.listing import Queues
    from fairburst.policy.model import ClusterSnapshot
    from fairburst.whatif.rounds import DecidedRound, QueueChange

MOST_HOURS = 24
CLASSES = ("Hard", "Soft", "Elastic")
_CAPACITY = re.compile(r"(?:(?P<resource>[^=]+)=)?(?P<percent>[+-]\d+(?:\.\d+)?)%")
_PAIR = re.compile(r"(?P<queue>[^=]+)=(?P<value>[^=]+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """The change to try. objects: queue manifests; factors: of capacity by resource, "" for all; namespace: of the named queues."""

    objects: tuple[Mapping[str, Any], ...]
    factors: Mapping[str, float]
    removed: tuple[str, ...]
    weights: Mapping[str, int]
    expected: Mapping[str, str]
    namespace: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """A round without the change and with it. gone: the removed queues."""

    before: DecidedRound
    after: DecidedRound
    gone: frozenset[str]

    def changes(self) -> list[QueueChange]:
        """Return the difference for each queue."""
        from fairburst.whatif.rounds import changes  # noqa: PLC0415  keeps `fairburst --help` quick

        return changes(self.before, self.after, self.gone)


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """The answer. bursts: None if no horizon was asked for."""

    changes: list[QueueChange]
    bursts: Foretold | None


def plan(
    files: Annotated[
        list[Path] | None,
        typer.Option("--filename", "-f", metavar="FILE", help="Manifests of new or changed queues; - is standard input."),
    ] = None,
    capacity: Annotated[
        list[str] | None, typer.Option("--capacity", metavar="+20%", help="Capacity of all resources, or of one: cpu=-10%.")
    ] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="QUEUE", help="Without this queue and its work.")] = None,
    weight: Annotated[list[str] | None, typer.Option("--weight", metavar="QUEUE=N", help="With another weight.")] = None,
    expect: Annotated[
        list[str] | None, typer.Option("--expect", metavar="QUEUE=CLASS", help="Exit status 4 unless the queue gets this class.")
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0, max=MOST_HOURS, help="Count bursts that are due within these hours; 0: count none.")
    ] = 1.0,
    recording: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", callback=readable_file, help="The last round of a recording instead of a cluster."),
    ] = None,
    output: OutputForm = "table",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> int:
    """Say what changes would do to every queue and its next bursts.

    Writes nothing. Exit status 4 if a queue would be promised less, or miss bursts that it meets now.
    """
    asked = Asked(
        tuple(_manifests(files or [], namespace)),
        dict(factor(text) for text in capacity or []),
        tuple(remove or ()),
        {queue: parsed_weight(value) for queue, value in _pairs("--weight", weight or [])},
        {queue: _class(value) for queue, value in _pairs("--expect", expect or [])},
        namespace,
    )
    if not (asked.objects or asked.factors or asked.removed or asked.weights):
        raise typer.BadParameter("expected a change to try: -f, --capacity, --remove or --weight; found none")
    if recording is not None:
        from fairburst.cli.snapshots import last_round  # noqa: PLC0415  keeps `fairburst --help` quick

        before = last_round(recording)
        trial = tried(before, _with_objects(before.snapshot, asked.objects), asked)
        bursts = plan_bursts.of_recording(trial.before, trial.after, hours) if hours else None
        found = Planned(trial.changes(), bursts)
    else:
        cluster = Cluster(kubeconfig, context, config, system_namespace)
        found = cluster.ask(lambda client: ask(client, cluster, asked, hours))
    _print(found, output)
    return verdict(found, asked)


async def ask(client: ApiClient, cluster: Cluster, asked: Asked, hours: float = 0.0) -> Planned:
    """Decide with the changes and without, and return the difference for each queue. Raises CommandError and ApiError."""
    from fairburst.kube.look import decided, read_cluster  # noqa: PLC0415

    reading = await read_cluster(client, await cluster.settings(client))
    seen = await decided(client, reading, reading.queues)
    changed = await decided(client, reading, _merged_with(reading, asked)) if asked.objects else seen
    _refuse_problems(changed, asked)
    trial = tried(seen.round, changed.round.snapshot, asked)
    bursts = await _bursts(client, trial, seen, changed, hours) if hours else None
    return Planned(trial.changes(), bursts)


async def _bursts(client: ApiClient, trial: Tried, seen: Look, changed: Look, hours: float) -> Foretold:
    from fairburst.forecast.from_cluster import ended_pods, learn  # noqa: PLC0415

    ended = await ended_pods(client)
    known = learn(seen, ended)
    after = known if changed is seen else learn(changed, ended)
    return plan_bursts.of_cluster((trial.before, seen, known), (trial.after, changed, after), trial.gone, hours)


def _merged_with(reading: Reading, asked: Asked) -> Queues:
    """Return the cluster's queues with those of the manifests. Raises CommandError for a queue of another pool."""
    from fairburst.kube.queues.queue_set import pool_name  # noqa: PLC0415

    pool = reading.config.pool.name
    for obj in asked.objects:
        if (other := pool_name(obj)) != pool:
            raise CommandError(f"{_called(obj)}: expected pool {pool}, whose operator is asked, found {other}", WRONG_ARGUMENTS)
    return _merged(reading.queues, asked.objects)


def _refuse_problems(changed: Look, asked: Asked) -> None:
    """Raise CommandError for a queue of the manifests that cannot take part."""
    problems = {one.key[1:]: one.problem for one in changed.plan.queue_set.entries if one.problem is not None}
    for obj in asked.objects:
        problem = problems.get((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        if problem is not None:
            raise CommandError(f"{_called(obj)}: {problem.message}", WRONG_ARGUMENTS)


def _merged(queues: Queues, objects: Sequence[Mapping[str, Any]]) -> Queues:
    """Return the queue objects with those of the manifests, which keep the metadata and status of existing queues."""
    found = dict(queues)
    for obj in objects:
        key = (obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
        known = found.get(key, {"metadata": {"uid": "/".join(key), "generation": 0}})
        metadata = {**obj["metadata"], **known["metadata"], "generation": int(known["metadata"].get("generation", 0)) + 1}
        found[key] = {**known, **obj, "metadata": metadata}
    return found


def tried(before: DecidedRound, snapshot: ClusterSnapshot, asked: Asked) -> Tried:
    """Decide `snapshot`, which has the manifests, with the other changes too, and the snapshot of `before` without any."""
    import numpy as np  # noqa: PLC0415

    from fairburst.cli.snapshots import row_called  # noqa: PLC0415
    from fairburst.whatif.rounds import with_capacity, with_spec, without_queue  # noqa: PLC0415

    before = before.again(before.snapshot)
    for name, weight in asked.weights.items():
        row = row_called(snapshot, name, asked.namespace)
        snapshot = with_spec(snapshot, row, replace(snapshot.queues[row], weight=float(weight)))
    gone = [row_called(snapshot, name, asked.namespace) for name in asked.removed]
    for row in gone:
        snapshot = without_queue(snapshot, row)
    for name in asked.factors:
        if name and name not in snapshot.resources:
            raise CommandError(f"--capacity: expected one of {', '.join(snapshot.resources)}, found {name}", WRONG_ARGUMENTS)
    factors = [asked.factors.get(name, asked.factors.get("", 1.0)) for name in snapshot.resources]
    after = before.again(with_capacity(snapshot, np.array(factors)))
    return Tried(before, after, frozenset(snapshot.queues[row].name for row in gone))


def _with_objects(snapshot: ClusterSnapshot, objects: Sequence[Mapping[str, Any]]) -> ClusterSnapshot:
    """Return the snapshot of a recorded round with the queues of the manifests."""
    from fairburst.kube.queues.core_values import to_queue_spec  # noqa: PLC0415
    from fairburst.kube.queues.objects import parse_queue  # noqa: PLC0415
    from fairburst.whatif.rounds import with_queue, with_spec  # noqa: PLC0415

    for obj in objects:
        spec = to_queue_spec(parse_queue(obj))
        row = next((at for at, one in enumerate(snapshot.queues) if one.name == spec.name), None)
        old = spec if row is None else replace(spec, order=snapshot.queues[row].order)
        snapshot = with_queue(snapshot, spec) if row is None else with_spec(snapshot, row, old)
    return snapshot


def _manifests(files: Sequence[Path], namespace: str | None) -> list[Mapping[str, Any]]:
    """Return the queues in the files, valid and complete. Other kinds are left out. Raises CommandError."""
    from fairburst.cli.yaml_objects import read_objects  # noqa: PLC0415  keeps `fairburst --help` quick

    found: list[Mapping[str, Any]] = []
    for file in files:
        queues = [one for one in read_objects(file) if one.get("kind") in ("LatencyQueue", "ThroughputQueue")]
        if not queues:
            raise CommandError(f"{file}: expected a LatencyQueue or a ThroughputQueue, found none", WRONG_ARGUMENTS)
        for one in queues:
            queue = _queue(file, one, namespace)
            if any(_called(queue) == _called(other) for other in found):
                raise CommandError(f"{file}: {_called(queue)}: expected each queue once, found it twice; keep one of them", WRONG_ARGUMENTS)
            found.append(queue)
    return found


def _queue(file: Path, one: Mapping[str, Any], namespace: str | None) -> Mapping[str, Any]:
    """Return the queue of a manifest, complete. Raises CommandError if the API server would refuse it."""
    from datetime import UTC, datetime  # noqa: PLC0415

    from fairburst.kube.names import API_VERSION, USERS_API_VERSION  # noqa: PLC0415
    from fairburst.kube.queues.objects import InvalidQueueError, parse_queue  # noqa: PLC0415

    given = one.get("metadata") or {}
    if not isinstance(given, Mapping):
        raise CommandError(f"{file}: {one['kind']}: metadata: expected keys and values, found {given!r}", WRONG_ARGUMENTS)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"namespace": namespace or "default", "creationTimestamp": now, **given}
    obj = {**one, "metadata": metadata, "spec": one.get("spec") or {}}
    try:
        parse_queue(obj)
    except InvalidQueueError as error:
        raise CommandError(f"{file}: {_called(obj)}: {error}", WRONG_ARGUMENTS) from error
    if (version := one.get("apiVersion")) not in (API_VERSION, USERS_API_VERSION):
        raise CommandError(f"{file}: {_called(obj)}: apiVersion: expected {USERS_API_VERSION}, found {version!r}", WRONG_ARGUMENTS)
    return obj


def _called(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata'].get('namespace')}/{obj['metadata'].get('name')}"


def factor(text: str) -> tuple[str, float]:
    """Return the resource ("" for all) and the factor of a change such as `+20%` or `cpu=-10%`. Raises typer.BadParameter."""
    match = _CAPACITY.fullmatch(text)
    if match is None or float(match["percent"]) <= -100:
        raise typer.BadParameter(f"expected +20%, or cpu=-10% for one resource; found {text!r}", param_hint="--capacity")
    return match["resource"] or "", 1 + float(match["percent"]) / 100


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    matches = [(text, _PAIR.fullmatch(text)) for text in texts]
    for text, match in matches:
        if match is None:
            raise typer.BadParameter(f"expected QUEUE=VALUE, found {text!r}", param_hint=option)
    return [(match["queue"], match["value"]) for _, match in matches if match is not None]


def parsed_weight(text: str) -> int:
    """Return a weight from the command line. Raises typer.BadParameter."""
    weight = int(text) if text.isdecimal() and len(text) <= len(str(MOST_WEIGHT)) else 0
    if not 1 <= weight <= MOST_WEIGHT:
        found = text if len(text) <= 20 else f"{text[:20]}..."
        raise typer.BadParameter(f"expected a whole number of at least 1 and at most {MOST_WEIGHT}, found {found!r}", param_hint="--weight")
    return weight


def _class(text: str) -> str:
    if text not in CLASSES:
        raise typer.BadParameter(f"expected one of {', '.join(CLASSES)}, found {text!r}", param_hint="--expect")
    return text


def verdict(planned: Planned, asked: Asked) -> int:
    """Print the objections to the change. Return 4 if there are any."""
    against, found = [], planned.changes
    tried_names = {f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in asked.objects}
    for one in found:
        is_tried = one.queue in tried_names or any(_is_called(one.queue, name, asked) for name in asked.weights)
        if one.is_weaker:
            against.append(f"{one.queue} would fall from {_word(one.before)} to {_word(one.after)}. {one.message}")
        elif is_tried and one.reason == "PromiseChangeRejected":
            against.append(f"the change of {one.queue} would be refused. {one.message}")
        elif one.queue in tried_names and one.after is None:
            against.append(f"{one.queue} would not be admitted. {one.message}")
        if (missed := plan_bursts.objection(planned.bursts, one)) is not None:
            against.append(missed)
        wanted = next((value for name, value in asked.expected.items() if _is_called(one.queue, name, asked)), None)
        if wanted is not None and one.is_gone:
            against.append(f"{one.queue} would be gone, expected {wanted}.")
        elif wanted is not None and _word(one.after) != wanted:
            against.append(f"{one.queue} would be {_word(one.after)}, expected {wanted}. {one.message}")
    against += [
        f"expected queue {name} to be {wanted}, found none of that name"
        for name, wanted in asked.expected.items()
        if not any(_is_called(one.queue, name, asked) for one in found)
    ]
    sys.stderr.writelines(f"fairburst plan: {line}\n" for line in against)
    return WORSE if against else 0


def _is_called(queue: str, name: str, asked: Asked) -> bool:
    """Return whether a person means the queue NAMESPACE/NAME by this name."""
    within, _, _ = queue.partition("/")
    return name == queue or (name in queue.split("/") and asked.namespace in (None, within))


def _print(planned: Planned, form: Form) -> None:
    found, bursts = planned.changes, planned.bursts
    if is_data(form):
        print_value(as_data(planned), form)
        return
    changed = [one for one in found if one.is_changed or plan_bursts.differs(bursts, one) or form == "wide"]
    if changed:
        head = ("QUEUE", "CLASS", "SHARE", "LEVEL", "GIVEN NOW", *(("BURSTS MET",) if bursts else ()))
        print_table(Table(head, [_line(one, bursts) for one in changed]), form)
        changes = f"{len(changed)} of {len(found)} queues change."
        sys.stdout.write("\n" + wrapped("", f"{changes} Parts are of the pool's capacity; the level is what a quota admits."))
    else:
        sys.stdout.write(f"No queue of {len(found)} would notice.\n")
    if changed and bursts is not None and (bursts.before or bursts.after):
        sys.stdout.writelines(wrapped("", line) for line in plan_bursts.notes(bursts))


def _line(one: QueueChange, bursts: Foretold | None) -> tuple[str, ...]:
    was = "new" if one.is_new else _word(one.before)
    now = "gone" if one.is_gone else _word(one.after)
    pairs = ((one.share_before, one.share_after), (one.level_before, one.level_after), (one.allocated_before, one.allocated_after))
    met = () if bursts is None else (plan_bursts.cell(bursts, one),)
    return (one.queue, was if was == now else f"{was} -> {now}", *(_parts(*pair) for pair in pairs), *met)


def _parts(before: float, after: float) -> str:
    return f"{before:.1%}" if f"{before:.1%}" == f"{after:.1%}" else f"{before:.1%} -> {after:.1%}"


def _word(granted: Any) -> str:
    return "not admitted" if granted is None else str(granted.value)


def as_data(planned: Planned) -> list[dict[str, Any]]:
    """Return the changes as they are printed with -o json."""
    bursts = planned.bursts
    return [_change_data(one) | ({} if bursts is None else {"bursts": plan_bursts.as_data(bursts, one)}) for one in planned.changes]


def _change_data(one: QueueChange) -> dict[str, Any]:
    return {
        "queue": one.queue,
        "change": "new" if one.is_new else "gone" if one.is_gone else "changed" if one.is_changed else "same",
        "class": {"before": None if one.is_new else _word(one.before), "after": None if one.is_gone else _word(one.after)},
        "share": {"before": one.share_before, "after": one.share_after},
        "level": {"before": one.level_before, "after": one.level_after},
        "given": {"before": one.allocated_before, "after": one.allocated_after},
        "weaker": one.is_weaker,
        "reason": one.reason,
        "message": one.message,
    }
