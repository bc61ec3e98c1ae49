"""`fairburst manifests`: print what an installation needs, for `kubectl apply -f -`."""

from __future__ import annotations

import argparse
import sys

from fairburst.cli.command import Commands, config_of


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("manifests", help="print CRDs, priority classes, admission policies and RBAC for `kubectl apply -f -`")
    parser.add_argument("--config", metavar="FILE", help="the operator's configuration file; without it, all defaults")
    parser.add_argument("--subject-user", metavar="NAME", help="grant the operator's rights to this user instead of a service account")
    parser.set_defaults(function=show)


def show(given: argparse.Namespace) -> int:
    """Print every manifest."""
    from fairburst.kube.install.manifests import Subject, all_manifests, to_yaml  # noqa: PLC0415  keeps `fairburst --help` quick

    sys.stdout.write(to_yaml(all_manifests(config_of(given), Subject(user=given.subject_user))))
    return 0
