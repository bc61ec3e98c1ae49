"""One rule, two forms: the CEL expression that the API server evaluates and the predicate that the operator evaluates.

An object may have been stored before a rule existed, so what CEL refuses is looked at again here, with the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """What must hold for a model.

    field: path below the model, camelCase, of the value that is wrong when it does not hold; empty for the model
    itself. expected: the message.
    cel: the expression. holds: the same in Python. found: the offending value in Python;
    cel_found: the same in CEL, as a format and its values.
    """

    field: str
    expected: str
    cel: str
    holds: Callable[[Any], bool]
    found: Callable[[Any], object] | None = None
    cel_found: tuple[str, str] | None = None

    def validation(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        entry = {"rule": self.cel, "message": self.expected}
        if self.field:
            entry["fieldPath"] = f".{self.field}"
        if self.cel_found is not None:
            quoted = self.expected.replace("'", "\\'")
            template, values = self.cel_found
            entry["messageExpression"] = f"'{quoted}, found {template}'.format([{values}])"
        return entry

    def sentence(self, path: str, model: Any) -> str:
        """The problem in words, as the API server would put it."""
        where = f"{path}.{self.field}: {self.expected}" if self.field else f"{path}: {self.expected}"
        return where if self.found is None else f"{where}, found {self.found(model)}"


class KubeModel(BaseModel):
    """A part of an object: camelCase at the edge, snake_case inside; integers are never parsed from text or floats."""

    model_config = ConfigDict(
        frozen=True, strict=True, alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, extra="ignore"
    )

    rules: ClassVar[tuple[Rule, ...]] = ()


class SpecModel(KubeModel):
    """A part of what a user wrote: an unknown field is an error, never ignored."""

    model_config = ConfigDict(extra="forbid")


def violations(value: object, path: str) -> Iterator[str]:
    """Every rule that does not hold in a model or below it, as sentences, outermost first."""
    if isinstance(value, KubeModel):
        yield from (rule.sentence(path, value) for rule in value.rules if not rule.holds(value))
        for name, field in type(value).model_fields.items():
            yield from violations(getattr(value, name), f"{path}.{field.alias or name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from violations(item, f"{path}[{index}]")
