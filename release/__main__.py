"""`python -m release chart|sbom|check`: the chart's generated parts, the bill of materials, the checks before a release."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from release import chart


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("chart", help="write the generated parts of charts/fairburst")
    given = parser.parse_args(arguments)
    if given.command == "chart":
        for path in chart.write():
            sys.stdout.write(f"{path.relative_to(chart.ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
