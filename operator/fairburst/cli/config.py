"""`fairburst config`: check a configuration file, or print the documentation of its keys."""

from __future__ import annotations

import argparse
import sys

import yaml

from fairburst.cli.command import Commands, config_of
from fairburst.config import to_markdown


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("config", help="check a configuration file and print it with all defaults, or document its keys")
    parser.add_argument("--config", metavar="FILE", help="file to check; without it, all defaults are printed")
    parser.add_argument("--markdown", action="store_true", help="print the documentation of every key instead")
    parser.set_defaults(function=show)


def show(given: argparse.Namespace) -> int:
    """Print the documentation, or the configuration as it will be used."""
    if given.markdown:
        sys.stdout.write(to_markdown())
    else:
        sys.stdout.write(yaml.safe_dump(config_of(given).model_dump(mode="json", by_alias=True), sort_keys=False))
    return 0
