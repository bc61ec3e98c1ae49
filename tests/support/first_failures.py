"""A pytest plugin that writes each failed test, with its error, to the file named by FAIRBURST_FAILURES, as JSON lines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

VARIABLE = "FAIRBURST_FAILURES"
LONGEST_ERROR = 6000  # characters; the end of a traceback says most


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append a failed phase of a test. With pytest-xdist only the controller, which hears of every test, writes."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        line = {"test": report.nodeid, "phase": report.when, "error": report.longreprtext[-LONGEST_ERROR:]}
        with Path(os.environ[VARIABLE]).open("a") as file:
            file.write(json.dumps(line) + "\n")
