"""`fairburst get`: one line a queue."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from fairburst.cli.arguments import OutputForm
from fairburst.cli.cluster import Cluster, Context, Kubeconfig, Namespace, complete_queues, find_queue
from fairburst.cli.output import Table, is_data, print_table, print_value

HEAD = (
    "QUEUE", "CLASS", "WAITING", "SHARE", "NEXT BURST", "MET", "READY", "KIND", "USED", "ALLOCATED", "WEIGHT", "MODE", "REASON",
)  # fmt: skip
WIDE = frozenset(HEAD[HEAD.index("KIND") :])
RIGHT = frozenset({"SHARE", "MET", "WEIGHT"})


def get(
    queue: Annotated[
        str | None,
        typer.Argument(metavar="QUEUE", autocompletion=complete_queues, help="Only this queue: NAME, NAMESPACE/NAME or its namespace."),
    ] = None,
    output: OutputForm = "table",
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", hidden=True)] = False,  # the default, as users of kubectl say it
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List queues: class, what waits, share, next burst, bursts met and missed."""
    from fairburst.cli.queues import summaries  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.kube.queues.listing import read_queues  # noqa: PLC0415

    if everywhere and namespace is not None:
        raise typer.BadParameter("expected one of -A and -n, found both", param_hint="--all-namespaces")
    queues = Cluster(kubeconfig, context).ask(lambda client: read_queues(client, namespace))
    if queue is not None:
        key = find_queue(queues, queue, namespace)
        queues = {key: queues[key]}
    listed = summaries(queues, time.time())
    if is_data(output):
        print_value(listed, output)
    elif not listed:
        print_table(Table(("No queues" + (f" in namespace {namespace}." if namespace else "."),)))
    else:
        print_table(Table(HEAD, [_row(one) for one in listed], WIDE, RIGHT), output)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    from fairburst.cli.queues import first_amount  # noqa: PLC0415

    latency, ended = one["kind"] == "LatencyQueue", one["met"] + one["missed"]
    return (
        f"{one['namespace']}/{one['name']}", one["class"] or "-", first_amount(one["waiting"]), one["share"] or "-", one["nextBurst"],
        f"{one['met']} of {ended}" if latency else "-", one["ready"], one["kind"].removesuffix("Queue").lower(),
        first_amount(one["used"]), first_amount(one["allocated"]), str(one["weight"]), one["enforcement"], one["reason"],
    )  # fmt: skip
