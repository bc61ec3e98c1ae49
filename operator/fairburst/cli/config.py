"""`fairburst config`: check a configuration file, or print the documentation of its keys."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairburst.cli.arguments import ConfigFile, Form, config_of
from fairburst.cli.output import print_value


def config(
    config: ConfigFile = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the documentation of every key instead.")] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="Form of the output; there is no table.")] = "yaml",
) -> None:
    """Check a configuration file and print it with all defaults, or document its keys."""
    if markdown:
        from fairburst.config import to_markdown  # noqa: PLC0415  keeps `fairburst --help` quick

        sys.stdout.write(to_markdown())
    else:
        print_value(config_of(config).model_dump(mode="json", by_alias=True), "json" if output == "json" else "yaml")
