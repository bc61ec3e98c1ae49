"""Processes that outlive the command that started them: found again and ended, without ever signalling an unrelated process.

A process id alone is no identity, because the kernel reuses it; the id together with the start time is one.
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
    started: str  # in the kernel's format; only compared

    def alive(self) -> bool:
        state, started = read_state(self.pid)
        if started != self.started:
            return False
        return state not in ENDED or self._still_ending()

    def _still_ending(self) -> bool:
        """Return whether a zombie still has threads, which may hold its ports. Collect a zombie without threads if it is our child."""
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
        """Return whether the process has ended within that time."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def read_state(pid: int) -> tuple[str, str]:
    """Return the state letter and start time of a process; both are empty if there is none."""
    if not PROC.is_dir():
        listed = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=10, check=False)
        state, _, started = listed.stdout.strip().partition(" ")
        return state[:1], started.strip()
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    # The command's name may hold spaces and brackets, so fields are counted from its last closing bracket.
    fields = stat[stat.rindex(")") + 2 :].split()
    return fields[0], fields[19]


def identify(pid: int) -> ProcessIdentity:
    return ProcessIdentity(pid, read_state(pid)[1])


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Defer signals that would end this process until the block is over, so that every started process is recorded.

    Handlers are deferred, not masked: a child would inherit a mask and ignore its own SIGTERM. Outside the main thread this does nothing,
    because Python runs handlers only in the main thread.
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
    for came in arrived:
        signal.raise_signal(came)


def spawn(command: list[str], log: Path, folder: Path) -> ProcessIdentity:
    """Start a process in a new session, so that Ctrl-C at a terminal does not reach it."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    process.returncode = 0  # alive() reaps it, or init after our exit: Popen must neither wait for it nor warn about it
    return identify(process.pid)
