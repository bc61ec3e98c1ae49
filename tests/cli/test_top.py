"""`fairburst top`: the screen that is drawn, and the command in a terminal against a fake API server."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from rich.console import Console

from fairburst.cli.dashboard.entries import entry
from fairburst.cli.errors import WRONG_ARGUMENTS
from fairburst.cli.main import main
from fairburst.cli.top import drawn, take
from tests.cli.test_ask import TQ, Served, served
from tests.support.objects import stored_queue

__all__ = ["served"]

CAPACITY = {"cpu": 100.0, "memory": 1000.0}


def message(queues: dict[str, Any], *, replace: bool = True, **operator: Any) -> dict[str, Any]:
    pool = {"name": "default", "nodes": 4, "capacity": CAPACITY, "shapes": []}
    return {"at": 0.0, "pool": pool, "operator": operator or {"holder": "one"}, "replace": replace, "queues": queues}


def queue(namespace: str, cpu: str, **status: Any) -> dict[str, Any]:
    return entry("ThroughputQueue", namespace, "tq", {"spec": {}, "status": {"class": "Elastic", "usage": {"cpu": cpu}, **status}})


def screen(state: dict[str, Any], width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(drawn(state, 100.0, width, height))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_busiest_queues_come_first_and_the_screen_is_never_too_high() -> None:
    state: dict[str, Any] = {"queues": {}}
    take(state, message({f"q{number}": queue(f"team-{number:02}", str(number)) for number in range(40)}))
    lines = screen(state)
    assert len(lines) <= 24
    assert lines[0].startswith("Pool default: 4 nodes; in use cpu 780%")
    assert lines[4].split()[:3] == ["team-39/tq", "Elastic", "39.0%"]


def test_changes_add_to_and_remove_from_what_is_shown() -> None:
    state: dict[str, Any] = {"queues": {}}
    take(state, message({"a": queue("first", "1"), "b": queue("second", "2")}))
    take(state, message({"a": None, "c": queue("third", "3", waiting={"cpu": "5"})}, replace=False))
    shown = "\n".join(screen(state))
    assert "first" not in shown
    assert "work waits in 1." in shown
    assert re.search(r"third/tq .* 5 cpu", shown)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    state: dict[str, Any] = {"queues": {}}
    take(state, message({"a": queue("a-namespace-with-a-very-long-name", "1")}, problem="no operator has ever led " * 9))
    assert all(len(line) <= width for line in screen(state, width))


def test_without_a_terminal_it_says_what_prints_once(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", *served.arguments]) == WRONG_ARGUMENTS
    assert "`fairburst get` print once" in capsys.readouterr().err


def test_in_a_terminal_it_follows_the_cluster_until_interrupted(served: Served) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fairburst.cli.main", "top", *served.arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        read_until(ours, "serving-2/lq")
        served.put(TQ, stored_queue("ThroughputQueue", "batch", "late", status={"class": "Elastic", "usage": {"cpu": "32"}}))
        shown = read_until(ours, "batch/late")
        assert "50.0%" in shown
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
    finally:
        running.kill()
        running.wait()  # or its warning fails another test
        os.close(ours)


def read_until(terminal: int, text: str) -> str:
    """Return what is drawn from now on, until the text is there and nothing more is drawn for a moment."""
    shown, deadline = "", time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, shown[-2000:]
        if select.select([terminal], [], [], 0.3)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
        elif text in shown:
            return shown
