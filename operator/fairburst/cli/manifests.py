"""`fairburst manifests`: print the objects of an installation, for `kubectl apply -f -`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairburst.cli.arguments import ConfigFile, config_of


def manifests(
    config: ConfigFile = None,
    subject_user: Annotated[
        str | None,
        typer.Option("--subject-user", metavar="NAME", help="Grant the operator's rights to this user instead of a service account."),
    ] = None,
) -> None:
    """Print CRDs, priority classes, admission policies and RBAC for `kubectl apply -f -`."""
    chosen = config_of(config)
    from fairburst.kube.install.manifests import Subject, all_manifests, to_yaml  # noqa: PLC0415  keeps `fairburst --help` quick

    sys.stdout.write(to_yaml(all_manifests(chosen, Subject(user=subject_user))))
