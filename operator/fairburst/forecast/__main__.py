"""`python -m fairburst.forecast`: the forecaster's process, which `fairburst run` starts at the lowest priority.

It reads questions from standard input and writes answers to standard output, one a line. It ends with its standard input, even in the
middle of an answer.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import sys
import threading
import time
from pathlib import Path

import msgspec

from fairburst.forecast.budget import MOST_PROCESSOR_SECONDS
from fairburst.forecast.service import Service
from fairburst.kube.forecasts.messages import Question

SPARE_PROCESSOR_SECONDS = 60  # beyond the limit of an answer, after which the kernel ends the process


def main() -> None:
    """Answer until standard input ends."""
    with contextlib.suppress(OSError):  # if memory runs out, the kernel should end this process and not the operator
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), name="questions", daemon=True).start()
    service = Service()
    decoder, encoder = msgspec.json.Decoder(Question), msgspec.json.Encoder()
    while True:
        line = lines.get()
        limit = int(time.process_time() + MOST_PROCESSOR_SECONDS) + SPARE_PROCESSOR_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        answer = service.answer(decoder.decode(line))
        sys.stdout.buffer.write(encoder.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _read(lines: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)  # the operator has ended


if __name__ == "__main__":
    main()
