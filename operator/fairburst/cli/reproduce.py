"""`fairburst reproduce`: run one of the papers' experiments, or all of them, and compare."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairburst.cli.command import Commands

if TYPE_CHECKING:
    from fairburst.sim.reproductions.result import Options

# as fairburst.sim.reproductions.EXPERIMENTS, which is imported late; a test compares the two
NAMES = (
    "bopf-table4", "bopf-table3", "bopf-lq-times", "bopf-protection", "bopf-multi", "bopf-motivation", "bopf-errors", "bopf-alpha",
    "bpf-nonpreemption", "bopf-profiles", "dress-fig1", "dress-table2", "dress-mixed", "dress-estimator", "dress-lead-time",
    "paf-fig4", "paf-fig6", "paf-fig7", "paf-fig10", "paf-fits",
)  # fmt: skip
ALL = "all"


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("reproduce", help="run an experiment of the papers and compare with what they report")
    parser.add_argument("name", metavar="NAME", choices=(*NAMES, ALL), help=f"{', '.join(NAMES)}, or {ALL} (with --save)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated inputs (default 1)")
    parser.add_argument(
        "--trace", metavar="PATH", type=Path,
        help="inputs to use instead: a folder with bb.txt, tpcds.txt and tpch.txt (bopf-table4), a JSON file of jobs (paf-fig10), a folder "
        "of curves (paf-fig4, paf-fig7), of TPC-H profiles (dress-estimator) or of measured runs (paf-fits)",
    )  # fmt: skip
    parser.add_argument("--slots", type=int, metavar="N", help="paf-fig10: one cluster of so many slots")
    parser.add_argument("--save", metavar="DIR", type=Path, help="write the result as JSON and the plots as SVG and PNG")
    parser.add_argument("--quick", action="store_true", help="fewer points and jobs: a look at the trend, no comparison")
    parser.add_argument("--plain", action="store_true", help="interpret the loop even if numba is installed (same result, slower)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help=f"{ALL}: so many experiments at a time (default 1)")
    parser.set_defaults(function=reproduce)


def reproduce(given: argparse.Namespace) -> int:
    """Run and print."""
    from fairburst.sim.errors import SimulationError  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.sim.plots import can_plot  # noqa: PLC0415
    from fairburst.sim.reproductions import EXPERIMENTS  # noqa: PLC0415
    from fairburst.sim.reproductions.result import Options  # noqa: PLC0415

    options = Options(given.seed, given.trace, False if given.plain else None, given.quick, given.slots)
    if given.slots is not None and (given.slots < 1 or given.name != "paf-fig10"):
        sys.stderr.write(f"fairburst reproduce: --slots: expected a number above 0 with paf-fig10, found {given.slots} with {given.name}\n")
        return 2
    if given.trace is not None and (given.name == ALL or not EXPERIMENTS[given.name].takes_trace):
        sys.stderr.write(f"fairburst reproduce: --trace: {given.name} takes none\n")
        return 2
    if given.save is not None and not can_plot():
        sys.stderr.write("fairburst reproduce: no plots: matplotlib isn't installed (pip install fairburst[sim])\n")
    if given.name == ALL:
        return _all(given, options)
    try:
        _one(given, options)
    except SimulationError as error:
        sys.stderr.write(f"fairburst reproduce: {error}\n")
        return 1
    return 0


def _one(given: argparse.Namespace, options: Options) -> None:
    from fairburst.cli.progress import ProgressLine  # noqa: PLC0415
    from fairburst.sim.reproductions import EXPERIMENTS, suite  # noqa: PLC0415
    from fairburst.sim.reproductions.result import as_json, as_text  # noqa: PLC0415

    made_by = suite.origin(options)
    progress = ProgressLine()
    try:
        result = EXPERIMENTS[given.name].run(options, progress)
    finally:
        progress.end()
    sys.stdout.write(json.dumps({**as_json(result), **made_by}) + "\n" if given.json else as_text(result))
    if given.save is not None:
        suite.save(result, made_by, given.save)


def _all(given: argparse.Namespace, options: Options) -> int:
    """Run what the folder doesn't hold yet, a line each; what went wrong is said at its place and in the exit code."""
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    from fairburst.sim.reproductions import EXPERIMENTS, suite  # noqa: PLC0415

    if given.save is None or given.jobs < 1:
        sys.stderr.write("fairburst reproduce all: expected --save DIR, and --jobs of at least 1\n")
        return 2
    names = suite.missing(NAMES, suite.origin(options), given.save)
    minutes = sum(EXPERIMENTS[name].seconds for name in names) / 60 / given.jobs
    estimate = "a minute" if given.quick else f"{minutes:.0f} minutes of {given.jobs} processors"
    sys.stdout.write(f"{len(NAMES) - len(names)} of {len(NAMES)} are in {given.save}; {len(names)} to run, about {estimate}\n")
    failed = False
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as executor:
        for name, outcome in suite.run_all(names, options, given.save, executor):
            failed |= isinstance(outcome, str)
            told = outcome if isinstance(outcome, str) else ", ".join(f"{count} {verdict}" for verdict, count in sorted(outcome.items()))
            sys.stdout.write(f"{name}: {told}\n")
            sys.stdout.flush()
    return int(failed)
