"""`fairburst extender`: serves kube-scheduler's questions about nodes for a pod (docs/extender.md)."""

from __future__ import annotations

from fairburst.cli.arguments import ConfigFile, config_of
from fairburst.cli.cluster import Context, Kubeconfig
from fairburst.cli.lean import with_small_buffers, without_public_authorities


def extender(config: ConfigFile = None, kubeconfig: Kubeconfig = None, context: Context = None) -> int:
    """Serve kube-scheduler as an extender until told to stop (SIGTERM, SIGINT)."""
    chosen = config_of(config, kubeconfig, context)
    with_small_buffers()
    with without_public_authorities():
        from fairburst.kube import extender_process  # noqa: PLC0415  as `fairburst run`

    return extender_process.run(chosen)
