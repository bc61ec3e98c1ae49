"""`fairburst uninstall`: undo what the operator wrote outside of its installation."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from fairburst.cli.command import Commands, config_of
from fairburst.config import Config

if TYPE_CHECKING:
    from fairburst.kube.install.let_go import Undone


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("uninstall", help="let go of what a removed operator held, and delete its quotas and its memory")
    parser.add_argument("--config", metavar="FILE", help="the operator's configuration file; without it, all defaults")
    parser.set_defaults(function=uninstall)


def uninstall(given: argparse.Namespace) -> int:
    """Undo it, and name each thing done and each thing left; 1 where anything is left."""
    from fairburst.kube.api.errors import ApiError, CredentialsError  # noqa: PLC0415  keeps `fairburst --help` quick

    try:
        undone = asyncio.run(_undo(config_of(given)))
    except (ApiError, CredentialsError) as error:
        sys.stderr.write(f"fairburst uninstall: {error}\n")
        return 1
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
