"""`fairburst run`: the operator."""

from __future__ import annotations

from fairburst.cli.arguments import ConfigFile, config_of


def run(config: ConfigFile = None) -> int:
    """Run the operator until it is told to stop (SIGTERM, SIGINT)."""
    chosen = config_of(config)
    from fairburst.kube import process  # noqa: PLC0415  kopf and aiohttp take half a second to load

    return process.run(chosen)
