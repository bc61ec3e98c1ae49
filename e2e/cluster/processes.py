"""Processes that outlive the command that started them: found again, and ended, without ever touching a stranger's.

A process id alone is not an identity, since the kernel reuses it; the id together with the start time is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDED = {"Z", "X"}


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    pid: int
    started: str  # in the kernel's words; only ever compared

    def alive(self) -> bool:
        state, started = read_state(self.pid)
        if started != self.started:
            return False
        return state not in ENDED or self._still_ending()

    def _still_ending(self) -> bool:
        """A zombie may have threads that hold its ports a moment longer; one that has not is collected if it is a child of ours."""
        try:
            collected, _ = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            with contextlib.suppress(OSError):
                return len(list((PROC / str(self.pid) / "task").iterdir())) > 1
            return False
        return collected == 0

    def send(self, number: signal.Signals) -> None:
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within that time."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def read_state(pid: int) -> tuple[str, str]:
    """State letter and start time of a process; both empty if there is none."""
    if not PROC.is_dir():
        listed = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=10, check=False)
        state, _, started = listed.stdout.strip().partition(" ")
        return state[:1], started.strip()
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    # The command's name may hold spaces and brackets: fields are counted from its last closing bracket.
    fields = stat[stat.rindex(")") + 2 :].split()
    return fields[0], fields[19]


def identify(pid: int) -> ProcessIdentity:
    return ProcessIdentity(pid, read_state(pid)[1])


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Signals that would end us wait until the block is over, so that nothing is started without being recorded.

    Handlers are put off, not masked: a child would inherit a mask and ignore its own SIGTERM. Outside the main thread nothing is
    done, for Python runs handlers only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in arrived:
        signal.raise_signal(number)


def spawn(command: list[str], log: Path, folder: Path) -> ProcessIdentity:
    """Start a process in a session of its own, so that Ctrl-C at a terminal reaches us and not it."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    process.returncode = 0  # alive() reaps it, or init when we are gone: Popen must neither wait for it nor warn about it
    return identify(process.pid)
