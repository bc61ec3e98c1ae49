"""Processor time and memory of processes, and the description of this machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import processor_seconds

MIB = 1024


@dataclass(slots=True)
class Spent:
    """Processor seconds and peak memory by process name, added up over restarts."""

    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)
    _marks: dict[int, float] = field(default_factory=dict)

    def mark(self, processes: dict[str, int]) -> None:
        """Start to count these processes from now."""
        self._marks = {pid: found[0] for pid in processes.values() if (found := read(pid)) is not None}

    def add(self, processes: dict[str, int]) -> None:
        """Add the use of these processes since the mark, or since their start if they are younger."""
        for name, pid in processes.items():
            found = read(pid)
            if found is not None:
                self.seconds[name] = self.seconds.get(name, 0.0) + found[0] - self._marks.get(pid, 0.0)
                self.peak_mib[name] = max(self.peak_mib.get(name, 0.0), found[1])


def read(pid: int) -> tuple[float, float] | None:
    """Return the processor seconds and the peak resident MiB of a process; None if it is gone."""
    try:
        seconds = processor_seconds(pid)
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
    return seconds, peak / MIB


def machine() -> str:
    """Return the processor and the number of cores, without a name of the machine."""
    model = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{os.cpu_count()} × {model}"


def load() -> float:
    """Return the mean number of runnable processes of the last minute."""
    return os.getloadavg()[0]
