"""`fairburst dashboard`: the pool in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairburst.cli.arguments import readable_folder
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, Namespace, OperatorConfig, SystemNamespace
from fairburst.cli.errors import CommandError

if TYPE_CHECKING:
    from fairburst.kube.api.client import ApiClient

PORT = 8765
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  in a pod: the Service and `kubectl port-forward` call from outside


def dashboard(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on this machine; 0 chooses a free one.")] = PORT,
    tls: Annotated[
        Path | None,
        typer.Option(
            "--tls",
            metavar="FOLDER",
            callback=readable_folder,
            help="Serve other machines too, by tls.crt and tls.key in this folder; people log in with a token and see what it may get.",
        ),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Show the pool in a browser, live: capacity, queues, bursts, what waits and why. Reads with your rights and writes nothing."""
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    if tls is None:
        cluster.ask(lambda client: _serve(client, cluster, namespace, port))
    else:
        cluster.ask(lambda client: _share(client, cluster, namespace, port, tls))


async def _serve(client: ApiClient, cluster: Cluster, namespace: str | None, port: int) -> None:
    from fairburst.cli.dashboard.live import Live  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.cli.dashboard.local import HOST, LocalEntrance  # noqa: PLC0415
    from fairburst.cli.dashboard.questions import Questions  # noqa: PLC0415
    from fairburst.cli.dashboard.server import DashboardServer  # noqa: PLC0415

    live = Live(client, await cluster.settings(client), namespace)
    await live.start()
    entrance = LocalEntrance(Questions(cluster))
    server = DashboardServer(live, entrance)
    address = entrance.address(await server.start(HOST, port))
    _say(f"Dashboard at {address} (the address is a secret of this run; Ctrl-C ends it)")
    try:
        await live.run()
    finally:
        await server.stop()


async def _share(client: ApiClient, cluster: Cluster, namespace: str | None, port: int, folder: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    import asyncio  # noqa: PLC0415

    from fairburst.cli.dashboard.live import Live  # noqa: PLC0415
    from fairburst.cli.dashboard.server import DashboardServer  # noqa: PLC0415
    from fairburst.cli.dashboard.shared import SharedEntrance  # noqa: PLC0415
    from fairburst.cli.dashboard.visitors import Visitors  # noqa: PLC0415
    from fairburst.kube.api.first_answer import first_answer  # noqa: PLC0415
    from fairburst.kube.api.served_certificate import CertificateError, ServedCertificate  # noqa: PLC0415
    from fairburst.kube.supervision import run_until, stopped_by_signal  # noqa: PLC0415
    from fairburst.telemetry.log import set_up  # noqa: PLC0415

    set_up("INFO", as_json=False)
    stop = stopped_by_signal()
    certificate = ServedCertificate(folder)
    try:
        certificate.load()
    except CertificateError as error:
        raise CommandError(str(error)) from error
    await first_answer(client, stop)
    live = Live(client, await cluster.settings(client), namespace)
    await live.start()
    server = DashboardServer(live, SharedEntrance(Visitors(client, cluster), live.problem))
    bound = await server.start(EVERY_ADDRESS, port, certificate.context)
    _say(f"Dashboard at https://localhost:{bound}/ and by this machine's other names. Log in with a token of the cluster.")
    tasks = [asyncio.create_task(work) for work in (live.run(), certificate.keep_reloading())]
    try:
        await run_until(stop, tasks)
    finally:
        await server.stop()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
