"""`fairburst top`: the busiest queues of the pool, live in a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, Namespace, OperatorConfig, SystemNamespace
from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError
from fairburst.cli.output import Table, drawn_table
from fairburst.cli.status import no_leader

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairburst.kube.api.client import ApiClient

HEAD = ("QUEUE", "CLASS", "USED", "GUARANTEED", "SHARE", "WAITING", "BURST")
RIGHT = frozenset({"USED", "GUARANTEED", "SHARE"})
NARROWEST_LINES = 3
REDRAW_SECONDS = 2.0  # updates times while nothing else changes


def top(
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Show the busiest queues, live, until Ctrl-C."""
    if not sys.stdout.isatty():
        raise CommandError("expected a terminal to draw on; `fairburst status` and `fairburst get` print once", WRONG_ARGUMENTS)
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    cluster.ask(lambda client: _show(client, cluster, namespace))


async def _show(client: ApiClient, cluster: Cluster, namespace: str | None) -> None:
    import asyncio  # noqa: PLC0415  keeps `fairburst --help` quick

    import msgspec  # noqa: PLC0415
    from rich.live import Live as Screen  # noqa: PLC0415

    from fairburst.cli.dashboard.live import Live  # noqa: PLC0415

    live = Live(client, await cluster.settings(client), namespace)
    await live.start()
    watching = asyncio.create_task(live.run())
    state: dict[str, Any] = {"queues": {}}
    reader = live.follow()
    try:
        with Screen(screen=True, auto_refresh=False) as screen:
            while not watching.done():
                try:
                    message = await asyncio.wait_for(reader.get(), REDRAW_SECONDS)
                except TimeoutError:
                    pass
                else:
                    if message is None:  # the terminal was slower than the cluster
                        reader = live.follow()
                        continue
                    take(state, msgspec.json.decode(message.text))
                console = screen.console
                screen.update(drawn(state, time.time(), console.width, console.height), refresh=True)
        await watching
    finally:
        watching.cancel()


def take(state: dict[str, Any], message: dict[str, Any]) -> None:
    """Apply one message of the live feed (cli/dashboard/live.py) to the state."""
    if message["replace"]:
        state["queues"] = {}
    for key, queue in message["queues"].items():
        if queue is None:
            state["queues"].pop(key, None)
        else:
            state["queues"][key] = queue
    state["pool"], state["operator"] = message["pool"], message["operator"]


def drawn(state: dict[str, Any], now: float, width: int, height: int) -> RenderableType:
    """Return the screen: a line on the pool, one on the operator, and as many queues as fit, the busiest first."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    pool, leads = state["pool"], state["operator"]
    capacity = pool["capacity"]
    queues = [one for one in state["queues"].values() if one["pool"] == pool["name"]]
    queues.sort(key=lambda one: (-_part(one["usage"], capacity), one["namespace"], one["name"]))
    used = {name: sum(one["usage"].get(name, 0.0) for one in queues) for name in capacity}
    parts = ", ".join(f"{name} {used[name] / whole:.0%}" for name, whole in capacity.items() if whole > 0) or "capacity unknown"
    waits = sum(1 for one in queues if one["waiting"])
    first = Text(f"Pool {pool['name']}: {pool['nodes']} nodes; in use {parts}; {len(queues)} queues, work waits in {waits}.")
    problem = no_leader(leads)
    second = Text(problem, style="red") if problem else Text(f"{leads['holder']} leads.", style="dim")
    room = max(NARROWEST_LINES, height - 4)
    table = Table(HEAD, [_row(one, capacity, now) for one in queues[:room]], right=RIGHT)
    first.truncate(width, overflow="ellipsis")
    second.truncate(width, overflow="ellipsis")
    return Group(first, second, Text(), drawn_table(table, width))


def _row(one: dict[str, Any], capacity: dict[str, float], now: float) -> tuple[str, ...]:
    from fairburst.cli.queues import burst_in_words  # noqa: PLC0415
    from fairburst.quantity import format_quantity  # noqa: PLC0415

    window = one["window"] or {}
    times = {name: value for name, value in window.items() if name != "state" and value is not None}
    waiting = next((f"{format_quantity(name, amount)} {name}" for name, amount in one["waiting"].items() if amount > 0), "-")
    return (
        f"{one['namespace']}/{one['name']}", one["class"] or "-", f"{_part(one['usage'], capacity):.1%}",
        f"{_part(one['guaranteed'], capacity):.1%}", "-" if one["share"] is None else f"{one['share']:.1%}", waiting,
        burst_in_words(window.get("state"), times, now) if window else "-",
    )  # fmt: skip


def _part(amounts: dict[str, float], capacity: dict[str, float]) -> float:
    """Return the largest fraction of the pool that the amounts take of any resource."""
    return max((amount / capacity[name] for name, amount in amounts.items() if capacity.get(name, 0.0) > 0), default=0.0)
