"""The command `fairburst`, also `kubectl fairburst`: one module a subcommand.

Commands import slow modules only when they run, so that help and completion are quick.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from fairburst.cli import (
    config,
    crds,
    doctor,
    eta,
    explain,
    extender,
    get,
    import_kueue,
    manifests,
    metrics,
    plan,
    recommend,
    replay,
    report,
    reproduce,
    run,
    simulate,
    snapshot,
    status,
    top,
    uninstall,
)
from fairburst.cli.dashboard import command
from fairburst.cli.errors import FAILED, INTERRUPTED, NO_CLUSTER, CommandError


class Sections(TyperGroup):
    """Lists commands by panel, in plain text, because rich would double the time of `fairburst --help`."""

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel, in the order of its first command."""
        panels: dict[str, list[tuple[str, str]]] = {}
        width = max(len(name) for name in self.list_commands(ctx))
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(str(panel), []).append((name.ljust(width), command.get_short_help_str(1000)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=Sections,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
QUESTIONS, OPERATOR, EXPERIMENTS = "Ask a cluster", "Install and run", "Simulate, replay, report"
for panel, functions in (
    (
        QUESTIONS,
        (status.status, top.top, get.get, explain.explain, eta.eta, plan.plan, recommend.recommend, command.dashboard, doctor.doctor),
    ),
    (OPERATOR, (run.run, extender.extender, manifests.manifests, crds.crds, config.config, metrics.metrics, uninstall.uninstall)),
    (EXPERIMENTS, (simulate.simulate, reproduce.reproduce, replay.replay, report.report)),
):
    for function in functions:
        app.command(rich_help_panel=panel)(function)
app.add_typer(snapshot.snapshots, name="snapshot", rich_help_panel=QUESTIONS)
app.add_typer(import_kueue.imports, name="import", rich_help_panel=OPERATOR)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415  needed here only

        sys.stdout.write(f"fairburst {version('fairburst')}\n")
        raise typer.Exit


@app.callback()
def fairburst(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Bounded priority for bursts, fair shares for batch work, on one Kubernetes cluster."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status (errors.py). A failure is one line on standard error, without a traceback."""
    _replace_closed_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = " ".join(["fairburst", *words[:1]]) if words and not words[0].startswith("-") else "fairburst"
    try:
        ended = app(args=words, prog_name="fairburst", standalone_mode=False)
    except typer.TyperException as error:
        if not str(error):  # without arguments the help has been printed
            return error.exit_code
        context = getattr(error, "ctx", None)
        asked = "fairburst" if context is None else context.command_path
        sys.stderr.write(f"{name}: {error.format_message()}\nTry `{asked} --help`.\n")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        known = _expected(error)
        if known is None:
            raise
        sys.stderr.write(f"{name}: {known}\n")
        return known.status
    return ended if isinstance(ended, int) else 0


class _ClosedOutput(io.TextIOBase):
    """Standard output that was closed before the program began (`>&-`), for which Python has None."""

    @override
    def write(self, text: str) -> int:
        raise CommandError("expected an open standard output, found a closed one")


def _replace_closed_streams() -> None:
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:
        sys.stderr = io.StringIO()


def _expected(error: Exception) -> CommandError | None:
    """Return an error for users if its cause lies outside the program; None for a defect."""
    if isinstance(error, CommandError):
        return error
    from fairburst.config import ConfigError  # noqa: PLC0415  an error has time
    from fairburst.kube.api.errors import ApiError, CredentialsError  # noqa: PLC0415
    from fairburst.policy.errors import PolicyError  # noqa: PLC0415
    from fairburst.recording.errors import RecordingError  # noqa: PLC0415
    from fairburst.sim.errors import SimulationError  # noqa: PLC0415

    if isinstance(error, ApiError | CredentialsError):
        return CommandError(str(error), NO_CLUSTER)
    if isinstance(error, ConfigError | PolicyError | RecordingError | SimulationError | OSError):
        return CommandError(str(error), FAILED)
    return None


if __name__ == "__main__":
    sys.exit(main())
