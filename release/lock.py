"""Parts of requirements.lock: the pins, with their hashes, of some packages and of their dependencies.

`python release/lock.py --project` prints the pins of the operator, without the extras for simulation and development;
`python release/lock.py NAME ...` those of the named packages. It uses only the standard library, since the image's build has nothing else.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


class UnknownPinError(Exception):
    """The lock does not pin a package that is needed. The message names it."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One entry of the lock. `text`: as in the file. `needed_by`: packages that depend on it, ours included."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    text: str
    needed_by: frozenset[str]


def read(lock: str) -> list[Pin]:
    """Return every pin, in the lock's order. A package has several pins if its version depends on the platform."""
    pins = []
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        head = re.match(r"([A-Za-z0-9._-]+)==([^ ;\\\n]+)(?: *; *([^\\\n]*?))? *\\?\n", entry)
        if head is not None:
            via = re.findall(r"(?m)^    # (?:via |  )([A-Za-z0-9._-]+)", entry)
            hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", entry))
            pins.append(Pin(normal(head[1]), head[2], head[3] or "", hashes, entry, frozenset(map(normal, via))))
    return pins


def closure(pins: Sequence[Pin], names: Iterable[str]) -> list[Pin]:
    """Return the pins of the named packages and of their dependencies. Raises UnknownPinError."""
    wanted = {normal(name) for name in names}
    unknown = sorted(wanted - {pin.name for pin in pins})
    if unknown:
        raise UnknownPinError(f"requirements.lock: expected a pin of {', '.join(unknown)}, found none; run `make lock`")
    while more := {pin.name for pin in pins if pin.needed_by & wanted} - wanted:
        wanted |= more
    return [pin for pin in pins if pin.name in wanted]


def project_needs(pyproject: str) -> list[str]:
    """Return the names of the operator's direct dependencies in the image: the wheel's, and those of the extra `operator`."""
    project = tomllib.loads(pyproject)["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["operator"]]
    return [re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0] for need in needs]


def normal(name: str) -> str:
    """Return the normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", action="store_true", help="what the operator runs with")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    root = Path(__file__).parents[1]
    names = given.names + (project_needs((root / "pyproject.toml").read_text(encoding="utf-8")) if given.project else [])
    sys.stdout.writelines(pin.text for pin in closure(read((root / "requirements.lock").read_text(encoding="utf-8")), names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
