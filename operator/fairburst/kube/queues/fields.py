"""Types of the fields of queue objects: quantities, times, names and seconds, each with the schema that the API server checks."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from fairburst.bounds import EARLIEST, LATEST, LONGEST_SECONDS, MOST_PARALLELISM
from fairburst.kube.queues.calendar import cron_problem, time_zone_exists
from fairburst.quantity import parse_exact

MAX_RESOURCES = 16
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_CRON_PATTERN = r"^\S+( \S+){4}$"
_EXTENDED_RESOURCE = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])+[a-z0-9]([-a-z0-9]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$"
_RESOURCE_NAME = "expected cpu, memory, ephemeral-storage or an extended resource such as nvidia.com/gpu"
_WHOLE_DEVICES = "expected whole numbers of extended resources"
_A_QUANTITY = "expected a Kubernetes quantity such as 4, 500m or 1.5Gi"
_POSITIVE = "expected a quantity greater than zero"
_INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 32}


def _quantity_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _any_quantity(value: str) -> str:
    parse_exact(value)
    return value


def _positive_quantity(value: str) -> str:
    if parse_exact(value) <= 0:
        raise ValueError(_POSITIVE)
    return value


def _resource_name(name: str) -> str:
    if name not in {"cpu", "memory", "ephemeral-storage"} and (len(name) > 317 or not re.match(_EXTENDED_RESOURCE, name)):
        raise ValueError(_RESOURCE_NAME)
    return name


def _whole_devices(quantities: dict[str, str]) -> dict[str, str]:
    if any("/" in name and parse_exact(text).denominator != 1 for name, text in quantities.items()):
        raise ValueError(_WHOLE_DEVICES)
    return quantities


def _timestamp(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return _in_bounds(value)
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("expected a time as in RFC 3339, such as 2026-01-01T00:00:00Z")
    try:
        time = datetime.fromisoformat(value.upper())
    except ValueError as error:
        raise ValueError("expected a time as in RFC 3339, such as 2026-01-01T00:00:00Z") from error
    return _in_bounds(time)


def _in_bounds(time: datetime) -> datetime:
    if not EARLIEST <= time < LATEST:
        raise ValueError(f"expected a time between {EARLIEST.year} and {LATEST.year}, found {time.isoformat()}")
    return time


def _cron(expression: str) -> str:
    problem = "it has other than five fields" if not re.fullmatch(_CRON_PATTERN, expression) else cron_problem(expression)
    if problem:
        raise ValueError(f"expected a cron expression such as 0 9 * * 1-5; {problem}")
    return expression


def _time_zone(name: str) -> str:
    if not time_zone_exists(name):
        raise ValueError("expected an IANA time zone such as Europe/Berlin")
    return name


def _date(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise ValueError("expected a date such as 2026-12-25") from error
    return text


CronExpression = Annotated[str, Field(max_length=100, json_schema_extra={"pattern": _CRON_PATTERN}), AfterValidator(_cron)]
TimeZone = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"), AfterValidator(_time_zone)]
Date = Annotated[str, Field(max_length=10, pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_date)]
Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]
Quantity = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_any_quantity), WithJsonSchema(_INT_OR_STRING)]
PositiveQuantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    AfterValidator(_positive_quantity),
    WithJsonSchema(
        _INT_OR_STRING
        | {
            "x-kubernetes-validations": [
                {
                    "rule": "isQuantity(string(self))",
                    "message": _A_QUANTITY,
                    "messageExpression": f"'{_A_QUANTITY}, found ' + string(self)",
                },
                {
                    "rule": "!isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",
                    "message": _POSITIVE,
                    "messageExpression": f"'{_POSITIVE}, found ' + string(self)",
                },
            ]
        }
    ),
]
ResourceName = Annotated[str, AfterValidator(_resource_name)]
Resources = Annotated[
    dict[ResourceName, PositiveQuantity],
    Field(
        min_length=1,
        max_length=MAX_RESOURCES,
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.all(name, name in ['cpu', 'memory', 'ephemeral-storage'] || "
                    f"(size(name) <= 317 && name.matches(r'{_EXTENDED_RESOURCE}')))",
                    "message": _RESOURCE_NAME,
                },
                {
                    "rule": "self.all(name, !name.contains('/') || !isQuantity(string(self[name])) || "
                    "quantity(string(self[name])).isInteger())",
                    "message": _WHOLE_DEVICES,
                },
            ]
        },
    ),
    AfterValidator(_whole_devices),
]
Amounts = Annotated[dict[str, Quantity], Field(max_length=64)]
Seconds = Annotated[int, Field(ge=1, le=LONGEST_SECONDS)]
Parallelism = Annotated[int, Field(ge=1, le=MOST_PARALLELISM)]
GuaranteeClassName = Literal["Hard", "Soft", "Elastic", "Rejected"]
PoolName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=40,
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self == oldSelf",
                    "message": "pool is immutable; expected the pool it was created with. Delete the queue to move it",
                }
            ]
        },
    ),
]
