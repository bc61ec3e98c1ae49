"""A rule in two forms: the CEL expression for the API server and the predicate for the operator.

An object may have been stored before a rule existed. The operator therefore checks every rule too, with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """A condition that a model must satisfy.

    field: path below the model, camelCase, of the value that is wrong if the condition fails; empty for the model itself.
    expected: the message.
    cel: the expression; empty if CEL cannot express it, so that only the operator checks the rule and reports it in a condition.
    holds: the same in Python.
    found: the offending value in Python.
    cel_found: the same in CEL, as a format and its values.
    """

    field: str
    expected: str
    cel: str
    holds: Callable[[Any], bool]
    found: Callable[[Any], object] | None = None
    cel_found: tuple[str, str] | None = None

    def validation(self) -> dict[str, str]:
        """Return the entry of x-kubernetes-validations."""
        entry = {"rule": self.cel, "message": self.expected}
        if self.field:
            entry["fieldPath"] = f".{self.field}"
        if self.cel_found is not None:
            quoted = self.expected.replace("'", "\\'")
            template, values = self.cel_found
            entry["messageExpression"] = f"'{quoted}, found {template}'.format([{values}])"
        return entry

    def sentence(self, path: str, model: Any) -> str:
        """Return the problem in the API server's words."""
        where = f"{path}.{self.field}: {self.expected}" if self.field else f"{path}: {self.expected}"
        return where if self.found is None else f"{where}, found {self.found(model)}"


class KubeModel(BaseModel):
    """A part of an object: camelCase in JSON, snake_case in Python; integers are never parsed from text or floats."""

    model_config = ConfigDict(
        frozen=True, strict=True, alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, extra="ignore"
    )

    rules: ClassVar[tuple[Rule, ...]] = ()


class SpecModel(KubeModel):
    """A part of a user's declaration: an unknown field is an error, never ignored."""

    model_config = ConfigDict(extra="forbid")


def violations(value: object, path: str) -> Iterator[str]:
    """Yield a sentence for every violated rule in a model or below it, outermost first."""
    if isinstance(value, KubeModel):
        yield from (rule.sentence(path, value) for rule in value.rules if not rule.holds(value))
        for name, field in type(value).model_fields.items():
            yield from violations(getattr(value, name), f"{path}.{field.alias or name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from violations(item, f"{path}[{index}]")
