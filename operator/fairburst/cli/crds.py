"""`fairburst crds`: write the CustomResourceDefinitions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairburst.cli.arguments import writable_folder


def crds(
    save: Annotated[
        Path, typer.Option("--save", "--output", metavar="DIR", callback=writable_folder, help="Folder to write to, one file a kind.")
    ],
) -> None:
    """Write the CustomResourceDefinitions."""
    from fairburst.kube.install.crd import write_crds  # noqa: PLC0415  keeps `fairburst --help` quick

    for path in write_crds(save):
        sys.stdout.write(f"{path}\n")
