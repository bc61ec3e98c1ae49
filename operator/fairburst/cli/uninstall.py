"""`fairburst uninstall`: undo what the operator wrote outside of its installation."""

from __future__ import annotations

import argparse
import asyncio
import sys

from fairburst.cli.command import Commands, config_of
from fairburst.config import Config


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("uninstall", help="let go of what a removed operator held, and delete its quotas and its memory")
    parser.add_argument("--config", metavar="FILE", help="the operator's configuration file; without it, all defaults")
    parser.set_defaults(function=uninstall)


def uninstall(given: argparse.Namespace) -> int:
    """Undo it and name each thing done."""
    from fairburst.kube.api.errors import ApiError, CredentialsError  # noqa: PLC0415  keeps `fairburst --help` quick

    try:
        done = asyncio.run(_undo(config_of(given)))
    except (ApiError, CredentialsError) as error:
        sys.stderr.write(f"fairburst uninstall: {error}\n")
        return 1
    sys.stdout.writelines(f"{line}\n" for line in done)
    return 0


async def _undo(config: Config) -> list[str]:
    from fairburst.kube.api.client import ApiClient  # noqa: PLC0415
    from fairburst.kube.install.uninstall import uninstall as undo  # noqa: PLC0415

    async with await ApiClient.connect(config.kubeconfig, config.context) as client:
        return await undo(client, config)
