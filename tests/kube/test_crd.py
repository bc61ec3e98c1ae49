"""The CRDs: structural, bounded, and the same as the files in crds/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairburst.kube.install.crd import all_crds, structural_problems, to_yaml, write_crds
from tests.support.queues import full_status

ROOT = Path(__file__).parents[2]
SCHEMAS = {name: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for name, crd in all_crds().items()}


def parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema and every schema below it."""
    below = [*schema.get("properties", {}).values(), *(schema[key] for key in ("items", "additionalProperties") if key in schema)]
    return [schema, *(part for one in below for part in parts(one))]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_structural_and_bounded(name: str) -> None:
    assert list(structural_problems(SCHEMAS[name])) == []


@pytest.mark.parametrize(
    ("schema", "want"),
    [
        pytest.param({"$ref": "#/x", "type": "object"}, "'$ref' is not allowed", id="reference"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "null"}]}, "found None", id="or null"),
        pytest.param({"type": "number"}, "found number", id="float"),
        pytest.param({"type": "integer", "exclusiveMinimum": 0}, "'exclusiveMinimum' is not allowed", id="exclusive minimum"),
        pytest.param({"type": "string", "const": "x", "maxLength": 1}, "'const' is not allowed", id="constant"),
        pytest.param({"type": "object", "maxLength": 3}, "'maxLength' is not allowed for object", id="length of a map"),
        pytest.param({"type": "string", "title": "X"}, "'title' is not allowed", id="title"),
        pytest.param({"type": "string"}, "expected maxLength", id="unbounded text"),
        pytest.param({"type": "array", "items": {"type": "integer"}}, "expected maxItems", id="unbounded list"),
        pytest.param({"type": "object", "additionalProperties": {"type": "integer"}}, "expected maxProperties", id="unbounded map"),
        pytest.param(
            {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}, "maxProperties": 1},
            "exclude each other",
            id="both",
        ),
        pytest.param({"type": "object", "required": ["x"]}, "required 'x' is no property", id="required but absent"),
        pytest.param({"type": "object", "properties": {"x": {"type": "number"}}}, ".spec.x", id="names the path"),
    ],
)
def test_the_linter_finds_what_the_api_server_would_refuse(schema: dict[str, Any], want: str) -> None:
    assert any(want in problem for problem in structural_problems(schema, ".spec"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_explains_itself(name: str) -> None:
    for section in ("spec", "status"):
        for part in parts(SCHEMAS[name]["properties"][section]):
            for field, below in part.get("properties", {}).items():
                assert below.get("description"), f"{section}: {field}"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_status_has_no_rules_that_could_refuse_a_write(name: str) -> None:
    assert all("x-kubernetes-validations" not in part for part in parts(SCHEMAS[name]["properties"]["status"]))


def test_every_field_of_a_full_status_is_in_the_schema() -> None:
    def check(value: Any, schema: dict[str, Any], path: str) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                part = schema.get("additionalProperties") or schema.get("properties", {}).get(key)
                assert part is not None, f"{path}.{key} would be pruned"
                check(below, part, f"{path}.{key}")
        elif isinstance(value, list):
            for item in value:
                check(item, schema["items"], f"{path}[]")

    for schema in SCHEMAS.values():
        check(full_status().model_dump(mode="json", by_alias=True), schema["properties"]["status"], "status")


def test_the_committed_files_are_current(tmp_path: Path) -> None:
    written = write_crds(tmp_path)
    assert sorted(path.name for path in written) == sorted(path.name for path in (ROOT / "crds").iterdir())
    for path in written:
        assert (ROOT / "crds" / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), "run: make crds"


def test_the_yaml_says_what_the_value_says() -> None:
    for crd in all_crds().values():
        assert yaml.safe_load(to_yaml(crd)) == crd
