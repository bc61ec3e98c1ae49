"""Arguments that several commands take, and checks of their values. A command does no work before all its arguments are valid."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from fairburst.config import Config

Form = Literal["table", "wide", "json", "yaml"]
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def positive(value: float | None) -> float | None:
    """Return the value if it is above 0."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"expected a number above 0, found {value:g}")
    return value


def not_negative(value: float | None) -> float | None:
    """Return the value if it is finite and not below 0."""
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"expected a number of at least 0, found {value:g}")
    return value


def writable_folder(path: Path | None) -> Path | None:
    """Return the path if files can be written there once the folder exists. This check creates nothing."""
    if path is None:
        return None
    path = path.expanduser()
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise typer.BadParameter(f"expected a folder that can be written, found the file {existing}")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"expected a folder that can be written, found {existing}, which this user may not write to")
    return path


def writable_file(path: Path | None) -> Path | None:
    """Return the path if a file can be written there."""
    if path is None:
        return None
    path = path.expanduser()
    if path.is_dir():
        raise typer.BadParameter(f"expected a file, found the folder {path}")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"expected a file in a folder that exists and can be written, found {path}")
    return path


def readable(path: Path | None) -> Path | None:
    """Return the path if it can be read."""
    if path is None:
        return None
    path = path.expanduser()
    if not path.exists() or not os.access(path, os.R_OK):
        raise typer.BadParameter(f"expected a readable file {path}, found none")
    return path


def readable_file(path: Path | None) -> Path | None:
    """Return the path if it can be read and is no folder."""
    path = readable(path)
    if path is not None and path.is_dir():
        raise typer.BadParameter(f"expected a readable file, found the folder {path}")
    return path


def readable_folder(path: Path | None) -> Path | None:
    """Return the path if it is a folder that can be read."""
    path = readable(path)
    if path is not None and not path.is_dir():
        raise typer.BadParameter(f"expected a folder, found the file {path}")
    return path


def namespace_name(text: str | None) -> str | None:
    """Return the text if a namespace can have that name. It becomes part of a path."""
    if text is not None and not _NAMESPACE.fullmatch(text):
        raise typer.BadParameter(f"expected the name of a namespace, found {text!r}")
    return text


def config_of(path: Path | None, kubeconfig: Path | None = None, context: str | None = None) -> Config:
    """Return the configuration in a file, or the defaults without one. `kubeconfig` and `context` override it. Raises ConfigError."""
    from fairburst.config import Config, load_config  # noqa: PLC0415  keeps `fairburst --help` quick

    found = Config() if path is None else load_config(path.expanduser())
    chosen = {"kubeconfig": None if kubeconfig is None else str(kubeconfig), "context": context}
    return found.model_copy(update={name: value for name, value in chosen.items() if value is not None})


OutputForm = Annotated[Form, typer.Option("--output", "-o", help="Form of the output.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The operator's configuration file; without it, all defaults.")
]
SaveFolder = Annotated[
    Path | None,
    typer.Option("--save", metavar="DIR", callback=writable_folder, help="Write the results to this folder, which is made if need be."),
]
