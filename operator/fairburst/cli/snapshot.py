"""`fairburst snapshot`: the present state of a cluster as a file, for `plan` and `explain` elsewhere, and for bug reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairburst.cli import replay as replaying
from fairburst.cli.arguments import OutputForm, readable_file, writable_file
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, OperatorConfig, SystemNamespace
from fairburst.cli.snapshots import save_round

snapshots = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Save what a cluster is like now, and decide on it again elsewhere."
)


@snapshots.command()
def save(
    file: Annotated[Path, typer.Argument(metavar="FILE", callback=writable_file, help="The file to write.")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Save the round that would be decided now as a recording, for `plan --from` and `explain --from`. Names of queues are in it."""
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    seen = cluster.ask(cluster.look)
    save_round(file, seen.round)
    sys.stdout.write(f"{file}: {len(seen.round.snapshot.queues)} queues of pool {seen.config.pool.name}\n")


@snapshots.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", callback=readable_file, help="A saved snapshot, or a recording.")],
    output: OutputForm = "table",
) -> int:
    """Decide a snapshot again, and say where the decision differs; as `fairburst replay`."""
    return replaying.replay(file, output)
