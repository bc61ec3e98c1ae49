"""`fairburst uninstall`: delete what the operator wrote outside of its installation."""

from __future__ import annotations

import argparse
import asyncio
import sys

from fairburst.cli.command import Commands, config_of
from fairburst.config import Config


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("uninstall", help="delete the quotas and the memory of an operator that has been removed")
    parser.add_argument("--config", metavar="FILE", help="the operator's configuration file; without it, all defaults")
    parser.set_defaults(function=uninstall)


def uninstall(given: argparse.Namespace) -> int:
    """Delete them and name each."""
    from fairburst.kube.api.errors import ApiError, CredentialsError  # noqa: PLC0415  keeps `fairburst --help` quick

    try:
        deleted = asyncio.run(_delete(config_of(given)))
    except (ApiError, CredentialsError) as error:
        sys.stderr.write(f"fairburst uninstall: {error}\n")
        return 1
    sys.stdout.writelines(f"deleted {name}\n" for name in deleted)
    return 0


async def _delete(config: Config) -> list[str]:
    from fairburst.kube.api.client import ApiClient  # noqa: PLC0415
    from fairburst.kube.install.uninstall import uninstall as delete  # noqa: PLC0415

    async with await ApiClient.connect(config.kubeconfig, config.context) as client:
        return await delete(client, config)
