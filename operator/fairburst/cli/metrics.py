"""`fairburst metrics`: list the metrics of /metrics."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairburst.cli.arguments import OutputForm
from fairburst.cli.output import is_data, print_value


def metrics(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print them as the page docs/metrics.md.")] = False,
    output: OutputForm = "table",
) -> None:
    """List the metrics that the operator serves."""
    from fairburst.telemetry.metrics import definitions, to_markdown  # noqa: PLC0415  keeps `fairburst --help` quick

    if markdown:
        sys.stdout.write(to_markdown())
    elif is_data(output):
        listed = [{"name": name, "kind": kind, "labels": list(labels), "meaning": text} for name, kind, labels, text in definitions()]
        print_value(listed, output)
    else:
        for name, kind, labels, meaning in definitions():
            sys.stdout.write(f"{name}{{{','.join(labels)}}} ({kind}): {meaning}\n")
