"""`fairburst extender`: what kube-scheduler asks which nodes suit a pod (docs/extender.md)."""

from __future__ import annotations

import argparse

from fairburst.cli.command import Commands, config_of


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("extender", help="serve kube-scheduler as an extender until told to stop (SIGTERM, SIGINT)")
    parser.add_argument("--config", metavar="FILE", help="the operator's configuration file; without it, all defaults")
    parser.set_defaults(function=run)


def run(given: argparse.Namespace) -> int:
    """Run the extender and return its exit code."""
    from fairburst.kube import extender_process  # noqa: PLC0415  as `fairburst run`

    return extender_process.run(config_of(given))
