"""The base of all groups of settings, and the types of their values."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from fairburst.quantity import parse_exact, parse_quantity


def _quantity_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _not_negative(value: str) -> str:
    if parse_exact(value) < 0:
        raise ValueError("expected a quantity of zero or more")
    return value


def _dns_label(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", value):
        raise ValueError("expected at most 40 lower-case letters, digits and inner dashes, for it becomes part of object names")
    return value


QuantityText = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_not_negative)]
DnsLabel = Annotated[str, AfterValidator(_dns_label)]


class Group(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        strict=True,
        use_attribute_docstrings=False,
    )


def natural_units(quantities: dict[str, str]) -> dict[str, float]:
    """Return configured quantities in natural units (cores, bytes, devices)."""
    return {resource: parse_quantity(text) for resource, text in quantities.items()}
