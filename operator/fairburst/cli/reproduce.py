"""`fairburst reproduce`: run one of the papers' experiments, or all of them, and compare."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairburst.cli.arguments import Form, OutputForm, SaveFolder, readable
from fairburst.cli.output import is_data, print_value

if TYPE_CHECKING:
    from fairburst.sim.reproductions.result import Options

# The names of fairburst.sim.reproductions.EXPERIMENTS, which is imported late. A test compares the two.
NAMES = (
    "bopf-table4", "bopf-table3", "bopf-lq-times", "bopf-protection", "bopf-multi", "bopf-motivation", "bopf-errors", "bopf-alpha",
    "bpf-nonpreemption", "bopf-profiles", "dress-fig1", "dress-table2", "dress-mixed", "dress-estimator", "dress-lead-time", "dress-sweep",
    "paf-fig4", "paf-fig6", "paf-fig7", "paf-fig10", "paf-fits",
)  # fmt: skip
ALL = "all"


def _known(name: str) -> str:
    if name not in {*NAMES, ALL}:
        raise typer.BadParameter(f"expected one of {', '.join(NAMES)}, {ALL}; found {name!r}")
    return name


def _names(incomplete: str) -> list[str]:
    return [name for name in (*NAMES, ALL) if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", callback=_known, autocompletion=_names, help=f"{', '.join(NAMES)}, or {ALL} (with --save)."),
]
TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="PATH", callback=readable,
        help="Inputs to use instead: a folder with bb.txt, tpcds.txt and tpch.txt (bopf-table4), a JSON file of jobs (paf-fig10), a folder "
        "of curves (paf-fig4, paf-fig7), of TPC-H profiles (dress-estimator) or of measured runs (paf-fits).",
    ),
]  # fmt: skip


def reproduce(
    name: Name,
    output: OutputForm = "table",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the generated inputs.")] = 1,
    trace: TracePath = None,
    slots: Annotated[int | None, typer.Option("--slots", metavar="N", min=1, help="paf-fig10: one cluster of so many slots.")] = None,
    save: SaveFolder = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and jobs: a look at the trend, no comparison.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Interpret the loop even if numba is installed (same result, slower).")] = False,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, help=f"{ALL}: so many experiments at a time.")] = 1,
) -> int:
    """Run an experiment of the papers and compare with what they report."""
    if slots is not None and name != "paf-fig10":
        raise typer.BadParameter(f"expected it with paf-fig10 only, found it with {name}", param_hint="--slots")
    if name == ALL and save is None:
        raise typer.BadParameter(f"expected --save DIR with {ALL}, found none", param_hint="--save")
    if name == ALL and is_data(output):
        raise typer.BadParameter(f"expected a table with {ALL}, whose results are the JSON files in --save", param_hint="--output")
    from fairburst.sim.plots import can_plot  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.sim.reproductions import EXPERIMENTS  # noqa: PLC0415
    from fairburst.sim.reproductions.result import Options  # noqa: PLC0415

    if trace is not None and (name == ALL or not EXPERIMENTS[name].takes_trace):
        raise typer.BadParameter(f"{name} takes none", param_hint="--trace")
    options = Options(seed, trace, False if plain else None, quick, slots)
    if save is not None and not can_plot():
        sys.stderr.write("fairburst reproduce: no plots: matplotlib isn't installed (pip install fairburst[sim])\n")
    if name == ALL and save is not None:
        return _all(options, save, jobs)
    _one(name, options, save, output)
    return 0


def _one(name: str, options: Options, save: Path | None, output: Form) -> None:
    from fairburst.cli.progress import ProgressLine  # noqa: PLC0415
    from fairburst.sim.reproductions import EXPERIMENTS, suite  # noqa: PLC0415
    from fairburst.sim.reproductions.result import as_json, as_text  # noqa: PLC0415

    made_by = suite.origin(options)
    with ProgressLine() as progress:
        result = EXPERIMENTS[name].run(options, progress)
    if is_data(output):
        print_value({**as_json(result), **made_by}, output)
    else:
        sys.stdout.write(as_text(result))
    if save is not None:
        suite.save(result, made_by, save)


def _all(options: Options, save: Path, jobs: int) -> int:
    """Run the experiments that the folder lacks, and print a line for each, also for a failed one. Return the exit status."""
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    from fairburst.sim.reproductions import EXPERIMENTS, suite  # noqa: PLC0415

    names = suite.missing(NAMES, suite.origin(options), save)
    minutes = sum(EXPERIMENTS[name].seconds for name in names) / 60 / jobs
    estimate = "a minute" if options.quick else f"{minutes:.0f} minutes of {jobs} processors"
    sys.stdout.write(f"{len(NAMES) - len(names)} of {len(NAMES)} are in {save}; {len(names)} to run, about {estimate}\n")
    failed = False
    # Ctrl-C reaches the workers too. With the default handler they end at once, without tracebacks.
    with ProcessPoolExecutor(jobs, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_DFL)) as executor:
        for name, outcome in suite.run_all(names, options, save, executor):
            failed |= isinstance(outcome, str)
            text = outcome if isinstance(outcome, str) else ", ".join(f"{count} {verdict}" for verdict, count in sorted(outcome.items()))
            sys.stdout.write(f"{name}: {text}\n")
            sys.stdout.flush()
    return int(failed)
