"""`python -m release chart|package|sbom|krew|check|image`: the chart's generated parts, the bill of materials, the plugin, the checks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from release import chart, image, krew, package
from release.check import NotReadyError, check
from release.sbom import bill_of_materials, to_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("chart", help="write the generated parts of charts/fairburst")
    packed = commands.add_parser("package", help="write the chart as one file, and the wheel")
    packed.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR")
    sbom = commands.add_parser("sbom", help="print the bill of materials, or write it")
    sbom.add_argument("--output", type=Path, metavar="FILE")
    plugin = commands.add_parser("krew", help="write the kubectl plugin and its manifest for krew")
    plugin.add_argument("--uri", required=True, metavar="URI", help="where the archive will be published")
    plugin.add_argument("--output", type=Path, default=Path("build/krew"), metavar="DIR")
    commands.add_parser("check", help="whether this version can be given out")
    built = commands.add_parser("image", help="whether a built image is what the Dockerfile promises, with its size and start-up")
    built.add_argument(
        "names", nargs="+", metavar="IMAGE", help="the image; a second one, built from the same commit, must hold the same files"
    )
    given = parser.parse_args(arguments)
    try:
        _run(given)
    except NotReadyError as error:
        sys.stderr.write(f"not ready: {error}\n")
        return 1
    return 0


def _run(given: argparse.Namespace) -> None:
    match given.command:
        case "chart":
            for path in chart.write():
                _say(str(path.relative_to(chart.ROOT)))
        case "package":
            for path in package.write(given.output):
                _say(str(path))
        case "sbom":
            texts = [(chart.ROOT / name).read_text(encoding="utf-8") for name in ("requirements.lock", "pyproject.toml")]
            document = to_json(bill_of_materials(texts[0], texts[1], chart.package_version()))
            if given.output:
                given.output.write_text(document, encoding="utf-8")
            else:
                sys.stdout.write(document)
        case "krew":
            licence = (chart.ROOT / "LICENSE").read_text(encoding="utf-8")
            for path in krew.write(chart.package_version(), given.uri, licence, given.output):
                _say(str(path))
        case "check":
            check(_say)
        case _:
            image.check(given.names, chart.package_version(), _say)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
