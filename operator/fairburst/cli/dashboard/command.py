"""`fairburst dashboard`: the pool in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, Namespace, OperatorConfig, SystemNamespace

if TYPE_CHECKING:
    from fairburst.kube.api.client import ApiClient

PORT = 8765


def dashboard(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on this machine; 0 chooses a free one.")] = PORT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Show the pool in a browser, live: capacity, queues, bursts, what waits and why. Reads with your rights and writes nothing."""
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    cluster.ask(lambda client: _serve(client, cluster, namespace, port))


async def _serve(client: ApiClient, cluster: Cluster, namespace: str | None, port: int) -> None:
    from fairburst.cli.dashboard.live import Live  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.cli.dashboard.questions import Questions  # noqa: PLC0415
    from fairburst.cli.dashboard.server import DashboardServer  # noqa: PLC0415

    live = Live(client, await cluster.settings(client), namespace)
    await live.start()
    server = DashboardServer(live, Questions(cluster))
    address = await server.start(port)
    sys.stdout.write(f"Dashboard at {address} (the address is a secret of this run; Ctrl-C ends it)\n")
    sys.stdout.flush()
    try:
        await live.run()
    finally:
        await server.stop()
