"""`fairburst uninstall`: undo what the operator wrote outside of its installation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairburst.cli.arguments import ConfigFile, config_of
from fairburst.cli.cluster import Cluster, Context, Kubeconfig

if TYPE_CHECKING:
    from fairburst.config import Config
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.install.release import Undone


def uninstall(config: ConfigFile = None, kubeconfig: Kubeconfig = None, context: Context = None) -> int:
    """Release the work that a removed operator held, and delete its quotas and its memory."""
    settings = config_of(config, kubeconfig, context)
    cluster = Cluster(None if settings.kubeconfig is None else Path(settings.kubeconfig), settings.context)
    undone = cluster.ask(lambda client: _undo(client, settings))
    sys.stdout.writelines(f"{line}\n" for line in undone.done)
    if not undone.left:
        return 0
    sys.stderr.write(
        f"fairburst uninstall: {len(undone.left)} objects are left as they were; run it again with the right to change them:\n"
    )
    sys.stderr.writelines(f"  {line}\n" for line in undone.left)
    return 1


async def _undo(client: ApiClient, config: Config) -> Undone:
    from fairburst.cli.status import leader, no_leader  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.kube.install.uninstall import uninstall as undo  # noqa: PLC0415

    leads = await leader(client, config)
    if not no_leader(leads):
        sys.stderr.write(
            f"fairburst uninstall: {leads['holder']} still leads and will write all this again: remove the operator, then repeat this\n"
        )
    return await undo(client, config)
