"""`python -m e2e.kind up|down`: a kind cluster with the operator's image that outlives the command, for many runs of e2e/promises.

    python -m e2e.kind up --name play && E2E_KIND_CLUSTER=play pytest e2e/promises -k classes; python -m e2e.kind down --name play

Exits with 3 if the machine cannot run nodes as containers, with 1 if the operator's image cannot be built.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from e2e.harness import end_in_good_order
from e2e.kind.cluster import ImageError, KindCluster, KindError

NO_CLUSTER, NO_IMAGE = 3, 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.kind", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--name", default="fairburst-e2e", help="name of the cluster")
    arguments = parser.parse_args()
    end_in_good_order()
    with tempfile.TemporaryDirectory(prefix="fairburst-kind-") as folder:
        return {"up": up, "down": down}[arguments.command](arguments.name, Path(folder))


def up(name: str, folder: Path) -> int:
    """Create the cluster, load the images onto its nodes and probe them. On failure, delete the partial cluster."""
    try:
        with ExitStack() as failed:
            cluster = failed.enter_context(KindCluster.equipped(name, folder))
            cluster.probe()
            failed.pop_all()
    except ImageError as error:
        return complain(error, NO_IMAGE)
    except KindError as error:
        return complain(error, NO_CLUSTER)
    return 0


def down(name: str, folder: Path) -> int:
    try:
        KindCluster(name, folder / name).delete()
    except KindError as error:
        return complain(error, NO_CLUSTER)
    return 0


def complain(error: KindError, status: int) -> int:
    print(f"e2e.kind: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
