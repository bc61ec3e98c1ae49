"""`fairburst run`: the operator."""

from __future__ import annotations

import argparse

from fairburst.cli.command import Commands, config_of


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("run", help="run the operator until it is told to stop (SIGTERM, SIGINT)")
    parser.add_argument("--config", metavar="FILE", help="the operator's configuration file; without it, all defaults")
    parser.set_defaults(function=run)


def run(given: argparse.Namespace) -> int:
    """Run the operator and return its exit code."""
    from fairburst.kube import process  # noqa: PLC0415  kopf and aiohttp take half a second to load

    return process.run(config_of(given))
