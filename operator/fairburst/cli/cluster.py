"""Access of commands to the cluster: its choice, the user's rights, and the messages when it does not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fairburst.cli.arguments import config_of, namespace_name, readable_file
from fairburst.cli.errors import NO_CLUSTER, WRONG_ARGUMENTS, CommandError

if TYPE_CHECKING:
    from fairburst.config import Config
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.api.errors import ApiError
    from fairburst.kube.look import Look
    from fairburst.kube.queues.listing import Queues
    from fairburst.kube.queues.queue_set import ObjectKey

T = TypeVar("T")

CLUSTER = "Cluster"  # the panel of the options below
INSTALL = "install it with `helm install fairburst charts/fairburst -n fairburst-system --create-namespace`"
Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", callback=readable_file, rich_help_panel=CLUSTER, help="Instead of $KUBECONFIG."),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", rich_help_panel=CLUSTER, help="A context of the kubeconfig; else its current one."),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", callback=namespace_name, rich_help_panel=CLUSTER, help="Only this namespace; else all of them."
    ),
]
OperatorConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", callback=readable_file, rich_help_panel=CLUSTER,
        help="The operator's configuration; without it, that of the installed operator.",
    ),
]  # fmt: skip
SystemNamespace = Annotated[
    str, typer.Option("--system-namespace", metavar="NAME", rich_help_panel=CLUSTER, help="Where the operator is installed.")
]
SYSTEM_NAMESPACE = "fairburst-system"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that the arguments choose. token: of another user, in place of the credentials that are found."""

    kubeconfig: Path | None = None
    context: str | None = None
    config: Path | None = None
    system_namespace: str = SYSTEM_NAMESPACE
    token: str | None = field(default=None, repr=False)

    def ask(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Run `work` with a client. Raises CommandError, one line that says what to do, if the cluster does not answer as needed."""
        import asyncio  # noqa: PLC0415  keeps `fairburst --help` quick
        import logging  # noqa: PLC0415

        from fairburst.kube.api.errors import ApiError, CredentialsError  # noqa: PLC0415

        logger = logging.getLogger("fairburst")
        level = logger.level
        logger.setLevel(logging.ERROR)  # the command itself reports what is wrong
        try:
            return asyncio.run(self._connected(work))
        except CredentialsError as error:
            raise CommandError(" ".join(str(error).split()), NO_CLUSTER) from error
        except ApiError as error:
            raise CommandError(" ".join(advice_on(error).split()), NO_CLUSTER) from error
        finally:
            logger.setLevel(level)

    async def _connected(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        import asyncio  # noqa: PLC0415

        from fairburst.kube.api.auth import load_credentials  # noqa: PLC0415
        from fairburst.kube.api.client import ApiClient  # noqa: PLC0415

        kubeconfig = None if self.kubeconfig is None else str(self.kubeconfig)
        credentials = await asyncio.to_thread(load_credentials, kubeconfig, self.context)
        if self.token is not None:
            credentials = credentials.with_token(self.token)
        async with ApiClient(credentials, agent="fairburst-cli") as client:
            return await work(client)

    async def settings(self, client: ApiClient) -> Config:
        """Return the operator's configuration: from --config, else as installed, else the defaults."""
        from fairburst.config import Config  # noqa: PLC0415
        from fairburst.kube.look import installed_config  # noqa: PLC0415

        if self.config is not None:
            return config_of(self.config)
        return await installed_config(client, self.system_namespace) or Config(namespace=self.system_namespace)

    async def look(self, client: ApiClient) -> Look:
        """Read the cluster and decide. Raises ApiError if a collection may not be read, and PolicyError if the core cannot decide."""
        from fairburst.kube.look import look  # noqa: PLC0415

        return await look(client, await self.settings(client))


def complete_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queues whose names begin with `incomplete`, for completion by the shell; none if the cluster does not answer."""
    from fairburst.kube.queues.listing import read_queues  # noqa: PLC0415

    kubeconfig, namespace = ctx.params.get("kubeconfig"), ctx.params.get("namespace")
    cluster = Cluster(None if kubeconfig is None else Path(kubeconfig), ctx.params.get("context"))
    try:
        queues = cluster.ask(lambda client: read_queues(client, namespace))
    except CommandError:
        return []
    return sorted(name for _, within, short in queues if (name := f"{within}/{short}").startswith(incomplete))


def advice_on(error: ApiError) -> str:
    """Return a line that says what happened, and what to do."""
    from fairburst.kube.api.errors import Forbidden, NotFound, Unavailable  # noqa: PLC0415
    from fairburst.kube.names import GROUP  # noqa: PLC0415

    match error:
        case Unavailable() if "SSLCertVerificationError" in error.message:
            trusted = "check server and certificate-authority in it, or choose another --context"
            return f"the kubeconfig does not trust the API server's certificate ({error.message}); {trusted}"
        case Unavailable():
            return f"the API server does not answer ({error.message}); check the kubeconfig, --context and the network"
        case _ if error.unknown_user:
            how = "its token or client certificate is missing, wrong or expired: log in again, or choose another --context"
            return f"the API server does not know this user ({error.message}); {how}"
        case Forbidden():
            less = "`fairburst get -n NAMESPACE` and `fairburst explain QUEUE -n NAMESPACE` need less"
            return f"this user may not do that ({error.message}); ask for the right; {less}"
        case NotFound() if GROUP in error.message:
            return f"fairburst is not installed in this cluster (it has no kinds of {GROUP}); {INSTALL}, or choose another --context"
        case _:
            return f"the API server refuses: {error}"


def queue_of_work(queues: Queues, namespace: str, asked: str, class_name: str | None = None) -> str:
    """Return NAMESPACE/NAME of the queue of a namespace to which work belongs.

    `asked`: the queue label of its next pods, empty without one. `class_name`: of a pod that exists, which belongs to a queue by its class.

    Raises CommandError if the queue can't be determined.
    """
    from fairburst.kube.names import LANE_OF_CLASS  # noqa: PLC0415

    statuses = {key: queue.get("status") or {} for key, queue in queues.items() if key[1] == namespace}
    classes = {key: (status.get("podPriority") or {}).get("className", "") for key, status in statuses.items()}
    lanes = {key[2]: key for key, given in classes.items() if given in LANE_OF_CLASS}
    default = [key for key, given in classes.items() if given and key not in lanes.values()]
    found = [key for name, key in lanes.items() if (name == asked if class_name is None else classes[key] == class_name)] or default
    return f"{namespace}/{found[0][2]}" if found else namespace


def find_queue(queues: Queues, text: str, namespace: str | None) -> ObjectKey:
    """Return the queue that a person means: NAMESPACE/NAME, NAME, or the namespace that it governs. Raises CommandError."""
    within, _, name = text.rpartition("/")
    within = within or namespace or ""
    exact = [key for key in queues if key[2] == name and key[1] == (within or key[1])]
    found = exact or [key for key in queues if key[1] == text and within in ("", text)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{key[1]}/{key[2]}" for key in found[:5])
        raise CommandError(f"expected one queue, found {len(found)} with the name {text}: {names}; say NAMESPACE/NAME", WRONG_ARGUMENTS)
    known = ", ".join(f"{key[1]}/{key[2]}" for key in sorted(queues, key=lambda key: key[1:])[:5])
    raise CommandError(f"expected a queue, found none called {text}; there are: {known or 'none'}", WRONG_ARGUMENTS)
