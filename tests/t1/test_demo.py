"""An interrupted demo leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest


def processes_marked(mark: str) -> dict[int, str]:
    """Return the processes that have inherited the mark in their environment, with their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@pytest.mark.parametrize(
    ("until", "number", "want_running"),
    [
        pytest.param("Starting a control plane", signal.SIGTERM, [], id="while the cluster starts"),
        pytest.param("with fairburst,  ", signal.SIGINT, ["kube-apiserver", "fairburst run"], id="while operator and workload run"),
    ],
)
def test_interrupted_demo_leaves_no_process_behind(until, number, want_running):
    mark = f"demo-test-{uuid.uuid4().hex}"
    command = [sys.executable, "-m", "e2e.demo", "--cluster", "kwok", "--seconds", "80", "--phase", "with"]
    with subprocess.Popen(command, env=os.environ | {"MARK": mark}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        try:
            said = []
            for line in demo.stdout:
                said.append(line)
                if line.startswith(until):
                    break
            assert said[-1].startswith(until), "".join(said)
            running = processes_marked(mark).values()
            assert all(any(name in command for command in running) for name in want_running)
            demo.send_signal(number)
            rest = demo.stdout.read()
            assert demo.wait(60) == 128 + number, rest
        finally:
            demo.kill()
    assert processes_marked(mark) == {}
    assert "Traceback" not in rest
