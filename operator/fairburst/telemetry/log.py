"""Log configuration: a constant event text with key/value fields, written as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

_FIELDS = "fields"
# Attributes that every record has; all others were given as `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", _FIELDS}


def event(logger: logging.Logger, level: int, text: str, **fields: Any) -> None:
    """Log a constant `text` with `fields` of any name. Numbers belong in the fields, never in the text."""
    if logger.isEnabledFor(level):
        logger.log(level, text, extra={_FIELDS: fields})


class KeyValueFormatter(logging.Formatter):
    """Formats a record as `time LEVEL logger event key=value ...`; quotes values with blanks."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        parts = [_timestamp(record), record.levelname, record.name, record.getMessage()]
        parts += [f"{key}={_plain(value)}" for key, value in _fields(record).items()]
        if record.exc_info:
            parts.append("\n" + self.formatException(record.exc_info))
        return " ".join(parts)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: its fields next to time, level, logger and event."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        entry = {"time": _timestamp(record), "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        entry.update(_fields(record))
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def set_up(level: str, as_json: bool) -> None:
    """Send all loggers to standard error as text or JSON. Third-party loggers log from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("fairburst").setLevel(level.upper())


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    given = {name: value for name, value in vars(record).items() if name not in _OWN}
    return given | getattr(record, _FIELDS, {})


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _plain(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return json.dumps(text) if not text or any(character.isspace() for character in text) else text
