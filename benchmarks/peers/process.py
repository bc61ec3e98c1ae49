"""A contender whose controller is one process: started until it is ready, killed, started again, and ended."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from benchmarks.peers.contender import Contender, PeerError
from e2e.cluster.build import last_lines

READY_SECONDS = 90.0


class Controller(Protocol):
    """The process of a contender's controller. OperatorProcess is one too."""

    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> object: ...


class LoggedProcess:
    """A process with its output in a file. `ready`: whether it serves."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, ready: Callable[[], bool], env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._command, self._env, self._log, self._ready = list(command), os.environ | (env or {}), log, ready
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it is ready. Raises PeerError if it ends or is not ready in time."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PeerError(f"{self.name} is not ready. Its last lines:\n{last_lines(self._log)}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PeerError(f"{self.name} has not been started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


class ControlledContender(Contender):
    """A contender with one such process, which its subclass starts. `process`: its name in the figures."""

    process = ""

    def __init__(self) -> None:
        self._controller: Controller | None = None

    @override
    def processes(self) -> dict[str, int]:
        return {self.process: self._controller.pid} if self._controller is not None and self._controller.running else {}

    @override
    def kill(self) -> None:
        if self._controller is not None:
            self._controller.kill()

    @override
    async def revive(self) -> None:
        if self._controller is not None:
            await asyncio.to_thread(self._controller.start)

    @override
    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop()


def answers(port: int, path: str) -> bytes | None:
    """Return the body that a port of this machine answers a GET with, or None if it does not answer with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()
