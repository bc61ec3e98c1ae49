"""The command `fairburst`: one module a subcommand, each of which adds its own arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from fairburst.cli import config, crds, extender, manifests, metrics, replay, reproduce, run, simulate, uninstall
from fairburst.config import ConfigError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 it failed (the reason is on standard error), 2 wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="fairburst", description="Bounded priority for bursts, fair shares for batch work, on one Kubernetes cluster."
    )
    parser.add_argument("--version", action="version", version=f"fairburst {version('fairburst')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (run, extender, manifests, uninstall, crds, config, metrics, replay, simulate, reproduce):
        module.add_to(commands)
    given = parser.parse_args(arguments)
    try:
        exit_code: int = given.function(given)
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"fairburst {given.command}: {error}\n")
        return 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
