"""`python -m benchmarks.pictures`: write docs/images again, from a control plane, an operator and work that run for about four minutes.

`python -m benchmarks.pictures terminal` or `dashboard` makes only these. A Chromium is needed (`make browser`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pictures.browser import explain, less_capacity, photograph, served, when_it_starts
from benchmarks.pictures.scene import WAITING_JOB, Scene, scene
from benchmarks.pictures.terminal import record, svg
from e2e.certificates import write_certificates

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
COMMANDS = ("status", "explain reporting", f"eta {WAITING_JOB[1]} -n {WAITING_JOB[0]}", "plan --capacity -30%")
TITLE = "A terminal with fairburst status, explain, eta and plan"
SETTLE_SECONDS = 150.0  # enough for some bursts to arrive and end
PATIENCE_SECONDS = 120.0


def main(arguments: Sequence[str]) -> int:
    """Make the requested pictures, all by default."""
    wanted = set(arguments) or {"terminal", "dashboard"}
    if not wanted <= {"terminal", "dashboard"}:
        print(f"expected terminal, dashboard or nothing, found {' '.join(arguments)}", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with scene(f"pictures-{os.getpid()}") as found, tempfile.TemporaryDirectory() as folder:
        found.run_for(SETTLE_SECONDS)
        found.wait_in_line()
        found.run_for(5.0)
        if "terminal" in wanted:
            terminal(found, Path(folder))
        if "dashboard" in wanted:
            dashboard(found, Path(folder))
    return 0


def terminal(found: Scene, folder: Path) -> None:
    """Record the commands."""
    during_a_burst(found)
    environment = {**os.environ, "KUBECONFIG": str(found.cluster.kubeconfig)}
    screens = [
        record(f"fairburst {command}", [sys.executable, "-m", "fairburst", *command.split()], environment, folder) for command in COMMANDS
    ]
    (IMAGES / "terminal.svg").write_text(svg(screens, TITLE), encoding="utf-8")


def dashboard(found: Scene, folder: Path) -> None:
    """Photograph the pages, the first of them while a burst runs."""
    pages = {
        "now": ("/", "tbody tr", lambda page: page.wait_for_timeout(300)),
        "job": ("/job", "form", when_it_starts(*WAITING_JOB)),
        "queue": ("/queue/LatencyQueue/reporting/queue", "button", explain),
        "what-if": ("/what-if", "form", less_capacity),
    }
    with served(found.fairburst("dashboard"), folder / "dashboard.log") as address:
        during_a_burst(found)
        photograph(address, pages, IMAGES)
    shared = found.fairburst("dashboard", "--tls", str(write_certificates(folder / "tls")))
    with served(shared, folder / "shared.log") as address:
        photograph(f"{address}login", {"login": ("/", "form", lambda page: page.wait_for_timeout(300))}, IMAGES)


def during_a_burst(found: Scene) -> None:
    """Wait until the burst of `clickstream` has run for a moment."""
    found.until(lambda: found.window_is("clickstream", "Open"), PATIENCE_SECONDS)
    found.run_for(4.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
