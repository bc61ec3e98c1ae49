"""`fairburst reproduce`: run one of the papers' experiments and compare."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fairburst.cli.command import Commands

# as fairburst.sim.reproductions.EXPERIMENTS, which is imported late; a test compares the two
NAMES = (
    "bopf-table4", "bopf-table3", "bopf-lq-times", "bopf-protection", "bopf-multi", "bopf-motivation", "bopf-errors", "bopf-alpha",
    "bpf-nonpreemption",
)  # fmt: skip


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser("reproduce", help="run an experiment of the papers and compare with what they report")
    parser.add_argument("name", metavar="NAME", choices=NAMES, help=", ".join(NAMES))
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated inputs (default 1)")
    parser.add_argument("--trace", metavar="DIR", type=Path, help="bopf-table4: folder with bb.txt, tpcds.txt and tpch.txt (stage lists)")
    parser.add_argument("--save", metavar="DIR", type=Path, help="write the result as JSON and the plots as SVG and PNG")
    parser.add_argument("--quick", action="store_true", help="fewer points and jobs: a look at the trend, no comparison")
    parser.add_argument("--plain", action="store_true", help="interpret the loop even if numba is installed (same result, slower)")
    parser.set_defaults(function=reproduce)


def reproduce(given: argparse.Namespace) -> int:
    """Run and print."""
    from fairburst.cli.progress import ProgressLine  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.sim.errors import SimulationError  # noqa: PLC0415
    from fairburst.sim.plots import can_plot, save_charts  # noqa: PLC0415
    from fairburst.sim.reproductions import EXPERIMENTS  # noqa: PLC0415
    from fairburst.sim.reproductions.result import Options, as_json, as_text  # noqa: PLC0415

    experiment = EXPERIMENTS[given.name]
    progress = ProgressLine()
    try:
        if given.trace is not None and not experiment.takes_trace:
            sys.stderr.write(f"fairburst reproduce: --trace: expected it with bopf-table4 only, found it with {given.name}\n")
            return 2
        result = experiment.run(Options(given.seed, given.trace, False if given.plain else None, given.quick), progress)
    except SimulationError as error:
        sys.stderr.write(f"fairburst reproduce: {error}\n")
        return 1
    finally:
        progress.end()
    sys.stdout.write(json.dumps(as_json(result)) + "\n" if given.json else as_text(result))
    if given.save is not None:
        given.save.mkdir(parents=True, exist_ok=True)
        (given.save / f"{given.name}.json").write_text(json.dumps(as_json(result), indent=1) + "\n", encoding="utf-8")
        if can_plot():
            save_charts(result.charts, given.save)
        else:
            sys.stderr.write("fairburst reproduce: no plots: matplotlib isn't installed (pip install fairburst[sim])\n")
    return 0
