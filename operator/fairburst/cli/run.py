"""`fairburst run`: the operator."""

from __future__ import annotations

import sys

from fairburst.cli.arguments import ConfigFile, config_of
from fairburst.cli.cluster import Context, Kubeconfig
from fairburst.cli.lean import with_small_buffers, without_public_authorities


def run(config: ConfigFile = None, kubeconfig: Kubeconfig = None, context: Context = None) -> int:
    """Run the operator until it is told to stop (SIGTERM, SIGINT)."""
    chosen = config_of(config, kubeconfig, context)
    with_small_buffers()
    with without_public_authorities():
        from fairburst.kube import process  # noqa: PLC0415  kopf and aiohttp take half a second to load

    return process.run(chosen, forecaster=(sys.executable, "-m", "fairburst.forecast"))
