"""Conversion of pydantic models to CustomResourceDefinitions with structural schemas.

pydantic writes JSON Schema. A structural schema is stricter: no references, no "or null", no closed objects, no constants.
`structural_problems` reports violations in the API server's terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from fairburst.kube.names import GROUP, SERVED_VERSIONS, VERSION
from fairburst.kube.queues.former_places import COPIES, FORMER_PLACES
from fairburst.kube.queues.objects import LatencyQueue, ThroughputQueue
from fairburst.kube.queues.rules import KubeModel
from fairburst.kube.queues.specs import LatencyQueueSpec, ThroughputQueueSpec
from fairburst.kube.queues.statuses import QueueStatus

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "additionalProperties", "default"})  # each is restored where a structural schema may have it
_ALLOWED = {
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "x-kubernetes-map-type"},
    "array": {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"},
    "string": {"enum", "format", "pattern", "minLength", "maxLength"},
    "integer": {"enum", "minimum", "maximum"},
    "boolean": set(),
    "int-or-string": {"anyOf", "maxLength", "x-kubernetes-int-or-string"},
}
_ALLOWED_ANYWHERE = frozenset({"type", "description", "default", "x-kubernetes-validations"})
_DATE_TIME_LENGTH = 40  # characters; bounds the CEL cost of a comparison of times


def crd_for(model: type[LatencyQueue] | type[ThroughputQueue]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a queue kind. All versions share one schema, so that the API server converts by renaming."""
    latency = model is LatencyQueue
    kind = model.__name__
    plural = f"{kind.lower()}s"
    spec: type[KubeModel] = LatencyQueueSpec if latency else ThroughputQueueSpec
    columns, schema = _printer_columns(latency), {"openAPIV3Schema": _object_schema(model.__doc__ or "", spec)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": ["latq" if latency else "thrq"],
                "categories": ["fairburst"],
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == VERSION,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": schema,
                }
                for version in SERVED_VERSIONS
            ],
        },
    }


def all_crds() -> dict[str, dict[str, Any]]:
    """Return both definitions by file name."""
    return {f"{GROUP}_{model.__name__.lower()}s.yaml": crd_for(model) for model in (LatencyQueue, ThroughputQueue)}


def to_yaml(crd: Mapping[str, Any]) -> str:
    """Return the text of one file in crds/."""
    return "# Generated from operator/fairburst/kube/queues by `make crds`.\n" + yaml.safe_dump(dict(crd), sort_keys=False, width=140)


