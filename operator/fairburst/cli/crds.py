"""`fairburst crds`: write the CustomResourceDefinitions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairburst.cli.command import Commands


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("crds", help="write the CustomResourceDefinitions")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True, help="directory to write them to, one file a kind")
    parser.set_defaults(function=write)


def write(given: argparse.Namespace) -> int:
    """Write the files and name them."""
    from fairburst.kube.install.crd import write_crds  # noqa: PLC0415  keeps `fairburst --help` quick

    for path in write_crds(given.output):
        sys.stdout.write(f"{path}\n")
    return 0
