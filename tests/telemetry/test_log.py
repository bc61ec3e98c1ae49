"""Log lines: a constant text and fields, readable by people or by machines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from fairburst.telemetry.log import JsonFormatter, KeyValueFormatter, event, set_up


@pytest.fixture
def restored() -> Iterator[None]:
    """The root logger as it was before the test."""
    root, ours = logging.getLogger(), logging.getLogger("fairburst")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def record(*, fails: bool = False, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("fairburst.kube.loop", logging.INFO, "file", 1, "round", (), None)
    made.created = 1_767_225_600.5
    made.fields = fields
    if fails:
        try:
            raise ValueError("as the test asked")
        except ValueError:
            made.exc_info = sys.exc_info()
    return made


def test_a_text_line_is_time_level_logger_event_and_fields() -> None:
    line = KeyValueFormatter().format(record(queues=3, decide_ms=0.123456789, message="two words", empty=""))
    assert line == ('2026-01-01T00:00:00.500+00:00 INFO fairburst.kube.loop round queues=3 decide_ms=0.123457 message="two words" empty=""')


def test_a_field_cannot_break_the_line() -> None:
    assert "\n" not in KeyValueFormatter().format(record(problem="one\ntwo"))
    assert "\n" not in JsonFormatter().format(record(problem="one\ntwo"))


def test_a_json_line_holds_the_same() -> None:
    line = json.loads(JsonFormatter().format(record(queues=3, message="two words")))
    assert line == {
        "time": "2026-01-01T00:00:00.500+00:00",
        "level": "INFO",
        "logger": "fairburst.kube.loop",
        "event": "round",
        "queues": 3,
        "message": "two words",
    }


def test_an_exception_is_shown_with_its_trace() -> None:
    assert "ValueError: as the test asked" in KeyValueFormatter().format(record(fails=True))
    assert "ValueError: as the test asked" in json.loads(JsonFormatter().format(record(fails=True)))["exception"]


def test_fields_given_as_extra_are_shown_as_well() -> None:
    made = record()
    made.path = "/api/v1/pods"
    assert KeyValueFormatter().format(made).endswith("round path=/api/v1/pods")


def test_ours_speak_from_the_level_on_and_others_from_warning_on(restored: None, capsys: pytest.CaptureFixture[str]) -> None:
    set_up("DEBUG", as_json=False)
    event(logging.getLogger("fairburst.x"), logging.DEBUG, "ours", name="a field may have any name")
    event(logging.getLogger("aiohttp.x"), logging.INFO, "theirs")
    event(logging.getLogger("aiohttp.x"), logging.WARNING, "theirs but serious")
    lines = capsys.readouterr().err.splitlines()
    assert [" ours " in lines[0], " theirs but serious" in lines[1], len(lines)] == [True, True, 2]


def test_json_by_option(restored: None, capsys: pytest.CaptureFixture[str]) -> None:
    set_up("INFO", as_json=True)
    event(logging.getLogger("fairburst.x"), logging.INFO, "started", port=9090)
    assert json.loads(capsys.readouterr().err)["port"] == 9090
