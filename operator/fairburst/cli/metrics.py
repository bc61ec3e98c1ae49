"""`fairburst metrics`: what is served on /metrics."""

from __future__ import annotations

import argparse
import sys

from fairburst.cli.command import Commands


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("metrics", help="list the metrics that the operator serves")
    parser.add_argument("--markdown", action="store_true", help="print them as the page docs/metrics.md")
    parser.set_defaults(function=show)


def show(given: argparse.Namespace) -> int:
    """Print one metric a line, or the page."""
    from fairburst.telemetry.metrics import definitions, to_markdown  # noqa: PLC0415  keeps `fairburst --help` quick

    if given.markdown:
        sys.stdout.write(to_markdown())
    else:
        for name, kind, labels, meaning in definitions():
            sys.stdout.write(f"{name}{{{','.join(labels)}}} ({kind}): {meaning}\n")
    return 0