def write_crds(directory: Path) -> list[Path]:
    """Write both definitions and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, crd in all_crds().items():
        path = directory / name
        path.write_text(to_yaml(crd), encoding="utf-8")
        paths.append(path)
    return paths


def _printer_columns(latency: bool) -> list[dict[str, Any]]:
    def column(name: str, path: str, kind: str = "string", **more: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "jsonPath": path} | more

    columns = [column("Class", ".status.class", description="The promise: Hard, Soft, Elastic or Rejected.")]
    if latency:
        columns += [
            column("Window", ".status.window.state", description="Closed, Armed, Open or Overdue."),
            column("Next-Burst", ".status.window.nextBurst", description="When the next burst is expected."),
        ]
    columns += [
        column("Fair-Share", ".status.share", description="Fair share of the pool, by weight."),
        column("Allocated", ".status.allocatedShare", description="Allocated now, of the pool."),
        column("Used", ".status.usedShare", description="Used now, of the pool."),
        column("Waiting", ".status.waitingShare", description="Wanted beyond that, of the pool."),
    ]
    if latency:
        columns += [
            column("Met", ".status.history.met", "integer", description="Bursts served by their deadline."),
            column("Missed", ".status.history.missed", "integer", description="Bursts that were not."),
        ]
    return [
        *columns,
        column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="False: a user or administrator must act."),
        column("Weight", ".spec.weight", "integer", priority=1),
        column("Cpu", ".status.allocation.cpu", priority=1, description="Cpu allocated now."),
        column("Week", ".status.week.usedPercent", "integer", priority=1, description="Used this week, in percent of the fair share."),
        *([column("Deadline", ".status.window.deadline", priority=1)] if latency else []),
        column("Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1),
        column("Explanation", ".status.explanation", priority=1, description="What waits, and why."),
        column("Age", ".metadata.creationTimestamp", "date"),
    ]


def _object_schema(description: str, spec: type[KubeModel]) -> Schema:
    return {
        "description": _one_line(description),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": f"{' or '.join(f'{GROUP}/{version}' for version in SERVED_VERSIONS)}; both have the same fields.",
            },
            "kind": {"type": "string", "description": "LatencyQueue or ThroughputQueue."},
            "metadata": {"type": "object"},
            "spec": structural(spec),
            "status": _with_former_places(_without_rules(structural(QueueStatus))),
        },
    }


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model: references inlined, "or null" removed, the model's rules as CEL."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(schema, schema.get("$defs", {}), _rules_by_model(model))


def _rules_by_model(model: type[BaseModel]) -> dict[str, list[dict[str, str]]]:
    """Return the CEL entries of a model and of every model below it, by class name, which is its name in $defs and its title."""
    found: dict[str, list[dict[str, str]]] = {}
    if issubclass(model, KubeModel) and model.rules:
        found[model.__name__] = [rule.validation() for rule in model.rules if rule.cel]
    for field in model.model_fields.values():
        for part in _models_in(field.annotation):
            found |= _rules_by_model(part)
    return found


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _models_in(part)


def _convert(schema: Mapping[str, Any], definitions: Mapping[str, Any], rules: Mapping[str, list[dict[str, str]]]) -> Schema:
    outer = dict(schema)
    if "$ref" in outer:
        outer = dict(definitions[outer.pop("$ref").rsplit("/", 1)[-1]]) | outer
    branches = [branch for branch in outer.get("anyOf", ()) if branch.get("type") != "null"]
    if len(branches) == 1:  # "X or null" becomes an optional X
        del outer["anyOf"]
        return _convert(dict(branches[0]) | outer, definitions, rules)
    result = {
        key: value for key, value in outer.items() if key not in _DROPPED | {"properties", "items", "$defs", "const", "exclusiveMinimum"}
    }
    if "description" in result:
        result["description"] = _one_line(result["description"])
    if outer.get("default") is not None:
        result["default"] = outer["default"]
    if "const" in outer:
        result["enum"] = [outer["const"]]
    if result.get("format") == "date-time":
        result["maxLength"] = _DATE_TIME_LENGTH
    if rules.get(outer.get("title", "")) and "properties" in outer:
        result["x-kubernetes-validations"] = rules[outer["title"]]
    if "properties" in outer:
        result["properties"] = {name: _convert(value, definitions, rules) for name, value in outer["properties"].items()}
    elif isinstance(outer.get("additionalProperties"), Mapping):
        result["additionalProperties"] = _convert(outer["additionalProperties"], definitions, rules)
    if "items" in outer:
        result["items"] = _convert(outer["items"], definitions, rules)
    return result


def _without_rules(schema: Schema) -> Schema:
    """Return the schema without CEL: the operator writes the status, and a value that was accepted once must always be writable again."""
    return {
        key: {name: _without_rules(part) for name, part in value.items()}
        if key == "properties"
        else _without_rules(value)
        if isinstance(value, dict) and key in {"items", "additionalProperties"}
        else value
        for key, value in schema.items()
        if key != "x-kubernetes-validations"
    }


def _with_former_places(schema: Schema) -> Schema:
    """Return the schema of the status with the fields that earlier versions read and write, so that the API server keeps their values."""
    for former, present in FORMER_PLACES.items():
        place = f"status.{'.'.join(present)}"
        copied = f"A copy of {place} for a downgrade: an earlier version continues from it. Read {place} instead."
        moved = f"Moved to {place} by the next write; written by earlier versions only."
        part = {**_part_at(schema, present), "description": copied if former in COPIES else moved}
        _part_at(schema, former[:-1])["properties"][former[-1]] = part
    return schema


def _part_at(schema: Schema, place: Iterable[str]) -> Schema:
    for name in place:
        schema = schema["properties"][name]
    return schema


def _one_line(text: str) -> str:
    return " ".join(text.split())


def structural_problems(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield each place where a schema is not structural, or lacks a bound that the CEL cost estimate or a hostile object requires."""
    where = path or "schema"
    kind = "int-or-string" if schema.get("x-kubernetes-int-or-string") else str(schema.get("type"))
    if kind not in _ALLOWED:
        yield f"{where}: expected one of {', '.join(_ALLOWED)} as type, found {kind}"
        return
    yield from (f"{where}: {key!r} is not allowed for {kind}" for key in schema if key not in _ALLOWED[kind] | _ALLOWED_ANYWHERE)
    yield from (f"{where}: expected {key}" for key in _required_keywords(schema, kind, path) if key not in schema)
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{where}: properties and additionalProperties exclude each other"
    yield from (
        f"{where}: required {name!r} is no property" for name in schema.get("required", ()) if name not in schema.get("properties", {})
    )
    for name, part in schema.get("properties", {}).items():
        yield from structural_problems(part, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from structural_problems(schema[key], path + suffix)


def _required_keywords(schema: Mapping[str, Any], kind: str, path: str) -> tuple[str, ...]:
    if kind == "array":
        return ("items", "maxItems", "x-kubernetes-list-type")
    if kind == "object":
        return ("maxProperties",) if "additionalProperties" in schema else ()
    bounded = kind in {"string", "int-or-string"} and "enum" not in schema and path.startswith((".spec", ".status"))
    return ("maxLength",) if bounded else ()
