"""`fairburst uninstall`: undo what the operator wrote outside of its installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fairburst.cli.arguments import ConfigFile, config_of
from fairburst.cli.cluster import Context, Kubeconfig

if TYPE_CHECKING:
    from fairburst.config import Config
    from fairburst.kube.install.release import Undone


def uninstall(config: ConfigFile = None, kubeconfig: Kubeconfig = None, context: Context = None) -> int:
    """Release the work that a removed operator held, and delete its quotas and its memory."""
    import asyncio  # noqa: PLC0415  keeps `fairburst --help` quick

    undone = asyncio.run(_undo(config_of(config, kubeconfig, context)))
    sys.stdout.writelines(f"{line}\n" for line in undone.done)
    if not undone.left:
        return 0
    sys.stderr.write(
        f"fairburst uninstall: {len(undone.left)} objects are left as they were; run it again with the right to change them:\n"
    )
    sys.stderr.writelines(f"  {line}\n" for line in undone.left)
    return 1


async def _undo(config: Config) -> Undone:
    from fairburst.kube.api.client import ApiClient  # noqa: PLC0415
    from fairburst.kube.install.uninstall import uninstall as undo  # noqa: PLC0415

    async with await ApiClient.connect(config.kubeconfig, config.context) as client:
        return await undo(client, config)
