"""Earlier states of this repository, from its git history: the chart and the operator as they stood then.

`python -m tests.support.earlier` says in one line whether the tests of upgrades find them in this checkout.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PARTS = ("operator", "charts")
# Commits by what they are. The first has other CRDs, policies and statuses than the present; the last is the version before it.
EARLIER = {
    "the first version": "1a92e73d673183e6057bb77f982fe3833d79d5e5",
    "the version before": "b12af53422cd86335c55ff70b35286edd7d9f245",
}


@dataclass(frozen=True)
class Version:
    """One state of the sources. `package` is the folder to import `fairburst` from."""

    commit: str
    package: Path
    chart: Path


def problem(commit: str) -> str:
    """Return the reason why this commit is not available; empty if it is."""
    known = _git("cat-file", "-e", f"{commit}^{{commit}}")
    if known.returncode == 0:
        return ""
    shallow = _git("rev-parse", "--is-shallow-repository").stdout.decode().strip()
    if shallow == "true":
        return f"this is a shallow clone, without commit {commit}: `git fetch --unshallow` gets it"
    return f"the history of this checkout has no commit {commit}: {known.stderr.decode().strip()}"


def version_at(commit: str, folder: Path) -> Version:
    """Write the sources of a commit into `folder`, which is made."""
    archive = _git("archive", "--format=zip", commit, *PARTS)
    if archive.returncode != 0:
        raise FileNotFoundError(f"git archive {commit}: {archive.stderr.decode().strip()}")
    with zipfile.ZipFile(BytesIO(archive.stdout)) as packed:
        packed.extractall(folder)
    return Version(commit, folder / "operator", folder / "charts" / "fairburst")


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, timeout=60, check=False)


def main() -> int:
    """Print one line; the status is 0 in any case, since a missing history is no fault of the sources."""
    problems = [text for commit in EARLIER.values() if (text := problem(commit))]
    print(f"UPGRADES NOT TESTED: {problems[0]}" if problems else f"upgrades are tested from {len(EARLIER)} earlier versions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
