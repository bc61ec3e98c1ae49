"""`fairburst doctor`: is fairburst installed right, and does it work? Each finding comes with the command that mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fairburst.cli.arguments import OutputForm
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, OperatorConfig, SystemNamespace
from fairburst.cli.errors import FAILED
from fairburst.cli.output import Table, is_data, print_table, print_value

if TYPE_CHECKING:
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.install.check import Finding

WORDS = {True: "ok", False: "WRONG", None: "unknown"}


def doctor(
    output: OutputForm = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> int:
    """Check rights, versions, policies, each pool's operator and clock, and name what mends each finding; exit status 1 if one is wrong."""
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    findings = cluster.ask(lambda client: _ask(client, cluster))
    if is_data(output):
        print_value([{"check": one.check, "ok": one.ok, "message": one.message, "mend": one.mend} for one in findings], output)
    else:
        print_table(Table(("CHECK", "RESULT", "FOUND"), [(one.check, WORDS[one.ok], one.message) for one in findings]), output)
        for one in findings:
            if one.mend and one.ok is not True:
                sys.stdout.write(f"\n{one.check}: {one.mend}\n")
    return FAILED if any(one.ok is False for one in findings) else 0


async def _ask(client: ApiClient, cluster: Cluster) -> list[Finding]:
    from fairburst.kube.install.check import check_installation  # noqa: PLC0415  keeps `fairburst --help` quick

    return await check_installation(client, await cluster.settings(client))
