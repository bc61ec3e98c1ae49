"""Only our own processes are ended: a process id that another program has by now is left alone."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.processes import ProcessIdentity, identify, spawn, unbroken


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_stranger_with_a_reused_process_id_is_left_alone(stranger: subprocess.Popen[bytes]) -> None:
    ours = ProcessIdentity(stranger.pid, started="earlier")
    assert not ours.alive()
    ours.send(signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        stranger.wait(timeout=0.2)


def test_process_is_seen_alive_then_gone(tmp_path: Path) -> None:
    process = spawn(["sleep", "60"], tmp_path / "log", tmp_path)
    assert process.alive()
    assert not process.wait(0.05)
    process.send(signal.SIGTERM)
    assert process.wait(5)
    assert not process.alive()


def test_child_that_ends_at_once_is_no_zombie(tmp_path: Path) -> None:
    process = spawn(["sh", "-c", "echo said; exit 3"], tmp_path / "log", tmp_path)
    assert process.wait(5)
    assert (tmp_path / "log").read_text() == "said\n"
    assert not Path(f"/proc/{process.pid}").exists()


def test_identity_survives_being_written_down(stranger: subprocess.Popen[bytes]) -> None:
    assert identify(stranger.pid).started == identify(stranger.pid).started
    assert identify(stranger.pid).alive()


def test_signal_that_comes_while_a_process_is_started_waits_until_it_is_recorded() -> None:
    events: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: events.append("ended"))
    try:
        with unbroken():
            signal.raise_signal(signal.SIGTERM)
            events.append("recorded")
        assert events == ["recorded", "ended"]
        signal.raise_signal(signal.SIGTERM)
        assert events == ["recorded", "ended", "ended"], "the handler is back"
    finally:
        signal.signal(signal.SIGTERM, before)
